//! Who owns which field: the sets of `managedFields` and what server-side apply makes of them, for objects without a
//! schema (maps by key, lists whole, finalizers as a set, owners by UID), as structured-merge-diff does it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::server::is_system;

/// From the root; the last element may be `v:<finalizer>` or `k:{"uid":"<owner>"}`.
pub type FieldPath = Vec<String>;
pub type FieldSet = BTreeSet<FieldPath>;

/// Manager, operation (`Apply` or `Update`) and subresource.
pub type Manager = (String, String, String);

/// A string value; empty if it is no string.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Fields without owners (structured-merge-diff's strip set of the API server).
fn is_unowned(path: &FieldPath) -> bool {
    match path.first().map(String::as_str) {
        Some("apiVersion" | "kind") => true,
        Some("metadata") => path
            .get(1)
            .is_some_and(|field| field == "name" || field == "namespace" || is_system(field)),
        _ => false,
    }
}

/// The lists of the metadata whose items are fields.
const LISTS: [&str; 2] = ["finalizers", "ownerReferences"];

fn item_key(item: &Value) -> String {
    match item.as_str() {
        Some(finalizer) => format!("v:{finalizer}"),
        None => format!("k:{}", json!({"uid": item["uid"]})),
    }
}

/// An object whose [`LISTS`] are maps by their items' keys.
fn with_maps(object: &Value) -> Value {
    let mut object = object.clone();
    for field in LISTS {
        if let Some(list) = object["metadata"][field].as_array() {
            let items: Map<String, Value> = list.iter().map(|item| (item_key(item), item.clone())).collect();
            object["metadata"][field] = items.into();
        }
    }
    object
}

/// Undoes [`with_maps`]; what is there already stays in its place.
fn with_lists(mut object: Value, live: &Value) -> Value {
    for field in LISTS {
        if let Some(items) = object["metadata"][field].as_object() {
            let was = live["metadata"][field].as_array().into_iter().flatten();
            let was: Vec<String> = was.map(item_key).collect();
            let mut items: Vec<(&String, &Value)> = items.iter().collect();
            items.sort_by_key(|(key, _)| was.iter().position(|was| was == *key).unwrap_or(was.len()));
            object["metadata"][field] = items.into_iter().map(|(_, item)| item.clone()).collect();
        }
    }
    object
}

/// The leaves of an object with their values.
pub fn leaves(object: &Value) -> BTreeMap<FieldPath, Value> {
    let found = fields(object).into_iter().filter(|(_, value)| !is_filled(value));
    found.map(|(path, value)| (path, value.clone())).collect()
}

/// What stands for a map that has fields.
static FILLED: LazyLock<Value> = LazyLock::new(|| json!({".": {}}));

fn is_filled(value: &Value) -> bool {
    *value == *FILLED
}

/// A map in what has no schema is a field of its own, beside those that are in it.
fn is_item(path: &[String]) -> bool {
    matches!(path, [first, _, ..] if first == "spec" || first == "status")
}

/// The leaves of an object with their values, and the maps that they are in.
fn fields(object: &Value) -> BTreeMap<FieldPath, &Value> {
    fn walk<'v>(value: &'v Value, path: &mut FieldPath, found: &mut BTreeMap<FieldPath, &'v Value>) {
        match value {
            // What an owner reference has is no field of its own.
            Value::Object(map) if !map.is_empty() && !path.last().is_some_and(|last| last.starts_with("k:")) => {
                found.insert(path.clone(), &FILLED);
                for (key, value) in map {
                    path.push(key.clone());
                    walk(value, path, found);
                    path.pop();
                }
            }
            // A null is a value where there is no schema; elsewhere Go's types drop it.
            Value::Null if path.first().is_none_or(|first| first != "spec") => {}
            leaf => drop(found.insert(path.clone(), leaf)),
        }
    }
    let mut found = BTreeMap::new();
    walk(object, &mut Vec::new(), &mut found);
    found.retain(|path, _| !path.is_empty() && !is_unowned(path));
    found
}

/// The fields that can have an owner.
fn ownable<'f>(fields: impl IntoIterator<Item = (&'f FieldPath, &'f &'f Value)>) -> FieldSet {
    let fields = fields.into_iter();
    let ownable = fields.filter(|(path, value)| is_item(path) || !is_filled(value));
    ownable.map(|(path, _)| path.clone()).collect()
}

