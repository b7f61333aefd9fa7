//! `toToml` and `fromToml`. Facts: BurntSushi/toml v1.6.0: keys sorted, plain keys before tables, two spaces a level.

use crate::template::go::meter::{self, Overrun};
use crate::template::go::value::{Entries, List, Map, Str, Value};
use crate::template::sprig::text::display;

const TOO_DEEP: &str = "toml: the value is nested too deeply, or contains itself";
const MAX_DEPTH: usize = 200;

/// Writes a map as a TOML document.
///
/// # Errors
/// The library's text: a value that is no map, nil in a list.
pub fn encode(value: &Value) -> Result<Vec<u8>, String> {
    let mut encoder = Encoder { out: Vec::new() };
    match value {
        Value::Map(map) => encoder.map(&[], map)?,
        Value::List(list) if Shape::of(value, 0)? == Shape::Tables && !list.items().is_empty() => {
            return Err("toml: top-level values must be Go maps or structs".to_owned());
        }
        Value::Nil => {}
        other => encoder.element(other, 0)?,
    }
    Ok(encoder.out)
}

/// Reads a TOML document: whole numbers are `int64`, dates stay text.
///
/// # Errors
/// What the parser says.
pub fn decode(text: &str) -> Result<Value, String> {
    let table: toml::Table = text
        .parse()
        .map_err(|e: toml::de::Error| format!("toml: {}", e.message()))?;
    Ok(from_table(table))
}

fn from_table(table: toml::Table) -> Value {
    Value::map(
        table
            .into_iter()
            .map(|(key, value)| (Str::from(key), from_toml(value)))
            .collect::<Entries>(),
    )
}

fn from_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::string(text),
        toml::Value::Integer(n) => Value::Int64(n),
        toml::Value::Float(n) => Value::Float64(n),
        toml::Value::Boolean(b) => Value::Bool(b),
        toml::Value::Datetime(date) => Value::string(date.to_string()),
        toml::Value::Array(items) => Value::list(items.into_iter().map(from_toml).collect()),
        toml::Value::Table(table) => from_table(table),
    }
}

/// Fails where nesting is too deep, or the render has no memory left.
fn check(depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(TOO_DEEP.to_owned());
    }
    if meter::visit(depth) {
        Ok(())
    } else {
        Err(Overrun::Memory.to_string())
    }
}

/// How a value is written below a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Nil,
    Plain,
    Table,
    /// A non-empty list of maps.
    Tables,
}

impl Shape {
    fn of(value: &Value, depth: usize) -> Result<Self, String> {
        check(depth)?;
        Ok(match value {
            Value::Nil => Shape::Nil,
            Value::Map(map) if map.entries.is_none() => Shape::Nil,
            Value::Map(_) => Shape::Table,
            Value::List(list) if list.is_nil() => Shape::Nil,
            Value::List(list) if list.items().is_empty() => Shape::Plain,
            Value::List(list) => {
                let mut all_tables = true;
                for item in list.items() {
                    match Shape::of(item, depth + 1)? {
                        Shape::Nil => return Err("toml: cannot encode array with nil element".to_owned()),
                        shape => all_tables &= shape == Shape::Table,
                    }
                }
                if all_tables { Shape::Tables } else { Shape::Plain }
            }
            _ => Shape::Plain,
        })
    }
}

struct Encoder {
    out: Vec<u8>,
}

impl Encoder {
    fn write(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A line break, unless nothing has been written yet.
    fn newline(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
    }

    fn header(&mut self, path: &[Str], brackets: (&str, &str)) {
        let name = path.iter().map(key_text).collect::<Vec<_>>().join(".");
        let indent = "  ".repeat(path.len().saturating_sub(1));
        self.write(&format!("{indent}{}{name}{}", brackets.0, brackets.1));
        self.newline();
    }

    /// Plain keys come first: what follows a table header belongs to that table.
    fn map(&mut self, path: &[Str], map: &Map) -> Result<(), String> {
        check(path.len())?;
        let mut entries = Vec::new();
        for (key, value) in map.snapshot() {
            let shape = Shape::of(&value, path.len())?;
            entries.push((key, value, shape));
        }
        let is_sub = |shape: &Shape| matches!(shape, Shape::Table | Shape::Tables);
        let (sub, direct): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(_, _, shape)| is_sub(shape));
        for (key, value, shape) in direct.into_iter().chain(sub) {
            let mut inner = path.to_vec();
            inner.push(key.clone());
            match (&value, shape) {
                (_, Shape::Nil) => {}
                (Value::Map(map), _) => {
                    if inner.len() == 1 {
                        self.newline();
                    }
                    self.header(&inner, ("[", "]"));
                    self.map(&inner, map)?;
                }
                (Value::List(list), Shape::Tables) => {
                    for item in list.items() {
                        self.newline();
                        self.header(&inner, ("[[", "]]"));
                        if let Value::Map(map) = item {
                            self.map(&inner, map)?;
                        }
                    }
                }
                _ => {
                    self.write(&format!("{}{} = ", "  ".repeat(path.len()), key_text(&key)));
                    self.element(&value, path.len())?;
                    self.newline();
                }
            }
        }
        Ok(())
    }

