//! What BurntSushi/toml says of a text that is no TOML. Facts: `lex.go`, `parse.go` and `error.go` of v1.6.0.
//!
//! The text is read by another library; where that fails, this walks the text as the Go library's lexer does, to find
//! the words. What the lexer doesn't see (an escape of no character) has the other library's.

use super::toml_number;
use crate::template::go::quote::{quote_go, quote_rune};

/// How the other library begins what it says of a key that stands twice.
const DUPLICATE: &str = "duplicate key";

/// The error for a text that doesn't parse; `error` is what the library that read it says.
pub(super) fn text(input: &[u8], error: &toml::de::Error) -> String {
    let (other, at) = (error.message(), error.span().map_or(input.len(), |span| span.start));
    let mut lexer = Lexer::new(input, at);
    match lexer.document() {
        Err(Problem { line, text: Some(text) }) => worded(line, &lexer.last_key(), &text),
        _ => {
            let line = line_of(input, at);
            let (key, is_header) = lexer.seen.unwrap_or_default();
            if other.starts_with(DUPLICATE) {
                let text = format!("Key '{key}' has already been defined.");
                return worded(line, if is_header { "" } else { &key }, &text);
            }
            worded(line, &key, other)
        }
    }
}

/// The error for a text that the other library reads, if there is one.
pub(super) fn found(input: &[u8]) -> Option<String> {
    let mut lexer = Lexer::new(input, input.len());
    let problem = lexer.document().err()?;
    Some(worded(problem.line, &lexer.last_key(), &problem.text?))
}

/// The error for a character that TOML has nowhere, or for one that is wrong before it.
pub(super) fn refused(input: &[u8]) -> Option<String> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    if input.iter().take(6).any(|byte| *byte == 0) {
        let text = "files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8";
        return Some(worded(1, "", text));
    }
    let (at, text) = forbidden(input)?;
    let before = input.get(..at).unwrap_or(input);
    let mut lexer = Lexer::new(before, at);
    let key = match lexer.document() {
        // Nothing is known yet of a word or number that may go on.
        Err(Problem { line, text: Some(text) }) if lexer.at < at && !(is_of_a_word(&text) && lexer.is_in_word()) => {
            return Some(worded(line, &lexer.last_key(), &text));
        }
        Ok(()) if lexer.open == at => lexer.seen.take().unwrap_or_default().0,
        Ok(()) => match duplicate(before) {
            Some(problem) => return Some(problem),
            None => lexer.last_key(),
        },
        _ => lexer.last_key(),
    };
    Some(worded(line_of(input, at), &key, &text))
}

/// Whether it is said once a word, number or date is at its end.
fn is_of_a_word(text: &str) -> bool {
    ["expected value but found \"", "invalid datetime", "Invalid "]
        .iter()
        .any(|start| text.starts_with(start))
}

/// The error for a key that stands twice.
fn duplicate(input: &[u8]) -> Option<String> {
    let error = std::str::from_utf8(input).ok()?.parse::<toml::Table>().err()?;
    let is_duplicate = error.message().starts_with(DUPLICATE);
    is_duplicate.then(|| text(input, &error))
}

/// The first character that may stand nowhere: where, and what is said of it.
fn forbidden(input: &[u8]) -> Option<(usize, String)> {
    let valid = match std::str::from_utf8(input) {
        Ok(_) => input.len(),
        Err(e) => e.valid_up_to(),
    };
    let is_control = |at: usize, byte: u8| match byte {
        b'\r' => input.get(at + 1) != Some(&b'\n'),
        b'\t' | b'\n' => false,
        byte => byte.is_ascii_control(),
    };
    let mut bytes = input.iter().copied().enumerate().take(valid);
    let control = bytes.find(|(at, byte)| is_control(*at, *byte));
    control.map_or_else(
        || Some((valid, format!("invalid UTF-8 byte: 0x{:02x}", input.get(valid)?))),
        |(at, byte)| {
            let text = format!("TOML files cannot contain control characters: '0x{byte:02x}'");
            Some((at, text))
        },
    )
}

