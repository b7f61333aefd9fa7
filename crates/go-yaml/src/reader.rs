//! Bytes to text: byte order marks, encodings, and the characters that YAML does not allow.
//!
//! go-yaml reads its input bit by bit, and finds what is wrong with a byte when it comes there, after an error of syntax
//! before it. Here all bytes are looked at first.

use std::borrow::Cow;

use super::Error;

/// How many bytes are looked at together.
const BLOCK: usize = 64;

/// The text of an input.
///
/// # Errors
/// What go-yaml says of the first bytes that are no text, or of a character that YAML does not allow.
pub(super) fn read(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let (text, problem) = match bytes {
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ => utf8(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)),
    };
    let problem = match is_allowed(&text) {
        true => problem,
        false => Some("control characters are not allowed"),
    };
    problem.map_or(Ok(text), |problem| Err(Error::yaml(None, problem)))
}

/// The text up to the first bytes that are none, and what is wrong with them.
fn utf8(bytes: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), None),
        Err(e) => {
            let (text, bad) = bytes.split_at(e.valid_up_to());
            (String::from_utf8_lossy(text), Some(utf8_problem(bad)))
        }
    }
}

/// go-yaml's words for the sequence at the head of `bad`, which is not UTF-8.
fn utf8_problem(bad: &[u8]) -> &'static str {
    let width = match bad.first() {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF7) => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    match bad.get(1..width) {
        None => "incomplete UTF-8 octet sequence",
        Some(octets) if octets.iter().any(|octet| octet & 0xC0 != 0x80) => "invalid trailing UTF-8 octet",
        Some(_) => "invalid Unicode character",
    }
}

/// Whether YAML 1.1 (as go-yaml has it) allows `c` in a stream.
fn allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Whether all characters of `text` are [`allowed`].
fn is_allowed(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = bytes.len().min(at + BLOCK);
        // Without an early exit the compiler looks at many bytes at once.
        let is_plain = bytes[at..end].iter().fold(true, |all, b| all & plain(*b));
        if is_plain {
            at = end;
            continue;
        }
        while at < end {
            if plain(bytes[at]) {
                at += 1;
                continue;
            }
            let c = text.get(at..).and_then(|rest| rest.chars().next());
            let Some(c) = c.filter(|c| allowed(*c)) else {
                return false;
            };
            at += c.len_utf8();
        }
    }
    true
}

fn plain(b: u8) -> bool {
    matches!(b, b' '..=b'~' | b'\n' | b'\t' | b'\r')
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> (Cow<'static, str>, Option<&'static str>) {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let characters = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    match characters.collect::<Result<String, _>>() {
        Ok(text) if rest.is_empty() => (text.into(), None),
        Ok(text) => (text.into(), Some("incomplete UTF-16 character")),
        Err(_) => ("".into(), Some("unexpected low surrogate area")),
    }
}