/// True if a field of this value is added or modified. That a map gets fields or loses them all is no change of its own.
fn differs(before: Option<&Value>, after: &Value) -> bool {
    let may_be_map = |value: &Value| value.is_object() || value.is_null();
    before.is_none_or(|before| {
        if is_filled(before) || is_filled(after) {
            !may_be_map(before) || !may_be_map(after)
        } else {
            before != after
        }
    })
}

/// What one write did to the fields.
struct FieldComparison {
    /// Added or modified.
    changed: FieldSet,
    removed: FieldSet,
}

impl FieldComparison {
    fn of(before: &BTreeMap<FieldPath, &Value>, after: &Value) -> Self {
        let after = fields(after);
        let changed = after
            .iter()
            .filter(|(path, value)| differs(before.get(*path).copied(), value));
        let removed = before.keys().filter(|path| !after.contains_key(*path));
        FieldComparison {
            changed: ownable(changed),
            removed: removed.cloned().collect(),
        }
    }

    /// Takes from others what is no longer theirs.
    fn leave(&self, owned: &mut FieldSet) {
        owned.retain(|path| !self.changed.contains(path) && !self.removed.contains(path));
    }
}

fn set_at(object: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let child = &mut object[first.as_str()];
    set_at(child, rest, value);
}

/// A map that lost its last field: null if there is no schema (`free`), and elsewhere Go's types drop it.
fn remove_at(object: &mut Value, path: &[String], free: bool) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        if let Some(map) = object.as_object_mut() {
            map.remove(first);
        }
        return;
    }
    if let Some(child) = object.as_object_mut().and_then(|map| map.get_mut(first)) {
        remove_at(child, rest, free);
        if child.as_object().is_some_and(Map::is_empty) {
            if free {
                *child = Value::Null
            } else {
                remove_at(object, std::slice::from_ref(first), free)
            }
        }
    }
}

/// Maps and lists of the metadata that became empty go, as they do on the way through Go's types.
fn without_empty(object: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        value => value.is_null(),
    };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|_, value| !is_empty(value));
    }
    let typed = matches!(object["kind"].as_str(), Some("ConfigMap" | "Secret"));
    if let Some(map) = object.as_object_mut().filter(|_| typed) {
        map.retain(|key, value| key != "data" || !is_empty(value));
    }
}

/// Reads `metadata.managedFields`.
pub fn managers(object: &Value) -> BTreeMap<Manager, (FieldSet, String)> {
    fn walk(fields: &Map<String, Value>, path: &mut FieldPath, found: &mut FieldSet) {
        for (key, value) in fields {
            if key == "." {
                if is_item(path) {
                    found.insert(path.clone());
                }
                continue;
            }
            let element = match key.strip_prefix("f:") {
                Some(name) => name.to_owned(),
                None if key.starts_with("k:") => key.clone(),
                None => format!("v:{}", key.trim_start_matches("v:").trim_matches('"')),
            };
            path.push(element);
            match value.as_object().filter(|map| map.keys().any(|key| key != ".")) {
                Some(map) => walk(map, path, found),
                None => drop(found.insert(path.clone())),
            }
            path.pop();
        }
    }
    let text = |value: &Value| text(value).to_owned();
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|entry| {
            let mut set = FieldSet::new();
            if let Some(fields) = entry["fieldsV1"].as_object() {
                walk(fields, &mut Vec::new(), &mut set);
            }
            let (name, operation) = (text(&entry["manager"]), text(&entry["operation"]));
            let manager = (name, operation, text(&entry["subresource"]));
            (manager, (set, text(&entry["time"])))
        })
        .collect()
}

fn write_managers(object: &mut Value, managers: &BTreeMap<Manager, (FieldSet, String)>) {
    let version = object["apiVersion"].clone();
    let entries = managers.iter().filter(|(_, (set, _))| !set.is_empty()).map(
        |((name, operation, sub), (set, time))| {
            let mut fields = json!({});
            for path in set {
                let mut place = &mut fields;
                for (depth, element) in path.iter().enumerate() {
                    if set.contains(&path[..depth]) {
                        place["."] = json!({});
                    }
                    let key = match element.strip_prefix("v:") {
                        Some(item) => format!("v:\"{item}\""),
                        None if element.starts_with("k:") => element.clone(),
                        None => format!("f:{element}"),
                    };
                    if place[key.as_str()].is_null() {
                        place[key.as_str()] = json!({});
                    }
                    place = &mut place[key.as_str()];
                }
            }
            let mut entry = json!({
                "manager": name, "operation": operation, "time": time, "apiVersion": version, "fieldsType": "FieldsV1",
                "fieldsV1": fields,
            });
            if !sub.is_empty() {
                entry["subresource"] = sub.as_str().into();
            }
            entry
        },
    );
    object["metadata"]["managedFields"] = entries.collect();
}