/// The line of a place, from 1.
fn line_of(input: &[u8], at: usize) -> usize {
    let before = input.get(..at).unwrap_or(input);
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

fn worded(line: usize, key: &str, text: &str) -> String {
    if key.is_empty() {
        format!("toml: line {line}: {text}")
    } else {
        format!("toml: line {line} (last key {}): {text}", quote_go(key))
    }
}

struct Problem {
    line: usize,
    /// `None` where the other library's words are taken.
    text: Option<String>,
}

struct Lexer<'t> {
    input: &'t [u8],
    at: usize,
    /// The table that is open, and the key whose value is read.
    table: Vec<String>,
    key: Vec<String>,
    /// The last key before the place where the other library failed, and whether it is a table's.
    seen: Option<(String, bool)>,
    stop: usize,
    /// Where a value ends that goes on if the next character fits.
    open: usize,
}

type Done = Result<(), Problem>;

impl<'t> Lexer<'t> {
    fn new(input: &'t [u8], stop: usize) -> Self {
        Lexer {
            input,
            at: 0,
            table: Vec::new(),
            key: Vec::new(),
            seen: None,
            stop,
            open: 0,
        }
    }

    fn last_key(&self) -> String {
        let parts = self.table.iter().chain(&self.key);
        parts.map(String::as_str).collect::<Vec<_>>().join(".")
    }

    fn see(&mut self, is_header: bool) {
        let first = self.line_start(self.at) <= self.stop;
        if first {
            self.seen = Some((self.last_key(), is_header));
        }
    }

