//! JSON as Go's `encoding/json` decodes it.

use serde_json::Value as Json;

use crate::gostd::json;
use go_template::value::Value;

/// The value that a text begins with, and how many bytes it takes. Anything may follow it.
///
/// # Errors
/// The text begins with no value.
pub fn first(text: &[u8]) -> Result<(Json, usize), String> {
    let (value, used) = json::first(text)?;
    Ok((plain(&value), used))
}

/// The value of a text.
///
/// # Errors
/// The text isn't one value.
pub fn whole(text: &[u8]) -> Result<Json, String> {
    json::unmarshal(text).map(|value| plain(&value))
}

/// What the decoder gives, which has no other kinds of values.
fn plain(value: &Value) -> Json {
    match value {
        Value::Bool(b) => Json::Bool(*b),
        Value::Float64(n) => Json::from(*n),
        Value::String(text) => Json::String(text.to_text().into_owned()),
        Value::List(list) => Json::Array(list.items().iter().map(plain).collect()),
        Value::Map(map) => {
            let entries = map.snapshot().into_iter();
            Json::Object(
                entries
                    .map(|(key, value)| (key.to_text().into_owned(), plain(&value)))
                    .collect(),
            )
        }
        _ => Json::Null,
    }
}
