//! Distinguishes words from secrets: a value that could be an ordinary word is redacted only where it stands alone.

/// A longer run of letters is no word that anybody wrote.
const LONGEST_WORD: usize = 15;
/// Nor is a longer run of digits a port, a year or a version.
const LONGEST_NUMBER: usize = 5;

/// What may stand beside a secret value in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// Any byte: this text occurs only as that value.
    Any,
    /// Nothing that makes it part of another word: `elastic` is no secret in `elasticsearch`.
    Word,
    /// No other digit.
    Number,
}
impl Edge {
    /// What may stand beside this value.
    pub(super) fn of(value: &str) -> Self {
        if value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Edge::Number;
        }
        let is_word = |part: &str| {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_uppercase());
            let is_cased =
                rest.is_empty() || part.len() - rest.len() <= 1 && rest.bytes().all(|byte| byte.is_ascii_lowercase());
            part.len() <= LONGEST_WORD && is_cased
        };
        let is_number = |part: &str| part.len() <= LONGEST_NUMBER && part.bytes().all(|byte| byte.is_ascii_digit());
        let mut parts = value
            .split(|c: char| !c.is_alphanumeric())
            .filter(|part| !part.is_empty());
        let has_letters = value.contains(|c: char| c.is_ascii_alphabetic());
        if has_letters && parts.all(|part| is_number(part) || is_word(part)) {
            Edge::Word
        } else {
            Edge::Any
        }
    }

    /// True if a value may stand there. Half a word is none, unless the text was cut there.
    pub(super) fn fits(self, text: &str, from: usize, to: usize, is_whole: bool) -> bool {
        if self == Edge::Any {
            return true;
        }
        let (Some(before), Some(after)) = (text.get(..from), text.get(to..)) else {
            return false;
        };
        let goes_on = |c: char| match self {
            Edge::Number => c.is_ascii_digit(),
            _ => c.is_alphanumeric() || c == '_',
        };
        let ends = if is_whole {
            !after.starts_with(goes_on)
        } else {
            after.is_empty() || after.starts_with("...") || after.starts_with('…')
        };
        ends && (!before.ends_with(goes_on) || ends_in_escape(before))
    }
}

/// True if a text ends in an escape, such as `\n` in a message that quotes another.
fn ends_in_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match bytes {
        [.., b'\\', b'n' | b't' | b'r'] => true,
        [.., b'%', one, two] if is_hex(&[*one, *two]) => true,
        _ => matches!(bytes.last_chunk::<6>(), Some([b'\\', b'u', digits @ ..]) if is_hex(digits)),
    }
}
