//! `.Files`: the methods of Helm's `engine.files` (`pkg/engine/files.go`).

use crate::helm::convert::to_json_value;
use crate::helm::data::FILES;
use crate::helm::glob::Glob;
use crate::sprig::text::raw_bytes;
use go_template::value::{Entries, List, ListKind, Map, MapKind, Str, Value};
use go_yaml as yaml;

/// The longest pattern of `Glob`, in bytes.
const MAX_PATTERN: usize = 1 << 14;

/// Calls a method of `.Files`.
pub fn call(files: &Map, method: &str, args: &[Value]) -> Result<Value, String> {
    let first = match args.first() {
        Some(Value::String(text)) => text.clone(),
        _ => Str::from(""),
    };
    let bytes = || content(files, &first);
    Ok(match method {
        "GetBytes" => Value::bytes(&bytes()),
        "Get" => Value::string(bytes()),
        "Glob" if first.len() > MAX_PATTERN => {
            return Err(format!("the pattern is over the limit of {MAX_PATTERN} bytes"));
        }
        // A pattern that isn't UTF-8 is malformed.
        "Glob" => glob(files, std::str::from_utf8(first.as_bytes()).unwrap_or("**"))?,
        "AsConfig" => as_config(files),
        "AsSecrets" => as_secrets(files),
        "Lines" => lines(&bytes()),
        _ => Value::Nil,
    })
}

fn content(files: &Map, name: &Str) -> Vec<u8> {
    match files.get(name.as_bytes()) {
        Some(Value::String(data)) => data.as_bytes().to_vec(),
        Some(Value::List(list)) => raw_bytes(list.items()),
        _ => Vec::new(),
    }
}

fn glob(files: &Map, pattern: &str) -> Result<Value, String> {
    let glob = Glob::new(pattern)?;
    let mut found = Entries::new();
    for (name, data) in files.snapshot() {
        if glob.matches(name.as_bytes()) {
            found.insert(name, data);
        }
    }
    Ok(Value::Map(Map::new(FILES, found)))
}

fn base_name(path: &Str) -> Str {
    let path = path.as_bytes();
    Str::from(path.rsplit(|b| *b == b'/').next().unwrap_or(path))
}

/// A map of base names as YAML; of two files with one base name the later path wins.
fn yaml_of(files: &Map, value: impl Fn(Vec<u8>) -> Value) -> Value {
    let entries = files
        .snapshot()
        .into_iter()
        .map(|(name, _)| (base_name(&name), value(content(files, &name))));
    let map = Value::Map(Map::new(MapKind::String, entries.collect()));
    let text = to_json_value(&map).and_then(|json| yaml::to_string(&json).map_err(|e| e.to_string()));
    let text = text.unwrap_or_default();
    Value::string(text.strip_suffix('\n').unwrap_or(&text))
}

fn as_config(files: &Map) -> Value {
    yaml_of(files, Value::string)
}

fn as_secrets(files: &Map) -> Value {
    yaml_of(files, |bytes| Value::string(data_encoding::BASE64.encode(&bytes)))
}

fn lines(bytes: &[u8]) -> Value {
    let strings = |items| Value::List(List::new(ListKind::String, items));
    if bytes.is_empty() {
        return strings(Vec::new());
    }
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    strings(body.split(|b| *b == b'\n').map(Value::string).collect())
}
