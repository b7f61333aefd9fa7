//! Between YAML and JSON, as sigs.k8s.io/yaml converts them with Go's `encoding/json`.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::{Map, Number, Value};

use super::decode::{Position, Target};
use super::number::{Whole, format_g32, format_g64, format_json, whole};
use super::resolve::Scalar;
use super::{Error, max_depth};

/// What `encoding/json` says about a float that JSON cannot have.
pub fn unsupported_value(f: f64) -> Error {
    Error::new("json: ", None, format!("unsupported value: {}", format_g64(f)))
}

/// A key as sigs.k8s.io/yaml spells it; `None` if it refuses it.
pub(super) fn key_text(key: Scalar<'_>) -> Option<Cow<'_, str>> {
    Some(match key {
        Scalar::Null | Scalar::Uint(_) => return None,
        Scalar::Bool(b) => Cow::Borrowed(if b { "true" } else { "false" }),
        Scalar::Int(i) => Cow::Owned(i.to_string()),
        // 32 bits, although the key has 64.
        Scalar::Float(f) => {
            let text = format_g32(f);
            match text.as_str() {
                "+Inf" => Cow::Borrowed(".inf"),
                "-Inf" => Cow::Borrowed("-.inf"),
                "NaN" => Cow::Borrowed(".nan"),
                _ => Cow::Owned(text),
            }
        }
        Scalar::String(s) => s,
        Scalar::Timestamp(s) => Cow::Borrowed(s),
    })
}

impl Target for Value {
    type Mapping = Map<String, Value>;

    fn scalar(scalar: Scalar<'_>, _: Position) -> Result<Self, Error> {
        Ok(match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(i) => Value::Number(i.into()),
            Scalar::Uint(u) => Value::Number(u.into()),
            Scalar::Float(f) => match whole(f) {
                Some(Whole::Signed(0)) if f.is_sign_negative() => {
                    Value::Number(Number::from_f64(f).unwrap_or(0.into()))
                }
                Some(Whole::Signed(i)) => Value::Number(i.into()),
                Some(Whole::Unsigned(u)) => Value::Number(u.into()),
                None => Value::Number(Number::from_f64(f).ok_or_else(|| unsupported_value(f))?),
            },
            Scalar::String(s) => Value::String(s.into_owned()),
            Scalar::Timestamp(s) => Value::String(s.to_owned()),
        })
    }

    fn list(items: Vec<Self>, _: Position) -> Self {
        Value::Array(items)
    }

    fn map(map: Self::Mapping, _: Position) -> Self {
        Value::Object(map)
    }

    fn insert(map: &mut Self::Mapping, key: Scalar<'_>, _: Position, value: Self) -> bool {
        let Some(key) = key_text(key) else { return false };
        map.insert(key.into_owned(), value);
        true
    }
}

/// The JSON text that Go's `encoding/json` writes for a value.
pub(super) fn to_text(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_value(&mut out, value, 0)?;
    Ok(out)
}

fn write_value(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > max_depth() {
        return Err(Error::depth(None));
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.is_f64() => out.push_str(&format_json(f)),
            _ => out.push_str(&n.to_string()),
        },
        Value::String(s) => write_string(out, s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item, depth + 1)?;
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, value, depth + 1)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn write_string(out: &mut String, s: &str) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0C' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1F' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Standard base64 with padding; line breaks in it are ignored. `None` if the text is something else.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    data_encoding::BASE64.decode(&digits).ok()
}
