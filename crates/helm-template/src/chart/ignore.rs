//! `.helmignore`: which files of a chart folder don't belong to the chart. Facts: Helm's `pkg/ignore`.

use std::iter::Peekable;

use super::Error;

/// The rules of one `.helmignore` file. The first rule that decides wins; that is not how git reads its files.
#[derive(Debug, Default)]
pub struct Rules {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    glob: Glob,
    negate: bool,
    directories_only: bool,
    scope: Scope,
}

/// A pattern that is matched with many paths: most begin or end with a text in which nothing is special.
#[derive(Debug)]
struct Glob {
    prefix: String,
    rest: Rest,
}

/// What follows a pattern's first characters.
#[derive(Debug)]
enum Rest {
    Nothing,
    /// `*`, and a text.
    Suffix(String),
    Tokens(Vec<Token>),
    /// It is malformed: nothing matches.
    Malformed,
}

/// What a pattern is matched with.
#[derive(Debug, PartialEq, Eq)]
enum Scope {
    /// The last part of the path: the pattern has no slash.
    BaseName,
    /// The whole path, relative to the chart.
    Path,
}

impl Rules {
    /// Parses the text of a `.helmignore` file and adds the rule that Helm always has: hidden files in `templates/`.
    ///
    /// # Errors
    /// `**`, which Helm refuses, and malformed patterns.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut rules = Rules::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for line in text.lines().chain(["templates/.?*"]) {
            rules.add(line.trim())?;
        }
        Ok(rules)
    }

    fn add(&mut self, rule: &str) -> Result<(), Error> {
        if rule.is_empty() || rule.starts_with('#') {
            return Ok(());
        }
        if rule.contains("**") {
            return Err(Error::Chart("double-star (**) syntax is not supported".to_owned()));
        }
        path_match(rule, "abc").map_err(|BadPattern| Error::Chart("syntax error in pattern".to_owned()))?;
        let (negate, rule) = rule.strip_prefix('!').map_or((false, rule), |rest| (true, rest));
        let (directories_only, rule) = rule.strip_suffix('/').map_or((false, rule), |rest| (true, rest));
        let (scope, glob) = match rule.strip_prefix('/') {
            Some(rest) => (Scope::Path, rest),
            None if rule.contains('/') => (Scope::Path, rule),
            None => (Scope::BaseName, rule),
        };
        self.patterns.push(Pattern {
            glob: Glob::new(glob),
            negate,
            directories_only,
            scope,
        });
        Ok(())
    }

    /// Whether the file or folder at `path` (relative to the chart, with slashes) is left out.
    /// A negated pattern leaves out what it does **not** match: so Helm has it.
    pub fn ignores(&self, path: &str, is_directory: bool) -> bool {
        if matches!(path, "" | "." | "./") {
            return false;
        }
        let base = path.rsplit_once('/').map_or(path, |(_, base)| base);
        for pattern in &self.patterns {
            let wrong_type = pattern.directories_only && !is_directory;
            if pattern.negate {
                if wrong_type || !pattern.matches(path, base) {
                    return true;
                }
            } else if !wrong_type && pattern.matches(path, base) {
                return true;
            }
        }
        false
    }
}

impl Pattern {
    fn matches(&self, path: &str, base: &str) -> bool {
        self.glob.matches(match self.scope {
            Scope::Path => path,
            Scope::BaseName => base,
        })
    }
}

impl Glob {
    fn new(pattern: &str) -> Self {
        let Ok(tokens) = tokenize(pattern) else {
            return Glob {
                prefix: String::new(),
                rest: Rest::Malformed,
            };
        };
        let mut tokens = tokens.into_iter().peekable();
        let prefix = literals(&mut tokens);
        let rest: Vec<Token> = tokens.collect();
        let rest = match rest.split_first() {
            None => Rest::Nothing,
            Some((Token::Star, others)) => {
                let mut others = others.iter().cloned().peekable();
                let suffix = literals(&mut others);
                match others.next() {
                    None => Rest::Suffix(suffix),
                    Some(_) => Rest::Tokens(rest),
                }
            }
            Some(_) => Rest::Tokens(rest),
        };
        Glob { prefix, rest }
    }

    fn matches(&self, name: &str) -> bool {
        let Some(name) = name.strip_prefix(self.prefix.as_str()) else {
            return false;
        };
        match &self.rest {
            Rest::Nothing => name.is_empty(),
            Rest::Suffix(suffix) => name
                .strip_suffix(suffix.as_str())
                .is_some_and(|starred| !starred.contains('/')),
            Rest::Tokens(tokens) => tokens_match(tokens, name),
            Rest::Malformed => false,
        }
    }
}

/// The text that the next tokens stand for, as far as each stands for a character.
fn literals(tokens: &mut Peekable<impl Iterator<Item = Token>>) -> String {
    std::iter::from_fn(|| match tokens.peek() {
        Some(Token::Literal(c)) => {
            let c = *c;
            tokens.next();
            Some(c)
        }
        _ => None,
    })
    .collect()
}

/// A pattern that [`path_match`] can't read.
#[derive(Debug, PartialEq, Eq)]
pub struct BadPattern;

/// Go's `filepath.Match`: `*` and `?` don't cross a `/`, `[a-z]` and `[^a-z]` are classes, `\` escapes.
///
/// # Errors
/// A malformed pattern, wherever the malformed part stands.
pub fn path_match(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    Ok(tokens_match(&tokenize(pattern)?, name))
}

