//! Which of our fields somebody took, and who: the difference between what we want to own and what `managedFields` say.
//!
//! Format of `fieldsV1`: `f:<name>` is a field, `k:{...}` the item of a list with these keys, `v:<value>` the item of a
//! set, `.` the thing itself; `{}` ends a path (sigs.k8s.io/structured-merge-diff, `fieldpath/serialize-pe.go`).

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use super::fingerprint::{is_apply_of, is_foreign};

/// A field of ours that is ours no longer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriftedField {
    /// As `spec.template.spec.containers[name=app].image`.
    pub field: String,
    /// `None`: it was removed, which leaves no trace of who did it.
    pub by: Option<String>,
}

/// Deeper than any manifest; a render is bounded as well.
const DEPTH: usize = 64;

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
    let fields = |entry: &'_ ManagedFieldsEntry| entry.fields_v1.as_ref().map(|fields| fields.0.clone());
    let ours = managed_fields
        .iter()
        .find(|entry| is_apply_of(entry, manager))
        .and_then(fields);
    let mut others: Vec<&ManagedFieldsEntry> = managed_fields
        .iter()
        .filter(|entry| is_foreign(entry, manager))
        .collect();
    others.sort_by_key(|entry| std::cmp::Reverse(entry.time.as_ref().map(|time| time.0)));
    let others: Vec<(String, Value)> = others
        .into_iter()
        .filter_map(|entry| Some((entry.manager.clone().unwrap_or_default(), fields(entry)?)))
        .collect();
    let mut search = Search { found: Vec::new() };
    let others: Vec<(&str, &Value)> = others.iter().map(|(name, fields)| (name.as_str(), fields)).collect();
    let Some(top) = object.as_object() else {
        return search.found;
    };
    for (key, child) in top {
        match (key.as_str(), child.as_object()) {
            ("apiVersion" | "kind", _) => {}
            // Name and namespace are nobody's.
            ("metadata", Some(metadata)) => {
                for part in ["labels", "annotations", "ownerReferences"] {
                    if let Some(child) = metadata.get(part) {
                        let metadata = child_of(ours.as_ref(), "f:metadata");
                        let others = children_of(&others, "f:metadata");
                        let path = format!("metadata.{part}");
                        let key = format!("f:{part}");
                        search.walk(child, child_of(metadata, &key), &children_of(&others, &key), path, 0);
                    }
                }
            }
            _ => {
                let path = key.clone();
                let key = format!("f:{key}");
                search.walk(
                    child,
                    child_of(ours.as_ref(), &key),
                    &children_of(&others, &key),
                    path,
                    0,
                );
            }
        }
    }
    search.found.sort();
    search.found.dedup();
    search.found
}

struct Search {
    found: Vec<DriftedField>,
}

impl Search {
    fn walk(&mut self, wanted: &Value, ours: Option<&Value>, others: &[(&str, &Value)], path: String, depth: usize) {
        let owned_whole = ours.is_some_and(|ours| ours.as_object().is_none_or(|fields| fields.is_empty()));
        if owned_whole || wanted.is_null() || depth > DEPTH {
            return;
        }
        match wanted {
            Value::Object(fields) if !fields.is_empty() => {
                for (key, child) in fields {
                    let path = match key.contains(['.', '/']) {
                        true => format!("{path}[{key}]"),
                        false => format!("{path}.{key}"),
                    };
                    let key = format!("f:{key}");
                    self.walk(child, child_of(ours, &key), &children_of(others, &key), path, depth + 1);
                }
            }
            // A list whose items nobody owns one by one is owned as a whole.
            Value::Array(items)
                if !items.is_empty() && (has_items(ours) || others.iter().any(|(_, o)| has_items(Some(o)))) =>
            {
                for (index, item) in items.iter().enumerate() {
                    let others: Vec<(&str, &Value)> = others
                        .iter()
                        .filter_map(|(name, fields)| Some((*name, item_of(fields, item)?.1)))
                        .collect();
                    let own = ours.and_then(|fields| item_of(fields, item));
                    let keys = own.map(|(keys, _)| keys);
                    let name = keys.or_else(|| {
                        item.get("name")
                            .and_then(Value::as_str)
                            .map(|name| format!("name={name}"))
                    });
                    let path = format!("{path}[{}]", name.unwrap_or_else(|| index.to_string()));
                    self.walk(item, own_fields(ours, item), &others, path, depth + 1);
                }
            }
            _ if ours.is_none() => self.found.push(DriftedField {
                field: path,
                by: others.first().map(|(name, _)| (*name).to_owned()),
            }),
            _ => {}
        }
    }
}

fn own_fields<'v>(ours: Option<&'v Value>, item: &Value) -> Option<&'v Value> {
    ours.and_then(|fields| item_of(fields, item)).map(|(_, fields)| fields)
}

fn child_of<'v>(fields: Option<&'v Value>, key: &str) -> Option<&'v Value> {
    fields.and_then(|fields| fields.get(key))
}

fn children_of<'v>(others: &[(&'v str, &'v Value)], key: &str) -> Vec<(&'v str, &'v Value)> {
    others
        .iter()
        .filter_map(|(name, fields)| Some((*name, fields.get(key)?)))
        .collect()
}

fn has_items(fields: Option<&Value>) -> bool {
    let fields = fields.and_then(Value::as_object);
    fields.is_some_and(|fields| fields.keys().any(|key| key.starts_with("k:") || key.starts_with("v:")))
}

/// What a set of fields says of one item of a list: its keys as text, and the fields below it.
fn item_of<'v>(fields: &'v Value, item: &Value) -> Option<(String, &'v Value)> {
    fields.as_object()?.iter().find_map(|(key, child)| {
        if let Some(value) = key.strip_prefix("v:") {
            let value: Value = serde_json::from_str(value).ok()?;
            return (value == *item).then(|| (value.to_string(), child));
        }
        let keys: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        let keys = keys.as_object()?;
        // A key that the manifest leaves out has its default in managedFields.
        let fits = keys
            .iter()
            .all(|(name, value)| item.get(name).is_none_or(|own| own == value))
            && keys.keys().any(|name| item.get(name).is_some());
        let text: Vec<String> = keys
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => format!("{name}={text}"),
                other => format!("{name}={other}"),
            })
            .collect();
        fits.then(|| (text.join(","), child))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{Managed, managed_fields, table};

    #[test]
    fn fields_and_their_takers_are_named() {
        for (object, entries, expected) in table::<(Value, Vec<Managed>, Vec<String>)>("fields", "drifted") {
            let drifted = drifted_fields(&object, &managed_fields(entries), "chartwright");
            let told: Vec<String> = drifted.iter().map(DriftedField::to_string).collect();
            assert_eq!(told, expected);
        }
    }
}
