//! Bytes to text: byte order marks, UTF-8, and the characters that YAML does not allow.
//!
//! go-yaml reads its input in pieces, and reports a bad byte only after a syntax error before it. Here all bytes are
//! checked first.

use crate::Error;

/// The number of bytes that are checked together.
const BLOCK: usize = 64;

/// The text of an input.
///
/// # Errors
/// Bytes that are no UTF-8, a character that YAML does not allow.
pub(crate) fn read(bytes: &[u8]) -> Result<&str, Error> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) if is_allowed(text) => Ok(text),
        Ok(_) => Err(Error::yaml(None, "control characters are not allowed")),
        Err(e) => Err(Error::yaml(None, utf8_problem(&bytes[e.valid_up_to()..]))),
    }
}

/// go-yaml's message for the sequence at the start of `bad`, which is not UTF-8.
fn utf8_problem(bad: &[u8]) -> &'static str {
    let width = match bad.first() {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF7) => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    if bad.len() < width {
        "incomplete UTF-8 octet sequence"
    } else {
        "invalid trailing UTF-8 octet"
    }
}

/// Whether YAML 1.1 (as go-yaml has it) allows `c` in a stream.
fn allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Whether all characters of `text` are [`allowed`].
fn is_allowed(text: &str) -> bool {
    // Without an early exit within a block, the compiler vectorizes the loop.
    let is_plain = |block: &[u8]| block.iter().fold(true, |all, b| all & plain(*b));
    match text.as_bytes().chunks(BLOCK).position(|block| !is_plain(block)) {
        None => true,
        Some(block) => {
            let at = text.floor_char_boundary(block * BLOCK);
            text.get(at..).unwrap_or_default().chars().all(allowed)
        }
    }
}

fn plain(b: u8) -> bool {
    matches!(b, b' '..=b'~' | b'\n' | b'\t' | b'\r')
}
