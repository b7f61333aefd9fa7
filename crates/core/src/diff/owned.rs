//! The fields of an object that our field manager owns.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::drift::managed_fields::{applied, fields as entry_fields, is_leaf, item_keys, raw_item, unite};
use crate::identity::applyset::{PART_OF_LABEL, unmark};

/// The fields that `manager` owns before or after, as a set of `managedFields`.
pub(super) fn fields(before: Option<&Value>, after: Option<&Value>, manager: &str) -> Value {
    let mut set = json!({});
    for object in [before, after].into_iter().flatten() {
        let managed = Vec::<ManagedFieldsEntry>::deserialize(&object["metadata"]["managedFields"]).unwrap_or_default();
        if let Some(own) = applied(&managed, manager).and_then(entry_fields) {
            unite(&mut set, own);
        }
    }
    set
}

/// The part of an object that a set of fields names, with its kind and name. The operator's marks are left out: they change with every
/// write.
pub(super) fn project(object: &Value, set: &Value) -> Value {
    // A leaf would be the complete object.
    let mut shown = if is_leaf(set) { json!({}) } else { part(object, set) };
    for field in ["apiVersion", "kind"] {
        shown[field] = object[field].clone();
    }
    if !shown["metadata"].is_object() {
        shown["metadata"] = json!({});
    }
    for field in ["name", "namespace"] {
        if let Some(value) = object["metadata"].get(field) {
            shown["metadata"][field] = value.clone();
        }
    }
    unmark(&mut shown);
    // The reference to the custom resource is a mark, too.
    if let Some(metadata) = shown["metadata"].as_object_mut() {
        metadata.remove("ownerReferences");
    }
    shown
}

fn part(value: &Value, set: &Value) -> Value {
    if is_leaf(set) {
        return value.clone();
    }
    match value {
        Value::Object(fields) => {
            let owned = fields.iter().filter_map(|(key, child)| {
                let below = set.get(format!("f:{key}"))?;
                Some((key.clone(), part(child, below)))
            });
            owned.collect::<Map<_, _>>().into()
        }
        Value::Array(items) => {
            let owned = items.iter().filter_map(|item| {
                let (key, below) = raw_item(set, item)?;
                let mut shown = part(item, below);
                // The keys of an item name it, even if another manager owns them.
                for name in item_keys(key).into_iter().flatten().map(|(name, _)| name) {
                    if let Some(value) = item.get(&name)
                        && shown.is_object()
                    {
                        shown[name] = value.clone();
                    }
                }
                Some(shown)
            });
            owned.collect::<Vec<_>>().into()
        }
        scalar => scalar.clone(),
    }
}

/// True if the object stays and is no longer a member.
pub(super) fn is_released(before: &Value, after: &Value) -> bool {
    let label = |object: &Value| object["metadata"]["labels"][PART_OF_LABEL].is_string();
    label(before) && !label(after)
}
