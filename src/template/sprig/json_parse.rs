//! JSON as Go's `json.Unmarshal` reads it into an `interface{}`: numbers are float64, the last of two equal keys
//! wins, and errors have Go's words.

use super::runes;
use crate::template::go::meter;
use crate::template::go::value::{Entries, Str, Value};

/// What a node takes at most, in bytes, with what growing lists leave unused.
const NODE: u64 = 72;
/// Go's own bound on nesting (`maxNestingDepth` of encoding/json).
pub(crate) const MAX_DEPTH: usize = 10_000;

/// Parses one JSON value. An error is the text of Go's error.
pub fn unmarshal(text: &[u8]) -> Result<Value, String> {
    match unmarshal_all(text)? {
        (value, None) => Ok(value),
        (_, Some(problem)) => Err(problem),
    }
}

/// Parses one JSON value, to the end even if a number in it is larger than a float64 can be: nil stands in its place, and
/// the first such error beside the value.
pub fn unmarshal_all(text: &[u8]) -> Result<(Value, Option<String>), String> {
    // No list or map has more parts than there are marks before them. What is too much ends the call of the function.
    let nodes = 1 + text.iter().filter(|byte| b",:[{".contains(byte)).count() as u64;
    if !meter::spend(text.len() as u64 + nodes * NODE) {
        return Err(meter::Overrun::Memory.to_string());
    }
    let mut parser = Parser::new(text);
    let value = parser.first()?;
    parser.skip_space();
    match parser.peek() {
        None => Ok((value, parser.problem)),
        Some(byte) => Err(unexpected(byte, "after top-level value")),
    }
}

/// Parses the JSON value that a text begins with, as a decoder of a stream does. Gives the place behind it, too.
pub fn first(text: &[u8]) -> Result<(Value, usize), String> {
    let mut parser = Parser::new(text);
    let value = parser.first()?;
    match parser.problem {
        None => Ok((value, parser.at)),
        Some(problem) => Err(problem),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    /// What stands in place of a number that is too large, and the first error of that sort.
    huge: Value,
    problem: Option<String>,
}

/// Go ends a text that stops within a token with a space, and complains about that.
const CUT_SHORT: u8 = b' ';
const END: &str = "unexpected end of JSON input";

/// Go quotes the byte at which it stopped as a character literal, bytes above ASCII as Latin-1.
fn unexpected(byte: u8, context: &str) -> String {
    let quoted = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        0..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        byte => format!("'{}'", char::from(byte)),
    };
    format!("invalid character {quoted} {context}")
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8]) -> Self {
        Parser {
            text,
            at: 0,
            huge: Value::Nil,
            problem: None,
        }
    }
}

impl Parser<'_> {
    fn first(&mut self) -> Result<Value, String> {
        self.skip_space();
        self.value(0)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        match self.peek() {
            None => Err(END.to_owned()),
            Some(byte @ (b'{' | b'[')) if depth >= MAX_DEPTH => Err(unexpected(byte, "exceeded max depth")),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Value::String),
            Some(b't') => self.literal(b"true", Value::Bool(true)),
            Some(b'f') => self.literal(b"false", Value::Bool(false)),
            Some(b'n') => self.literal(b"null", Value::Nil),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(byte) => Err(unexpected(byte, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &'static [u8], value: Value) -> Result<Value, String> {
        for expected in word {
            match self.peek() {
                Some(byte) if byte == *expected => self.at += 1,
                found => {
                    let word = String::from_utf8_lossy(word);
                    return Err(unexpected(
                        found.unwrap_or(CUT_SHORT),
                        &format!("in literal {word} (expecting '{}')", char::from(*expected)),
                    ));
                }
            }
        }
        Ok(value)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        if self.digits() > 0 {
            return Ok(());
        }
        Err(unexpected(self.peek().unwrap_or(CUT_SHORT), context))
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.some_digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = String::from_utf8_lossy(self.text.get(start..self.at).unwrap_or(&[])).into_owned();
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Value::Float64(n)),
            _ => {
                let problem = || format!("json: cannot unmarshal number {text} into Go value of type float64");
                self.problem.get_or_insert_with(problem);
                Ok(self.huge.clone())
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::appended(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::appended(items));
                }
                Some(byte) => return Err(unexpected(byte, "after array element")),
                None => return Err(END.to_owned()),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut entries = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::map(Entries::new()));
        }
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'"') => {}
                Some(byte) => return Err(unexpected(byte, "looking for beginning of object key string")),
                None => return Err(END.to_owned()),
            }
            let key = self.string()?;
            self.skip_space();
            match self.peek() {
                Some(b':') => self.at += 1,
                Some(byte) => return Err(unexpected(byte, "after object key")),
                None => return Err(END.to_owned()),
            }
            self.skip_space();
            let value = self.value(depth + 1)?;
            entries.push((key, value));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::map(entries.into_iter().collect()));
                }
                Some(byte) => return Err(unexpected(byte, "after object key:value pair")),
                None => return Err(END.to_owned()),
            }
        }
    }

    fn string(&mut self) -> Result<Str, String> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or(&[]);
            let Some((c, width)) = runes::decode(rest) else {
                return Err(END.to_owned());
            };
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(Str::from(out));
                }
                '\\' => {
                    self.at += 1;
                    let c = self.escape()?;
                    runes::push(&mut out, c);
                }
                '\0'..='\u{1f}' => {
                    return Err(unexpected(rest.first().copied().unwrap_or(0), "in string literal"));
                }
                c => {
                    runes::push(&mut out, c);
                    self.at += width;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let byte = self.peek().unwrap_or(CUT_SHORT);
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hex4()?;
                // A pair of surrogates is one character; a lone one is U+FFFD.
                if (0xD800..0xDC00).contains(&unit) && self.text.get(self.at..self.at + 2) == Some(b"\\u") {
                    let before = self.at;
                    self.at += 2;
                    let low = self.hex4()?;
                    if (0xDC00..0xE000).contains(&low) {
                        let code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    self.at = before;
                }
                char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            byte => return Err(unexpected(byte, "in string escape code")),
        })
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.peek().unwrap_or(CUT_SHORT);
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(unexpected(byte, "in \\u hexadecimal character escape"));
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }
}
