//! JSON as Go's `encoding/json` writes it.

use data_encoding::BASE64;

use super::runes;
use crate::sprig::text;
use go_template::meter::{ELEMENT, MAX_VALUE_DEPTH, Meter};
use go_template::number::{format_float, shortest};
use go_template::value::{ListKind, Value};

pub(crate) use super::json_parse::unmarshal;

/// The style of written JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonStyle {
    /// `json.Marshal`, with `<`, `>` and `&` as escapes.
    Compact,
    /// `json.MarshalIndent` with two spaces.
    Pretty,
    /// An encoder with `SetEscapeHTML(false)`, without the line break it ends with.
    Raw,
}

/// Writes a value as Go does: keys in byte order, `[]byte` as base64, nil lists and maps as `null`, invalid UTF-8 as
/// U+FFFD. An error is the text of Go's error (NaN, infinities, values that contain themselves), or that of a limit.
pub fn marshal(meter: &Meter, value: &Value, style: JsonStyle) -> Result<Vec<u8>, String> {
    let out = Vec::new();
    let mut writer = JsonWriter { meter, out, style };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct JsonWriter<'m> {
    meter: &'m Meter,
    out: Vec<u8>,
    style: JsonStyle,
}

impl JsonWriter<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_VALUE_DEPTH {
            return Err(format!(
                "json: unsupported value: encountered a cycle via {}",
                value.type_name()
            ));
        }
        // `toJson` ignores all errors, also these; the evaluator then fails the call.
        self.meter.text(self.out.len())?;
        self.meter.spend(ELEMENT)?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Bool(b) => self.out.extend_from_slice(b.to_string().as_bytes()),
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
                self.group(b"[]", list.items(), depth, |writer, item| writer.value(item, depth + 1))?;
            }
            Value::Map(map) if map.entries.is_none() => self.out.extend_from_slice(b"null"),
            Value::Map(map) => self.group(b"{}", &map.snapshot(), depth, |writer, (key, value)| {
                writer.key(key);
                match value {
                    // The contents of files are byte slices to Go.
                    Value::String(data) if map.kind.of_bytes() => {
                        writer.string(BASE64.encode(data).as_bytes());
                        Ok(())
                    }
                    value => writer.value(value, depth + 1),
                }
            })?,
            Value::Object(object) => match object.json_fields() {
                None => self.value(&Value::from_json(&object.to_json()?), depth)?,
                Some(fields) => self.group(b"{}", &fields, depth, |writer, field| {
                    writer.key(field.name.as_bytes());
                    writer.value(&field.value, depth + 1)
                })?,
            },
        }
        Ok(())
    }

    fn group<T>(
        &mut self,
        brackets: &[u8; 2],
        items: &[T],
        depth: usize,
        write: impl Fn(&mut Self, &T) -> Result<(), String>,
    ) -> Result<(), String> {
        let [open, close] = *brackets;
        self.out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.line(depth + 1);
            write(self, item)?;
        }
        if !items.is_empty() {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if self.style == JsonStyle::Pretty {
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b' ', 2 * depth));
        }
    }

    fn key(&mut self, key: &[u8]) {
        self.string(key);
        self.out.push(b':');
        if self.style == JsonStyle::Pretty {
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
                '<' | '>' | '&' if self.style != JsonStyle::Raw => self.escape(c),
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
