//! Bytes to text: byte order marks, encodings, and the characters that YAML does not allow.
//!
//! go-yaml decodes its input in chunks of 512 bytes while it scans, so a syntax error is reported before a bad byte
//! of a later chunk, and a bad byte after the first document is never seen. [`read`] finds the first bad byte at once
//! and gives the text up to its chunk; the scanner reports the failure only when it gets there.

use std::borrow::Cow;

const CHUNK: usize = 512;
/// How many bytes are looked at together.
const BLOCK: usize = 64;
const INCOMPLETE: &str = "incomplete UTF-8 octet sequence";

/// The text of an input, and what stopped the decoding.
pub(super) struct Input<'a> {
    pub text: Cow<'a, str>,
    /// What go-yaml says when it needs a character beyond `text`; `None` if `text` is all there is.
    pub failure: Option<&'static str>,
    /// Where the part of `text` ends that go-yaml has decoded before it looks at the first character.
    pub first_chunk: usize,
}

pub(super) fn read(bytes: &[u8]) -> Input<'_> {
    match bytes {
        [0xFF, 0xFE, ..] => utf16(bytes, u16::from_le_bytes),
        [0xFE, 0xFF, ..] => utf16(bytes, u16::from_be_bytes),
        _ => utf8(bytes, if bytes.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 }),
    }
}

fn utf8(bytes: &[u8], start: usize) -> Input<'_> {
    let rest = &bytes[start..];
    let (text, failure) = match std::str::from_utf8(rest) {
        Ok(text) => (text, None),
        Err(e) => {
            let (valid, bad) = rest.split_at(e.valid_up_to());
            (std::str::from_utf8(valid).unwrap_or_default(), Some(utf8_problem(bad)))
        }
    };
    let (valid, failure) = match first_forbidden(text) {
        Some(at) => (at, Some("control characters are not allowed")),
        None => (text.len(), failure),
    };
    let first_chunk = chunk_end(bytes, 0).saturating_sub(start).min(text.len());
    // Nobody knows of an incomplete character before the end is reached.
    if failure.is_none() || failure == Some(INCOMPLETE) {
        return Input {
            text: Cow::Borrowed(text),
            failure,
            first_chunk,
        };
    }
    // A character that a chunk would cut is the first of the next one.
    let bad = start + valid;
    let mut chunk = 0;
    loop {
        let end = chunk_end(bytes, chunk);
        if end > bad || end == chunk {
            // Also a broken character waits for the next chunk if it seems to be cut.
            if bad + lead_width(bytes[bad]) > chunk + CHUNK && bytes.len() > chunk + CHUNK {
                chunk = bad;
            }
            break;
        }
        chunk = end;
    }
    Input {
        text: Cow::Borrowed(text.get(..chunk.saturating_sub(start)).unwrap_or(text)),
        failure,
        first_chunk,
    }
}

/// Where the chunk that starts there ends, in bytes: before a character that it would cut.
fn chunk_end(bytes: &[u8], start: usize) -> usize {
    let mut end = start + CHUNK;
    while end > start && bytes.get(end).is_some_and(|b| b & 0xC0 == 0x80) {
        end -= 1;
    }
    end
}

/// The length of a UTF-8 sequence by its first byte; 0 if none starts with it.
fn lead_width(lead: u8) -> usize {
    match lead {
        0x00..=0x7F => 1,
        0x80..=0xBF | 0xF8.. => 0,
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
    }
}

/// go-yaml's words for the sequence at the head of `bad`, which is not UTF-8.
fn utf8_problem(bad: &[u8]) -> &'static str {
    let Some(&lead) = bad.first() else { return INCOMPLETE };
    let width = lead_width(lead);
    if width == 0 {
        return "invalid leading UTF-8 octet";
    }
    if bad.len() < width {
        return INCOMPLETE;
    }
    let mut value = u32::from(lead) & (0x7F >> width);
    for &octet in &bad[1..width] {
        if octet & 0xC0 != 0x80 {
            return "invalid trailing UTF-8 octet";
        }
        value = value << 6 | u32::from(octet & 0x3F);
    }
    match (width, value) {
        (2, 0x80..) | (3, 0x800..) | (4, 0x10000..) => "invalid Unicode character",
        _ => "invalid length of a UTF-8 sequence",
    }
}

/// Whether YAML 1.1 (as go-yaml has it) allows `c` in a stream.
fn allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Whether YAML allows all characters of `text`.
pub(super) fn is_allowed(text: &str) -> bool {
    first_forbidden(text).is_none()
}

/// Byte offset of the first character that is not [`allowed`].
fn first_forbidden(text: &str) -> Option<usize> {
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
            let c = text.get(at..).and_then(|rest| rest.chars().next())?;
            if !allowed(c) {
                return Some(at);
            }
            at += c.len_utf8();
        }
    }
    None
}

fn plain(b: u8) -> bool {
    matches!(b, b' '..=b'~' | b'\n' | b'\t' | b'\r')
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Input<'static> {
    let mut text = String::with_capacity(bytes.len() / 2);
    let mut failure = None;
    let mut at_end = false;
    let mut at = 2;
    // Length of `text` where the current chunk of the input starts.
    let mut chunk_text = 0;
    let mut chunk_end = CHUNK;
    let mut first_chunk = None;
    let unit_at = |at: usize| Some(unit([*bytes.get(at)?, *bytes.get(at + 1)?]));
    while at < bytes.len() {
        let Some(high) = unit_at(at) else {
            failure = Some("incomplete UTF-16 character");
            at_end = true;
            break;
        };
        let width = if high & 0xFC00 == 0xD800 { 4 } else { 2 };
        if at + width > chunk_end {
            chunk_text = text.len();
            first_chunk.get_or_insert(chunk_text);
            chunk_end = at + CHUNK;
        }
        let value = if high & 0xFC00 == 0xDC00 {
            Err("unexpected low surrogate area")
        } else if width == 4 {
            match unit_at(at + 2) {
                None => {
                    at_end = true;
                    Err("incomplete UTF-16 surrogate pair")
                }
                Some(low) if low & 0xFC00 != 0xDC00 => Err("expected low surrogate area"),
                Some(low) => Ok(0x10000 + (u32::from(high & 0x3FF) << 10) + u32::from(low & 0x3FF)),
            }
        } else {
            Ok(u32::from(high))
        };
        match value.map(char::from_u32) {
            Ok(Some(c)) if allowed(c) => text.push(c),
            Ok(_) => failure = Some("control characters are not allowed"),
            Err(problem) => failure = Some(problem),
        }
        if failure.is_some() {
            break;
        }
        at += width;
    }
    if failure.is_some() && !at_end {
        text.truncate(chunk_text);
    }
    Input {
        first_chunk: first_chunk.unwrap_or(text.len()),
        text: Cow::Owned(text),
        failure,
    }
}
