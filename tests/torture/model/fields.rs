//! Who owns which field: the sets of `managedFields` and what server-side apply makes of them, for objects without a
//! schema (maps by key, lists whole, finalizers as a set, owners by UID). `conformity.rs` compares it with a real API server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// From the root; the last element may be `v:<finalizer>` or `k:{"uid":"<owner>"}`.
pub type Path = Vec<String>;
pub type Set = BTreeSet<Path>;

/// Manager, operation (`Apply` or `Update`) and subresource.
pub type Manager = (String, String, String);

/// Fields that nobody owns (structured-merge-diff's strip set of the API server).
const UNOWNED: [&[&str]; 11] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "generation"],
    &["metadata", "creationTimestamp"],
    &["metadata", "managedFields"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "deletionGracePeriodSeconds"],
];

fn is_unowned(path: &Path) -> bool {
    UNOWNED
        .iter()
        .any(|unowned| path.len() >= unowned.len() && path.iter().zip(*unowned).all(|(a, b)| a == b))
}

fn owner_key(owner: &Value) -> String {
    format!("k:{}", json!({"uid": owner["uid"]}))
}

/// The leaves of an object with their values.
pub fn leaves(object: &Value) -> BTreeMap<Path, Value> {
    fn walk(value: &Value, path: &mut Path, found: &mut BTreeMap<Path, Value>) {
        if path.iter().map(String::as_str).eq(["metadata", "finalizers"]) {
            for item in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                path.push(format!("v:{item}"));
                found.insert(path.clone(), item.into());
                path.pop();
            }
            return;
        }
        if path.iter().map(String::as_str).eq(["metadata", "ownerReferences"]) {
            for item in value.as_array().into_iter().flatten() {
                path.push(owner_key(item));
                found.insert(path.clone(), item.clone());
                path.pop();
            }
            return;
        }
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    path.push(key.clone());
                    walk(value, path, found);
                    path.pop();
                }
            }
            // A null is a value where there is no schema; elsewhere Go's types drop it.
            Value::Null if path.first().is_none_or(|first| first != "spec") => {}
            leaf => drop(found.insert(path.clone(), leaf.clone())),
        }
    }
    let mut found = BTreeMap::new();
    walk(object, &mut Vec::new(), &mut found);
    found.retain(|path, _| !path.is_empty() && !is_unowned(path));
    found
}

