//! Text to tokens, by the rules of Go's `text/template/parse` lexer, one token at a time.

use crate::syntax::token::{Keyword, Token, TokenKind};
use crate::text::quote::quote_go;
use crate::text::unicode::{decode_lossy, is_letter_or_digit};

const LEFT_DELIM: &[u8] = b"{{";
const RIGHT_DELIM: &[u8] = b"}}";

/// Yields tokens up to the end of the file or an error, and then repeats that last token.
pub(crate) struct Lexer<'s> {
    input: &'s [u8],
    pos: usize,
    /// Where the current token starts.
    start: usize,
    paren_depth: usize,
    inside_action: bool,
    /// The current token has space before it.
    spaced: bool,
    /// A function of that name hides the keyword.
    break_is_function: bool,
    continue_is_function: bool,
    /// Why the last token is an error.
    error: String,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(input: &'s [u8], break_is_function: bool, continue_is_function: bool) -> Self {
        Lexer {
            input,
            pos: 0,
            start: 0,
            paren_depth: 0,
            inside_action: false,
            spaced: false,
            break_is_function,
            continue_is_function,
            error: String::new(),
        }
    }

    /// The reason of an error token.
    pub(crate) fn error(&self) -> &str {
        &self.error
    }

    #[inline]
    pub(crate) fn next_token(&mut self) -> Token {
        self.spaced = false;
        if self.inside_action {
            self.inside_action()
        } else {
            self.text()
        }
    }

    #[cold]
    fn fail(&mut self, error: impl Into<String>) -> Token {
        self.error = error.into();
        self.input = &[];
        self.pos = self.start;
        self.emit(TokenKind::Error)
    }

    fn rest(&self) -> &'s [u8] {
        self.input.get(self.pos..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        decode_lossy(self.rest()).map(|(c, _)| c)
    }

    fn next(&mut self) -> Option<char> {
        let (c, width) = decode_lossy(self.rest())?;
        self.pos += width;
        Some(c)
    }

    fn accept(&mut self, valid: &str) -> bool {
        let accepted = self.peek().is_some_and(|c| valid.contains(c));
        if accepted {
            self.next();
        }
        accepted
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    fn emit(&mut self, kind: TokenKind) -> Token {
        let token = Token::new(kind, self.start, self.pos.saturating_sub(self.start), self.spaced);
        self.start = self.pos;
        token
    }

    fn ignore(&mut self) {
        self.start = self.pos;
    }

    fn text(&mut self) -> Token {
        loop {
            let Some(length) = left_delim(self.rest()) else {
                self.pos = self.pos.max(self.input.len());
                if self.pos > self.start {
                    return self.emit(TokenKind::Text);
                }
                return self.emit(TokenKind::Eof);
            };
            if length > 0 {
                self.pos += length;
                let delim_end = self.pos + LEFT_DELIM.len();
                let mut trimmed = 0;
                if has_left_trim_marker(self.input.get(delim_end..).unwrap_or_default()) {
                    let text = self.input.get(self.start..self.pos).unwrap_or_default();
                    trimmed = text.iter().rev().take_while(|b| is_space_byte(**b)).count();
                }
                self.pos -= trimmed;
                let token = self.emit(TokenKind::Text);
                self.pos += trimmed;
                self.ignore();
                if token.length() > 0 {
                    return token;
                }
            }
            match self.left_delim() {
                Ok(Some(token)) => return token,
                Ok(None) => {}
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Reads `{{`. A comment is skipped completely and yields no token.
    fn left_delim(&mut self) -> Result<Option<Token>, &'static str> {
        self.pos += LEFT_DELIM.len();
        let after_marker = if has_left_trim_marker(self.rest()) { 2 } else { 0 };
        if self
            .rest()
            .get(after_marker..)
            .is_some_and(|rest| rest.starts_with(b"/*"))
        {
            self.pos += after_marker;
            self.ignore();
            self.comment()?;
            return Ok(None);
        }
        let token = self.emit(TokenKind::LeftDelim);
        self.inside_action = true;
        self.pos += after_marker;
        self.ignore();
        self.paren_depth = 0;
        Ok(Some(token))
    }

    fn comment(&mut self) -> Result<(), &'static str> {
        self.pos += 2;
        let end = memchr::memmem::find(self.rest(), b"*/").ok_or("unclosed comment")?;
        self.pos += end + 2;
        let trim = self.at_right_delim().ok_or("comment ends before closing delimiter")?;
        self.pos += RIGHT_DELIM.len() + if trim { 2 } else { 0 };
        if trim {
            self.skip_space();
        }
        self.ignore();
        Ok(())
    }

    fn skip_space(&mut self) {
        self.pos += self.rest().iter().take_while(|b| is_space_byte(**b)).count();
    }

    /// Whether the rest starts with a right delimiter, and if so whether with a trim marker.
    fn at_right_delim(&self) -> Option<bool> {
        match self.rest() {
            [space, b'-', b'}', b'}', ..] if is_space_byte(*space) => Some(true),
            [b'}', b'}', ..] => Some(false),
            _ => None,
        }
    }

    fn right_delim(&mut self, trim: bool) -> Token {
        if trim {
            self.pos += 2;
            self.ignore();
        }
        self.pos += RIGHT_DELIM.len();
        let token = self.emit(TokenKind::RightDelim);
        if trim {
            self.skip_space();
            self.ignore();
        }
        self.inside_action = false;
        token
    }

    fn inside_action(&mut self) -> Token {
        let start = self.pos;
        self.skip_space();
        self.spaced = self.pos > start;
        if self.spaced && matches!(self.rest(), [b'-', b'}', b'}', ..]) {
            // The last of it belongs to the trim marker.
            self.pos -= 1;
        }
        self.ignore();
        let Some(&first) = self.rest().first() else {
            return self.fail("unclosed action");
        };
        if is_word_byte(first) && !first.is_ascii_digit() {
            return self.identifier();
        }
        match first {
            b'.' if self.rest().get(1).is_some_and(u8::is_ascii_digit) || self.rest().len() == 1 => self.number(),
            b'.' => self.field_or_variable(TokenKind::Field),
            b'$' => self.field_or_variable(TokenKind::Variable),
            b'+' | b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.quoted(b'"', TokenKind::String, "unterminated quoted string"),
            b'\'' => self.quoted(b'\'', TokenKind::CharConstant, "unterminated character constant"),
            b'`' => self.raw_string(),
            b'|' => self.one(TokenKind::Pipe),
            b'(' => {
                self.paren_depth += 1;
                self.one(TokenKind::LeftParen)
            }
            b')' => match self.paren_depth.checked_sub(1) {
                Some(depth) => {
                    self.paren_depth = depth;
                    self.one(TokenKind::RightParen)
                }
                None => self.fail("unexpected right paren"),
            },
            b'=' => self.one(TokenKind::Assign),
            b':' if self.rest().get(1) == Some(&b'=') => {
                self.pos += 1;
                self.one(TokenKind::Declare)
            }
            b':' => self.fail("expected :="),
            b'}' | b' ' | b'\t' | b'\r' | b'\n' if self.at_right_delim().is_some() => match self.paren_depth {
                0 => self.right_delim(first != b'}'),
                _ => self.fail("unclosed left paren"),
            },
            b' '..=b'~' => self.one(TokenKind::Char),
            _ => match self.peek().unwrap_or_default() {
                c if is_letter_or_digit(c) => self.identifier(),
                c => self.fail(format!("unrecognized character in action: {}", code_point(c))),
            },
        }
    }

    /// A token of one more byte.
    fn one(&mut self, kind: TokenKind) -> Token {
        self.pos += 1;
        self.emit(kind)
    }

    /// Reads the characters of a word. Returns the next character if it does not end the word.
    fn word(&mut self) -> Option<char> {
        let rest = self.rest();
        let length = rest.iter().position(|b| !is_word_byte(*b)).unwrap_or(rest.len());
        self.pos += length;
        if rest.get(length).is_some_and(|b| !b.is_ascii()) {
            while self.peek().is_some_and(|c| c == '_' || is_letter_or_digit(c)) {
                self.next();
            }
        }
        if self.at_terminator() { None } else { self.peek() }
    }

    #[cold]
    fn bad_character(&mut self, c: char) -> Token {
        self.fail(format!("bad character {}", code_point(c)))
    }

    fn identifier(&mut self) -> Token {
        if let Some(bad) = self.word() {
            return self.bad_character(bad);
        }
        let word = self.input.get(self.start..self.pos).unwrap_or_default();
        let kind = match Keyword::by_name(word) {
            Some(Keyword::Break) if self.break_is_function => TokenKind::Identifier,
            Some(Keyword::Continue) if self.continue_is_function => TokenKind::Identifier,
            Some(keyword) => TokenKind::Keyword(keyword),
            None if word == b"true" || word == b"false" => TokenKind::Bool,
            None => TokenKind::Identifier,
        };
        self.emit(kind)
    }

    fn field_or_variable(&mut self, kind: TokenKind) -> Token {
        self.pos += 1;
        if self.at_terminator() {
            let kind = if kind == TokenKind::Field {
                TokenKind::Keyword(Keyword::Dot)
            } else {
                kind
            };
            return self.emit(kind);
        }
        match self.word() {
            None => self.emit(kind),
            Some(bad) => self.bad_character(bad),
        }
    }

    fn at_terminator(&self) -> bool {
        matches!(
            self.rest(),
            [] | [
                b' ' | b'\t' | b'\r' | b'\n' | b'.' | b',' | b'|' | b':' | b')' | b'(',
                ..,
            ] | [b'}', b'}', ..]
        )
    }

    /// A string or character constant, whose syntax the parser checks.
    fn quoted(&mut self, quote: u8, kind: TokenKind, unterminated: &str) -> Token {
        self.pos += 1;
        loop {
            // Nothing is special about what stands before these.
            let rest = self.rest();
            self.pos += memchr::memchr3(b'\\', b'\n', quote, rest).unwrap_or(rest.len());
            match self.next() {
                Some('\\') if !matches!(self.next(), None | Some('\n')) => {}
                None | Some('\\' | '\n') => return self.fail(unterminated),
                Some(_) => return self.emit(kind),
            }
        }
    }

    fn raw_string(&mut self) -> Token {
        self.pos += 1;
        match memchr::memchr(b'`', self.rest()) {
            Some(length) => {
                self.pos += length + 1;
                self.emit(TokenKind::RawString)
            }
            None => self.fail("unterminated raw quoted string"),
        }
    }

    /// Reads a number roughly. The parser finds the errors in it.
    fn number(&mut self) -> Token {
        if !self.scan_number() {
            return self.fail(self.bad_number());
        }
        // Complex numbers are not supported, but are read to their end.
        if matches!(self.peek(), Some('+' | '-')) {
            self.scan_number();
            return self.fail(self.bad_number());
        }
        self.emit(TokenKind::Number)
    }

    fn bad_number(&self) -> String {
        format!(
            "bad number syntax: {}",
            quote_go(self.input.get(self.start..self.pos).unwrap_or_default())
        )
    }

    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let is_zero = self.accept("0");
        let (digits, exponent) = if is_zero && self.accept("xX") {
            ("0123456789abcdefABCDEF_", "pP")
        } else {
            ("0123456789_", "eE")
        };
        if is_zero {
            self.accept("oObB");
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        if self.peek().is_some_and(|c| c == '_' || is_letter_or_digit(c)) {
            self.next();
            return false;
        }
        true
    }
}

fn is_space_byte(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

fn has_left_trim_marker(rest: &[u8]) -> bool {
    matches!(rest, [b'-', space, ..] if is_space_byte(*space))
}

/// Whether it is an ASCII character of a word.
fn is_word_byte(b: u8) -> bool {
    const WORD: [bool; 256] = {
        let mut word = [false; 256];
        let mut b = 0;
        while b < 128 {
            word[b] = (b as u8).is_ascii_alphanumeric() || b as u8 == b'_';
            b += 1;
        }
        word
    };
    WORD[usize::from(b)]
}

/// Where the next action or comment starts. Creating a searcher for two bytes would take longer than most searches.
fn left_delim(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'{', text).find(|at| text.get(at + 1) == Some(&b'{'))
}

/// Go's `%#U`.
fn code_point(c: char) -> String {
    let hex = format!("U+{:04X}", u32::from(c));
    if crate::text::unicode::is_print(c) {
        format!("{hex} '{c}'")
    } else {
        hex
    }
}

/// The text of a word, which the lexer only takes if it is UTF-8.
pub(crate) fn as_str(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
