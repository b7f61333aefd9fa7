//! Plain scalars to values: go-yaml v2's reading of YAML 1.1.

use std::borrow::Cow;

use crate::read::timestamp::is_timestamp;

/// A resolved scalar. Timestamps are strings, as where go-yaml v2 decodes into an interface.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`.
    Uint(u64),
    Float(f64),
    String(Cow<'a, str>),
}

/// The value of a plain scalar without a tag.
pub(crate) fn resolve(text: &str) -> Scalar<'_> {
    guess(text).unwrap_or(Scalar::String(Cow::Borrowed(text)))
}

/// Whether a plain `text` is read back as a string, by older readers too.
pub(crate) fn is_string(text: &str) -> bool {
    guess(text).is_none() && !is_timestamp(text) && !is_base60(text)
}

/// The value of a scalar with a tag.
///
/// # Errors
/// A message if the text is no such value.
pub(crate) fn resolve_tagged<'a>(tag: &str, text: &'a str) -> Result<Scalar<'a>, String> {
    match (tag, resolve(text)) {
        ("!!float", Scalar::Int(i)) => Ok(Scalar::Float(i as f64)),
        ("!!bool", found @ Scalar::Bool(_)) => Ok(found),
        ("!!int", found @ (Scalar::Int(_) | Scalar::Uint(_))) => Ok(found),
        ("!!float", found @ Scalar::Float(_)) => Ok(found),
        ("!!null", found @ Scalar::Null) => Ok(found),
        ("!!bool" | "!!int" | "!!float" | "!!null", _) => Err(format!("cannot decode `{text}` as a {tag}")),
        ("!!binary", _) => Err("!!binary is not supported".to_owned()),
        _ => Ok(Scalar::String(Cow::Borrowed(text))),
    }
}

/// The value of `text` if it is not a string.
fn guess(text: &str) -> Option<Scalar<'_>> {
    let Some(&first) = text.as_bytes().first() else {
        return Some(Scalar::Null);
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'0'..=b'9' => number(text),
        b'.' | b'+' | b'-' => infinite(text).or_else(|| number(text)),
        _ => None,
    }
}

fn word(text: &str) -> Option<Scalar<'_>> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => return None,
    })
}

fn infinite(text: &str) -> Option<Scalar<'_>> {
    Some(Scalar::Float(match text {
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        _ => return None,
    }))
}

fn number(text: &str) -> Option<Scalar<'static>> {
    let without_underscores;
    let plain = if text.contains('_') {
        without_underscores = text.replace('_', "");
        &without_underscores
    } else {
        text
    };
    integer(plain).or_else(|| float(plain).map(Scalar::Float))
}

/// A decimal float in the range of a float64.
fn float(text: &str) -> Option<f64> {
    let is_plain = |b: u8| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    let float: f64 = text.bytes().all(is_plain).then(|| text.parse().ok())??;
    float.is_finite().then_some(float)
}

/// `strconv.ParseInt(text, 0, 64)`, or `ParseUint` for what is above it.
fn integer(text: &str) -> Option<Scalar<'static>> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (digits, radix) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (&unsigned[2..], 16),
        [b'0', b'o' | b'O', _, ..] => (&unsigned[2..], 8),
        [b'0', b'b' | b'B', _, ..] => (&unsigned[2..], 2),
        [b'0', _, ..] => (&unsigned[1..], 8),
        _ => (unsigned, 10),
    };
    if digits.starts_with('+') {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match (text.starts_with('-'), i64::try_from(magnitude)) {
        (false, Ok(i)) => Some(Scalar::Int(i)),
        (true, Ok(i)) => Some(Scalar::Int(-i)),
        (true, Err(_)) => (magnitude == 1 << 63).then_some(Scalar::Int(i64::MIN)),
        // ParseUint knows no sign.
        (false, Err(_)) => (!text.starts_with('+')).then_some(Scalar::Uint(magnitude)),
    }
}

/// Whether `text` is in base 60 notation (`12:30:45`), which go-yaml does not read as a number but quotes for other
/// readers.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((whole, rest)) = unsigned.split_once(':') else {
        return false;
    };
    let (parts, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    whole.starts_with(|c: char| c.is_ascii_digit())
        && is_number(whole)
        && is_number(fraction)
        && parts
            .split(':')
            .all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
}
