//! `.Files`: the methods of Helm's `engine.files` (`pkg/engine/files.go`).

use crate::helm::Context;
use crate::helm::functions::convert::yaml_text;
use crate::helm::objects::data::FILES;
use crate::helm::objects::glob::Glob;
use crate::sprig::text::raw_bytes;
use go_template::meter::Meter;
use go_template::value::{Entries, List, ListKind, Map, MapKind, Str, Value};

/// The longest pattern of `Glob`, in bytes.
const MAX_PATTERN: usize = 1 << 14;

/// Calls a method of `.Files`.
pub fn call(context: &Context, files: &Map, method: &str, args: &[Value]) -> Result<Value, String> {
    let first = match args.first() {
        Some(Value::String(text)) => text.clone(),
        _ => Str::from(""),
    };
    Ok(match method {
        "GetBytes" => Value::bytes(&content(files, &first)),
        "Get" => Value::string(content(files, &first)),
        "Glob" => glob(&context.budget.meter, files, &first)?,
        "AsConfig" => yaml_of(context, files, Value::string),
        "AsSecrets" => yaml_of(context, files, |bytes| {
            Value::string(data_encoding::BASE64.encode(&bytes))
        }),
        "Lines" => lines(&content(files, &first)),
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

fn glob(meter: &Meter, files: &Map, pattern: &Str) -> Result<Value, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("the pattern is over the limit of {MAX_PATTERN} bytes"));
    }
    // A pattern that isn't UTF-8 is malformed.
    let glob = Glob::new(meter, std::str::from_utf8(pattern).unwrap_or("**"))?;
    let found = files.snapshot().into_iter();
    let found: Entries = found.filter(|(name, _)| glob.matches(name)).collect();
    Ok(Value::Map(Map::new(FILES, found)))
}

fn base_name(path: &Str) -> Str {
    let path = path.as_bytes();
    Str::from(path.rsplit(|b| *b == b'/').next().unwrap_or(path))
}

/// A map of base names as YAML; of two files with one base name the later path wins.
fn yaml_of(context: &Context, files: &Map, value: impl Fn(Vec<u8>) -> Value) -> Value {
    let entries = files
        .snapshot()
        .into_iter()
        .map(|(name, _)| (base_name(&name), value(content(files, &name))));
    let map = Value::Map(Map::new(MapKind::String, entries.collect()));
    Value::string(yaml_text(context, &map).unwrap_or_default())
}

fn lines(bytes: &[u8]) -> Value {
    let strings = |items| Value::List(List::new(ListKind::String, items));
    if bytes.is_empty() {
        return strings(Vec::new());
    }
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    strings(body.split(|b| *b == b'\n').map(Value::string).collect())
}