    fn element(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        check(depth)?;
        if self.out.len() > meter::MAX_TEXT {
            meter::report(Overrun::Text);
            return Err(Overrun::Text.to_string());
        }
        match value {
            Value::Nil => {}
            Value::String(text) => self.write(&quoted(&text.to_text())),
            Value::Float64(n) => {
                let text = String::from_utf8_lossy(&display(&Value::Float64(*n))).into_owned();
                let text = match text.as_str() {
                    "NaN" => "nan",
                    "+Inf" => "inf",
                    "-Inf" => "-inf",
                    text => text,
                };
                let whole = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
                self.write(text);
                self.write(if whole { ".0" } else { "" });
            }
            Value::List(list) => self.array(list, depth)?,
            Value::Map(map) => self.inline(map, depth)?,
            Value::Object(object) => self.write(&quoted(&object.display())),
            scalar => {
                let text = display(scalar);
                self.out.extend_from_slice(&text);
            }
        }
        Ok(())
    }

    fn array(&mut self, list: &List, depth: usize) -> Result<(), String> {
        self.write("[");
        for (index, item) in list.items().iter().enumerate() {
            if index > 0 {
                self.write(", ");
            }
            self.element(item, depth + 1)?;
        }
        self.write("]");
        Ok(())
    }

    fn inline(&mut self, map: &Map, depth: usize) -> Result<(), String> {
        let mut entries = Vec::new();
        for (key, value) in map.snapshot() {
            let shape = Shape::of(&value, depth)?;
            entries.push((key, value, matches!(shape, Shape::Table | Shape::Tables), shape));
        }
        entries.sort_by_key(|(_, _, is_sub, _)| *is_sub);
        self.write("{");
        let last = entries.len().saturating_sub(1);
        for (index, (key, value, _, shape)) in entries.iter().enumerate() {
            if *shape == Shape::Nil {
                continue;
            }
            self.write(&format!("{} = ", key_text(key)));
            self.element(value, depth + 1)?;
            if index != last {
                self.write(", ");
            }
        }
        self.write("}");
        Ok(())
    }
}

fn key_text(key: &Str) -> String {
    let bare = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if !key.is_empty() && key.as_bytes().iter().all(bare) {
        key.to_text().into_owned()
    } else {
        quoted(&key.to_text())
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{7f}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_as_the_go_library_does() {
        let table = [
            (
                json!({"b": 1.0, "a": "x\"\n", "c": [1, "y"], "n": null}),
                "a = \"x\\\"\\n\"\nb = 1.0\nc = [1, \"y\"]\n",
            ),
            (
                json!({"t": {"k": 1, "u": {"v": true}}, "z": 1}),
                "z = 1\n\n[t]\n  k = 1\n  [t.u]\n    v = true\n",
            ),
            (
                json!({"l": [{"a": 1}, {"a": 2}], "x": 1}),
                "x = 1\n\n[[l]]\n  a = 1\n\n[[l]]\n  a = 2\n",
            ),
            (
                json!({"a b": {"": 1}, "m": [{"x": 1}, 2]}),
                "m = [{x = 1}, 2]\n\n[\"a b\"]\n  \"\" = 1\n",
            ),
        ];
        for (value, want) in table {
            let got = encode(&Value::from_json(&value)).unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), want);
        }
        assert!(encode(&Value::from_json(&json!({"a": [null]}))).is_err());
    }

    #[test]
    fn reads_numbers_in_their_kinds() {
        let Value::Map(map) = decode("a = 1\nb = 1.5\n[c]\nd = [true]\n").unwrap() else {
            panic!("not a map")
        };
        assert!(matches!(map.get(b"a"), Some(Value::Int64(1))));
        assert!(matches!(map.get(b"b"), Some(Value::Float64(n)) if n == 1.5));
        assert!(decode("a = ").is_err());
    }
}
