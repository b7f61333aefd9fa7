//! JSON as templates see it: numbers are float64, and the last of two equal keys wins.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use go_template::meter;
use go_template::value::{Str, Value};

/// What a node takes at most, in bytes, with what growing lists leave unused.
const NODE: u64 = 72;

/// Parses one JSON value, which nests 128 levels at most. Bytes that aren't UTF-8 become U+FFFD.
///
/// # Errors
/// What is wrong with it.
pub fn unmarshal(text: &[u8]) -> Result<Value, String> {
    let parsed: Result<Parsed, _> = serde_json::from_str(&String::from_utf8_lossy(text));
    parsed.map(|Parsed(value)| value).map_err(|e| plain(&e))
}

/// Go's words.
const END: &str = "unexpected end of JSON input";

fn plain(error: &serde_json::Error) -> String {
    match error.is_eof() {
        true => END.to_owned(),
        false => format!("invalid JSON: {error}"),
    }
}

struct Parsed(Value);

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Parsed)
    }
}

struct Reader;

fn counted<E: Error>(bytes: usize, value: Value) -> Result<Value, E> {
    match meter::spend(NODE + bytes as u64) {
        true => Ok(value),
        false => Err(E::custom(meter::Overrun::Memory)),
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        counted(0, Value::Nil)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        counted(0, Value::Bool(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        counted(0, Value::Float64(number as f64))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        counted(0, Value::Float64(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        counted(0, Value::Float64(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        counted(text.len(), Value::string(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Parsed(item)) = parts.next_element()? {
            items.push(item);
        }
        counted(0, Value::list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, Parsed(value))) = parts.next_entry::<String, Parsed>()? {
            counted(key.len(), Value::Nil)?;
            entries.push((Str::from(key), value));
        }
        counted(0, Value::map(entries.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_texts_and_large_ones_are_refused() {
        assert!(unmarshal(&b"[".repeat(100_000)).is_err());
        let _meter = meter::Meter::open(10_000, None);
        assert!(unmarshal(b"[1, 2]").is_ok());
        assert!(unmarshal(format!("[{}1]", "1,".repeat(200)).as_bytes()).is_err());
    }
}
