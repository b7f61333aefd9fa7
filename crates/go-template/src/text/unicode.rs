//! Characters as Go classifies them, as far as the standard library does, and decoding of bytes that may not be UTF-8.

/// The first character and its width in bytes; `None` if there is none or the bytes are no UTF-8.
pub(crate) fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    let width = match first {
        0..0x80 => return Some((char::from(first), 1)),
        0xC2..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF5 => 4,
        _ => return None,
    };
    let c = std::str::from_utf8(bytes.get(..width)?).ok()?.chars().next()?;
    Some((c, width))
}

/// Like [`decode`], with U+FFFD of width 1 for a byte that is no UTF-8, as Go's `range` over a string does.
pub(crate) fn decode_lossy(bytes: &[u8]) -> Option<(char, usize)> {
    if bytes.is_empty() {
        None
    } else {
        Some(decode(bytes).unwrap_or((char::REPLACEMENT_CHARACTER, 1)))
    }
}

/// The number of characters, each byte that is no UTF-8 counted as one: Go's `utf8.RuneCount`.
pub(crate) fn rune_count(mut bytes: &[u8]) -> usize {
    if bytes.is_ascii() {
        return bytes.len();
    }
    let mut count = 0;
    while let Some((_, width)) = decode_lossy(bytes) {
        bytes = bytes.get(width..).unwrap_or_default();
        count += 1;
    }
    count
}

/// Go's `unicode.IsLetter` or `unicode.IsDigit`.
pub fn is_letter_or_digit(c: char) -> bool {
    c.is_alphanumeric()
}

/// Go's `unicode.IsPrint`, the same as `strconv.IsPrint`.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        matches!(c, ' '..='~')
    } else {
        // A character that is not printable is written as an escape of several characters. The letter before it
        // prevents a combining mark from being written as an escape.
        let text = || ['a', c].iter().collect::<String>();
        c.is_alphanumeric() || text().escape_debug().count() == 2
    }
}

/// Whether `bytes.TrimSpace` leaves nothing.
pub(crate) fn is_blank(mut bytes: &[u8]) -> bool {
    while let Some((c, width)) = decode_lossy(bytes) {
        if !c.is_whitespace() {
            return false;
        }
        bytes = bytes.get(width..).unwrap_or_default();
    }
    true
}
