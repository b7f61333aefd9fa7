//! Rendered bytes as text: Helm passes on what isn't UTF-8, be it UTF-16, which its YAML reader takes too, or a mistake
//! that is to be reported.
//!
//! A byte that is part of no character becomes one of the last 128 characters that there are, and so do the bytes of
//! these, which nobody uses, so that each text stands for one sequence of bytes.

use std::borrow::Cow;

/// The character that stands for byte 0.
const FIRST: u32 = 0x10_FF00;
/// How the characters that stand for bytes begin.
const LEAD: &[u8] = b"\xf4\x8f";

/// The text that stands for bytes: themselves, if they are UTF-8.
pub(super) fn to_text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) if !is_marked(&text) => text,
        Ok(text) => marked(text.as_bytes()),
        Err(e) => marked(e.as_bytes()),
    }
}

/// The bytes for which a text stands.
pub fn of_text(text: &str) -> Cow<'_, [u8]> {
    if !is_marked(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

fn byte(c: char) -> Option<u8> {
    let byte = u32::from(c).checked_sub(FIRST).and_then(|byte| u8::try_from(byte).ok());
    byte.filter(|byte| !byte.is_ascii())
}

/// Whether there may be a character that stands for a byte.
fn is_marked(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), LEAD).is_some()
}

fn marked(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 4);
    let mark = |byte: u8| char::from_u32(FIRST + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match byte(c) {
                Some(_) => text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(mark)),
                None => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(mark));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_of_bytes_has_a_text_of_its_own() {
        let cases: [(&[u8], bool); 9] = [
            (b"", true),
            (b"a: b\n", true),
            ("a: é\u{10ffff}".as_bytes(), false),
            ("\u{10ff7f}\u{10ff80}".as_bytes(), false),
            ("\u{10fabc}".as_bytes(), true),
            (b"\xff\xfea\0:\0", false),
            (b"a\xe2\x80", false),
            (b"\xf4\x8f", false),
            (b"\xed\xa0\x80\xc0\x80", false),
        ];
        for (bytes, is_itself) in cases {
            let text = to_text(bytes.to_vec());
            assert_eq!(of_text(&text), bytes, "{bytes:?}");
            assert_eq!(text.as_bytes() == bytes, is_itself, "{bytes:?}");
        }
    }
}
