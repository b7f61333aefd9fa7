//! `toToml`. Facts: BurntSushi/toml v1.6.0: keys sorted, plain keys before tables, two spaces a level.

use go_template::format::{self, display};
use go_template::meter::Meter;
use go_template::value::{List, Map, Str, Value};

const TOO_DEEP: &str = "toml: the value is nested too deeply, or contains itself";
const MAX_DEPTH: usize = 200;

/// Writes a map as a TOML document.
///
/// # Errors
/// The library's text: a value that is no map, nil in a list.
pub fn encode(meter: &Meter, value: &Value) -> Result<Vec<u8>, String> {
    let out = Vec::new();
    let mut encoder = Encoder { meter, out };
    match value {
        Value::Map(map) => encoder.table(&[], map)?,
        Value::List(list) if Shape::of(meter, value, 0)? == Shape::Tables && !list.items().is_empty() => {
            return Err("toml: top-level values must be Go maps or structs".to_owned());
        }
        Value::Nil => {}
        other => encoder.element(other, 0)?,
    }
    Ok(encoder.out)
}

/// Fails where nesting is too deep, or the render has no memory left.
fn check(meter: &Meter, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(TOO_DEEP.to_owned());
    }
    Ok(meter.visit(depth)?)
}

/// The form of a value below a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Nil,
    Plain,
    Table,
    /// A non-empty list of maps.
    Tables,
}

impl Shape {
    fn of(meter: &Meter, value: &Value, depth: usize) -> Result<Self, String> {
        check(meter, depth)?;
        Ok(match value {
            Value::Nil => Shape::Nil,
            Value::Map(map) if map.entries.is_none() => Shape::Nil,
            Value::Map(_) => Shape::Table,
            Value::List(list) if list.is_nil() => Shape::Nil,
            Value::List(list) if list.items().is_empty() => Shape::Plain,
            Value::List(list) => {
                let mut all_tables = true;
                for item in list.items() {
                    match Shape::of(meter, item, depth + 1)? {
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

struct Encoder<'m> {
    meter: &'m Meter,
    out: Vec<u8>,
}

impl Encoder<'_> {
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
    fn table(&mut self, path: &[Str], map: &Map) -> Result<(), String> {
        check(self.meter, path.len())?;
        for (key, value, shape) in entries(self.meter, map, path.len())? {
            let mut inner = path.to_vec();
            inner.push(key.clone());
            match (&value, shape) {
                (Value::Map(map), Shape::Table) => {
                    if inner.len() == 1 {
                        self.newline();
                    }
                    self.header(&inner, ("[", "]"));
                    self.table(&inner, map)?;
                }
                (Value::List(list), Shape::Tables) => {
                    for item in list.items() {
                        self.newline();
                        self.header(&inner, ("[[", "]]"));
                        if let Value::Map(map) = item {
                            self.table(&inner, map)?;
                        }
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
        check(self.meter, depth)?;
        self.meter.text(self.out.len())?;
        match value {
            Value::Nil => {}
            Value::String(text) => self.out.extend(quoted(text.as_bytes())),
            Value::Float64(_) => {
                let text = format::text(value);
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
            Value::Object(object) => match object.bare() {
                Some(text) => self.write(&text),
                None => self.out.extend(quoted(object.display().as_bytes())),
            },
            scalar => self.out.extend(display(self.meter, scalar)),
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
        self.write("{");
        for (index, (key, value, _)) in entries(self.meter, map, depth)?.iter().enumerate() {
            if index > 0 {
                self.write(", ");
            }
            self.key(key);
            self.element(value, depth + 1)?;
        }
        self.write("}");
        Ok(())
    }
}

/// The entries of a map that aren't nil, those that are written as tables last.
fn entries(meter: &Meter, map: &Map, depth: usize) -> Result<Vec<(Str, Value, Shape)>, String> {
    let mut entries = Vec::new();
    for (key, value) in map.snapshot() {
        match Shape::of(meter, &value, depth)? {
            Shape::Nil => {}
            shape => entries.push((key, value, shape)),
        }
    }
    entries.sort_by_key(|(_, _, shape)| matches!(shape, Shape::Table | Shape::Tables));
    Ok(entries)
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
