//! Go's view of a string's characters: UTF-8, where each byte that isn't part of a valid sequence counts as one U+FFFD
//! (`utf8.DecodeRune`), and one-to-one case mappings (`unicode.ToUpper` and its kin), not Rust's full ones.

use std::borrow::Cow;

use go_template::unicode::is_print;

/// The first character and its width in bytes; an invalid byte is U+FFFD of width 1. `None` at the end.
pub(crate) fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((char::from(first), 1));
    }
    let width = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return Some((char::REPLACEMENT_CHARACTER, 1)),
    };
    let valid = bytes
        .get(..width)
        .and_then(|head| std::str::from_utf8(head).ok())
        .and_then(|text| text.chars().next());
    Some(valid.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, width)))
}

/// The characters with their start and width.
pub(crate) fn runes(bytes: &[u8]) -> impl Iterator<Item = (usize, char, usize)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (c, width) = decode(bytes.get(at..)?)?;
        let start = at;
        at += width;
        Some((start, c, width))
    })
}

/// Appends a character as UTF-8.
pub(crate) fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// `strings.Map` without dropping: invalid bytes become U+FFFD.
pub(crate) fn map(bytes: &[u8], mut f: impl FnMut(char) -> char) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (_, c, _) in runes(bytes) {
        push(&mut out, f(c));
    }
    out
}

/// The text with U+FFFD for each byte that is no UTF-8.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(runes(bytes).map(|(_, c, _)| c).collect()),
    }
}

fn single(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    let first = mapped.next()?;
    mapped.next().is_none().then_some(first)
}

/// `unicode.ToUpper`.
pub(crate) fn to_upper(c: char) -> char {
    // Greek letters with iota subscript: the simple mapping is the title case letter, the full one two letters.
    let offset = match c as u32 {
        0x1F80..=0x1F87 | 0x1F90..=0x1F97 | 0x1FA0..=0x1FA7 => 8,
        0x1FB3 | 0x1FC3 | 0x1FF3 => 9,
        _ => return mapped(c, c.to_uppercase()),
    };
    char::from_u32(c as u32 + offset).unwrap_or(c)
}

/// What a letter is in another case; itself where Go's version of Unicode doesn't know one of both yet.
fn mapped(c: char, to: impl Iterator<Item = char>) -> char {
    single(to).filter(|to| is_print(c) && is_print(*to)).unwrap_or(c)
}

/// `unicode.ToLower`.
pub(crate) fn to_lower(c: char) -> char {
    if c == '\u{130}' {
        return 'i';
    }
    mapped(c, c.to_lowercase())
}

/// `unicode.ToTitle`.
pub(crate) fn to_title(c: char) -> char {
    match c as u32 {
        0x01C4..=0x01C6 => '\u{01C5}',
        0x01C7..=0x01C9 => '\u{01C8}',
        0x01CA..=0x01CC => '\u{01CB}',
        0x01F1..=0x01F3 => '\u{01F2}',
        // Georgian letters have upper case, but keep their form in titles.
        0x10D0..=0x10FA | 0x10FD..=0x10FF => c,
        _ => to_upper(c),
    }
}

/// `unicode.IsTitle`: the digraphs and the Greek letters with prosgegrammeni.
pub(crate) fn is_title(c: char) -> bool {
    matches!(c as u32, 0x01C5 | 0x01C8 | 0x01CB | 0x01F2 | 0x1F88..=0x1F8F | 0x1F98..=0x1F9F | 0x1FA8..=0x1FAF
        | 0x1FBC | 0x1FCC | 0x1FFC)
}

/// `unicode.IsUpper`: category Lu. Rust's `is_uppercase` adds Other_Uppercase (Roman numerals, circled letters).
pub(crate) fn is_upper(c: char) -> bool {
    c.is_uppercase() && is_print(c) && !matches!(c as u32, 0x2160..=0x216F | 0x24B6..=0x24CF | 0x1F130..=0x1F189)
}

/// `unicode.IsLower`: category Ll. Rust's `is_lowercase` adds Other_Lowercase (modifier letters, small numerals).
pub(crate) fn is_lower(c: char) -> bool {
    c.is_lowercase()
        && is_print(c)
        && !matches!(c as u32, 0xAA | 0xBA | 0x2B0..=0x2E4 | 0x345 | 0x37A | 0x1D2C..=0x1D6A | 0x1D78 | 0x1D9B..=0x1DBF
            | 0x2071 | 0x207F | 0x2090..=0x209C | 0x2170..=0x217F | 0x24D0..=0x24E9 | 0x2C7C..=0x2C7D | 0xA69C..=0xA69D
            | 0xA770 | 0xA7F2..=0xA7F4 | 0xA7F8..=0xA7F9 | 0xAB5C..=0xAB5F | 0x10FC | 0x10780..=0x107BA
            | 0x1E030..=0x1E06D)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_byte_is_one_replacement_character() {
        let found: Vec<_> = runes(b"a\xe2\x82z\xff").collect();
        let bad = char::REPLACEMENT_CHARACTER;
        assert_eq!(found, [(0, 'a', 1), (1, bad, 1), (2, bad, 1), (3, 'z', 1), (4, bad, 1)]);
    }

    #[test]
    fn case_mappings_are_one_to_one() {
        assert_eq!(
            (to_upper('ß'), to_upper('ǆ'), to_title('ǆ'), to_lower('İ')),
            ('ß', 'Ǆ', 'ǅ', 'i')
        );
        assert_eq!(
            (to_upper('\u{1F80}'), to_title('ა'), to_upper('ა')),
            ('\u{1F88}', 'ა', '\u{1C90}')
        );
    }
}
