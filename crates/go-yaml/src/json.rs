//! YAML to JSON, as sigs.k8s.io/yaml converts it, and the words of Go's `encoding/json`.

use std::fmt::Write;

use serde_json::{Map, Number, Value};

use super::Error;
use super::number::{format_g, whole};
use crate::read::decode::{DecodeTarget, Position};
use crate::read::resolve::Scalar;

/// The error of `encoding/json` for a float that JSON cannot represent.
pub fn unsupported_value(f: f64) -> Error {
    let text = match f {
        f64::INFINITY => "+Inf",
        f64::NEG_INFINITY => "-Inf",
        _ => "NaN",
    };
    Error::new("json: ", None, format!("unsupported value: {text}"))
}

impl DecodeTarget for Value {
    type Mapping = Map<String, Value>;

    fn scalar(scalar: Scalar<'_>, _: Position) -> Result<Self, Error> {
        Ok(match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(i) => Value::Number(i.into()),
            Scalar::Uint(u) => Value::Number(u.into()),
            Scalar::Float(f) => match whole(f).or_else(|| Number::from_f64(f)) {
                Some(number) => Value::Number(number),
                None => return Err(unsupported_value(f)),
            },
            Scalar::String(s) => Value::String(s.into_owned()),
        })
    }

    fn list(items: Vec<Self>, _: Position) -> Self {
        Value::Array(items)
    }

    fn map(map: Self::Mapping, _: Position) -> Self {
        Value::Object(map)
    }

    fn insert(map: &mut Self::Mapping, key: Scalar<'_>, at: Position, value: Self) -> Result<(), Error> {
        let key = match key {
            Scalar::Null => return Err(Error::new("", Some(at.line as usize + 1), "unsupported map key: null")),
            Scalar::Bool(b) => b.to_string(),
            Scalar::Int(i) => i.to_string(),
            Scalar::Uint(u) => u.to_string(),
            // 32 bits, although the key has 64.
            Scalar::Float(f) => format_g(f as f32),
            Scalar::String(s) => s.into_owned(),
        };
        map.insert(key, value);
        Ok(())
    }
}

/// A value in Go's syntax (`%#v`): what an unquoted `{{ .Values.x }}` is to YAML, a map that is the key of a map, is shown
/// so.
pub(super) fn write_go(value: &Value, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match value {
        Value::Null => write!(out, "interface {{}}(nil)"),
        Value::Bool(b) => write!(out, "{b}"),
        Value::Number(n) => write!(out, "{n}"),
        Value::String(s) => write!(out, "{s:?}"),
        Value::Array(items) => {
            out.push_str("[]interface {}{");
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_go(item, out);
            }
            write!(out, "}}")
        }
        Value::Object(map) => {
            out.push_str("map[interface {}]interface {}{");
            for (i, (key, value)) in map.iter().enumerate() {
                let _ = write!(out, "{}{key:?}:", if i > 0 { ", " } else { "" });
                write_go(value, out);
            }
            write!(out, "}}")
        }
    };
}
