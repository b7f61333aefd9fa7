//! Maps. `set` and `unset` change the map that they are given, which every holder of it sees, as in Go.
//!
//! Go visits maps in random order; `keys` and `values` are sorted by key here, so that a render is repeatable.

use crate::limit;
use crate::sprig::text;
use go_template::func::{CallError, Func, Meter, Rest};
use go_template::value::{ENTRY, Entries, List, Map, MapKind, Str, Value};

pub(crate) fn table<C: crate::sprig::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("dict", dict),
        Func::new("get", |map: &Map, key: &[u8]| {
            map.get(key).unwrap_or_else(|| Value::string(""))
        }),
        Func::new("set", set),
        Func::new("unset", |map: &Map, key: &[u8]| {
            map.entries.iter().for_each(|entries| entries.remove(key));
            map.with_kind(MapKind::Any)
        }),
        Func::new("hasKey", |map: &Map, key: &[u8]| map.get(key).is_some()),
        Func::new("pluck", |key: &[u8], maps: Rest<&Map>| {
            Value::list(maps.iter().filter_map(|map| map.get(key)).collect())
        }),
        Func::new("keys", keys),
        Func::new("values", |meter: &Meter, map: &Map| {
            limit::items(meter, map.len())?;
            let values = map.snapshot().into_iter().map(|(_, value)| value);
            Ok::<_, CallError>(Value::list(values.collect()))
        }),
        Func::new("pick", |map: &Map, keys: Rest<&Str>| {
            Value::map(
                keys.iter()
                    .filter_map(|key| Some((key.clone(), map.get(key)?)))
                    .collect(),
            )
        }),
        Func::new("omit", |map: &Map, keys: Rest<&[u8]>| {
            let mut entries: Entries = map.snapshot().into_iter().collect();
            keys.iter().for_each(|key| drop(entries.remove(key)));
            Value::map(entries)
        }),
        Func::new("dig", dig),
        Func::new("deepCopy", deep_copy),
        Func::new("mustDeepCopy", deep_copy),
    ]
}

/// Keys and values in turn; a last key without a value gets the empty string.
fn dict(meter: &Meter, all: Rest<&Value>) -> Value {
    let entries = all.values.chunks(2).filter_map(|pair| {
        let key = text::to_str(meter, pair.first()?);
        Some((key, pair.get(1).cloned().unwrap_or_else(|| Value::string(""))))
    });
    Value::map(entries.collect())
}

fn set(meter: &Meter, map: &Map, key: &Str, value: &Value) -> Result<Map, CallError> {
    // A map of one entry has room for four.
    meter.spend(2 * ENTRY + key.len() as u64)?;
    map.insert(key.clone(), value.clone())?;
    Ok(map.with_kind(MapKind::Any))
}

fn keys(meter: &Meter, maps: Rest<&Map>) -> Result<Value, CallError> {
    let mut keys = Vec::new();
    for map in maps.iter() {
        limit::items(meter, keys.len() + map.len())?;
        keys.extend(map.snapshot().into_iter().map(|(key, _)| key));
    }
    Ok(text::string_list(meter, keys))
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
fn dig(all: Rest<&Value>) -> Result<Value, CallError> {
    let [path @ .., default, map] = all.values else {
        return Err(CallError::from("dig needs at least three arguments"));
    };
    if path.is_empty() {
        return Err(CallError::from("dig needs at least three arguments"));
    }
    let mut found = Value::Map(plain_map(map)?.clone());
    for key in path {
        let Value::String(key) = key else {
            return Err(not_a(key, "string"));
        };
        match plain_map(&found)?.get(key.as_bytes()) {
            Some(value) => found = value,
            None => return Ok(default.clone()),
        }
    }
    Ok(found)
}

fn copied(value: &Value, depth: usize, budget: &mut limit::Budget<'_>) -> Result<Value, CallError> {
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
        other => other.clone(),
    })
}

/// A copy that shares no map or list with the original. Go's reflection can't copy nil.
fn deep_copy(meter: &Meter, value: &Value) -> Result<Value, CallError> {
    match value {
        Value::Nil => Err(CallError::from("reflect: call of reflect.Value.Type on zero Value")),
        value => copied(value, 0, &mut limit::Budget::new(meter, "deepCopy")),
    }
}
