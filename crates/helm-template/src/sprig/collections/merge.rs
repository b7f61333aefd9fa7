//! `merge` and its kin: what mergo v1.0.1 makes of two maps. The first map is changed in place.

use crate::limit;
use crate::sprig::logic::is_empty;
use go_template::func::{CallError, Func, Meter, Rest};
use go_template::value::{Entries, Map, MapKind, Str, Value};

pub(crate) fn table<C: crate::sprig::Env>() -> Vec<Func<C>> {
    let merge = |meter: &Meter, target: &Map, sources: Rest<&Map>| merged(meter, target, &sources, false);
    let overwrite = |meter: &Meter, target: &Map, sources: Rest<&Map>| merged(meter, target, &sources, true);
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
/// `source` has are shared with it afterwards, not copied. Fails as a [`limit::Budget`] does.
pub fn merge_maps(meter: &Meter, target: &Map, source: &Map, overwrite: bool) -> Result<(), CallError> {
    merge_level(target, source, overwrite, 0, &mut limit::Budget::new(meter, "merge"))
}

fn merge_level(
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
    budget: &mut limit::Budget<'_>,
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

/// A map of texts, or of files, takes no values of another type.
fn put(target: &Map, source: &Map, key: Str, value: Value) -> Result<(), CallError> {
    let takes_one_type = target.kind == MapKind::String || target.kind.of_bytes();
    if takes_one_type && target.kind != source.kind {
        return Err("a map of one type of values can't be merged with one of another".into());
    }
    Ok(target.insert(key, value)?)
}

fn merged(meter: &Meter, target: &Map, sources: &Rest<'_, &Map>, overwrite: bool) -> Result<Map, CallError> {
    let mut target = target.with_kind(MapKind::Any);
    for source in sources.iter() {
        if target.entries.is_none() && source.entries.is_some() {
            target = Map::new(MapKind::Any, Entries::new());
        }
        merge_maps(meter, &target, source, overwrite)?;
    }
    Ok(target)
}
