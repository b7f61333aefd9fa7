//! Reads `metadata.managedFields`: one entry for each manager and operation, with the set of fields that it owns.
//!
//! Format of `fieldsV1`: `f:<name>` is a field, `k:{...}` the item of a list with these keys, `v:<value>` the item of a
//! set, `.` the object or item itself; `{}` ends a path (sigs.k8s.io/structured-merge-diff, `fieldpath/serialize-pe.go`).

use std::cmp::Reverse;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value, json};

/// The entry of what `manager` applied to the object itself.
pub(crate) fn applied<'e>(entries: &'e [ManagedFieldsEntry], manager: &str) -> Option<&'e ManagedFieldsEntry> {
    let is_main = |entry: &ManagedFieldsEntry| entry.subresource.as_deref().unwrap_or_default().is_empty();
    let is_apply = |entry: &ManagedFieldsEntry| entry.operation.as_deref() == Some("Apply");
    entries
        .iter()
        .find(|entry| entry.manager.as_deref() == Some(manager) && is_apply(entry) && is_main(entry))
}

/// Those of other managers that wrote the object itself or its `scale`, the latest first. Writers of the status are left
/// out. Times have a resolution of a second, so the order within one is that of the list.
pub(crate) fn foreign<'e>(entries: &'e [ManagedFieldsEntry], manager: &str) -> Vec<&'e ManagedFieldsEntry> {
    let mut found: Vec<&ManagedFieldsEntry> = entries.iter().filter(|entry| is_foreign(entry, manager)).collect();
    found.sort_by_key(|entry| Reverse(entry.time.as_ref().map(|time| time.0)));
    found
}

/// True for another manager that wrote the object itself or its `scale`.
pub(crate) fn is_foreign(entry: &ManagedFieldsEntry, manager: &str) -> bool {
    entry.manager.as_deref() != Some(manager) && entry.subresource.as_deref() != Some("status")
}

/// The fields of an entry.
pub(crate) fn fields(entry: &ManagedFieldsEntry) -> Option<&Value> {
    entry.fields_v1.as_ref().map(|fields| &fields.0)
}

/// True if `manager` applied a field and owns it. `pointer`: as `/f:spec/f:replicas`.
pub(crate) fn owns(entries: &[ManagedFieldsEntry], manager: &str, pointer: &str) -> bool {
    let own = applied(entries, manager).and_then(fields);
    own.is_some_and(|fields| fields.pointer(pointer).is_some())
}

/// The entries after fields have moved to `own` from those that `is_giver` takes. An entry without fields goes.
pub(crate) fn move_fields(
    entries: &[ManagedFieldsEntry],
    own: &ManagedFieldsEntry,
    set: &Value,
    is_giver: impl Fn(&ManagedFieldsEntry) -> bool,
) -> Vec<ManagedFieldsEntry> {
    let moved = entries.iter().filter_map(|entry| {
        let mut moved = entry.clone();
        let fields = moved.fields_v1.as_mut()?;
        if entry == own {
            unite(&mut fields.0, set);
        } else if is_giver(entry) {
            remove_set(&mut fields.0, set);
        }
        (!is_leaf(&fields.0)).then_some(moved)
    });
    moved.collect()
}

/// The keys of an item as people write them: `port=81,protocol=TCP`.
pub(crate) fn keys_text(keys: &Map<String, Value>) -> String {
    let texts = keys.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// The keys of an item, from `k:{...}`.
pub(crate) fn item_keys(key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(key.strip_prefix("k:")?).ok()
}

/// True if an item of a manifest may have these keys: one that it leaves out has its default, which only the server knows.
pub(crate) fn may_have(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter()
        .all(|(name, value)| item.get(name).is_none_or(|own| own == value))
        && keys.keys().any(|name| item.get(name).is_some())
}

/// True if a set of fields has nothing below it: one owner has the complete value.
pub(crate) fn is_leaf(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

/// Adds the paths of another set. `{}` is a path itself; one that has others below it says so with `.`.
pub(crate) fn unite(one: &mut Value, other: &Value) {
    let Value::Object(other) = other else { return };
    if !one.is_object() {
        *one = Value::Object(Map::new());
    }
    let Value::Object(one) = one else { return };
    for (key, theirs) in other {
        let Some(mine) = one.get_mut(key) else {
            one.insert(key.clone(), theirs.clone());
            continue;
        };
        let leaves = (is_leaf(mine), is_leaf(theirs));
        unite(mine, theirs);
        if let (true, false) | (false, true) = leaves
            && let Value::Object(mine) = mine
        {
            mine.insert(".".into(), json!({}));
        }
    }
}

/// Lists the fields of a set that these managers own, each as `spec.ports[port=81,protocol=TCP]` with its manager. What a manager owns
/// complete is one field.
pub(crate) fn owned_paths<'m>(
    set: &Value,
    managers: &[(&'m str, &Value)],
    path: &str,
    found: &mut Vec<(String, &'m str)>,
) {
    for (key, below) in set.as_object().into_iter().flatten() {
        let managers: Vec<(&str, &Value)> = managers
            .iter()
            .filter_map(|(name, set)| Some((*name, set.get(key)?)))
            .collect();
        let path = match (key.strip_prefix("f:"), item_keys(key)) {
            (Some(name), _) if path.is_empty() => name.to_owned(),
            (Some(name), _) => format!("{path}.{name}"),
            (None, Some(keys)) => format!("{path}[{}]", keys_text(&keys)),
            (None, None) => continue,
        };
        match managers.first() {
            Some((manager, _)) if is_leaf(below) || below.get(".").is_some() => found.push((path, *manager)),
            _ => owned_paths(below, &managers, &path, found),
        }
    }
}

/// Removes the paths of another set, in which a leaf stands for all that is below it.
pub(crate) fn remove_set(one: &mut Value, other: &Value) {
    let (Value::Object(one), Value::Object(other)) = (one, other) else {
        return;
    };
    for (key, below) in other {
        let Some(mine) = one.get_mut(key) else { continue };
        if is_leaf(below) {
            one.remove(key);
        } else if !is_leaf(mine) {
            remove_set(mine, below);
            // An empty set would be the ownership of the complete value.
            if is_leaf(mine) {
                one.remove(key);
            }
        }
    }
}

/// What a set of fields says of one item of a list: its keys as text, and the fields below it.
pub(crate) fn item_of<'v>(fields: &'v Value, item: &Value) -> Option<(String, &'v Value)> {
    let (key, below) = raw_item(fields, item)?;
    let text = match key.strip_prefix("v:") {
        Some(_) => item.to_string(),
        None => keys_text(&item_keys(key)?),
    };
    Some((text, below))
}

/// The key of an item of a list in a set of fields, and the fields below it.
pub(crate) fn raw_item<'v>(fields: &'v Value, item: &Value) -> Option<(&'v str, &'v Value)> {
    let is_of = |key: &str| match key.strip_prefix("v:") {
        Some(value) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item),
        None => item_keys(key).is_some_and(|keys| may_have(item, &keys)),
    };
    let mut entries = fields.as_object()?.iter();
    entries
        .find(|(key, _)| is_of(key))
        .map(|(key, below)| (key.as_str(), below))
}
