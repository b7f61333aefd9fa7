//! Which of YAML's scalar styles can hold a string: libyaml's analysis as go-yaml has it. The line breaks of Unicode
//! (U+0085, U+2028, U+2029) are not printable here.

/// The style of a written scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarStyle {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// Whether `c` is written as it is. Nothing outside the BMP is printable to go-yaml.
pub(crate) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{A0}'..='\u{FFFD}') && !matches!(c, '\u{FEFF}' | '\u{2028}' | '\u{2029}')
}

/// Whether `c` may be at any position in a plain scalar.
fn is_harmless(c: u8) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(
            c,
            b'_' | b'.' | b'/' | b'=' | b'+' | b'$' | b'(' | b')' | b';' | b'~' | b'^'
        )
}

/// Whether the characters of `s` would be read as something else than text.
fn has_indicators(s: &str) -> bool {
    let bytes = s.as_bytes();
    let is_blank_at = |at: usize| matches!(bytes.get(at), Some(b' ' | b'\t'));
    let ends_at = |at: usize| at == bytes.len() || is_blank_at(at);
    let begins = match bytes[0] {
        b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@'
        | b'`' => true,
        b'?' | b'-' => ends_at(1),
        _ => false,
    };
    let inside = |(at, &c): (usize, &u8)| match c {
        b'#' => at > 0 && is_blank_at(at - 1),
        b':' => ends_at(at + 1),
        _ => false,
    };
    begins || s.starts_with("---") || s.starts_with("...") || bytes.iter().enumerate().any(inside)
}

/// The style that is nearest to the plain one for a string that reads as a string. `literal_tabs` is yaml.v3's
/// leniency: a tab is no reason against the literal style.
pub(crate) fn style(s: &str, literal_tabs: bool) -> ScalarStyle {
    let bytes = s.as_bytes();
    if bytes.iter().all(|&c| is_harmless(c) || c == b'-') && !s.starts_with('-') && !s.starts_with("...") {
        return ScalarStyle::Plain;
    }
    if s.contains('\n') {
        let is_special = |c: char| !(is_printable(c) || literal_tabs && c == '\t');
        let is_literal = !s.ends_with(' ') && !s.contains(" \n") && !s.contains(is_special);
        return if is_literal {
            ScalarStyle::Literal
        } else {
            ScalarStyle::DoubleQuoted
        };
    }
    if !s.chars().all(is_printable) {
        return ScalarStyle::DoubleQuoted;
    }
    if s.starts_with(' ') || s.ends_with(' ') || has_indicators(s) {
        ScalarStyle::SingleQuoted
    } else {
        ScalarStyle::Plain
    }
}
