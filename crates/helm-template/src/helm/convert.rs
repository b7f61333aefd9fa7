//! Template values as plain data, and the functions that turn either into text: `toYaml` and its relatives.

use serde_json::{Map as JsonMap, Value as Json};

use super::{toml, toml_read};
use crate::gostd::json::{COMPACT, marshal, unmarshal};
use go_template::func::CallError;
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
                        Value::String(data) if map.kind == MapKind::Files => {
                            Json::String(data_encoding::BASE64.encode(data.as_bytes()))
                        }
                        value => convert(value, depth + 1)?,
                    };
                    object.insert(yaml::go_json_string(key.as_bytes()), value);
                }
                Json::Object(object)
            }
        },
        Value::Object(object) => object.to_json()?,
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
                    Value::String(data) if map.kind == MapKind::Files => {
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

type Out = Result<Value, CallError>;

fn argument(args: &[Value]) -> &Value {
    args.first().unwrap_or(&Value::Nil)
}

fn text(args: &[Value]) -> &[u8] {
    match args.first() {
        Some(Value::String(text)) => text.as_bytes(),
        _ => b"",
    }
}

fn yaml_text(value: &Value, write: fn(&Json) -> Result<String, yaml::Error>) -> Result<Value, String> {
    let json = to_json_value(value).map_err(|text| match text.starts_with("json: ") {
        true => format!("error marshaling into JSON: {text}"),
        false => text,
    })?;
    let mut text = write(&json).map_err(|e| e.to_string())?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(Value::string(text))
}

pub(super) fn to_yaml(args: &[Value]) -> Out {
    Ok(yaml_text(argument(args), yaml::to_string).unwrap_or_else(|_| Value::string("")))
}

pub(super) fn must_to_yaml(args: &[Value]) -> Out {
    Ok(yaml_text(argument(args), yaml::to_string)?)
}

pub(super) fn to_yaml_pretty(args: &[Value]) -> Out {
    let text = tree(argument(args), 0).and_then(|tree| yaml::tree_to_string(&tree).map_err(|e| e.to_string()));
    let text = text.unwrap_or_default();
    Ok(Value::string(text.strip_suffix('\n').unwrap_or(&text)))
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

fn empty_map() -> Value {
    Value::map(Entries::new())
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

pub(super) fn from_yaml(args: &[Value]) -> Out {
    if !has_room_for(text(args)) {
        return Err(CallError::Text(Overrun::Memory.to_string()));
    }
    Ok(match yaml::to_json(text(args)).map(yaml::all_floats).map(charged) {
        Err(e) => error_map(e.to_string()),
        Ok(json @ Json::Object(_)) => Value::from_json(&json),
        // Go leaves the map as it is, only that it becomes nil.
        Ok(Json::Null) => empty_map(),
        Ok(other) => error_map(format!(
            "error unmarshaling JSON: while decoding JSON: {}",
            mismatch(&other, MAP)
        )),
    })
}

pub(super) fn from_yaml_array(args: &[Value]) -> Out {
    let failure = |text: String| Value::list(vec![Value::string(text)]);
    if !has_room_for(text(args)) {
        return Err(CallError::Text(Overrun::Memory.to_string()));
    }
    Ok(match yaml::to_json(text(args)).map(yaml::all_floats).map(charged) {
        Err(e) => failure(e.to_string()),
        Ok(json @ Json::Array(_)) => Value::from_json(&json),
        Ok(Json::Null) => Value::list(Vec::new()),
        Ok(other) => failure(format!(
            "error unmarshaling JSON: while decoding JSON: {}",
            mismatch(&other, LIST)
        )),
    })
}

pub(super) fn to_json(args: &[Value]) -> Out {
    Ok(Value::string(marshal(argument(args), COMPACT).unwrap_or_default()))
}

pub(super) fn must_to_json(args: &[Value]) -> Out {
    Ok(Value::string(marshal(argument(args), COMPACT)?))
}

/// Reads JSON of one kind; null is none of it, and no error.
fn from_json_text(args: &[Value], fits: fn(&Value) -> bool, wanted: &str) -> Result<Value, String> {
    let value = unmarshal(text(args))?;
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

pub(super) fn from_json(args: &[Value]) -> Out {
    Ok(
        match from_json_text(args, |value| matches!(value, Value::Map(_)), MAP) {
            // Go's decoder makes a nil map, and a nil list, of null.
            Ok(Value::Nil) => Value::Map(Map::nil(MapKind::Any)),
            Ok(value) => value,
            Err(text) => error_map(text),
        },
    )
}

pub(super) fn from_json_array(args: &[Value]) -> Out {
    Ok(
        match from_json_text(args, |value| matches!(value, Value::List(_)), LIST) {
            Ok(Value::Nil) => Value::List(List::nil(ListKind::Any)),
            Ok(value) => value,
            Err(text) => Value::list(vec![Value::string(text)]),
        },
    )
}

/// What the encoder panics with on nil.
const NIL_TOML: &str = "reflect: call of reflect.Value.Type on zero Value";

pub(super) fn to_toml(args: &[Value]) -> Out {
    if argument(args).is_nil() {
        return Err(NIL_TOML.into());
    }
    Ok(Value::string(
        toml::encode(argument(args)).unwrap_or_else(String::into_bytes),
    ))
}

pub(super) fn must_to_toml(args: &[Value]) -> Out {
    if argument(args).is_nil() {
        return Err(NIL_TOML.into());
    }
    Ok(Value::string(toml::encode(argument(args))?))
}

pub(super) fn from_toml(args: &[Value]) -> Out {
    Ok(toml_read::read(text(args)).unwrap_or_else(error_map))
}
