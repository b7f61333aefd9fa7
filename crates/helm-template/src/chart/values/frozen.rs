//! Default values in a form that threads can share and that converts to template values without copying a string. A
//! JSON object needs a B-tree node of 600 bytes; here each entry needs 40 bytes.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use go_template::value::{Map, MapKind, Str, Value};

/// The values of a `values.yaml`; a clone shares them. Every render starts from a copy that its templates may change.
#[derive(Debug, Clone, Default)]
pub struct Frozen(Arc<[(Str, FrozenValue)]>);

#[derive(Debug, Clone)]
enum FrozenValue {
    Nil,
    Bool(bool),
    Float64(f64),
    String(Str),
    List(Box<[FrozenValue]>),
    Map(Box<[(Str, FrozenValue)]>),
}

impl Frozen {
    /// Values as [`values::read`](crate::chart::values::read) reads them.
    pub fn new(values: JsonMap<String, Json>) -> Self {
        Frozen(frozen(values, &mut HashSet::new()).into())
    }

    /// The values as JSON.
    pub fn to_json(&self) -> JsonMap<String, Json> {
        to_json(&self.0)
    }

    /// A copy that shares no map with another.
    pub fn thaw(&self) -> Map {
        map(&self.0)
    }
}

fn frozen(values: JsonMap<String, Json>, texts: &mut HashSet<Str>) -> Box<[(Str, FrozenValue)]> {
    let entries = values.into_iter();
    entries
        .map(|(key, value)| (shared(&key, texts), FrozenValue::new(value, texts)))
        .collect()
}

/// Returns one shared string for all occurrences of the text.
fn shared(text: &str, texts: &mut HashSet<Str>) -> Str {
    if let Some(known) = texts.get(text.as_bytes()) {
        return known.clone();
    }
    let new = Str::from(text);
    texts.insert(new.clone());
    new
}

fn to_json(entries: &[(Str, FrozenValue)]) -> JsonMap<String, Json> {
    let entries = entries.iter();
    entries
        .map(|(key, node)| (key.to_text().into_owned(), node.to_json()))
        .collect()
}

fn map(entries: &[(Str, FrozenValue)]) -> Map {
    let entries = entries.iter().map(|(key, node)| (key.clone(), node.thaw()));
    Map::new(MapKind::Any, entries.collect())
}

impl FrozenValue {
    fn new(value: Json, texts: &mut HashSet<Str>) -> Self {
        match value {
            Json::Null => FrozenValue::Nil,
            Json::Bool(b) => FrozenValue::Bool(b),
            Json::Number(n) => FrozenValue::Float64(n.as_f64().unwrap_or_default()),
            Json::String(text) => FrozenValue::String(shared(&text, texts)),
            Json::Array(items) => {
                FrozenValue::List(items.into_iter().map(|item| FrozenValue::new(item, texts)).collect())
            }
            Json::Object(map) => FrozenValue::Map(frozen(map, texts)),
        }
    }

    fn to_json(&self) -> Json {
        match self {
            FrozenValue::Nil => Json::Null,
            FrozenValue::Bool(b) => Json::Bool(*b),
            FrozenValue::Float64(n) => Json::from(*n),
            FrozenValue::String(text) => Json::String(text.to_text().into_owned()),
            FrozenValue::List(items) => Json::Array(items.iter().map(FrozenValue::to_json).collect()),
            FrozenValue::Map(entries) => Json::Object(to_json(entries)),
        }
    }

    fn thaw(&self) -> Value {
        match self {
            FrozenValue::Nil => Value::Nil,
            FrozenValue::Bool(b) => Value::Bool(*b),
            FrozenValue::Float64(n) => Value::Float64(*n),
            FrozenValue::String(text) => Value::String(text.clone()),
            FrozenValue::List(items) => Value::list(items.iter().map(FrozenValue::thaw).collect()),
            FrozenValue::Map(entries) => Value::Map(map(entries)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::chart::values::frozen::*;
    use go_template::compare::deep_equal;
    use go_template::meter::Meter;
    use serde_json::json;

    #[test]
    fn thawed_values_are_those_of_the_json() {
        let json = json!({"a": {"b": [1.0, 1.5, "x", null, true, {"a": "x"}]}, "l": [], "m": {}, "n": null});
        let frozen = Frozen::new(json.as_object().unwrap().clone());
        let want = Value::from_json(&json);
        assert!(deep_equal(&Meter::default(), &Value::Map(frozen.thaw()), &want));
        assert_eq!(Json::Object(frozen.to_json()), json);
        let (one, other) = (frozen.thaw(), frozen.thaw());
        let Some(Value::Map(inner)) = one.get(b"a") else {
            panic!()
        };
        inner.insert("c".into(), Value::Nil).unwrap();
        assert!(deep_equal(&Meter::default(), &Value::Map(other), &want));
    }
}
