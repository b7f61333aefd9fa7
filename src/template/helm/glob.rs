//! The patterns of `.Files.Glob`: gobwas/glob with `/` as its separator.
//!
//! `*` and `?` don't cross a `/`, `**` does; `[abc]`, `[a-z]`, `[!a-z]`, `{a,b}` (nestable), `\` escapes.

/// How many patterns braces may expand to; beyond it a pattern counts as malformed.
const MAX_EXPANSIONS: usize = 4096;
/// How many tokens all of them may have.
const MAX_TOKENS: usize = 1 << 18;

/// A compiled pattern: the text matches if any of the alternatives does.
pub struct Glob {
    alternatives: Vec<Vec<Token>>,
}

#[derive(Clone)]
enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`
    Any,
    /// `**`
    Super,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// Compiles a pattern; a malformed one matches everything, as Helm has it.
    pub fn new(pattern: &str) -> Self {
        let chars: Vec<char> = pattern.chars().collect();
        let mut parser = Parser {
            chars: &chars,
            at: 0,
            depth: 0,
        };
        let alternatives = match parser.sequence() {
            Some(alternatives) if parser.at == chars.len() => alternatives,
            _ => vec![vec![Token::Super]],
        };
        Glob { alternatives }
    }

    /// Whether the pattern matches the whole of `text`.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        if let [tokens] = &self.alternatives[..]
            && let Some((prefix, suffix)) = around_super(tokens)
        {
            // Prefix and suffix may overlap there: `d/**/x` matches `d/x`.
            return starts_with(&text, prefix) && starts_with(text.iter().rev(), suffix.iter().rev());
        }
        self.alternatives.iter().any(|tokens| matches(tokens, &text))
    }
}

/// The literal texts before and after a pattern's only `**`, if it has nothing else.
fn around_super(tokens: &[Token]) -> Option<(&[Token], &[Token])> {
    let at = tokens.iter().position(|token| matches!(token, Token::Super))?;
    let (prefix, suffix) = (tokens.get(..at)?, tokens.get(at + 1..)?);
    prefix
        .iter()
        .chain(suffix)
        .all(|token| matches!(token, Token::Char(_)))
        .then_some((prefix, suffix))
}

fn starts_with<'t>(text: impl IntoIterator<Item = &'t char>, tokens: impl IntoIterator<Item = &'t Token>) -> bool {
    let mut text = text.into_iter();
    tokens
        .into_iter()
        .all(|token| text.next().is_some_and(|c| token.accepts(*c)))
}

/// Keeps the set of positions that the tokens so far can have reached, so that no pattern takes exponential time.
fn matches(tokens: &[Token], text: &[char]) -> bool {
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for (index, token) in tokens.iter().enumerate() {
        let ascii_only = is_cut_to_a_byte(tokens, index);
        let mut next = vec![false; text.len() + 1];
        match token {
            Token::Any | Token::Super => {
                let mut open = false;
                for (at, place) in next.iter_mut().enumerate() {
                    if at > 0 && text.get(at - 1) == Some(&'/') && matches!(token, Token::Any) {
                        open = false;
                    }
                    open |= reached[at];
                    *place = open;
                }
            }
            single => {
                for (at, c) in text.iter().enumerate() {
                    next[at + 1] = reached[at] && single.accepts(*c) && (c.is_ascii() || !ascii_only);
                }
            }
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

/// Whether gobwas takes only the first byte of the character that the token is to match: where texts and single
/// characters follow each other, it cuts a text after the first byte of its last character.
fn is_cut_to_a_byte(tokens: &[Token], index: usize) -> bool {
    let is_single = |at: Option<usize>| {
        let token = at.and_then(|at| tokens.get(at));
        matches!(token, Some(Token::One | Token::Class { .. }))
    };
    let next_is_text = matches!(tokens.get(index + 1), Some(Token::Char(_)));
    if is_single(Some(index)) {
        return next_is_text;
    }
    let mut text = (0..index)
        .rev()
        .take_while(|at| matches!(tokens.get(*at), Some(Token::Char(_))));
    let before = text.by_ref().last().unwrap_or(index).checked_sub(1);
    !next_is_text && (is_single(index.checked_add(1)) || is_single(before))
}

impl Token {
    fn accepts(&self, c: char) -> bool {
        match self {
            Token::Char(wanted) => *wanted == c,
            Token::One => c != '/',
            Token::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
            Token::Any | Token::Super => false,
        }
    }
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.chars.get(self.at) == Some(&wanted);
        self.at += usize::from(found);
        found
    }

    /// Everything up to the end or, within braces, up to `,` or `}`; `None` if malformed.
    fn sequence(&mut self) -> Option<Vec<Vec<Token>>> {
        let mut found: Vec<Vec<Token>> = vec![Vec::new()];
        while let Some(c) = self.chars.get(self.at).copied() {
            if self.depth > 0 && matches!(c, ',' | '}') {
                break;
            }
            self.at += 1;
            let token = match c {
                '*' if self.eat('*') => {
                    while self.eat('*') {}
                    Token::Super
                }
                '*' => Token::Any,
                '?' => Token::One,
                '\\' => Token::Char(self.next()?),
                '[' => self.class()?,
                '{' => {
                    let options = self.braces()?;
                    let count = found.len().saturating_mul(options.len());
                    if count > MAX_EXPANSIONS || count.saturating_mul(self.at) > MAX_TOKENS {
                        return None;
                    }
                    found = found
                        .iter()
                        .flat_map(|head| {
                            options
                                .iter()
                                .map(move |tail| head.iter().chain(tail).cloned().collect())
                        })
                        .collect();
                    continue;
                }
                c => Token::Char(c),
            };
            found.iter_mut().for_each(|tokens| tokens.push(token.clone()));
        }
        Some(found)
    }

    fn braces(&mut self) -> Option<Vec<Vec<Token>>> {
        self.depth += 1;
        if self.depth > 50 {
            return None;
        }
        let mut options = Vec::new();
        loop {
            options.append(&mut self.sequence()?);
            match self.next() {
                Some(',') if options.len() <= MAX_EXPANSIONS => {}
                // What is open at the end counts as closed.
                Some('}') | None => break,
                Some(_) => return None,
            }
        }
        self.depth -= 1;
        Some(options)
    }

    /// `[abc]` or `[a-z]`: a list of characters, or one range.
    fn class(&mut self) -> Option<Token> {
        let negated = self.eat('!');
        let mut listed = Vec::new();
        loop {
            match self.next()? {
                ']' if !listed.is_empty() => break,
                ']' => return None,
                '\\' => listed.push(self.next()?),
                c => listed.push(c),
            }
        }
        let ranges = match listed[..] {
            [low, '-', high] if low <= high => vec![(low, high)],
            [_, '-', _] => return None,
            _ => listed.iter().map(|c| (*c, *c)).collect(),
        };
        Some(Token::Class { negated, ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_gobwas_does() {
        let table = [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "d/a.yaml", false),
            ("**.yaml", "d/a.yaml", true),
            ("d/**", "d/a/b", true),
            ("d/**", "e/a", false),
            ("d/*", "d/a/b", false),
            ("**/a", "a", false),
            ("{a,b}/*.{json,yaml}", "b/x.yaml", true),
            ("{a,b{c,d}}", "bd", true),
            ("{a,b}", "c", false),
            ("[abc]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("\\*x", "*x", true),
            ("a?c", "a/c", false),
            ("a?c", "abc", true),
            ("", "", true),
            ("[", "anything/at all", true),
            ("***", "a/b", true),
            ("d/**/x", "d/x", true),
            ("d/**/x", "d/a/x", true),
            ("[ab-c]x", "-x", true),
            ("{a,b", "b", true),
            ("{a", "a/b", false),
            ("[!a]x", "éx", false),
            ("x[!a]", "xé", true),
            ("é?", "éx", false),
            ("?é", "xé", false),
            ("a?c", "aéc", false),
            ("*é*", "xéx", true),
        ];
        for (pattern, text, want) in table {
            assert_eq!(Glob::new(pattern).matches(text), want, "{pattern} with {text}");
        }
    }
}
