//! Template values as plain data, and the functions that turn either into text: `toYaml` and its relatives.

use serde_json::{Map as JsonMap, Value as Json};

use super::{toml, toml_read};
use crate::chart::metadata::{mismatch, undecodable};
use crate::gostd::json::{Style, marshal, unmarshal};
use crate::render::weight;
use go_template::func::{CallError, Func};
use go_template::meter::{self, Overrun};
use go_template::value::{Entries, List, ListKind, Map, MapKind, Str, Value};
use go_yaml as yaml;

/// What a node of JSON data takes, in bytes.
const JSON_NODE: u64 = 80;

/// A value as JSON data. Whole floats stay floats, `[]byte` becomes base64, each byte that isn't UTF-8 becomes U+FFFD.
///
/// # Errors
/// Values that Go's JSON encoder refuses: infinities, NaN, maps that contain themselves.
pub fn to_json_value(value: &Value) -> Result<Json, String> {
    convert(value, 0)
}

/// Counts the copy of one value, without those in it.
fn count(value: &Value) -> Result<(), String> {
    let bytes = match value {
        Value::String(text) => text.len() as u64,
        _ => 0,
    };
    match meter::spend(JSON_NODE + bytes) {
        true => Ok(()),
        false => Err(Overrun::Memory.to_string()),
    }
}

fn convert(value: &Value, depth: usize) -> Result<Json, String> {
    count(value)?;
    // Deeper than what is written: then it is taken to contain itself.
    if depth > yaml::max_depth() + 1 {
        return Err(format!(
            "json: unsupported value: encountered a cycle via {}",
            value.type_name()
        ));
    }
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(n) | Value::Int64(n) => Json::from(*n),
        Value::Uint8(n) => Json::from(*n),
        Value::Uint64(n) => Json::from(*n),
        Value::Float64(n) => match serde_json::Number::from_f64(*n) {
            Some(number) => Json::Number(number),
            None => return Err(yaml::unsupported_value(*n).to_string()),
        },
        Value::String(text) => Json::String(yaml::go_json_string(text.as_bytes())),
        Value::List(list) if list.is_nil() => Json::Null,
        Value::List(list) if list.kind == ListKind::Bytes => {
            Json::String(data_encoding::BASE64.encode(&crate::sprig::text::raw_bytes(list.items())))
        }
        Value::List(list) => Json::Array(
            list.items()
                .iter()
                .map(|item| convert(item, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        Value::Map(map) => match &map.entries {
            None => Json::Null,
            Some(entries) => {
                let mut object = JsonMap::new();
                for (key, value) in entries.borrow().iter() {
                    let value = match value {
                        // Files are byte slices to Go.
                        Value::String(data) if map.kind.of_bytes() => {
                            Json::String(data_encoding::BASE64.encode(data.as_bytes()))
                        }
                        value => convert(value, depth + 1)?,
                    };
                    object.insert(yaml::go_json_string(key.as_bytes()), value);
                }
                Json::Object(object)
            }
        },
        Value::Object(object) => match object.json_fields() {
            None => object.to_json()?,
            Some(fields) => {
                let entries = fields.iter();
                let entries = entries.map(|field| Ok((field.name.to_owned(), convert(&field.value, depth + 1)?)));
                Json::Object(entries.collect::<Result<_, String>>()?)
            }
        },
    })
}

pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    vec![
        Func::new("toYaml", |value: &Value| yaml_text(value).unwrap_or_default()),
        Func::new("mustToYaml", |value: &Value| yaml_text(value)),
        Func::new("toYamlPretty", |value: &Value| {
            let json = to_json_value(value);
            let text = json.and_then(|json| yaml::to_string_pretty(&json).map_err(|e| e.to_string()));
            without_last_break(text.unwrap_or_default())
        }),
        Func::new("fromYaml", from_yaml),
        Func::new("fromYamlArray", from_yaml_array),
        Func::new("toToml", |value: &Value| match value {
            Value::Nil => Err(NIL_TOML),
            value => Ok(toml::encode(value).unwrap_or_else(String::into_bytes)),
        }),
        Func::new("mustToToml", |value: &Value| match value {
            Value::Nil => Err(NIL_TOML.to_owned()),
            value => toml::encode(value),
        }),
        Func::new("fromToml", |text: &[u8]| {
            toml_read::read(text).unwrap_or_else(error_map)
        }),
        Func::new("toJson", |value: &Value| {
            marshal(value, Style::Compact).unwrap_or_default()
        }),
        Func::new("mustToJson", |value: &Value| marshal(value, Style::Compact)),
        Func::new("fromJson", |text: &[u8]| {
            match from_json_text(text, |value| matches!(value, Value::Map(_)), MAP) {
                // Go's decoder makes a nil map, and a nil list, of null.
                Ok(Value::Nil) => Value::Map(Map::nil(MapKind::Any)),
                Ok(value) => value,
                Err(text) => error_map(text),
            }
        }),
        Func::new("fromJsonArray", |text: &[u8]| {
            match from_json_text(text, |value| matches!(value, Value::List(_)), LIST) {
                Ok(Value::Nil) => Value::List(List::nil(ListKind::Any)),
                Ok(value) => value,
                Err(text) => Value::list(vec![Value::string(text)]),
            }
        }),
    ]
}

