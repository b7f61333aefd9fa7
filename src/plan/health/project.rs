//! Cutting objects down to what is needed of them, so that caches stay small.

use serde_json::{Map, Value};

use super::{group_kind, rules};

/// Fields of the metadata that are kept: who the object is, whose it is, and what the general rules read.
const METADATA: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
];
/// Conditions that the general rules read.
const CONDITIONS: [&str; 3] = ["Reconciling", "Stalled", "Ready"];
const CONDITION_FIELDS: [&str; 4] = ["type", "status", "reason", "message"];
/// A copy of the whole object that client-side apply leaves behind.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Keeps the fields that [`health`](super::health()) reads, and the metadata that tells whose an object is;
/// `managedFields` go, so take the fingerprint first. Health stays the same.
pub fn project(object: &mut Value) {
    let (group, kind) = group_kind(object);
    let rule = rules::find(group, kind);
    let mut kept = Map::new();
    for field in ["apiVersion", "kind"] {
        if let Some(value) = object.get_mut(field) {
            kept.insert(field.to_owned(), value.take());
        }
    }
    let mut kept = Value::Object(kept);
    for field in METADATA {
        keep(object, &mut kept, &format!("/metadata/{field}"));
    }
    if let Some(annotations) = kept.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    keep(object, &mut kept, "/status/observedGeneration");
    for field in rule.map(|rule| rule.fields).unwrap_or_default() {
        keep(object, &mut kept, field);
    }
    if let Some(containers) = kept
        .pointer_mut("/status/containerStatuses")
        .and_then(Value::as_array_mut)
    {
        for container in containers {
            let mut small = Value::Object(Map::new());
            keep(container, &mut small, "/name");
            keep(container, &mut small, "/state/waiting/reason");
            *container = small;
        }
    }
    let own = rule.map(|rule| rule.conditions).unwrap_or_default();
    if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.retain_mut(|condition| {
            let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
            let read = CONDITIONS.contains(&kind) || own.contains(&kind);
            if let Some(fields) = condition.as_object_mut() {
                fields.retain(|name, _| CONDITION_FIELDS.contains(&name.as_str()));
            }
            read
        });
        keep(object, &mut kept, "/status/conditions");
    }
    *object = kept;
}

/// Moves the value at a pointer of plain names; the maps on the way are made as needed.
fn keep(from: &mut Value, to: &mut Value, pointer: &str) {
    let Some(value) = from
        .pointer_mut(pointer)
        .filter(|value| !value.is_null())
        .map(Value::take)
    else {
        return;
    };
    let mut at = to;
    for name in pointer.split('/').skip(1) {
        let Value::Object(map) = at else { return };
        at = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    *at = value;
}
