//! Go's view of a string's characters: UTF-8, where each byte that isn't part of a valid sequence counts as one U+FFFD
//! (`utf8.DecodeRune`), and one-to-one case mappings (`unicode.ToUpper` and its kin), not Rust's full ones.

use std::borrow::Cow;

/// The characters with their start and width; an invalid byte is U+FFFD of width 1.
pub(crate) fn runes(bytes: &[u8]) -> impl Iterator<Item = (usize, char, usize)> + '_ {
    let chars = bytes.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|c| (c, c.len_utf8()));
        valid.chain(chunk.invalid().iter().map(|_| (char::REPLACEMENT_CHARACTER, 1)))
    });
    chars.scan(0, |at, (c, width)| {
        *at += width;
        Some((*at - width, c, width))
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

/// A letter in another case. The letter itself if the result has several letters, because Go maps one to one.
fn single(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(mapped), None) => mapped,
        _ => c,
    }
}

/// `unicode.ToUpper`.
pub(crate) fn to_upper(c: char) -> char {
    single(c, c.to_uppercase())
}

/// `unicode.ToLower`.
pub(crate) fn to_lower(c: char) -> char {
    single(c, c.to_lowercase())
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
}
