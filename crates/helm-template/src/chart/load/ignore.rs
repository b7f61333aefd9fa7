//! `.helmignore`: the files of a chart folder that are not part of the chart. Facts: Helm's `pkg/ignore`.

use std::iter::Peekable;

use crate::chart::Error;

/// The rules of one `.helmignore` file. The first rule that decides wins; that is not how git reads its files.
#[derive(Debug, Default)]
pub struct Rules {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    tokens: Vec<PatternToken>,
    negate: bool,
    directories_only: bool,
    scope: PatternScope,
}

/// The part of a path that a pattern is matched with.
#[derive(Debug, PartialEq, Eq)]
enum PatternScope {
    /// The last part of the path: the pattern has no slash.
    BaseName,
    /// The whole path, relative to the chart.
    Path,
}

impl Rules {
    /// Parses the text of a `.helmignore` file and adds the rule that Helm always has: hidden files in `templates/`.
    ///
    /// ```
    /// use helm_template::chart::ignore::Rules;
    ///
    /// let rules = Rules::parse("*.tmp\n").unwrap();
    /// assert!(rules.ignores("templates/a.tmp", false));
    /// assert!(!rules.ignores("values.yaml", false));
    /// ```
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
        let (negate, rule) = rule.strip_prefix('!').map_or((false, rule), |rest| (true, rest));
        let (directories_only, rule) = rule.strip_suffix('/').map_or((false, rule), |rest| (true, rest));
        let (scope, glob) = match rule.strip_prefix('/') {
            Some(rest) => (PatternScope::Path, rest),
            None if rule.contains('/') => (PatternScope::Path, rule),
            None => (PatternScope::BaseName, rule),
        };
        self.patterns.push(Pattern {
            tokens: tokenize(glob).map_err(|BadPattern| Error::Chart("syntax error in pattern".to_owned()))?,
            negate,
            directories_only,
            scope,
        });
        Ok(())
    }

    /// Whether the file or folder at `path` (relative to the chart, with slashes) is left out. As in Helm, a negated
    /// pattern excludes what it does **not** match.
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
        let name = match self.scope {
            PatternScope::Path => path,
            PatternScope::BaseName => base,
        };
        tokens_match(&self.tokens, name)
    }
}

/// A pattern that [`path_match`] can't read.
#[derive(Debug, PartialEq, Eq)]
pub struct BadPattern;

/// Go's `filepath.Match`: `*` and `?` don't cross a `/`, `[a-z]` and `[^a-z]` are classes, `\` escapes.
///
/// # Errors
/// A malformed pattern, even if the malformed part is not reached.
pub fn path_match(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    Ok(tokens_match(&tokenize(pattern)?, name))
}

fn tokens_match(tokens: &[PatternToken], name: &str) -> bool {
    // The classic two-pointer walk: on a mismatch, go back to the last `*` and let it take one character more.
    let (mut t, mut rest) = (0, name);
    let mut star: Option<(usize, &str)> = None;
    loop {
        let mut after = rest.chars();
        let step = match (tokens.get(t), after.next()) {
            (None, None) => return true,
            (Some(PatternToken::Star), _) => {
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

#[derive(Debug)]
enum PatternToken {
    Star,
    Any,
    Literal(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl PatternToken {
    fn accepts(&self, c: char) -> bool {
        match self {
            PatternToken::Star => false,
            PatternToken::Any => c != '/',
            PatternToken::Literal(wanted) => *wanted == c,
            PatternToken::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

fn tokenize(pattern: &str) -> Result<Vec<PatternToken>, BadPattern> {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' => PatternToken::Star,
            '?' => PatternToken::Any,
            '\\' => PatternToken::Literal(chars.next().ok_or(BadPattern)?),
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
                PatternToken::Class { negated, ranges }
            }
            literal => PatternToken::Literal(literal),
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
    use crate::chart::load::ignore::*;

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
}
