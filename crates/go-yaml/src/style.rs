//! Which of YAML's scalar styles can hold a string: libyaml's analysis as go-yaml has it.

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// What is possible for one string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Analysis {
    /// Holds line breaks, also U+2028 and U+2029.
    pub multiline: bool,
    pub plain: bool,
    pub single_quoted: bool,
    pub literal: bool,
}

/// Length in bytes of the line break at the head of `s`, 0 if there is none. U+0085, U+2028 and U+2029 are breaks.
pub(super) fn break_length(s: &[u8]) -> usize {
    match s {
        [b'\r' | b'\n', ..] => 1,
        [0xC2, 0x85, ..] => 2,
        [0xE2, 0x80, 0xA8 | 0xA9, ..] => 3,
        _ => 0,
    }
}

/// Whether go-yaml writes the character at the head of `s` as it is. Nothing outside the BMP is printable to it.
pub(super) fn is_printable(s: &[u8]) -> bool {
    match s {
        [b'\n' | b' '..=b'~', ..] => true,
        [0xC2, next, ..] => *next >= 0xA0,
        [0xED, next, ..] => *next < 0xA0,
        [0xEF, 0xBB, 0xBF, ..] | [0xEF, 0xBF, 0xBE | 0xBF, ..] => false,
        [0xC3..=0xEF, ..] => true,
        _ => false,
    }
}

pub(super) fn width(lead: u8) -> usize {
    match lead {
        0..=0x7F => 1,
        0x80..=0xDF => 2,
        0xE0..=0xEF => 3,
        _ => 4,
    }
}

fn is_blank(s: &[u8]) -> bool {
    matches!(s.first(), Some(b' ' | b'\t'))
}

/// Whether `c` may stand anywhere in a plain scalar, whatever is around it.
fn is_harmless(c: u8) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(
            c,
            b'_' | b'.' | b'/' | b'=' | b'+' | b'$' | b'(' | b')' | b';' | b'~' | b'^'
        )
}

/// Analyses `value`. `literal_tabs` is yaml.v3's leniency: a tab is no reason against the literal style.
pub(super) fn analyze(value: &str, literal_tabs: bool) -> Analysis {
    let bytes = value.as_bytes();
    if bytes.is_empty() {
        return Analysis {
            multiline: false,
            plain: true,
            single_quoted: true,
            literal: false,
        };
    }
    let harmless = bytes.iter().all(|&c| is_harmless(c) || c == b'-');
    if harmless && bytes[0] != b'-' && !value.starts_with("...") {
        return Analysis {
            multiline: false,
            plain: true,
            single_quoted: true,
            literal: true,
        };
    }
    let mut indicators = value.starts_with("---") || value.starts_with("...");
    let (mut line_breaks, mut special, mut tabs) = (false, false, false);
    let (mut break_space, mut space_break) = (false, false);
    let (mut previous_space, mut previous_break) = (false, false);
    let mut preceded_by_whitespace = true;
    let mut at = 0;
    while at < bytes.len() {
        let c = bytes[at];
        if is_harmless(c) {
            preceded_by_whitespace = false;
            previous_space = false;
            previous_break = false;
            at += 1;
            continue;
        }
        let rest = &bytes[at..];
        let width = width(c);
        let after = rest.get(width..).unwrap_or_default();
        let followed_by_whitespace = after.is_empty() || is_blank(after);
        indicators |= match c {
            b'#' => preceded_by_whitespace || at == 0,
            b':' => followed_by_whitespace,
            b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' => {
                at == 0
            }
            b'?' | b'-' => at == 0 && followed_by_whitespace,
            _ => false,
        };
        let breaks = break_length(rest) > 0;
        if c == b'\t' && literal_tabs {
            tabs = true;
        } else if !is_printable(rest) {
            special = true;
        }
        if c == b' ' {
            break_space |= previous_break;
        } else if breaks {
            line_breaks = true;
            space_break |= previous_space;
        }
        previous_space = c == b' ';
        previous_break = breaks;
        preceded_by_whitespace = breaks || is_blank(rest) || c == 0;
        at += width;
    }
    let leading = bytes[0] == b' ' || break_length(bytes) > 0;
    let trailing_space = previous_space;
    let trailing = trailing_space || previous_break;
    let unquotable = space_break || special;
    Analysis {
        multiline: line_breaks,
        plain: !(leading || trailing || break_space || unquotable || tabs || line_breaks || indicators),
        single_quoted: !(break_space || unquotable || tabs),
        literal: !(trailing_space || unquotable),
    }
}
