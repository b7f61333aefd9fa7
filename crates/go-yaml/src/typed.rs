//! YAML that Helm reads into Go's types: sigs.k8s.io/yaml makes text of a scalar where the type has a string, and only then
//! writes the JSON that the type is read from. Facts: its `convertToJSONableObject`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;
use super::decode::{Position, Target};
use super::gosyntax::to_static;
use super::json::{key_text, unsupported_value};
use super::number::format_g32;
use super::resolve::Scalar;

/// As much of a Go type as the conversion looks at.
pub enum GoType {
    Any,
    Text,
    List(&'static GoType),
    /// A map with values of that type.
    Map(&'static GoType),
    Struct(&'static [(&'static str, GoType)]),
}

impl GoType {
    fn entry(&self, key: &str) -> &GoType {
        match self {
            GoType::Map(value) => value,
            GoType::Struct(fields) => {
                let field = fields.iter().find(|(name, _)| is_field(key, name));
                field.map_or(&GoType::Any, |(_, kind)| kind)
            }
            _ => &GoType::Any,
        }
    }

    fn item(&self) -> &GoType {
        match self {
            GoType::List(item) => item,
            _ => &GoType::Any,
        }
    }
}

/// The name of the field of a struct that a key sets, as `encoding/json` matches them: letters as Unicode folds their case.
/// Empty if there is none.
pub fn field(key: &str, fields: &[(&'static str, GoType)]) -> &'static str {
    let found = fields.iter().find(|(name, _)| is_field(key, name));
    found.map_or("", |(name, _)| *name)
}

/// `name` is ASCII.
fn is_field(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(|c| c.to_ascii_lowercase()))
}

/// What go-yaml decodes, with the keys that JSON has, in their order.
#[derive(Clone)]
pub(super) enum Raw {
    Scalar(Scalar<'static>),
    List(Vec<Raw>),
    Map(BTreeMap<String, Raw>),
}

impl Raw {
    /// The JSON that `kind` is read from.
    ///
    /// # Errors
    /// A float that JSON cannot have, where `kind` has no string.
    pub(super) fn into_json(self, kind: &GoType) -> Result<Value, Error> {
        Ok(match self {
            Raw::List(items) => {
                let items = items.into_iter().map(|item| item.into_json(kind.item()));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Raw::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| {
                    let value = value.into_json(kind.entry(&key))?;
                    Ok((key, value))
                });
                Value::Object(entries.collect::<Result<_, _>>()?)
            }
            Raw::Scalar(Scalar::Float(f)) if matches!(kind, GoType::Text) => Value::String(format_g32(f)),
            Raw::Scalar(scalar) => match Value::scalar(scalar, Position::START, &mut ())? {
                Value::Bool(b) if matches!(kind, GoType::Text) => Value::String(b.to_string()),
                Value::Number(n) if matches!(kind, GoType::Text) => Value::String(n.to_string()),
                value => value,
            },
        })
    }

    /// What JSON cannot have of it, the first in JSON's order of keys.
    pub(super) fn unsupported(&self) -> Option<Error> {
        match self {
            Raw::Scalar(Scalar::Float(f)) if !f.is_finite() => Some(unsupported_value(*f, None)),
            Raw::Scalar(_) => None,
            Raw::List(items) => items.iter().find_map(Raw::unsupported),
            Raw::Map(entries) => entries.values().find_map(Raw::unsupported),
        }
    }
}

impl Target for Raw {
    type Mapping = BTreeMap<String, Raw>;
    type Shared = ();

    fn scalar(scalar: Scalar<'_>, _: Position, (): &mut ()) -> Result<Self, Error> {
        Ok(Raw::Scalar(to_static(scalar)))
    }

    fn list(items: Vec<Self>, _: Position) -> Self {
        Raw::List(items)
    }

    fn map(map: Self::Mapping, _: Position) -> Self {
        Raw::Map(map)
    }

    fn insert(map: &mut Self::Mapping, key: Scalar<'_>, _: Position, value: Self, (): &mut ()) -> bool {
        let Some(key) = key_text(key) else { return false };
        map.insert(key.into_owned(), value);
        true
    }
}