fn without_last_break(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// What `toYaml` makes of a value.
pub(super) fn yaml_text(value: &Value) -> Result<String, String> {
    let json = to_json_value(value).map_err(|text| match text.starts_with("json: ") {
        true => format!("error marshaling into JSON: {text}"),
        false => text,
    })?;
    let text = yaml::to_string(&json).map_err(|e| e.to_string());
    text.map(without_last_break)
}

const MAP: &str = "value of type map[string]interface {}";
const LIST: &str = "value of type []interface {}";

fn error_map(text: String) -> Value {
    Value::map(Entries::from([(Str::from("Error"), Value::string(text))]))
}

/// Reads YAML as JSON data with all numbers as floats.
fn read_yaml(text: &[u8]) -> Result<Result<Json, String>, CallError> {
    if !meter::has_room(weight::to_read(text)) {
        return Err(CallError::Text(Overrun::Memory.to_string()));
    }
    let json = yaml::to_json(text).map(yaml::all_floats).map_err(|e| e.to_string());
    // Beyond the limit the evaluator ends the call.
    meter::spend(json.as_ref().map_or(0, weight::of));
    Ok(json)
}

fn from_yaml(text: &[u8]) -> Result<Value, CallError> {
    Ok(match read_yaml(text)? {
        Err(text) => error_map(text),
        Ok(json @ Json::Object(_)) => Value::from_json(&json),
        // Go leaves the map as it is, only that it becomes nil.
        Ok(Json::Null) => Value::map(Entries::new()),
        Ok(other) => error_map(undecodable(&other, MAP)),
    })
}

fn from_yaml_array(text: &[u8]) -> Result<Value, CallError> {
    let failure = |text: String| Value::list(vec![Value::string(text)]);
    Ok(match read_yaml(text)? {
        Err(text) => failure(text),
        Ok(json @ Json::Array(_)) => Value::from_json(&json),
        Ok(Json::Null) => Value::list(Vec::new()),
        Ok(other) => failure(undecodable(&other, LIST)),
    })
}

/// Reads JSON of one kind; null is none of it, and no error.
fn from_json_text(text: &[u8], fits: fn(&Value) -> bool, wanted: &str) -> Result<Value, String> {
    let value = unmarshal(text)?;
    match fits(&value) || value.is_nil() {
        true => Ok(value),
        false => Err(mismatch(&to_json_value(&value)?, wanted)),
    }
}

/// What the encoder panics with on nil.
const NIL_TOML: &str = "reflect: call of reflect.Value.Type on zero Value";
