//! JSON as Go's `encoding/json` writes it.

use data_encoding::BASE64;

use super::runes;
use crate::limit;
use crate::sprig::text;
use go_template::meter;
use go_template::number::{format_float, shortest};
use go_template::value::{ListKind, Value};

pub(crate) use super::json_parse::unmarshal;

/// How to write JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Write `<`, `>` and `&` as escapes, as `json.Marshal` does.
    pub escape_html: bool,
    /// Spaces per level, each element on its own line; `None` for no white space at all.
    pub indent: Option<usize>,
}

/// `json.Marshal`.
pub const COMPACT: Style = Style {
    escape_html: true,
    indent: None,
};
/// `json.MarshalIndent` with two spaces.
pub const PRETTY: Style = Style {
    escape_html: true,
    indent: Some(2),
};
/// An encoder with `SetEscapeHTML(false)`, without the line break it ends with.
pub const RAW: Style = Style {
    escape_html: false,
    indent: None,
};

/// Writes a value as Go does: keys in byte order, `[]byte` as base64, nil lists and maps as `null`, invalid UTF-8 as
/// U+FFFD. An error is the text of Go's error (NaN, infinities, values that contain themselves), or of [`limit`].
pub fn marshal(value: &Value, style: Style) -> Result<Vec<u8>, String> {
    let mut writer = Writer { out: Vec::new(), style };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    style: Style,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        if depth > limit::MAX_DEPTH {
            return Err(format!(
                "json: unsupported value: encountered a cycle via {}",
                value.type_name()
            ));
        }
        if self.out.len() > meter::max_text() {
            // `toJson` swallows errors, this one too; the evaluator then fails the call.
            return Err(meter::text_overrun().to_string());
        }
        if !meter::spend(meter::ELEMENT) {
            return Err(meter::Overrun::Memory.to_string());
        }
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Bool(b) => self.out.extend_from_slice(if *b { b"true" } else { b"false" }),
            Value::Int(n) | Value::Int64(n) => self.out.extend_from_slice(n.to_string().as_bytes()),
            Value::Uint8(n) => self.out.extend_from_slice(n.to_string().as_bytes()),
            Value::Uint64(n) => self.out.extend_from_slice(n.to_string().as_bytes()),
            Value::Float64(n) => self.out.extend_from_slice(float(*n)?.as_bytes()),
            Value::String(text) => self.string(text.as_bytes()),
            Value::List(list) if list.is_nil() => self.out.extend_from_slice(b"null"),
            Value::List(list) if list.kind == ListKind::Bytes => {
                let encoded = BASE64.encode(&text::raw_bytes(list.items()));
                self.string(encoded.as_bytes());
            }
            Value::List(list) => {
                let items = list.items();
                self.group(b"[]", items.len(), depth, |writer, index| match items.get(index) {
                    Some(item) => writer.value(item, depth + 1),
                    None => Ok(()),
                })?;
            }
            Value::Map(map) if map.entries.is_none() => self.out.extend_from_slice(b"null"),
            // The contents of files are byte slices to Go.
            Value::Map(map) if map.kind.of_bytes() => {
                let entries = map.snapshot();
                self.group(b"{}", entries.len(), depth, |writer, index| match entries.get(index) {
                    Some((key, Value::String(data))) => {
                        writer.key(key.as_bytes());
                        writer.string(BASE64.encode(data.as_bytes()).as_bytes());
                        Ok(())
                    }
                    _ => Ok(()),
                })?;
            }
            Value::Map(map) => {
                let entries = map.snapshot();
                self.group(b"{}", entries.len(), depth, |writer, index| match entries.get(index) {
                    Some((key, value)) => {
                        writer.key(key.as_bytes());
                        writer.value(value, depth + 1)
                    }
                    None => Ok(()),
                })?;
            }
            Value::Object(object) => match object.json_fields() {
                None => self.data(&object.to_json()?, depth)?,
                Some(fields) => self.group(b"{}", fields.len(), depth, |writer, index| match fields.get(index) {
                    Some(field) => {
                        writer.key(field.name.as_bytes());
                        writer.value(&field.value, depth + 1)
                    }
                    None => Ok(()),
                })?,
            },
        }
        Ok(())
    }

    /// What an object said of itself.
    fn data(&mut self, json: &serde_json::Value, depth: usize) -> Result<(), String> {
        use serde_json::Value as Json;
        match json {
            Json::Array(items) => self.group(b"[]", items.len(), depth, |writer, index| match items.get(index) {
                Some(item) => writer.data(item, depth + 1),
                None => Ok(()),
            }),
            Json::Object(fields) => {
                let fields: Vec<_> = fields.iter().collect();
                self.group(b"{}", fields.len(), depth, |writer, index| match fields.get(index) {
                    Some((key, value)) => {
                        writer.key(key.as_bytes());
                        writer.data(value, depth + 1)
                    }
                    None => Ok(()),
                })
            }
            Json::String(text) => {
                self.string(text.as_bytes());
                Ok(())
            }
            scalar => {
                self.out.extend_from_slice(scalar.to_string().as_bytes());
                Ok(())
            }
        }
    }

    fn group(
        &mut self,
        brackets: &[u8; 2],
        len: usize,
        depth: usize,
        mut element: impl FnMut(&mut Self, usize) -> Result<(), String>,
    ) -> Result<(), String> {
        let [open, close] = *brackets;
        self.out.push(open);
        for index in 0..len {
            if index > 0 {
                self.out.push(b',');
            }
            self.line(depth + 1);
            element(self, index)?;
        }
        if len > 0 {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(spaces) = self.style.indent {
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b' ', spaces * depth));
        }
    }

    fn key(&mut self, key: &[u8]) {
        self.string(key);
        self.out.push(b':');
        if self.style.indent.is_some() {
            self.out.push(b' ');
        }
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for (_, c, width) in runes::runes(text) {
            match c {
                '"' => self.out.extend_from_slice(b"\\\""),
                '\\' => self.out.extend_from_slice(b"\\\\"),
                '\n' => self.out.extend_from_slice(b"\\n"),
                '\r' => self.out.extend_from_slice(b"\\r"),
                '\t' => self.out.extend_from_slice(b"\\t"),
                '\u{8}' => self.out.extend_from_slice(b"\\b"),
                '\u{c}' => self.out.extend_from_slice(b"\\f"),
                '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => self.escape(c),
                '<' | '>' | '&' if self.style.escape_html => self.escape(c),
                // Go marks an invalid byte with an escape, but leaves a real U+FFFD alone.
                char::REPLACEMENT_CHARACTER if width == 1 => self.escape(c),
                c => runes::push(&mut self.out, c),
            }
        }
        self.out.push(b'"');
    }

    fn escape(&mut self, c: char) {
        self.out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes());
    }
}

/// A float64 as `encoding/json` writes it: like JavaScript, shortest digits, exponents below 1e-6 and from 1e21.
fn float(n: f64) -> Result<String, String> {
    if !n.is_finite() {
        let shown = format_float(n, 'g', -1);
        return Err(format!("json: unsupported value: {shown}"));
    }
    let size = n.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = shortest(n);
        return Ok(match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
            _ => text,
        });
    }
    Ok(format_float(n, 'f', -1))
}
