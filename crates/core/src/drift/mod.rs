//! Finds the fields that another field manager took from us: the difference between the fields of our render and those that
//! `managedFields` lists as ours.

pub mod correction_backoff;
pub mod field_path;
pub mod fingerprint;
pub mod ignored;
pub(crate) mod managed_fields;
pub mod rollback;
pub mod tolerated;

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

use crate::drift::field_path::{FieldPath, FieldStep};
use crate::drift::managed_fields::{applied, fields, foreign, is_leaf, item_of};

/// A field of ours that is ours no longer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriftedField {
    /// As `spec.template.spec.containers[name=app].image`.
    pub field: String,
    /// `None`: it was removed, which leaves no trace of who did it.
    pub by: Option<String>,
    /// Its place in the rendered object: that of the item, if the complete item of a list is no longer ours. `None`: it is not rendered.
    pub at: Option<FieldPath>,
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
    walk(&wanted, ours, &others, &FieldPlace::default(), &mut found);
    found.sort();
    found.dedup();
    found
}

/// Where a walk through a rendered object is.
#[derive(Default)]
struct FieldPlace {
    /// As people write it.
    text: String,
    at: FieldPath,
    /// The item of a list around it that is not ours at all.
    item: Option<FieldPath>,
}

impl FieldPlace {
    fn field(&self, key: &str) -> FieldPlace {
        let text = match key.contains(['.', '/']) {
            _ if self.text.is_empty() => key.to_owned(),
            true => format!("{}[{key}]", self.text),
            false => format!("{}.{key}", self.text),
        };
        FieldPlace {
            text,
            at: self.at.then(FieldStep::Field(key.to_owned())),
            item: self.item.clone(),
        }
    }

    fn item(&self, index: usize, keys: &str, is_ours: bool) -> FieldPlace {
        let at = self.at.then(FieldStep::Item(index));
        let item = self.item.clone().or_else(|| (!is_ours).then(|| at.clone()));
        FieldPlace {
            text: format!("{}[{keys}]", self.text),
            at,
            item,
        }
    }
}

/// Adds what of `wanted` isn't in the set of our fields.
fn walk(
    wanted: &Value,
    ours: Option<&Value>,
    others: &[(&str, &Value)],
    place: &FieldPlace,
    found: &mut Vec<DriftedField>,
) {
    if ours.is_some_and(is_leaf) || wanted.is_null() {
        return;
    }
    // Another manager owns the complete mapping or list.
    let is_taken_whole = ours.is_none() && others.iter().any(|(_, set)| is_leaf(set));
    match wanted {
        Value::Object(fields) if !fields.is_empty() && !is_taken_whole => {
            for (key, child) in fields {
                let name = format!("f:{key}");
                let others = below(others, |fields| fields.get(&name));
                walk(
                    child,
                    ours.and_then(|fields| fields.get(&name)),
                    &others,
                    &place.field(key),
                    found,
                );
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
                let place = place.item(index, &keys.unwrap_or_else(|| index.to_string()), own.is_some());
                let others = below(others, |fields| Some(item_of(fields, item)?.1));
                walk(item, own.map(|(_, fields)| fields), &others, &place, found);
            }
        }
        _ if ours.is_none() => found.push(DriftedField {
            field: place.text.clone(),
            by: others.first().map(|(name, _)| (*name).to_owned()),
            at: Some(place.item.clone().unwrap_or_else(|| place.at.clone())),
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
