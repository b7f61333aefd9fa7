//! Template values as plain data, and the functions that turn either into text: `toYaml` and its relatives.

use serde_json::{Map as JsonMap, Value as Json};

use super::{toml, toml_read};
use crate::gostd::json::{COMPACT, marshal, unmarshal};
use go_template::func::{CallError, Func};
use go_template::meter::{self, Overrun};
use go_template::value::{Entries, List, ListKind, Map, MapKind, Str, Value};
use go_yaml::{self as yaml, Tree};

/// Whether a value nests deeper than one that is written: then it is taken to contain itself.
fn is_endless(depth: usize) -> bool {
    depth > yaml::max_depth() + 1
}

/// What a node of JSON data takes, in bytes.
const JSON_NODE: u64 = 80;
/// What a node takes while a text is read: as a part of the text, as data and as a value.
const READ_NODE: u64 = 3 * JSON_NODE;
/// What stands between the nodes of a text: before each there is one of these at least.
const YAML_MARKS: &[u8] = b"\n:,[{-?";

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
    if is_endless(depth) {
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

/// A value as go-yaml takes it, without a detour over JSON: bytes are lists of numbers, the fields of a struct are in
/// lower case, nil lists and maps are empty.
fn tree(value: &Value, depth: usize) -> Result<Tree, String> {
    count(value)?;
    if is_endless(depth) {
        return Err("the value contains itself".to_owned());
    }
    let numbers = |bytes: &[u8]| Tree::Sequence(bytes.iter().map(|byte| Tree::Scalar(Json::from(*byte))).collect());
    Ok(match value {
        Value::Float64(n) if n.is_nan() => Tree::Bare(".nan".to_owned()),
        Value::Float64(n) if n.is_infinite() => Tree::Bare(if *n > 0.0 { ".inf" } else { "-.inf" }.to_owned()),
        Value::String(text) => Tree::Scalar(Json::from(text.to_text())),
        Value::List(list) => {
            let items = list.items().iter().map(|item| tree(item, depth + 1));
            Tree::Sequence(items.collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let entries = map.snapshot().into_iter().map(|(key, value)| {
                let value = match &value {
                    // Files are byte slices to Go.
                    Value::String(data) if map.kind.of_bytes() => {
                        if !meter::spend(JSON_NODE * data.len() as u64) {
                            return Err(Overrun::Memory.to_string());
                        }
                        numbers(data.as_bytes())
                    }
                    value => tree(value, depth + 1)?,
                };
                Ok((key.to_text().into_owned(), value))
            });
            Tree::Map(entries.collect::<Result<_, _>>()?)
        }
        Value::Object(object) => match (object.bare(), object.structure()) {
            (Some(text), _) => Tree::Bare(match object.to_json() {
                Ok(Json::String(text)) => text,
                _ => text,
            }),
            (None, _) if object.as_int().is_some() && object.type_name() == "time.Duration" => {
                Tree::Bare(object.display())
            }
            (None, Some(fields)) if !object.is_stringer() => {
                let exported = fields.iter().filter(|field| is_exported(field.name));
                let entries = exported.map(|field| Ok((field.name.to_lowercase(), tree(&field.value, depth + 1)?)));
                Tree::Struct(entries.collect::<Result<_, String>>()?)
            }
            _ => Tree::Scalar(object.to_json()?),
        },
        scalar => Tree::Scalar(convert(scalar, depth)?),
    })
}

/// Whether Go exports a field of that name.
pub(super) fn is_exported(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    vec![
        Func::new("toYaml", |value: &Value| {
            yaml_text(value, yaml::to_string).unwrap_or_default()
        }),
        Func::new("mustToYaml", |value: &Value| yaml_text(value, yaml::to_string)),
        Func::new("toYamlPretty", |value: &Value| {
            let text = tree(value, 0).and_then(|tree| yaml::tree_to_string(&tree).map_err(|e| e.to_string()));
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
        Func::new("toJson", |value: &Value| marshal(value, COMPACT).unwrap_or_default()),
        Func::new("mustToJson", |value: &Value| marshal(value, COMPACT)),
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

fn yaml_text(value: &Value, write: fn(&Json) -> Result<String, yaml::Error>) -> Result<String, String> {
    let json = to_json_value(value).map_err(|text| match text.starts_with("json: ") {
        true => format!("error marshaling into JSON: {text}"),
        false => text,
    })?;
    write(&json).map(without_last_break).map_err(|e| e.to_string())
}

/// The text of Go's error for JSON of another sort than wanted.
fn mismatch(found: &Json, wanted: &str) -> String {
    let found = match found {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

const MAP: &str = "map[string]interface {}";
const LIST: &str = "[]interface {}";

fn error_map(text: String) -> Value {
    Value::map(Entries::from([(Str::from("Error"), Value::string(text))]))
}

/// Charges what data that was read takes, as template values.
fn charged(json: Json) -> Json {
    charge(&json);
    json
}

pub(super) fn charge(json: &Json) -> bool {
    match json {
        Json::Array(items) => meter::spend(JSON_NODE) && items.iter().all(charge),
        Json::Object(entries) => {
            meter::spend(JSON_NODE)
                && entries
                    .iter()
                    .all(|(key, value)| meter::spend(JSON_NODE + key.len() as u64) && charge(value))
        }
        Json::String(text) => meter::spend(JSON_NODE + text.len() as u64),
        _ => meter::spend(JSON_NODE),
    }
}

/// Whether there is room to read a text whose nodes are no more than its marks of structure. What was really made of it is
/// counted afterwards.
fn has_room_for(text: &[u8]) -> bool {
    let nodes = 1 + text.iter().filter(|byte| YAML_MARKS.contains(byte)).count() as u64;
    meter::has_room(text.len() as u64 + nodes * READ_NODE)
}

/// Reads YAML as JSON data with all numbers as floats.
fn read_yaml(text: &[u8]) -> Result<Result<Json, String>, CallError> {
    if !has_room_for(text) {
        return Err(CallError::Text(Overrun::Memory.to_string()));
    }
    let json = yaml::to_json(text).map(yaml::all_floats).map(charged);
    Ok(json.map_err(|e| e.to_string()))
}

fn decoding(found: &Json, wanted: &str) -> String {
    let mismatch = mismatch(found, wanted);
    format!("error unmarshaling JSON: while decoding JSON: {mismatch}")
}

fn from_yaml(text: &[u8]) -> Result<Value, CallError> {
    Ok(match read_yaml(text)? {
        Err(text) => error_map(text),
        Ok(json @ Json::Object(_)) => Value::from_json(&json),
        // Go leaves the map as it is, only that it becomes nil.
        Ok(Json::Null) => Value::map(Entries::new()),
        Ok(other) => error_map(decoding(&other, MAP)),
    })
}

fn from_yaml_array(text: &[u8]) -> Result<Value, CallError> {
    let failure = |text: String| Value::list(vec![Value::string(text)]);
    Ok(match read_yaml(text)? {
        Err(text) => failure(text),
        Ok(json @ Json::Array(_)) => Value::from_json(&json),
        Ok(Json::Null) => Value::list(Vec::new()),
        Ok(other) => failure(decoding(&other, LIST)),
    })
}

/// Reads JSON of one kind; null is none of it, and no error.
fn from_json_text(text: &[u8], fits: fn(&Value) -> bool, wanted: &str) -> Result<Value, String> {
    let value = unmarshal(text)?;
    if fits(&value) || value.is_nil() {
        return Ok(value);
    }
    let found = match value {
        Value::Bool(_) => Json::Bool(true),
        Value::String(_) => Json::String(String::new()),
        Value::List(_) => Json::Array(Vec::new()),
        Value::Map(_) => Json::Object(JsonMap::new()),
        _ => Json::from(0),
    };
    Err(mismatch(&found, wanted))
}

/// What the encoder panics with on nil.
const NIL_TOML: &str = "reflect: call of reflect.Value.Type on zero Value";
