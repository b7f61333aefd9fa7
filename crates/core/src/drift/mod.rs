//! Finds the fields that another field manager took from us: the difference between the fields of our render and those that
//! `managedFields` lists as ours.

pub mod correction_backoff;
pub mod fingerprint;
pub(crate) mod managed_fields;
pub mod rollback;

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value, json};

use crate::drift::managed_fields::{applied, fields, foreign, item_keys, keys_text, may_have};

/// A field of ours that is ours no longer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriftedField {
    /// As `spec.template.spec.containers[name=app].image`.
    pub field: String,
    /// `None`: it was removed, which leaves no trace of who did it.
    pub by: Option<String>,
}

/// What an apply owns of the metadata.
const OWNED_METADATA: [&str; 3] = ["labels", "annotations", "ownerReferences"];

impl fmt::Display for DriftedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            Some(manager) => write!(f, "{} changed by {manager}", self.field),
            None => write!(f, "{} removed", self.field),
        }
    }
}

/// The fields of a rendered object that `manager` does not own, with the others that own them now, the latest first.
pub fn drifted_fields(object: &Value, managed_fields: &[ManagedFieldsEntry], manager: &str) -> Vec<DriftedField> {
    let ours = applied(managed_fields, manager).and_then(fields);
    let others: Vec<(&str, &Value)> = foreign(managed_fields, manager)
        .into_iter()
        .filter_map(|entry| Some((entry.manager.as_deref().unwrap_or_default(), fields(entry)?)))
        .collect();
    let mut found = Vec::new();
    let mut wanted = object.clone();
    if let Some(fields) = wanted.as_object_mut() {
        // These have no owner.
        fields.retain(|field, _| !["apiVersion", "kind"].contains(&field.as_str()));
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| OWNED_METADATA.contains(&field.as_str()));
        }
        fields.retain(|field, value| field != "metadata" || *value != json!({}));
    }
    walk(&wanted, ours, &others, String::new(), &mut found);
    found.sort();
    found.dedup();
    found
}

/// Adds what of `wanted` isn't in the set of our fields. `path`: as people write it.
fn walk(wanted: &Value, ours: Option<&Value>, others: &[(&str, &Value)], path: String, found: &mut Vec<DriftedField>) {
    let owned_whole = ours.is_some_and(|ours| ours.as_object().is_none_or(Map::is_empty));
    if owned_whole || wanted.is_null() {
        return;
    }
    match wanted {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, child) in fields {
                let path = match key.contains(['.', '/']) {
                    _ if path.is_empty() => key.clone(),
                    true => format!("{path}[{key}]"),
                    false => format!("{path}.{key}"),
                };
                let key = format!("f:{key}");
                let others = below(others, |fields| fields.get(&key));
                walk(child, ours.and_then(|fields| fields.get(&key)), &others, path, found);
            }
        }
        // A list without owners of single items has one owner for the complete list.
        Value::Array(items)
            if !items.is_empty() && (ours.is_some_and(has_items) || others.iter().any(|(_, set)| has_items(set))) =>
        {
            for (index, item) in items.iter().enumerate() {
                let own = ours.and_then(|fields| item_of(fields, item));
                let name = item["name"].as_str().map(|name| format!("name={name}"));
                let keys = own.as_ref().map(|(keys, _)| keys.clone()).or(name);
                let path = format!("{path}[{}]", keys.unwrap_or_else(|| index.to_string()));
                let others = below(others, |fields| Some(item_of(fields, item)?.1));
                walk(item, own.map(|(_, fields)| fields), &others, path, found);
            }
        }
        _ if ours.is_none() => found.push(DriftedField {
            field: path,
            by: others.first().map(|(name, _)| (*name).to_owned()),
        }),
        _ => {}
    }
}

/// The part of others' sets that `step` leads to.
fn below<'v>(
    others: &[(&'v str, &'v Value)],
    step: impl Fn(&'v Value) -> Option<&'v Value>,
) -> Vec<(&'v str, &'v Value)> {
    others
        .iter()
        .filter_map(|(name, fields)| Some((*name, step(fields)?)))
        .collect()
}

fn has_items(fields: &Value) -> bool {
    let fields = fields.as_object();
    fields.is_some_and(|fields| fields.keys().any(|key| key.starts_with("k:") || key.starts_with("v:")))
}

/// What a set of fields says of one item of a list: its keys as text, and the fields below it.
fn item_of<'v>(fields: &'v Value, item: &Value) -> Option<(String, &'v Value)> {
    fields.as_object()?.iter().find_map(|(key, child)| {
        if let Some(value) = key.strip_prefix("v:") {
            let value: Value = serde_json::from_str(value).ok()?;
            return (value == *item).then(|| (value.to_string(), child));
        }
        let keys = item_keys(key).filter(|keys| may_have(item, keys))?;
        Some((keys_text(&keys), child))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Managed, managed_fields, table};

    #[test]
    fn fields_and_their_takers_are_named() {
        for (object, entries, expected) in table::<(Value, Vec<Managed>, Vec<String>)>("fields", "drifted") {
            let drifted = drifted_fields(&object, &managed_fields(entries), "chartwright");
            let texts: Vec<String> = drifted.iter().map(DriftedField::to_string).collect();
            assert_eq!(texts, expected);
        }
    }
}
