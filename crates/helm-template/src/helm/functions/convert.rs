//! Template values as plain data, and the functions that turn either into text: `toYaml` and its relatives.

use serde_json::{Map as JsonMap, Value as Json};

use crate::chart::metadata::{mismatch, undecodable};
use crate::gostd::json::unmarshal;
use crate::helm::Context;
use crate::helm::functions::{toml_read, toml_write};
use crate::render::data_size;
use go_template::func::{CallError, Func, Meter};
use go_template::value::{Entries, List, ListKind, Map, MapKind, Str, Value};
use go_yaml as yaml;

/// The memory of a node of JSON data, in bytes.
const JSON_NODE: u64 = 80;

/// A value as JSON data. Whole floats stay floats, `[]byte` becomes base64, each byte that isn't UTF-8 becomes U+FFFD.
///
/// # Errors
/// Values that Go's JSON encoder refuses: infinities, NaN, maps that contain themselves.
pub fn to_json_value(context: &Context, value: &Value) -> Result<Json, String> {
    convert(context, value, 0)
}

/// Counts the copy of one value, without those in it.
fn count(meter: &Meter, value: &Value) -> Result<(), String> {
    let bytes = match value {
        Value::String(text) => text.len() as u64,
        _ => 0,
    };
    Ok(meter.spend(JSON_NODE + bytes)?)
}

fn convert(context: &Context, value: &Value, depth: usize) -> Result<Json, String> {
    count(&context.budget.meter, value)?;
    // Deeper than what is written: then it is taken to contain itself.
    if depth > context.budget.limits.yaml_depth + 1 {
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
                .map(|item| convert(context, item, depth + 1))
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
                        value => convert(context, value, depth + 1)?,
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
                let entries =
                    entries.map(|field| Ok((field.name.to_owned(), convert(context, &field.value, depth + 1)?)));
                Json::Object(entries.collect::<Result<_, String>>()?)
            }
        },
    })
}

pub(crate) fn table() -> Vec<Func<Context>> {
    vec![
        Func::with_context("toYaml", |context: &mut Context, value: &Value| {
            yaml_text(context, value).unwrap_or_default()
        }),
        Func::with_context("mustToYaml", |context: &mut Context, value: &Value| {
            yaml_text(context, value)
        }),
        Func::with_context("toYamlPretty", |context: &mut Context, value: &Value| {
            let json = to_json_value(context, value);
            let depth = context.budget.limits.yaml_depth;
            let text = json.and_then(|json| yaml::to_string_pretty(&json, depth).map_err(|e| e.to_string()));
            without_last_break(text.unwrap_or_default())
        }),
        Func::with_context("fromYaml", from_yaml),
        Func::with_context("fromYamlArray", from_yaml_array),
        Func::new("toToml", |meter: &Meter, value: &Value| match value {
            Value::Nil => Err(NIL_TOML),
            value => Ok(toml_write::encode(meter, value).unwrap_or_else(String::into_bytes)),
        }),
        Func::new("mustToToml", |meter: &Meter, value: &Value| match value {
            Value::Nil => Err(NIL_TOML.to_owned()),
            value => toml_write::encode(meter, value),
        }),
        Func::new("fromToml", |meter: &Meter, text: &[u8]| {
            toml_read::read(meter, text).unwrap_or_else(error_map)
        }),
        Func::with_context("fromJson", |context: &mut Context, text: &[u8]| {
            match from_json_text(context, text, |value| matches!(value, Value::Map(_)), MAP) {
                // Go's decoder makes a nil map, and a nil list, of null.
                Ok(Value::Nil) => Value::Map(Map::nil(MapKind::Any)),
                Ok(value) => value,
                Err(text) => error_map(text),
            }
        }),
        Func::with_context("fromJsonArray", |context: &mut Context, text: &[u8]| {
            let fits = |value: &Value| matches!(value, Value::List(_));
            match from_json_text(context, text, fits, LIST) {
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

/// The result of `toYaml` for a value.
pub(crate) fn yaml_text(context: &Context, value: &Value) -> Result<String, String> {
    let json = to_json_value(context, value).map_err(|text| {
        if text.starts_with("json: ") {
            format!("error marshaling into JSON: {text}")
        } else {
            text
        }
    })?;
    let text = yaml::to_string(&json, context.budget.limits.yaml_depth).map_err(|e| e.to_string());
    text.map(without_last_break)
}

const MAP: &str = "value of type map[string]interface {}";
const LIST: &str = "value of type []interface {}";

fn error_map(text: String) -> Value {
    Value::map(Entries::from([(Str::from("Error"), Value::string(text))]))
}

/// Reads YAML as JSON data with all numbers as floats.
fn read_yaml(context: &Context, text: &[u8]) -> Result<Result<Json, String>, CallError> {
    context.budget.meter.has_room(data_size::to_read(text))?;
    let read = yaml::to_json_within(text, context.budget.limits.yaml_depth);
    let json = read.map(yaml::all_floats).map_err(|e| e.to_string());
    // Beyond the limit the evaluator ends the call.
    let _ = context.budget.meter.spend(json.as_ref().map_or(0, data_size::of));
    Ok(json)
}

fn from_yaml(context: &mut Context, text: &[u8]) -> Result<Value, CallError> {
    Ok(match read_yaml(context, text)? {
        Err(text) => error_map(text),
        Ok(json @ Json::Object(_)) => Value::from_json(&json),
        // Go leaves the map as it is, only that it becomes nil.
        Ok(Json::Null) => Value::map(Entries::new()),
        Ok(other) => error_map(undecodable(&other, MAP)),
    })
}

fn from_yaml_array(context: &mut Context, text: &[u8]) -> Result<Value, CallError> {
    let failure = |text: String| Value::list(vec![Value::string(text)]);
    Ok(match read_yaml(context, text)? {
        Err(text) => failure(text),
        Ok(json @ Json::Array(_)) => Value::from_json(&json),
        Ok(Json::Null) => Value::list(Vec::new()),
        Ok(other) => failure(undecodable(&other, LIST)),
    })
}

/// Reads JSON of one kind; null is none of it, and no error.
fn from_json_text(context: &Context, text: &[u8], fits: fn(&Value) -> bool, wanted: &str) -> Result<Value, String> {
    let value = unmarshal(&context.budget.meter, text)?;
    if fits(&value) || value.is_nil() {
        Ok(value)
    } else {
        Err(mismatch(&to_json_value(context, &value)?, wanted))
    }
}

/// The encoder's panic text for nil.
const NIL_TOML: &str = "reflect: call of reflect.Value.Type on zero Value";