    /// Where the line of a place begins.
    fn line_start(&self, at: usize) -> usize {
        let before = self.input.get(..at).unwrap_or(self.input);
        before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |feed| feed + 1)
    }

    fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    /// Whether nothing follows but the rest of a word, number or date.
    fn is_in_word(&self) -> bool {
        let mut rest = self.input.get(self.at..).unwrap_or_default().iter();
        rest.all(|byte| byte.is_ascii_alphanumeric() || b"+-_.:".contains(byte))
    }

    /// The next character; at the end the one that the Go library has for it.
    fn char(&self) -> char {
        let rest = self.input.get(self.at..).unwrap_or_default();
        let some = String::from_utf8_lossy(rest.get(..4).unwrap_or(rest));
        some.chars().next().unwrap_or('\0')
    }

    /// The next character as Go quotes it.
    fn shown(&self) -> String {
        quote_rune(self.char())
    }

    fn line(&self) -> usize {
        line_of(self.input, self.at)
    }

    /// An error about the next character, which has been read: a line feed counts as the end of its line.
    fn problem(&self, text: impl Into<String>) -> Problem {
        let last_feed = self.at == self.input.len() && self.input.last() == Some(&b'\n');
        Problem {
            line: self.line() - usize::from(last_feed),
            text: Some(text.into()),
        }
    }

    /// The same where a line feed that has been read counts as the beginning of the next line.
    fn problem_past_feed(&self, text: impl Into<String>) -> Problem {
        let mut problem = self.problem(text);
        problem.line += usize::from(self.peek() == Some(b'\n'));
        problem
    }

    /// What isn't looked into.
    fn other(&self) -> Problem {
        Problem {
            line: self.line(),
            text: None,
        }
    }

    fn skip(&mut self, skipped: &[u8]) {
        while self.peek().is_some_and(|byte| skipped.contains(&byte)) {
            self.at += 1;
        }
    }

    /// Blanks, line feeds and comments.
    fn skip_lines(&mut self) {
        loop {
            self.skip(b" \t\r\n");
            if self.peek() != Some(b'#') {
                return;
            }
            while self.peek().is_some_and(|byte| byte != b'\n') {
                self.at += 1;
            }
        }
    }

    fn document(&mut self) -> Done {
        loop {
            self.skip_lines();
            match self.peek() {
                None => return Ok(()),
                Some(b'[') => self.header()?,
                Some(_) => {
                    self.key.clear();
                    self.pair(0, 0)?;
                    self.key.clear();
                }
            }
            self.skip(b" \t\r");
            if !matches!(self.peek(), None | Some(b'\n' | b'#')) {
                let shown = self.shown();
                return Err(self.problem(format!(
                    "expected a top-level item to end with a newline, comment, or EOF, but got {shown} instead"
                )));
            }
        }
    }

    fn header(&mut self) -> Done {
        self.at += 1;
        let is_list = self.peek() == Some(b'[');
        self.at += usize::from(is_list);
        let mut parts = Vec::new();
        loop {
            self.skip(b" \t");
            match self.peek() {
                None | Some(b']') => {
                    return Err(self.problem("unexpected end of table name (table names cannot be empty)"));
                }
                Some(b'.') => return Err(self.problem("unexpected table separator (table names cannot be empty)")),
                Some(_) => parts.push(self.name()?),
            }
            self.skip(b" \t");
            match self.peek() {
                Some(b'.') => self.at += 1,
                Some(b']') => break,
                _ => {
                    let shown = self.shown();
                    let text = format!("expected '.' or ']' to end table name, but got {shown} instead");
                    return Err(self.problem_past_feed(text));
                }
            }
        }
        self.at += 1;
        if is_list {
            if self.peek() != Some(b']') {
                let shown = self.shown();
                return Err(self.problem(format!(
                    "expected end of table array name delimiter ']', but got {shown} instead"
                )));
            }
            self.at += 1;
        }
        self.key.clear();
        self.table = parts;
        self.see(true);
        Ok(())
    }

    /// A part of a key: bare, or in quotes.
    fn name(&mut self) -> Result<String, Problem> {
        let from = self.at;
        if let Some(quote @ (b'"' | b'\'')) = self.peek() {
            self.quoted(quote)?;
            let inner = self.input.get(from + 1..self.at.saturating_sub(1)).unwrap_or_default();
            return Ok(String::from_utf8_lossy(inner).into_owned());
        }
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        {
            self.at += 1;
        }
        let name = self.input.get(from..self.at).unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn quoted(&mut self, quote: u8) -> Done {
        self.at += 1;
        let from = self.at;
        loop {
            match self.peek() {
                None if quote == b'"' => return Err(self.problem("unexpected EOF; expected '\"'")),
                None => return Err(self.problem("unexpected EOF; expected \"'\"")),
                Some(b'\n') => return Err(self.problem("strings cannot contain newlines")),
                Some(b'\\') if quote == b'"' => {
                    self.escape(from)?;
                    // Texts of several lines may have blanks before the line feed that is escaped.
                    if let Some(blank @ (b' ' | b'\t')) = self.input.get(self.at - 1) {
                        return Err(self.problem(format!("invalid escape: '\\{}'", char::from(*blank))));
                    }
                }
                Some(byte) => {
                    self.at += 1;
                    if byte == quote {
                        if self.at == from + 1 {
                            // A third mark would begin a text of several lines.
                            self.open = self.at;
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    /// What follows a backslash, in a text that begins at `from`.
    fn escape(&mut self, from: usize) -> Done {
        self.at += 1;
        let (digits, count) = match self.peek() {
            Some(b'x') => ("two", 2),
            Some(b'u') => ("four", 4),
            Some(b'U') => ("eight", 8),
            Some(byte) if !b"btnfre\"\\ \t\r\n".contains(&byte) => {
                let text = format!("invalid escape in string '\\{}'", self.char());
                return Err(self.problem(text));
            }
            _ => {
                self.at += 1;
                return Ok(());
            }
        };
        let sort = self.char();
        self.at += 1;
        for _ in 0..count {
            if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                let end = self.at + self.peek().map_or(0, |_| self.char().len_utf8());
                let read = quote_go(self.input.get(from..end).unwrap_or_default());
                return Err(self.problem_past_feed(format!(
                    "expected {digits} hexadecimal digits after '\\{sort}', but got {read} instead"
                )));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// A key below the first `base` parts of the open one, and its value.
    fn pair(&mut self, base: usize, depth: usize) -> Done {
        match self.peek() {
            None | Some(b'=') => return Err(self.problem("unexpected '=': key name appears blank")),
            Some(b'.') => return Err(self.problem("unexpected '.': keys cannot start with a '.'")),
            Some(_) => {}
        }
        let mut parts = Vec::new();
        loop {
            self.skip(b" \t");
            match self.peek() {
                Some(b'=') => return Err(self.problem("unexpected '='")),
                Some(b'.') => return Err(self.problem("unexpected '.'")),
                _ => parts.push(self.name()?),
            }
            self.skip(b" \t");
            match self.peek() {
                Some(b'.') => self.at += 1,
                Some(b'=') => break,
                None => return Err(self.problem("unexpected EOF; expected key separator '='")),
                Some(_) => {
                    let shown = self.shown();
                    return Err(self.problem(format!("expected '.' or '=', but got {shown} instead")));
                }
            }
        }
        self.at += 1;
        self.key.truncate(base);
        self.key.extend(parts);
        self.see(false);
        self.value(depth)
    }

    fn value(&mut self, depth: usize) -> Done {
        self.skip(b" \t");
        let rest = self.input.get(self.at..).unwrap_or_default();
        match self.peek() {
            None => Err(self.problem("unexpected EOF; expected value")),
            Some(_) if depth > 100 => Err(self.other()),
            Some(b'[') => self.list(depth),
            Some(b'{') => self.inline(depth),
            Some(_) if rest.starts_with(b"\"\"\"") || rest.starts_with(b"'''") => self.lines(),
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote),
            Some(b'.') => Err(self.problem("floats must start with a digit, not '.'")),
            Some(byte) if byte.is_ascii_digit() || matches!(byte, b'+' | b'-') => self.scalar(),
            Some(b'i' | b'n') if rest.starts_with(b"inf") || rest.starts_with(b"nan") => self.scalar(),
            Some(_) => {
                let text = String::from_utf8_lossy(rest);
                let word: String = text.chars().take_while(|c| c.is_alphabetic()).collect();
                match word.as_str() {
                    "" => {
                        let shown = self.shown();
                        Err(self.problem(format!("expected value but found {shown} instead")))
                    }
                    "true" | "false" => {
                        self.at += word.len();
                        self.open = self.at;
                        Ok(())
                    }
                    word => Err(self.problem(format!("expected value but found {} instead", quote_go(word)))),
                }
            }
        }
    }

    /// A number or a date.
    fn scalar(&mut self) -> Done {
        let rest = self.input.get(self.at..).unwrap_or_default();
        match toml_number::read(rest) {
            Ok(length) => {
                self.at += length;
                self.open = self.at;
                Ok(())
            }
            Err((text, read)) => {
                self.at += read;
                Err(self.problem_past_feed(text))
            }
        }
    }

    /// A text of several lines.
    fn lines(&mut self) -> Done {
        let quotes = self.input.get(self.at..self.at + 3).unwrap_or_default().to_vec();
        let is_raw = quotes.first() == Some(&b'\'');
        self.at += 3;
        let from = self.at;
        while let Some(rest) = self.input.get(self.at..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with(&quotes) {
                self.at += 3;
                self.skip(quotes.get(..1).unwrap_or_default());
                self.open = self.at;
                return Ok(());
            }
            if rest.first() == Some(&b'\\') && !is_raw {
                self.escape(from)?;
            } else {
                self.at += 1;
            }
        }
        self.at = self.input.len();
        Err(self.problem(if is_raw {
            "unexpected EOF; expected \"\'\'\'\""
        } else {
            "unexpected EOF; expected \'\"\"\"\'"
        }))
    }

    fn list(&mut self, depth: usize) -> Done {
        self.at += 1;
        loop {
            self.skip_lines();
            match self.peek() {
                Some(b',') => return Err(self.problem("unexpected comma")),
                Some(b']') => break,
                _ => self.value(depth + 1)?,
            }
            self.skip_lines();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                found => {
                    let shown = found.map_or_else(|| "end of file".to_owned(), |_| format!("'{}'", self.char()));
                    return Err(self.problem(format!(
                        "expected a comma (',') or array terminator (']'), but got {shown}"
                    )));
                }
            }
        }
        self.at += 1;
        Ok(())
    }

    fn inline(&mut self, depth: usize) -> Done {
        let base = self.key.len();
        self.at += 1;
        loop {
            self.skip_lines();
            match self.peek() {
                Some(b',') => return Err(self.problem("unexpected comma")),
                Some(b'}') => break,
                _ => self.pair(base, depth + 1)?,
            }
            self.skip_lines();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                found => {
                    let shown = found.map_or_else(|| "end of file".to_owned(), |_| format!("'{}'", self.char()));
                    return Err(self.problem(format!(
                        "expected a comma or an inline table terminator '}}', but got {shown} instead"
                    )));
                }
            }
        }
        self.key.truncate(base);
        self.at += 1;
        Ok(())
    }
}
