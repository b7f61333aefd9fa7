//! Maps. `set` and `unset` change the map that they are given, which every holder of it sees, as in Go.
//!
//! Go visits maps in random order; `keys` and `values` are sorted by key here, so that a render is repeatable.

use super::args::{Args, Out};
use super::{pure, text};
use crate::limit;
use go_template::func::{CallError, Func};
use go_template::meter;
use go_template::value::{ENTRY, Entries, List, Map, MapKind, Str, Value};

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("dict", [], Any.., dict),
        pure!("get", [Map, String], get),
        pure!("set", [Map, String, Any], set),
        pure!("unset", [Map, String], unset),
        pure!("hasKey", [Map, String], has_key),
        pure!("pluck", [String], Map.., pluck),
        pure!("keys", [], Map.., keys),
        pure!("values", [Map], values),
        pure!("pick", [Map], String.., pick),
        pure!("omit", [Map], String.., omit),
        pure!("dig", [], Any.., dig),
        pure!("deepCopy", [Any], deep_copy),
        pure!("mustDeepCopy", [Any], deep_copy),
    ]
}

/// Keys and values in turn; a last key without a value gets the empty string.
fn dict(args: &[Value]) -> Out {
    let entries = args.chunks(2).map(|pair| {
        let key = match pair.any(0) {
            Value::String(text) => text.clone(),
            other => Str::from(text::strval(other)),
        };
        (key, pair.get(1).cloned().unwrap_or_else(|| Value::string("")))
    });
    Ok(Value::map(entries.collect()))
}

fn get(args: &[Value]) -> Out {
    Ok(args.map(0)?.get(args.text(1)?).unwrap_or_else(|| Value::string("")))
}

fn set(args: &[Value]) -> Out {
    let map = args.map(0)?;
    // A map of one entry has room for four.
    if !meter::spend(2 * ENTRY + args.text(1)?.len() as u64) {
        return Err(CallError::Text(meter::Overrun::Memory.to_string()));
    }
    map.insert(Str::from(args.text(1)?), args.any(2).clone())?;
    Ok(Value::Map(map.with_kind(MapKind::Any)))
}

fn unset(args: &[Value]) -> Out {
    let map = args.map(0)?;
    if let Some(entries) = &map.entries {
        entries.remove(args.text(1)?);
    }
    Ok(Value::Map(map.with_kind(MapKind::Any)))
}

fn has_key(args: &[Value]) -> Out {
    Ok(Value::Bool(args.map(0)?.get(args.text(1)?).is_some()))
}

fn pluck(args: &[Value]) -> Out {
    let key = args.text(0)?;
    let mut found = Vec::new();
    for index in 1..args.len() {
        found.extend(args.map(index)?.get(key));
    }
    Ok(Value::list(found))
}

fn keys(args: &[Value]) -> Out {
    let mut keys = Vec::new();
    for index in 0..args.len() {
        let map = args.map(index)?;
        limit::items(keys.len() + map.len())?;
        keys.extend(map.snapshot().into_iter().map(|(key, _)| key));
    }
    Ok(text::string_list(keys))
}

fn values(args: &[Value]) -> Out {
    limit::items(args.map(0)?.len())?;
    Ok(Value::list(
        args.map(0)?.snapshot().into_iter().map(|(_, value)| value).collect(),
    ))
}

fn pick(args: &[Value]) -> Out {
    let map = args.map(0)?;
    let mut entries = Entries::new();
    for index in 1..args.len() {
        let key = args.text(index)?;
        if let Some(value) = map.get(key) {
            entries.insert(Str::from(key), value);
        }
    }
    Ok(Value::map(entries))
}

fn omit(args: &[Value]) -> Out {
    let mut entries: Entries = args.map(0)?.snapshot().into_iter().collect();
    for index in 1..args.len() {
        entries.remove(args.text(index)?);
    }
    Ok(Value::map(entries))
}

/// Go's panic text for a type assertion that fails.
fn not_a(value: &Value, wanted: &str) -> CallError {
    let found = if value.is_nil() { "nil" } else { value.type_name() };
    CallError::Text(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}

/// Exactly `map[string]interface {}`: Helm's own map type is refused, as Go's type assertion refuses it.
fn plain_map(value: &Value) -> Result<&Map, CallError> {
    match value {
        Value::Map(map) if map.kind == MapKind::Any => Ok(map),
        other => Err(not_a(other, "map[string]interface {}")),
    }
}

/// Keys, then a default, then a map: the value under that path, or the default if a key is missing.
fn dig(args: &[Value]) -> Out {
    let [path @ .., default, map] = args else {
        return Err(CallError::from("dig needs at least three arguments"));
    };
    if path.is_empty() {
        return Err(CallError::from("dig needs at least three arguments"));
    }
    let mut found = Value::Map(plain_map(map)?.clone());
    for key in path {
        if !matches!(key, Value::String(_)) {
            return Err(not_a(key, "string"));
        }
    }
    for key in path {
        let Value::String(key) = key else { continue };
        match plain_map(&found)?.get(key.as_bytes()) {
            Some(value) => found = value,
            None => return Ok(default.clone()),
        }
    }
    Ok(found)
}

fn copied(value: &Value, depth: usize, budget: &mut limit::Budget) -> Result<Value, CallError> {
    budget.visit(depth)?;
    Ok(match value {
        Value::List(list) if !list.is_nil() => {
            let items = list.items().iter();
            let items = items
                .map(|item| copied(item, depth + 1, budget))
                .collect::<Result<_, _>>()?;
            Value::List(List::new(list.kind, items))
        }
        Value::Map(map) if map.entries.is_some() => {
            // A loop, since adapters would take stack on every level.
            let mut entries = map.snapshot();
            for (_, value) in &mut entries {
                *value = copied(value, depth + 1, budget)?;
            }
            Value::Map(Map::new(map.kind, entries.into_iter().collect()))
        }
        // Go's reflection sees exported fields only, and a version has none.
        Value::Object(object) if object.type_name().ends_with("semver.Version") => super::semver::zero(object),
        Value::Object(object) => object.copied().unwrap_or_else(|| Value::Object(object.clone())),
        other => other.clone(),
    })
}

/// A copy that shares no map or list with the original. Go's reflection can't copy nil.
fn deep_copy(args: &[Value]) -> Out {
    match args.any(0) {
        Value::Nil => Err(CallError::from("reflect: call of reflect.Value.Type on zero Value")),
        value => copied(value, 0, &mut limit::Budget::new("deepCopy")),
    }
}