/// With the maps that have a schema around each: they come and go with what is in them.
fn with_named<'s>(set: impl IntoIterator<Item = &'s FieldPath>) -> FieldSet {
    let mut all = FieldSet::new();
    for path in set {
        let around = (1..path.len()).map(|length| path[..length].to_vec());
        all.extend(around.filter(|path| !is_item(path)));
        all.insert(path.clone());
    }
    all
}

/// Removes the fields of an applier's last configuration that no manager has now. `free`: the kind has no schema.
fn prune(merged: &mut Value, last: &FieldSet, managers: &BTreeMap<Manager, (FieldSet, String)>, free: bool) {
    let there: FieldSet = fields(merged).into_keys().collect();
    let last = with_named(last);
    let managed = with_named(managers.values().flat_map(|(set, _)| set));
    let without = |gone: &FieldSet| -> FieldSet {
        let goes = |path: &FieldPath| (1..=path.len()).any(|length| gone.contains(&path[..length]));
        there.iter().filter(|path| !goes(path)).cloned().collect()
    };
    let left = without(&last);
    let unmanaged = there
        .iter()
        .filter(|path| !left.contains(*path) && !managed.contains(*path));
    let left = without(&unmanaged.cloned().collect());
    let gone = there
        .iter()
        .filter(|path| !left.contains(*path) && last.contains(*path));
    for path in gone {
        // A name and a UID are always left of the metadata.
        if path.len() > 1 || path[0] != "metadata" {
            remove_at(merged, path, free && is_item(path));
        }
    }
}

/// Server-side apply. `free`: the kind has no schema. `Err`: the managers that own other values of the same fields.
pub fn apply(
    live: &Value,
    applied: &Value,
    manager: &Manager,
    force: bool,
    free: bool,
    now: &str,
) -> Result<Value, Vec<String>> {
    let (before, applied) = (with_maps(live), with_maps(applied));
    let (wanted, present) = (fields(&applied), fields(&before));
    let mut owners = managers(live);
    let (last, since) = owners.remove(manager).unwrap_or_default();
    owners.insert(manager.clone(), (ownable(&wanted), since));
    let mut merged = before.clone();
    for (path, value) in wanted.iter().filter(|(_, value)| !is_filled(value)) {
        // An empty map requests no content.
        let keeps = value.is_object() && present.get(path).copied().is_some_and(is_filled);
        if !keeps {
            set_at(&mut merged, path, Value::clone(value));
        }
    }
    if !last.is_empty() {
        prune(&mut merged, &last, &owners, free);
    }
    without_empty(&mut merged);
    let comparison = FieldComparison::of(&present, &merged);
    let mut merged = with_lists(merged, live);
    let mut conflicts = BTreeSet::new();
    for (other, (owned, _)) in owners.iter_mut().filter(|(other, _)| *other != manager) {
        if !owned.is_disjoint(&comparison.changed) {
            conflicts.insert(other.0.clone());
        }
        comparison.leave(owned);
    }
    if !conflicts.is_empty() && !force {
        return Err(conflicts.into_iter().collect());
    }
    write_managers(&mut merged, &owners);
    if merged == *live {
        return Ok(merged);
    }
    if let Some(owner) = owners.get_mut(manager) {
        owner.1 = now.to_owned();
    }
    write_managers(&mut merged, &owners);
    Ok(merged)
}

/// Any other write: changed fields belong to the writer, removed fields to no manager.
pub fn update(live: &Value, changed: &Value, manager: &Manager, now: &str) -> Value {
    let mut changed = changed.clone();
    without_empty(&mut changed);
    let comparison = FieldComparison::of(&fields(&with_maps(live)), &with_maps(&changed));
    let mut owners = managers(live);
    for (owned, _) in owners.values_mut() {
        comparison.leave(owned);
    }
    if !comparison.changed.is_empty() {
        let own = owners.entry(manager.clone()).or_default();
        own.0.extend(comparison.changed);
        own.1 = now.to_owned();
    }
    write_managers(&mut changed, &owners);
    changed
}
