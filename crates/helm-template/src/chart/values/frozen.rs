//! Default values in a form that threads can share, and that becomes template values without copying a string. An object of
//! JSON takes a B-tree node of 600 bytes where it takes 40 for each entry here.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use go_template::value::{Map, MapKind, Str, Value};

/// The values of a `values.yaml`; a clone shares them. Every render starts from a copy that its templates may change.
#[derive(Debug, Clone, Default)]
pub struct Frozen(Arc<[(Str, Node)]>);

#[derive(Debug, Clone)]
enum Node {
    Nil,
    Bool(bool),
    Float64(f64),
    String(Str),
    List(Box<[Node]>),
    Map(Box<[(Str, Node)]>),
}

// === impl Frozen ===

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

fn frozen(values: JsonMap<String, Json>, texts: &mut HashSet<Str>) -> Box<[(Str, Node)]> {
    let entries = values.into_iter();
    entries
        .map(|(key, value)| (shared(&key, texts), Node::new(value, texts)))
        .collect()
}

/// The text as one string, however often it occurs.
fn shared(text: &str, texts: &mut HashSet<Str>) -> Str {
    if let Some(known) = texts.get(text.as_bytes()) {
        return known.clone();
    }
    let new = Str::from(text);
    texts.insert(new.clone());
    new
}

fn to_json(entries: &[(Str, Node)]) -> JsonMap<String, Json> {
    let entries = entries.iter();
    entries
        .map(|(key, node)| (key.to_text().into_owned(), node.to_json()))
        .collect()
}

fn map(entries: &[(Str, Node)]) -> Map {
    let entries = entries.iter().map(|(key, node)| (key.clone(), node.thaw()));
    Map::new(MapKind::Any, entries.collect())
}

// === impl Node ===

impl Node {
    fn new(value: Json, texts: &mut HashSet<Str>) -> Self {
        match value {
            Json::Null => Node::Nil,
            Json::Bool(b) => Node::Bool(b),
            Json::Number(n) => Node::Float64(n.as_f64().unwrap_or_default()),
            Json::String(text) => Node::String(shared(&text, texts)),
            Json::Array(items) => Node::List(items.into_iter().map(|item| Node::new(item, texts)).collect()),
            Json::Object(map) => Node::Map(frozen(map, texts)),
        }
    }

    fn to_json(&self) -> Json {
        match self {
            Node::Nil => Json::Null,
            Node::Bool(b) => Json::Bool(*b),
            Node::Float64(n) => Json::from(*n),
            Node::String(text) => Json::String(text.to_text().into_owned()),
            Node::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Node::Map(entries) => Json::Object(to_json(entries)),
        }
    }

    fn thaw(&self) -> Value {
        match self {
            Node::Nil => Value::Nil,
            Node::Bool(b) => Value::Bool(*b),
            Node::Float64(n) => Value::Float64(*n),
            Node::String(text) => Value::String(text.clone()),
            Node::List(items) => Value::list(items.iter().map(Node::thaw).collect()),
            Node::Map(entries) => Value::Map(map(entries)),
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
