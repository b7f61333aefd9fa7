//! Default values in a form that threads can share, and that becomes template values without copying a string. An object of
//! JSON takes a B-tree node of 600 bytes where it takes 40 for each entry here, so they are read without JSON in between.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use super::values;
use go_template::entries;
use go_template::value::{Map, MapKind, Str, Value};
use go_yaml::{self as yaml, Position, Scalar, Target, key_text, unsupported_value};

/// The values of a `values.yaml`; a clone shares them. Every render starts from a copy that its templates may change.
#[derive(Debug, Clone, Default)]
pub struct Frozen(Arc<[(Str, Node)]>);

#[derive(Debug, Clone, Default)]
enum Node {
    #[default]
    Nil,
    Bool(bool),
    Float64(f64),
    String(Str),
    List(Box<[Node]>),
    Map(Box<[(Str, Node)]>),
}

// === impl Frozen ===

impl Frozen {
    /// What [`values::read`] makes of the text.
    ///
    /// # Errors
    /// Those of [`values::read`].
    pub fn read(text: &[u8]) -> Result<Self, String> {
        // As many as there are in most texts: one that grows has all its texts hashed again.
        let mut texts = HashSet::with_capacity(text.len() / 24);
        let tables = values::tables(text, &mut texts, |node| match node {
            Node::Nil => Ok(None),
            Node::Map(entries) => Ok(Some(entries)),
            Node::List(_) => Err("array"),
            Node::String(_) => Err("string"),
            Node::Bool(_) => Err("bool"),
            Node::Float64(_) => Err("number"),
        })?;
        Ok(Frozen(merged(tables).into()))
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

/// The tables merged as [`values::merge_maps`] merges each over those before it. All at once, because one by one a stream
/// of many small documents would move the entries of the large table again for each.
fn merged(mut tables: Vec<Box<[(Str, Node)]>>) -> Box<[(Str, Node)]> {
    if tables.len() < 2 {
        return tables.pop().unwrap_or_default();
    }
    let mut entries: Vec<_> = tables.into_iter().flatten().collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let of_one_key = entries.chunk_by_mut(|(a, _), (b, _)| a == b);
    of_one_key.filter_map(merged_entry).collect()
}

/// What is left of the entries of one key: the last, with the tables right before it if it is a table itself.
fn merged_entry(entries: &mut [(Str, Node)]) -> Option<(Str, Node)> {
    let mut tables = Vec::new();
    let mut last = Node::Nil;
    for (_, node) in entries.iter_mut() {
        match std::mem::take(node) {
            Node::Map(entries) => tables.push(entries),
            other => {
                tables.clear();
                last = other;
            }
        }
    }
    if !tables.is_empty() {
        last = Node::Map(merged(tables));
    }
    entries.first().map(|(key, _)| (key.clone(), last))
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

/// As JSON that Go decodes: every number is a float64, and of several entries of a key the last counts.
impl Target for Node {
    type Mapping = Vec<(Str, Node)>;
    type Shared = HashSet<Str>;

    fn mapping(entries: usize) -> Self::Mapping {
        Vec::with_capacity(entries)
    }

    fn scalar(scalar: Scalar<'_>, _: Position, texts: &mut HashSet<Str>) -> Result<Self, yaml::Error> {
        Ok(match scalar {
            Scalar::Null => Node::Nil,
            Scalar::Bool(b) => Node::Bool(b),
            Scalar::Int(i) => Node::Float64(i as f64),
            Scalar::Uint(u) => Node::Float64(u as f64),
            Scalar::Float(f) if f.is_finite() => Node::Float64(f),
            Scalar::Float(f) => return Err(unsupported_value(f, None)),
            Scalar::String(text) => Node::String(shared(&text, texts)),
            Scalar::Timestamp(text) => Node::String(shared(text, texts)),
        })
    }

    fn list(items: Vec<Self>, _: Position) -> Self {
        Node::List(items.into_boxed_slice())
    }

    fn map(mut entries: Self::Mapping, _: Position) -> Self {
        entries::sort(&mut entries, |(a, _), (b, _)| a.cmp(b));
        Node::Map(entries.into_boxed_slice())
    }

    fn insert(
        entries: &mut Self::Mapping,
        key: Scalar<'_>,
        _: Position,
        value: Self,
        texts: &mut HashSet<Str>,
    ) -> bool {
        let Some(key) = key_text(key) else { return false };
        entries.push((shared(&key, texts), value));
        true
    }
}

impl Node {
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
    use super::*;
    use fixtures::cases;
    use go_template::compare::deep_equal;
    use serde_json::json;

    #[test]
    fn thawed_values_are_those_of_the_json() {
        let json = json!({"a": {"b": [1.0, 1.5, "x", null, true, {"a": "x"}]}, "l": [], "m": {}, "n": null});
        let frozen = Frozen::read(json.to_string().as_bytes()).unwrap();
        let want = Value::from_json(&json);
        assert!(deep_equal(&Value::Map(frozen.thaw()), &want));
        assert_eq!(Json::Object(frozen.to_json()), json);
        let (one, other) = (frozen.thaw(), frozen.thaw());
        let Some(Value::Map(inner)) = one.get(b"a") else {
            panic!()
        };
        inner.insert("c".into(), Value::Nil).unwrap();
        assert!(deep_equal(&Value::Map(other), &want));
    }

    /// The values or the error, as texts: `-0.0` is not `0.0`.
    fn told<T: serde::Serialize>(read: Result<T, String>) -> String {
        read.map_or_else(|e| e, |values| serde_json::to_string(&values).unwrap())
    }

    fn assert_read_alike(text: &[u8]) {
        let frozen = Frozen::read(text);
        if let Ok(frozen) = &frozen {
            assert_sorted(&frozen.0);
        }
        let (frozen, json) = (frozen.map(|frozen| frozen.to_json()), values::read(text));
        assert_eq!(told(frozen), told(json), "{}", text.escape_ascii());
    }

    fn assert_sorted(entries: &[(Str, Node)]) {
        assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b), "{entries:?}");
        entries.iter().for_each(|(_, node)| assert_maps_sorted(node));
    }

    fn assert_maps_sorted(node: &Node) {
        match node {
            Node::Map(entries) => assert_sorted(entries),
            Node::List(items) => items.iter().for_each(assert_maps_sorted),
            _ => {}
        }
    }

    #[test]
    fn values_are_read_as_by_way_of_json() {
        let texts: &[&[u8]] = &[
            b"",
            b"\n",
            b"# nothing\n",
            b"~\n",
            b"---\n",
            b"{}",
            b"a: 1",
            b"a: |\n  text",
            b"a: |+\n  text\n\n",
            b"\xef\xbb\xbfa: 1\n",
            b"\xff\xfea\0:\0 \0b\0\n\0",
            b"b: 1\na: 2\nc: 3\n",
            b"b: 1\na: 2\nb: 3\na: {}\nb: []\n",
            b"a: {c: 1}\na: {b: 2}\n",
            b"x: [a, [b, {z: 1, y: 2, z: 3}], ~]\n",
            // Numbers.
            b"a: [0, -0, -1, 0x1F, -0x1F, 0o17, 017, 0b101, 1_000, 08]\n",
            b"a: [9007199254740993, 9223372036854775807, 9223372036854775808, 18446744073709551615, 18446744073709551616]\n",
            b"a: [-9223372036854775808, -9223372036854775809, +1, +18446744073709551615]\n",
            b"a: [1.5, -0.0, 0.0, 1e3, 1E-7, 1e20, 1e21, 1e22, 1.7976931348623157e308, 1e400, .5, 5., 4.9e-324]\n",
            b"a: [9223372036854775807.0, 9223372036854775808.0, 18446744073709551615.0, -9223372036854775809.0, 1e19]\n",
            b"a: [!!float 1, !!int 7, !!str 7, !!float 18446744073709551615]\n",
            b"a: .inf\n",
            b"a: [1, -.inf]\nb: .nan\n",
            b"a: .nan\na: 1\n",
            // Other scalars.
            b"a: [yes, No, on, OFF, y, n, ~, null, Null, '', \"\", 'true', 12:30:45]\n",
            b"a: [2001-12-14, 2001-12-14t21:59:43.10-05:00, !!timestamp 2001-12-14, !!timestamp x]\n",
            b"a: [!!binary aGVsbG8=, !!binary //79, !!binary '']\n",
            b"a: !!binary '*'\n",
            b"a: !custom x\nb: !!bool yes\nc: !!null ~\n",
            b"a: \"\\x00\\u00e9\\n\"\nb: '\xc3\xa9'\n",
            // Keys.
            b"1: a\n'1': b\n0x1: c\n1.0: d\n",
            b"true: a\non: b\nyes: c\n'true': d\nfalse: e\n",
            b"1.5: a\n1e30: b\n1e300: c\n-.inf: d\n.inf: e\n.nan: f\n-0.0: g\n-0: h\n",
            b"2001-12-14: a\n!!binary aGVsbG8=: b\n!!str 1: c\n",
            b"~: a\n",
            b"a: {~: b}\n",
            b"9223372036854775808: a\n",
            b"a: .inf\n9223372036854775808: a\n",
            b"[a]: b\n",
            b"{a: 1}: b\n",
            b"? a\n: b\n? c\n",
            "é: 1\nz: 2\n\u{10000}: 3\n\u{ffff}: 4\na: 5\n".as_bytes(),
            // Anchors and merges.
            b"a: &a {x: 1, y: [1]}\nb: *a\n",
            b"a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3, z: 4}\n",
            b"a: &a {x: 1, y: 2}\nb: {z: 4, y: 3, <<: *a}\n",
            b"a: &a {x: 1}\nb: &b {x: 2, w: 3}\nc: {<<: [*a, *b], v: 1}\n",
            b"a: &k key\n*k : 1\n",
            b"a: &a [*a]\n",
            b"a: &a {<<: *a}\n",
            b"a: {<<: 1}\n",
            b"a: {<<: [1]}\n",
            b"a: *b\n",
            // Documents that are no map.
            b"[]\n",
            b"text\n",
            b"true\n",
            b"1\n",
            b"1.5\n",
            b"2001-12-14\n",
            b".inf\n",
            // Several documents.
            b"a: 1\n---\nb: 2\n---\na: 3\n",
            b"a: {x: 1, y: {z: 2}}\n---\na: {y: {w: 3, a: 4}, b: 5}\n",
            b"a: {x: 1}\n---\na:\n---\na: {y: 2}\n",
            b"a: {x: 1}\n---\na: {y: ~}\n---\na: {x: ~, z: {}}\n",
            b"a: {x: 1}\n---\na: 1\n---\na: {y: 2}\n---\na: {x: {}}\n",
            b"a: {x: 1}\n---\na: {y: 2}\n---\na: [1]\n",
            b"a: 1\n---\n---\n~\n--- # again\nb: 1\n",
            b"a: &a 1\n---\nb: *a\n",
            b"a: 1\n---\n[]\n---\nb: {\n",
            b"a: 1\n--- text\nb: {\n",
            b"a: 1\n...\nb: {\n",
            // No YAML.
            b"a: b: c\n",
            b"a: [\n",
            b"\ta: 1\n",
            b"a: \xff\n---\nb: 1\n",
            b"a: \x01\n",
            b"a: 1\n%YAML 1.1\n",
            b"a: !x!y z\n",
        ];
        texts.iter().for_each(|text| assert_read_alike(text));
        let deep = |levels: usize| ["a: ", &"[".repeat(levels), &"]".repeat(levels)].concat();
        assert_read_alike(deep(yaml::MAX_DEPTH - 1).as_bytes());
        assert_read_alike(deep(yaml::MAX_DEPTH).as_bytes());
    }

    #[test]
    fn every_yaml_is_read_as_by_way_of_json() {
        for name in ["yaml/read.jsonl", "yaml/scalars.jsonl"] {
            for case in cases(name) {
                let text = case.bytes("in").unwrap();
                assert_read_alike(&text);
                assert_read_alike(&[b"k:\n- ".as_slice(), &text].concat());
            }
        }
    }
}
