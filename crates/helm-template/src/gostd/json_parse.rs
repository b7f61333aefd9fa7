//! JSON as templates see it: numbers are float64, and the last of two equal keys wins.

use serde_json::Value as Json;

use go_template::meter::Meter;
use go_template::value::{Str, Value};

/// The maximum memory of a node, in bytes, including what growing lists leave unused.
const NODE: u64 = 72;
/// The most memory that a byte of a text takes while it is read: `1,` is a node.
const BYTE: u64 = 64;

/// Parses one JSON value, which nests 128 levels at most. Bytes that aren't UTF-8 become U+FFFD.
///
/// # Errors
/// What is wrong with it.
pub fn unmarshal(meter: &Meter, text: &[u8]) -> Result<Value, String> {
    meter.has_room(BYTE * text.len() as u64)?;
    let parsed = serde_json::from_str(&String::from_utf8_lossy(text));
    value(meter, parsed.map_err(|e| plain(&e))?)
}

/// Go's words.
const END: &str = "unexpected end of JSON input";

fn plain(error: &serde_json::Error) -> String {
    if error.is_eof() {
        END.to_owned()
    } else {
        format!("invalid JSON: {error}")
    }
}

fn value(meter: &Meter, json: Json) -> Result<Value, String> {
    let text = match &json {
        Json::String(text) => text.len(),
        Json::Object(entries) => entries.keys().map(String::len).sum(),
        _ => 0,
    };
    meter.spend(NODE + text as u64)?;
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(truth),
        Json::Number(number) => Value::Float64(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::string(text),
        Json::Array(items) => {
            let items = items.into_iter().map(|item| value(meter, item));
            Value::list(items.collect::<Result<_, _>>()?)
        }
        Json::Object(entries) => {
            let entries = entries
                .into_iter()
                .map(|(key, item)| Ok((Str::from(key), value(meter, item)?)));
            Value::map(entries.collect::<Result<_, String>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_texts_and_large_ones_are_refused() {
        assert!(unmarshal(&Meter::default(), &b"[".repeat(100_000)).is_err());
        let meter = Meter::new(10_000, None);
        assert!(unmarshal(&meter, b"[1, 2]").is_ok());
        assert!(unmarshal(&meter, format!("[{}1]", "1,".repeat(200)).as_bytes()).is_err());
    }
}
