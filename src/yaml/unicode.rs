//! Go's classes of characters outside ASCII (its package `unicode`); Rust's own methods have others in mind.

use std::sync::OnceLock;

use regex::Regex;

fn is_in(class: &'static str, cell: &'static OnceLock<Option<Regex>>, c: char) -> bool {
    let regex = cell.get_or_init(|| Regex::new(class).ok());
    let mut buffer = [0; 4];
    regex
        .as_ref()
        .is_some_and(|regex| regex.is_match(c.encode_utf8(&mut buffer)))
}

/// `unicode.IsLetter`.
pub(super) fn is_letter(c: char) -> bool {
    static CELL: OnceLock<Option<Regex>> = OnceLock::new();
    c.is_ascii_alphabetic() || !c.is_ascii() && c.is_alphabetic() && is_in(r"^\p{L}$", &CELL, c)
}

/// `unicode.IsDigit`.
pub(super) fn is_digit(c: char) -> bool {
    static CELL: OnceLock<Option<Regex>> = OnceLock::new();
    c.is_ascii_digit() || !c.is_ascii() && c.is_numeric() && is_in(r"^\p{Nd}$", &CELL, c)
}

/// `strconv.IsPrint`, for characters outside ASCII.
pub(super) fn is_printable(c: char) -> bool {
    static CELL: OnceLock<Option<Regex>> = OnceLock::new();
    c.is_alphanumeric() || is_in(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$", &CELL, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_go() {
        for (c, letter, digit, printable) in [
            ('a', true, false, true),
            ('7', false, true, true),
            ('é', true, false, true),
            ('日', true, false, true),
            // A vowel sign is alphabetic to Rust.
            ('\u{A951}', false, false, true),
            ('Ⅷ', false, false, true),
            ('٣', false, true, true),
            ('𝟗', false, true, true),
            ('²', false, false, true),
            ('\u{A0}', false, false, false),
            ('\u{AD}', false, false, false),
            ('\u{10FFFF}', false, false, false),
            ('😀', false, false, true),
        ] {
            assert_eq!(
                (is_letter(c), is_digit(c), is_printable(c)),
                (letter, digit, printable),
                "{c:?}"
            );
        }
    }
}