fn set_at(object: &mut Value, path: &[String], value: Value) {
    if let [parent @ .., last] = path
        && last.starts_with("v:")
    {
        let mut list = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        if !list.contains(&value) {
            list.push(value);
        }
        return set_at(object, parent, Value::Array(list));
    }
    if let [parent @ .., last] = path
        && last.starts_with("k:")
    {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut list = owners.cloned().unwrap_or_default();
        match list.iter_mut().find(|owner| owner_key(owner) == *last) {
            Some(owner) => *owner = value,
            None => list.push(value),
        }
        return set_at(object, parent, Value::Array(list));
    }
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

fn remove_at(object: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        if let Some(map) = object.as_object_mut() {
            map.remove(first);
        }
        return;
    }
    if let [last] = rest
        && let Some(item) = last.strip_prefix("v:")
        && first == "finalizers"
    {
        if let Some(list) = object["finalizers"].as_array_mut() {
            list.retain(|found| found != item);
        }
        return;
    }
    if let [last] = rest
        && last.starts_with("k:")
        && first == "ownerReferences"
    {
        if let Some(list) = object["ownerReferences"].as_array_mut() {
            list.retain(|owner| owner_key(owner) != *last);
        }
        return;
    }
    if let Some(child) = object.as_object_mut().and_then(|map| map.get_mut(first)) {
        remove_at(child, rest);
        // A map that lost its last field goes with it.
        if child.as_object().is_some_and(Map::is_empty) {
            remove_at(object, std::slice::from_ref(first));
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
pub fn managers(object: &Value) -> BTreeMap<Manager, (Set, String)> {
    fn walk(fields: &Map<String, Value>, path: &mut Path, found: &mut Set) {
        for (key, value) in fields {
            if key == "." {
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
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|entry| {
            let mut set = Set::new();
            if let Some(fields) = entry["fieldsV1"].as_object() {
                walk(fields, &mut Vec::new(), &mut set);
            }
            let manager = (
                text(&entry["manager"]),
                text(&entry["operation"]),
                text(&entry["subresource"]),
            );
            (manager, (set, text(&entry["time"])))
        })
        .collect()
}

fn write_managers(object: &mut Value, managers: &BTreeMap<Manager, (Set, String)>) {
    let version = object["apiVersion"].clone();
    let entries = managers.iter().filter(|(_, (set, _))| !set.is_empty()).map(
        |((name, operation, sub), (set, time))| {
            let mut fields = json!({});
            for path in set {
                let mut place = &mut fields;
                for element in path {
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

fn is_empty_map(value: Option<&Value>) -> bool {
    value.and_then(Value::as_object).is_some_and(Map::is_empty)
}

/// One path is at or below the other.
fn overlap(a: &Path, b: &Path) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// Server-side apply. `Err`: the managers that own other values of the same fields.
pub fn apply(live: &Value, applied: &Value, manager: &Manager, force: bool, now: &str) -> Result<Value, Vec<String>> {
    let wanted = leaves(applied);
    let set: Set = wanted.keys().cloned().collect();
    let present = leaves(live);
    let mut owners = managers(live);
    let mut conflicts = BTreeSet::new();
    for (other, (owned, _)) in owners.iter_mut().filter(|(other, _)| *other != manager) {
        owned.retain(|path| {
            // Who applies an empty map owns the map and nothing in it.
            let claims = |field: &&Path| overlap(field, path) && !is_empty_map(wanted.get(*field));
            let Some(field) = set.iter().find(claims) else {
                return true;
            };
            let same = field == path && present.get(path) == wanted.get(field);
            if !same {
                conflicts.insert(other.0.clone());
            }
            same
        });
    }
    if !conflicts.is_empty() && !force {
        return Err(conflicts.into_iter().collect());
    }
    let previous = owners.get(manager).cloned().unwrap_or_default();
    let mut merged = live.clone();
    for path in previous.0.difference(&set) {
        let others = owners
            .iter()
            .any(|(other, (owned, _))| other != manager && owned.iter().any(|p| overlap(p, path)));
        let within = set
            .iter()
            .any(|field| overlap(field, path) && !is_empty_map(wanted.get(field)));
        if !others && !within {
            remove_at(&mut merged, path);
        }
    }
    for (path, value) in &wanted {
        let keeps = is_empty_map(Some(value))
            && present
                .keys()
                .any(|found| found.len() > path.len() && overlap(path, found));
        if !keeps {
            set_at(&mut merged, path, value.clone());
        }
    }
    without_empty(&mut merged);
    owners.insert(manager.clone(), (set, previous.1));
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

/// Any other write: what it changes becomes the writer's, what it removes becomes nobody's.
pub fn update(live: &Value, changed: &Value, manager: &Manager, now: &str) -> Value {
    let mut changed = changed.clone();
    without_empty(&mut changed);
    let (before, after) = (leaves(live), leaves(&changed));
    let new: Set = after
        .iter()
        .filter(|(path, value)| before.get(*path) != Some(value))
        .map(|(path, _)| path.clone())
        .collect();
    let mut owners = managers(live);
    // An empty map that somebody applied stays his when others put something into it.
    let is_map = |path: &Path| {
        before.get(path).is_none_or(|was| is_empty_map(Some(was)))
            && after
                .keys()
                .any(|found| found.len() > path.len() && overlap(path, found))
    };
    for (owned, _) in owners.values_mut() {
        owned.retain(|path| (after.contains_key(path) && !new.contains(path)) || is_map(path));
    }
    if !new.is_empty() {
        let own = owners.entry(manager.clone()).or_default();
        own.0.extend(new);
        own.1 = now.to_owned();
    }
    write_managers(&mut changed, &owners);
    changed
}
