//! `toToml`. Facts: BurntSushi/toml v1.6.0: keys sorted, plain keys before tables, two spaces a level.

use super::convert::is_exported;
use crate::sprig::text::display;
use go_template::meter::{self, Overrun};
use go_template::value::{List, Map, Object, Str, Value};

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
        Value::Object(object) if is_struct(&**object) => encoder.fields(&[], entries_of(value))?,
        Value::Nil => {}
        other => encoder.element(other, 0)?,
    }
    Ok(encoder.out)
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
            Value::Object(object) if is_struct(&**object) => Shape::Table,
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

    fn key(&mut self, key: &Str) {
        self.out.extend(key_text(key.as_bytes()));
        self.write(" = ");
    }

    /// A line break, unless nothing has been written yet.
    fn newline(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
    }

    fn header(&mut self, path: &[Str], brackets: (&str, &str)) {
        self.write(&"  ".repeat(path.len().saturating_sub(1)));
        self.write(brackets.0);
        self.out
            .extend(path.iter().map(|part| key_text(part)).collect::<Vec<_>>().join(&b'.'));
        self.write(brackets.1);
        self.newline();
    }

    /// Plain keys come first: what follows a table header belongs to that table.
    fn map(&mut self, path: &[Str], map: &Map) -> Result<(), String> {
        self.fields(path, entries_of(&Value::Map(map.clone())))
    }

    fn fields(&mut self, path: &[Str], all: Vec<(Str, Value)>) -> Result<(), String> {
        check(path.len())?;
        let mut entries = Vec::new();
        for (key, value) in all {
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
                (Value::Map(_) | Value::Object(_), Shape::Table) => {
                    if inner.len() == 1 {
                        self.newline();
                    }
                    self.header(&inner, ("[", "]"));
                    self.fields(&inner, entries_of(&value))?;
                }
                (Value::List(list), Shape::Tables) => {
                    for item in list.items() {
                        self.newline();
                        self.header(&inner, ("[[", "]]"));
                        self.fields(&inner, entries_of(item))?;
                    }
                }
                _ => {
                    self.write(&"  ".repeat(path.len()));
                    self.key(&key);
                    self.element(&value, path.len())?;
                    self.newline();
                }
            }
        }
        Ok(())
    }

    fn element(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        check(depth)?;
        if self.out.len() > meter::max_text() {
            return Err(meter::text_overrun().to_string());
        }
        match value {
            Value::Nil => {}
            Value::String(text) => {
                let text = quoted(text.as_bytes());
                self.out.extend_from_slice(&text);
            }
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
            Value::Map(_) => self.inline(value, depth)?,
            Value::Object(object) => match object.bare() {
                Some(text) => self.write(&text),
                None if is_struct(&**object) => self.inline(value, depth)?,
                None => {
                    let text = quoted(object.display().as_bytes());
                    self.out.extend_from_slice(&text);
                }
            },
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

    fn inline(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        let mut entries = Vec::new();
        for (key, value) in entries_of(value) {
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
            self.key(key);
            self.element(value, depth + 1)?;
            if index != last {
                self.write(", ");
            }
        }
        self.write("}");
        Ok(())
    }
}

fn key_text(key: &[u8]) -> Vec<u8> {
    let bare = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if !key.is_empty() && key.iter().all(bare) {
        key.to_vec()
    } else {
        quoted(key)
    }
}

/// Bytes that aren't UTF-8 stay as they are.
fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            8 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=0x1f | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
    out
}

/// Whether the encoder writes it as a table: neither a time nor a type that makes a text of itself.
fn is_struct(object: &dyn Object) -> bool {
    object.bare().is_none() && object.structure().is_some() && !object.is_stringer()
}

/// The entries of a map, whose files are byte slices to Go, or the exported fields of a struct.
fn entries_of(value: &Value) -> Vec<(Str, Value)> {
    let bytes = |value: Value| match value {
        Value::String(data) if meter::spend(meter::ELEMENT * data.len() as u64) => Value::bytes(data.as_bytes()),
        value => value,
    };
    match value {
        Value::Map(map) if map.kind.of_bytes() => {
            let entries = map.snapshot().into_iter();
            entries.map(|(key, value)| (key, bytes(value))).collect()
        }
        Value::Map(map) => map.snapshot(),
        Value::Object(object) => {
            let fields = object.structure().unwrap_or_default().into_iter();
            let exported = fields.filter(|field| is_exported(field.name));
            exported.map(|field| (Str::from(field.name), field.value)).collect()
        }
        _ => Vec::new(),
    }
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
}
