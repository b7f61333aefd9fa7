//! JSON on the command line, as Go's `encoding/json` decodes it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

/// The value that a text begins with, and how many bytes it takes. Anything may follow it.
///
/// # Errors
/// The text begins with no value.
pub(super) fn first(text: &str) -> Result<(Value, usize), serde_json::Error> {
    let text = replace_lone_surrogates(text);
    let mut rest = serde_json::Deserializer::from_str(&text);
    let value = Value::deserialize(&mut rest)?;
    Ok((value, rest.into_iter::<Value>().byte_offset()))
}

/// The value of a text.
///
/// # Errors
/// The text isn't one value.
pub(super) fn whole(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&replace_lone_surrogates(text))
}

/// Writes U+FFFD for each escaped surrogate that has no partner, as Go reads them.
fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let start = at + found;
        at = match (escaped(text, start), escaped(text, start + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => start + 12,
            (Some(0xD800..=0xDFFF), _) => {
                out.to_mut().replace_range(start..start + 6, "\\ufffd");
                start + 6
            }
            _ => start + 2,
        };
    }
    out
}

/// The UTF-16 unit of the escape `\uXXXX` at a place.
fn escaped(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}
