//! Plain scalars to values: go-yaml v2's reading of YAML 1.1, and yaml.v3's where it differs (for `toYamlPretty`).

use std::borrow::Cow;

use super::timestamp::is_timestamp;

/// A resolved scalar. `Timestamp` keeps its text, as go-yaml v2 does when it decodes into an interface.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`.
    Uint(u64),
    Float(f64),
    String(Cow<'a, str>),
    Timestamp(&'a str),
}

impl Scalar<'_> {
    /// The tag that go-yaml gives it, in short form.
    fn tag(&self) -> &'static str {
        match self {
            Scalar::Null => "!!null",
            Scalar::Bool(_) => "!!bool",
            Scalar::Int(_) | Scalar::Uint(_) => "!!int",
            Scalar::Float(_) => "!!float",
            Scalar::String(_) => "!!str",
            Scalar::Timestamp(_) => "!!timestamp",
        }
    }
}

/// The value of a plain scalar without a tag.
pub(super) fn resolve(text: &str) -> Scalar<'_> {
    guess(text, true).unwrap_or(Scalar::String(Cow::Borrowed(text)))
}

/// Whether a plain `text` is read back as a string.
pub(super) fn is_string(text: &str) -> bool {
    guess(text, true).is_none()
}

/// The value of a scalar with the tag `tag` (in its long form), except `!!binary`.
///
/// # Errors
/// A message if the text is no such value.
pub(super) fn resolve_tagged<'a>(tag: &str, text: &'a str) -> Result<Scalar<'a>, String> {
    let string = || Scalar::String(Cow::Borrowed(text));
    let short = match tag.strip_prefix("tag:yaml.org,2002:") {
        Some("str") => return Ok(string()),
        Some(name @ ("bool" | "int" | "float" | "null" | "timestamp")) => name,
        _ => return Ok(string()),
    };
    let found = guess(text, short == "timestamp").unwrap_or_else(string);
    match (short, &found) {
        ("float", Scalar::Int(i)) => Ok(Scalar::Float(*i as f64)),
        _ if found.tag().strip_prefix("!!") == Some(short) => Ok(found),
        _ => Err(format!("cannot decode {} `{text}` as a !!{short}", found.tag())),
    }
}

/// What `text` is if not a string.
fn guess(text: &str, timestamps: bool) -> Option<Scalar<'_>> {
    let Some(&first) = text.as_bytes().first() else {
        return Some(Scalar::Null);
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'.' => dotted(text),
        b'0'..=b'9' => {
            if timestamps && is_timestamp(text) {
                return Some(Scalar::Timestamp(text));
            }
            number(text)
        }
        b'+' | b'-' => signed_infinity(text).or_else(|| number(text)),
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

fn signed_infinity(text: &str) -> Option<Scalar<'_>> {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => Some(Scalar::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => Some(Scalar::Float(f64::NEG_INFINITY)),
        _ => None,
    }
}

/// Scalars that start with a dot go to `strconv.ParseFloat` as they are; it wants underscores between digits.
fn dotted(text: &str) -> Option<Scalar<'_>> {
    match text {
        ".nan" | ".NaN" | ".NAN" => return Some(Scalar::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" => return Some(Scalar::Float(f64::INFINITY)),
        _ => {}
    }
    if !text.contains('_') {
        return float(text).map(Scalar::Float);
    }
    let separates = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let between_digits = text.split('_').skip(1).all(separates)
        && text
            .rsplit('_')
            .skip(1)
            .all(|part| part.ends_with(|c: char| c.is_ascii_digit()));
    if between_digits {
        float(&text.replace('_', "")).map(Scalar::Float)
    } else {
        None
    }
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`, in the range of a float64.
fn float(text: &str) -> Option<f64> {
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = digits(unsigned);
    let mut rest = &unsigned[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if whole + count == 0 {
            return None;
        }
        rest = &fraction[count..];
    } else if whole == 0 {
        return None;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if exponent.is_empty() || digits(exponent) != exponent.len() {
            return None;
        }
    } else if !rest.is_empty() {
        return None;
    }
    text.parse().ok().filter(|f: &f64| f.is_finite())
}

/// `strconv.ParseInt(text, radix, 64)`, or `ParseUint` for what is above it.
fn integer(text: &str, radix: u32) -> Option<Scalar<'static>> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, radix) = if radix != 0 {
        (digits, radix)
    } else {
        match digits.as_bytes() {
            [b'0', b'x' | b'X', _, ..] => (&digits[2..], 16),
            [b'0', b'o' | b'O', _, ..] => (&digits[2..], 8),
            [b'0', b'b' | b'B', _, ..] => (&digits[2..], 2),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        }
    };
    if digits.is_empty() || !digits.bytes().all(|b| char::from(b).is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match (negative, i64::try_from(magnitude)) {
        (false, Ok(i)) => Some(Scalar::Int(i)),
        (true, Ok(i)) => Some(Scalar::Int(-i)),
        (true, Err(_)) => (magnitude == 1 << 63).then_some(Scalar::Int(i64::MIN)),
        // ParseUint knows no sign.
        (false, Err(_)) => (!text.starts_with('+')).then_some(Scalar::Uint(magnitude)),
    }
}

fn number(text: &str) -> Option<Scalar<'static>> {
    let without_underscores;
    let plain = if text.contains('_') {
        without_underscores = text.replace('_', "");
        &without_underscores
    } else {
        text
    };
    if let Some(found) = integer(plain, 0).or_else(|| float(plain).map(Scalar::Float)) {
        return Some(found);
    }
    // What is left of go-yaml's own reading of binary numbers: signs behind the prefix.
    if let Some(digits) = plain.strip_prefix("0b") {
        return integer(digits, 2);
    }
    None
}

/// Whether `text` is in base 60 notation (`12:30:45`), which go-yaml does not read but quotes for the sake of others.
pub(super) fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let Some(first) = parts.next() else { return false };
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !first.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return false;
    }
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return false;
    }
    while let Some(part) = parts.next() {
        let digits = match part.split_once('.') {
            Some((digits, fraction)) => {
                if parts.peek().is_some() || !fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
                    return false;
                }
                digits
            }
            None => part,
        };
        match digits.as_bytes() {
            [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'] => {}
            _ => return false,
        }
    }
    true
}

/// What yaml.v3 no longer reads as a bool but still quotes.
fn is_old_bool(text: &str) -> bool {
    matches!(
        text,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF"
    )
}

/// Whether yaml.v3 writes `text` without quotes, as far as its meaning goes.
pub(super) fn is_string_v3(text: &str) -> bool {
    // YAML 1.2's octals behind a sign; without a sign they are Go's own notation.
    let octal = text
        .strip_prefix("0o")
        .or_else(|| text.strip_prefix("-0o"))
        .is_some_and(|d| {
            let digits = d.replace('_', "");
            integer(&digits, 8).is_some()
        });
    !octal && !is_old_bool(text) && is_string(text)
}
