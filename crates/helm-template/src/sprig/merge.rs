//! `merge` and its kin: what mergo v1.0.1 makes of two maps. The first map is changed in place.

use super::logic::is_empty;
use crate::limit;
use go_template::func::{CallError, Func, Rest};
use go_template::value::{Entries, Field, Map, MapKind, Object, Str, Value};

pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    let merge = |target: &Map, sources: Rest<&Map>| merged(target, &sources, false);
    let overwrite = |target: &Map, sources: Rest<&Map>| merged(target, &sources, true);
    vec![
        Func::new("merge", merge),
        Func::new("mustMerge", merge),
        Func::new("mergeOverwrite", overwrite),
        Func::new("mustMergeOverwrite", overwrite),
    ]
}

fn is_map(value: &Value) -> bool {
    matches!(value, Value::Map(_))
}

/// Merges `source` into `target`. Keys that `target` lacks, or holds empty values under, come from `source`; with
/// `overwrite` all keys do, nil and empty ones included. Maps under the same key merge; lists don't. Maps that only
/// `source` has are shared with it afterwards, not copied. Fails beyond
/// [`limit::MAX_DEPTH`] levels or [`limit::MAX_ITEMS`] maps.
pub fn merge_maps(target: &Map, source: &Map, overwrite: bool) -> Result<(), CallError> {
    merge_level(target, source, overwrite, 0, &mut limit::Budget::new("merge"))
}

fn merge_level(
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
    budget: &mut limit::Budget,
) -> Result<(), CallError> {
    budget.visit(depth)?;
    for (key, from) in source.snapshot() {
        let old = target.get(key.as_bytes());
        if from.is_nil() {
            if overwrite {
                put(target, source, key, from)?;
            }
            continue;
        }
        if let (Value::Map(from), Some(Value::Map(old))) = (&from, &old) {
            // A nil map can't be filled in place; it is replaced below, as it is empty.
            if old.entries.is_some() {
                merge_level(old, from, overwrite, depth + 1, budget)?;
            }
        }
        if let Some(Value::Object(old)) = &old {
            refuse(&**old, &from, overwrite)?;
        }
        let filled = old.as_ref().is_some_and(|old| !is_empty(old));
        if filled && is_map(&from) && old.as_ref().is_some_and(is_map) {
            continue;
        }
        if overwrite || !filled {
            put(target, source, key, from)?;
        }
    }
    Ok(())
}

/// What keeps a map, struct or pointer from being merged into a struct or pointer: its kind, or the fields it lacks.
/// Where nothing does, the value is kept, or replaced as a whole.
fn refuse(target: &dyn Object, source: &Value, overwrite: bool) -> Result<(), String> {
    match (target.kind(), source.kind()) {
        ("struct", "map" | "struct" | "ptr") => refuse_fields(target, source),
        ("ptr", "ptr") => match source {
            Value::Object(object) => (target.structure().into_iter().flatten())
                .zip(object.structure().into_iter().flatten())
                .try_for_each(|(field, from)| refuse_field(&field, &from.value)),
            _ => Ok(()),
        },
        ("ptr", "map" | "struct") if !overwrite => Err("src and dst must be of same type".to_owned()),
        _ => Ok(()),
    }
}

/// Fields are merged in pairs, by their places.
fn refuse_fields(target: &dyn Object, source: &Value) -> Result<(), String> {
    let fields = target.structure().unwrap_or_default();
    if !fields.iter().any(|field| field.name.starts_with(char::is_uppercase)) {
        return Ok(());
    }
    let sources = match source {
        Value::Object(object) if object.kind() == "struct" => object.structure().unwrap_or_default(),
        other => {
            return Err(format!(
                "reflect: call of reflect.Value.Field on {} Value",
                other.kind()
            ));
        }
    };
    if sources.len() < fields.len() {
        return Err("reflect: Field index out of range".to_owned());
    }
    let mut pairs = fields.iter().zip(&sources);
    pairs.try_for_each(|(field, from)| refuse_field(field, &from.value))
}

fn refuse_field(field: &Field, source: &Value) -> Result<(), String> {
    match &field.value {
        Value::Object(target) if target.kind() == "struct" => refuse_fields(&**target, source),
        _ => Ok(()),
    }
}

/// Reflection takes an element as its map's type has it, so what comes from a map of anything fits no map of strings.
fn put(target: &Map, source: &Map, key: Str, value: Value) -> Result<(), CallError> {
    let element = match target.kind {
        MapKind::String => "string",
        kind if kind.of_bytes() => "[]uint8",
        _ => return Ok(target.insert(key, value)?),
    };
    if source.kind == target.kind {
        return Ok(target.insert(key, value)?);
    }
    let text = format!("reflect.Value.SetMapIndex: value of type interface {{}} is not assignable to type {element}");
    Err(CallError::from(text))
}

fn merged(target: &Map, sources: &Rest<'_, &Map>, overwrite: bool) -> Result<Map, CallError> {
    let mut target = target.with_kind(MapKind::Any);
    for source in sources.iter() {
        if target.entries.is_none() && source.entries.is_some() {
            target = Map::new(MapKind::Any, Entries::new());
        }
        merge_maps(&target, source, overwrite)?;
    }
    Ok(target)
}
