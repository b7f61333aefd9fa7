//! The characters, strings and words of TOML. Facts: `lex.go` and `parse.go` of BurntSushi/toml v1.6.0.

use crate::template::go::quote::{quote_go, quote_rune};
use crate::template::go::unicode::is_letter_or_digit;

/// What is wrong, and the line that the library says it of.
pub(super) struct Flaw {
    pub(super) line: usize,
    pub(super) text: String,
}

pub(super) struct Lexer<'t> {
    input: &'t [u8],
    at: usize,
    line: usize,
    /// Whether the end was read, and not only looked at.
    is_past_end: bool,
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_feed(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// Go's `unicode.IsLetter`.
pub(super) fn is_letter(c: char) -> bool {
    is_letter_or_digit(c) && !c.is_numeric()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// What was read as the library quotes it: the end is a character to it.
pub(super) fn shown(read: Option<char>) -> String {
    quote_rune(read.unwrap_or('\0'))
}

// === impl Lexer: characters ===

impl<'t> Lexer<'t> {
    pub(super) fn new(input: &'t [u8]) -> Self {
        Lexer {
            input,
            at: 0,
            line: 1,
            is_past_end: false,
        }
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Where the next character lies.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// What was read since a place.
    pub(super) fn since(&self, place: usize) -> &'t str {
        self.text(place, self.at)
    }

    fn text(&self, from: usize, to: usize) -> &'t str {
        let bytes = self.input.get(from..to).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The next character; `None` at the end.
    pub(super) fn peek(&self) -> Result<Option<char>, Flaw> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        let Some(first) = rest.first() else {
            return Ok(None);
        };
        let control = match first {
            b'\r' => rest.get(1) != Some(&b'\n'),
            b'\t' | b'\n' => false,
            byte => byte.is_ascii_control(),
        };
        if control {
            let text = format!("TOML files cannot contain control characters: '0x{first:02x}'");
            return Err(self.flaw(text));
        }
        let some = rest.get(..4).unwrap_or(rest);
        let valid = match std::str::from_utf8(some) {
            Ok(text) => text,
            Err(e) => std::str::from_utf8(some.get(..e.valid_up_to()).unwrap_or_default()).unwrap_or_default(),
        };
        match valid.chars().next() {
            None => Err(self.flaw(format!("invalid UTF-8 byte: 0x{first:02x}"))),
            some => Ok(some),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<char>, Flaw> {
        let next = self.peek()?;
        match next {
            Some(c) => {
                self.at += c.len_utf8();
                self.line += usize::from(c == '\n');
            }
            None => self.is_past_end = true,
        }
        Ok(next)
    }

    /// Reads the next character if it is that one.
    pub(super) fn accept(&mut self, wanted: char) -> Result<bool, Flaw> {
        let is_it = self.peek()? == Some(wanted);
        if is_it {
            self.next()?;
        }
        Ok(is_it)
    }

    /// Reads the characters that fit.
    pub(super) fn skip(&mut self, fits: impl Fn(char) -> bool) -> Result<(), Flaw> {
        while self.peek()?.is_some_and(&fits) {
            self.next()?;
        }
        Ok(())
    }

    /// Blanks, line feeds and comments.
    pub(super) fn skip_lines(&mut self) -> Result<(), Flaw> {
        loop {
            self.skip(|c| is_blank(c) || is_feed(c))?;
            if self.peek()? != Some('#') {
                return Ok(());
            }
            self.skip(|c| !is_feed(c))?;
        }
    }

    /// What follows a table's name or a value up to the end of its line.
    pub(super) fn end_of_line(&mut self) -> Result<(), Flaw> {
        self.skip(is_blank)?;
        match self.peek()? {
            None => Ok(()),
            Some(c) if c == '#' || is_feed(c) => Ok(()),
            found => {
                self.next()?;
                let found = shown(found);
                Err(self.flaw(format!(
                    "expected a top-level item to end with a newline, comment, or EOF, but got {found} instead"
                )))
            }
        }
    }

    /// A flaw of what was read last. The end counts as the end of the last line.
    pub(super) fn flaw(&self, text: impl Into<String>) -> Flaw {
        let after_feed = self.is_past_end && self.input.last() == Some(&b'\n');
        Flaw {
            line: self.line - usize::from(after_feed),
            text: text.into(),
        }
    }

    /// The same, said of the line before.
    pub(super) fn flaw_before(&self, text: impl Into<String>) -> Flaw {
        Flaw {
            line: self.line - 1,
            text: text.into(),
        }
    }
}

// === impl Lexer: names and words ===

impl Lexer<'_> {
    /// A part of a key: bare (and empty, if it begins with what no key has), or in quotes.
    pub(super) fn name(&mut self) -> Result<String, Flaw> {
        match self.peek()? {
            Some('"') => {
                self.next()?;
                self.string()
            }
            Some('\'') => {
                self.next()?;
                self.raw()
            }
            _ => {
                let from = self.at;
                self.skip(is_of_name)?;
                Ok(self.since(from).to_owned())
            }
        }
    }

    /// `true` or `false`, the word that is read from a place on.
    pub(super) fn bool(&mut self, from: usize) -> Result<bool, Flaw> {
        self.at = from;
        self.skip(is_letter)?;
        match self.since(from) {
            "true" => Ok(true),
            "false" => Ok(false),
            word => Err(self.flaw(format!("expected value but found {} instead", quote_go(word)))),
        }
    }

    /// What follows an `i` or `n` that may be `inf` or `nan`. The library takes `inan` and `nnf` as well, for a number
    /// that isn't any, and begins the word that it finds instead with what it read last.
    pub(super) fn is_special_float(&mut self) -> Result<bool, Flaw> {
        Ok((self.accept('n')? && self.accept('f')?) || (self.accept('a')? && self.accept('n')?))
    }
}

// === impl Lexer: strings ===

impl Lexer<'_> {
    /// A string whose opening quote was read.
    pub(super) fn string(&mut self) -> Result<String, Flaw> {
        let from = self.at;
        loop {
            match self.next()? {
                None => return Err(self.flaw("unexpected EOF; expected '\"'")),
                Some('\n' | '\r') => return Err(self.flaw_before("strings cannot contain newlines")),
                Some('\\') => self.escape(from)?,
                Some('"') => return self.unescaped(self.text(from, self.at - 1)),
                Some(_) => {}
            }
        }
    }

    /// A string whose opening apostrophe was read.
    pub(super) fn raw(&mut self) -> Result<String, Flaw> {
        let from = self.at;
        loop {
            match self.next()? {
                None => return Err(self.flaw("unexpected EOF; expected \"'\"")),
                Some('\n' | '\r') => return Err(self.flaw_before("strings cannot contain newlines")),
                Some('\'') => return Ok(self.text(from, self.at - 1).to_owned()),
                Some(_) => {}
            }
        }
    }

    /// A string of several lines whose three opening quotes were read.
    pub(super) fn lines(&mut self) -> Result<String, Flaw> {
        let from = self.at;
        loop {
            match self.next()? {
                None => return Err(self.flaw("unexpected EOF; expected '\"\"\"'")),
                Some('\\') => {
                    if self.peek()?.is_some_and(is_feed) {
                        self.next()?;
                    } else {
                        self.escape(from)?;
                    }
                }
                Some('"') => {
                    if self.closes(from, '"')? {
                        let text = self.text(from, self.at - 3);
                        return self.unescaped(&without_escaped_feeds(without_first_feed(text)));
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// The same with apostrophes.
    pub(super) fn raw_lines(&mut self) -> Result<String, Flaw> {
        let from = self.at;
        loop {
            match self.next()? {
                None => return Err(self.flaw("unexpected EOF; expected \"'''\"")),
                Some('\'') if self.closes(from, '\'')? => {
                    return Ok(without_first_feed(self.text(from, self.at - 3)).to_owned());
                }
                Some(_) => {}
            }
        }
    }

    /// Whether two more quotes follow the one that was read, and no third: up to two belong to the text.
    fn closes(&mut self, from: usize, quote: char) -> Result<bool, Flaw> {
        if !self.accept(quote)? {
            return Ok(false);
        }
        if !self.accept(quote)? {
            self.at -= 1;
            return Ok(false);
        }
        if self.peek()? != Some(quote) {
            return Ok(true);
        }
        let five = quote.to_string().repeat(5);
        let is_sixth = match self.since(from).strip_suffix(&five) {
            Some(before) => quote == '\'' || !before.ends_with('\\'),
            None => false,
        };
        if is_sixth {
            let marks = if quote == '"' { "'\"\"\"\"\"\"'" } else { "\"''''''\"" };
            return Err(self.flaw(format!("unexpected {marks}")));
        }
        self.at -= 2;
        Ok(false)
    }

    /// What follows a backslash, in a string that begins at `from`.
    fn escape(&mut self, from: usize) -> Result<(), Flaw> {
        let sort = self.next()?;
        let (digits, count) = match sort {
            Some('e' | 'b' | 't' | 'n' | 'f' | 'r' | '"' | '\\' | ' ' | '\t') => return Ok(()),
            Some('x') => ("two hexadecimal digits after '\\x'", 2),
            Some('u') => ("four hexadecimal digits after '\\u'", 4),
            Some('U') => ("eight hexadecimal digits after '\\U'", 8),
            Some(c) => return Err(self.flaw(format!("invalid escape in string '\\{c}'"))),
            None => return Err(self.flaw_before("invalid escape in string '\\\0'")),
        };
        for _ in 0..count {
            if !self.next()?.is_some_and(|c| c.is_ascii_hexdigit()) {
                let read = quote_go(self.since(from));
                return Err(self.flaw(format!("expected {digits}, but got {read} instead")));
            }
        }
        Ok(())
    }

    /// A string with the characters that its escapes stand for.
    fn unescaped(&self, text: &str) -> Result<String, Flaw> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('\\') {
            out.push_str(before);
            let mut chars = after.chars();
            let sort = chars.next().unwrap_or_default();
            let digits = match sort {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            let (digits, after) = chars.as_str().split_at_checked(digits).unwrap_or_default();
            rest = after;
            out.push(match sort {
                ' ' | '\t' => return Err(self.flaw(format!("invalid escape: '\\{sort}'"))),
                'b' => '\x08',
                't' => '\t',
                'n' => '\n',
                'f' => '\x0c',
                'r' => '\r',
                'e' => '\x1b',
                'x' | 'u' | 'U' => {
                    let code = u32::from_str_radix(digits, 16).ok();
                    code.and_then(char::from_u32)
                        .ok_or_else(|| self.flaw(format!("Escaped character '\\u{digits}' is not valid UTF-8.")))?
                }
                other => other,
            });
        }
        out.push_str(rest);
        Ok(out)
    }
}

fn without_first_feed(text: &str) -> &str {
    let rest = text.strip_prefix('\n').or_else(|| text.strip_prefix("\r\n"));
    rest.unwrap_or(text)
}

/// A string without the line feeds that a backslash stands before, and the blanks about them.
fn without_escaped_feeds(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let trimmed = after.trim_start_matches([' ', '\t', '\r', '\n']);
        let blanks = after.strip_suffix(trimmed).unwrap_or_default();
        if blanks.contains('\n') {
            rest = trimmed;
            continue;
        }
        out.push('\\');
        rest = match after.strip_prefix('\\') {
            Some(after) => {
                out.push('\\');
                after
            }
            None => after,
        };
    }
    out.push_str(rest);
    out
}
