//! The patterns of `.Files.Glob`: those of gobwas/glob with `/` as its separator, as regular expressions.
//!
//! `*` and `?` don't cross a `/`, `**` does; `[abc]`, `[a-z]`, `[!a-z]`, `{a,b}` (nestable), `\` escapes.

use std::iter::Peekable;
use std::str::Chars;

use crate::gostd::regexp::{self, GoRegex};
use go_template::meter::Meter;

/// The maximum nesting of braces; a deeper pattern counts as malformed.
const MAX_DEPTH: usize = 50;

/// A compiled pattern.
pub struct Glob<'m> {
    regex: GoRegex<'m>,
}

impl<'m> Glob<'m> {
    /// Compiles a pattern; a malformed one matches everything, as Helm has it.
    ///
    /// # Errors
    /// The pattern is too large.
    pub fn new(meter: &'m Meter, pattern: &str) -> Result<Self, String> {
        let mut parser = GlobParser {
            rest: pattern.chars().peekable(),
            regex: String::new(),
        };
        let regex = match parser.sequence(0) {
            Some(()) => format!("^(?s:{})$", parser.regex),
            None => String::new(),
        };
        let regex = regexp::compile(meter, regex.as_bytes()).map_err(|_| "the pattern is too large".to_owned())?;
        Ok(Glob { regex })
    }

    /// Whether the pattern matches the whole of `name`.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.regex.is_match(name)
    }
}

struct GlobParser<'p> {
    rest: Peekable<Chars<'p>>,
    regex: String,
}

impl GlobParser<'_> {
    /// Reads up to the end or, within braces, up to `,` or `}`. Returns `None` if the pattern is malformed.
    fn sequence(&mut self, depth: usize) -> Option<()> {
        while let Some(next) = self.rest.next_if(|c| depth == 0 || !matches!(c, ',' | '}')) {
            match next {
                '*' if self.rest.next_if_eq(&'*').is_some() => self.regex.push_str(".*"),
                '*' => self.regex.push_str("[^/]*"),
                '?' => self.regex.push_str("[^/]"),
                '[' => self.class()?,
                '{' => self.braces(depth + 1)?,
                // Nothing is left of one at the end.
                '\\' => {
                    if let Some(escaped) = self.rest.next() {
                        self.literal(escaped);
                    }
                }
                c => self.literal(c),
            }
        }
        Some(())
    }

    fn literal(&mut self, c: char) {
        self.regex.push_str(&::regex::escape(c.encode_utf8(&mut [0; 4])));
    }

    /// An open group at the end counts as closed.
    fn braces(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.regex.push_str("(?:");
        loop {
            self.sequence(depth)?;
            if self.rest.next() != Some(',') {
                self.regex.push(')');
                return Some(());
            }
            self.regex.push('|');
        }
    }

    /// `[abc]` or `[a-z]`: a list of characters, or one range.
    fn class(&mut self) -> Option<()> {
        let negated = self.rest.next_if_eq(&'!').is_some();
        self.regex.push_str(if negated { "[^" } else { "[" });
        let mut ahead = self.rest.clone();
        if let (Some(low), Some('-')) = (ahead.next(), ahead.next()) {
            let high = ahead.next()?;
            self.rest = ahead;
            self.literal(low);
            self.regex.push('-');
            self.literal(high);
            self.regex.push(']');
            return (self.rest.next()? == ']' && low <= high).then_some(());
        }
        let mut is_empty = true;
        loop {
            let c = match self.rest.next()? {
                ']' if is_empty => return None,
                ']' => break,
                '\\' => self.rest.next()?,
                c => c,
            };
            is_empty = false;
            self.literal(c);
        }
        self.regex.push(']');
        Some(())
    }
}