fn tokens_match(tokens: &[Token], name: &str) -> bool {
    // The classic two-pointer walk: on a mismatch, go back to the last `*` and let it take one character more.
    let (mut t, mut rest) = (0, name);
    let mut star: Option<(usize, &str)> = None;
    loop {
        let mut after = rest.chars();
        let step = match (tokens.get(t), after.next()) {
            (None, None) => return true,
            (Some(Token::Star), _) => {
                star = Some((t, rest));
                t += 1;
                continue;
            }
            (Some(token), Some(c)) => token.accepts(c),
            _ => false,
        };
        if step {
            t += 1;
            rest = after.as_str();
            continue;
        }
        let Some((at, from)) = star else { return false };
        let mut taken = from.chars();
        if taken.next().is_none_or(|c| c == '/') {
            return false;
        }
        star = Some((at, taken.as_str()));
        t = at + 1;
        rest = taken.as_str();
    }
}

#[derive(Debug, Clone)]
enum Token {
    Star,
    Any,
    Literal(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Token {
    fn accepts(&self, c: char) -> bool {
        match self {
            Token::Star => false,
            Token::Any => c != '/',
            Token::Literal(wanted) => *wanted == c,
            Token::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

fn tokenize(pattern: &str) -> Result<Vec<Token>, BadPattern> {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' => Token::Star,
            '?' => Token::Any,
            '\\' => Token::Literal(chars.next().ok_or(BadPattern)?),
            '[' => {
                let negated = chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    if !ranges.is_empty() && chars.next_if_eq(&']').is_some() {
                        break;
                    }
                    let low = class_char(&mut chars)?;
                    let high = if chars.next_if_eq(&'-').is_some() {
                        class_char(&mut chars)?
                    } else {
                        low
                    };
                    ranges.push((low, high));
                }
                Token::Class { negated, ranges }
            }
            literal => Token::Literal(literal),
        });
    }
    Ok(tokens)
}

fn class_char(chars: &mut Peekable<std::str::Chars<'_>>) -> Result<char, BadPattern> {
    match chars.next() {
        None | Some('-' | ']') => Err(BadPattern),
        Some('\\') => chars.next().ok_or(BadPattern),
        Some(c) => Ok(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_go_does() {
        let table = [
            ("abc", "abc", true),
            ("*", "abc", true),
            ("*c", "abc", true),
            ("a*/b", "abc/b", true),
            ("a*/b", "a/c/b", false),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", true),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", false),
            ("ab[c]", "abc", true),
            ("ab[^b-d]", "abe", true),
            ("ab[^b-d]", "abc", false),
            ("a\\*b", "a*b", true),
            ("a?b", "a/b", false),
            ("a?b", "aäb", true),
            ("[a-ζ]*", "α", true),
            ("*x", "xxx", true),
            (".?*", ".", false),
        ];
        for (pattern, name, want) in table {
            assert_eq!(path_match(pattern, name), Ok(want), "{pattern} with {name}");
        }
        for bad in ["[", "[]a]", "[-]", "a[", "\\", "[a-]"] {
            assert_eq!(path_match(bad, "a"), Err(BadPattern), "{bad}");
        }
    }

    #[test]
    fn rules_decide_in_order() {
        let rules = Rules::parse("# c\n\nhelm.txt\n*.swp\ncargo/\n/root.txt\na/b*\n").unwrap();
        let table = [
            ("helm.txt", false, true),
            ("sub/helm.txt", false, true),
            ("x.swp", false, true),
            ("cargo", true, true),
            ("cargo", false, false),
            ("mast/cargo", true, true),
            ("root.txt", false, true),
            ("sub/root.txt", false, false),
            ("a/bc", false, true),
            ("x/a/bc", false, false),
            ("templates/.hidden", false, true),
            ("templates/x/.hidden", false, false),
            ("templates/a.yaml", false, false),
        ];
        for (path, is_directory, want) in table {
            assert_eq!(rules.ignores(path, is_directory), want, "{path}");
        }
    }

    #[test]
    fn rules_match_as_their_patterns_do() {
        let patterns = [
            "a", "*", "*.txt", "a*", "a*.txt", "a/*.txt", "a/*", "*/b.txt", "?.txt", "a[b/]*", "*b*t", "a\\*", "\\*",
            "*ä", "ä*", "**",
        ];
        let names = [
            "",
            "a",
            "b",
            "a.txt",
            "ab.txt",
            ".txt",
            "a/b.txt",
            "a/.txt",
            "a/b/c.txt",
            "a/",
            "a*",
            "*",
            "ä",
            "aä",
            "äa",
            "bt",
        ];
        for pattern in patterns {
            for name in names {
                assert_eq!(
                    Ok(Glob::new(pattern).matches(name)),
                    path_match(pattern, name),
                    "{pattern} with {name}"
                );
            }
        }
        assert!(!Glob::new("a\\").matches("a\\") && !Glob::new("[").matches("["));
    }

    #[test]
    fn a_negated_rule_leaves_out_all_others() {
        let rules = Rules::parse("!*.yaml").unwrap();
        assert!(rules.ignores("README.md", false));
        assert!(!rules.ignores("Chart.yaml", false));
        assert!(Rules::parse("a/**").is_err());
    }
}
