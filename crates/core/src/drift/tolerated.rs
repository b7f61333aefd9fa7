//! Drift that the policies `warn` and `ignore` leave as it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::{Key, KeyUse};
use crate::drift::DriftedField;
use crate::drift::managed_fields::is_foreign;
use crate::serde_helpers::hex;
use chartwright_watches::DriftPolicy;

/// More fields of one member are recorded as the parts of the object that they are in.
const MOST_FIELDS: usize = 64;

/// The drift of one member that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToleratedDrift {
    /// [`drift`](watches.md#drift) with which it was found: `warn` or `ignore`.
    #[cfg_attr(test, schemars(with = "String"))]
    pub policy: DriftPolicy,
    /// Hash of the writes of other clients when it was found, 16 hex digits.
    #[serde(default, with = "hex", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub others: Option<u64>,
    /// The fields that differ from the render.
    pub fields: Vec<ToleratedField>,
}

/// A field that differs from the render, and stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToleratedField {
    /// As `spec.template.spec.containers[name=app].image`.
    pub field: String,
    /// The field manager that changed it. Absent: it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Keyed digest of the rendered value.
    pub digest: String,
}

impl ToleratedDrift {
    /// Records drifted fields of a rendered object.
    pub fn new(policy: DriftPolicy, drifted: &[DriftedField], object: &Value, key: &Key) -> Self {
        let one = |drifted: &DriftedField| ToleratedField {
            field: drifted.field.clone(),
            by: drifted.by.clone(),
            digest: digest(drifted.at.as_ref().and_then(|path| path.get(object)), key),
        };
        let part = |(part, by): (String, Option<String>)| ToleratedField {
            digest: digest(object.get(&part), key),
            field: part,
            by,
        };
        let fields = if drifted.len() > MOST_FIELDS {
            parts(drifted).into_iter().map(part).collect()
        } else {
            drifted.iter().map(one).collect()
        };
        ToleratedDrift {
            policy,
            others: None,
            fields,
        }
    }

    /// True if the drift of a later render is this one. A field that the render has changed or added since is not.
    pub fn covers(&self, drifted: &DriftedField, object: &Value, key: &Key) -> bool {
        let is_here = |name: &str, value: Option<&Value>| {
            let mut fields = self.fields.iter().filter(|field| field.field == name);
            fields.any(|field| field.digest == digest(value, key))
        };
        let part = part_of(&drifted.field);
        let value = drifted.at.as_ref().and_then(|path| path.get(object));
        is_here(&drifted.field, value) || is_here(part, object.get(part))
    }

    /// The fields as people read them.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        self.fields.iter().map(|field| {
            let (field, by) = (field.field.clone(), field.by.clone());
            DriftedField { field, by, at: None }.to_string()
        })
    }

    /// True if people hear of it.
    pub fn is_reported(&self) -> bool {
        self.policy == DriftPolicy::Warn
    }

    /// True if both say the same to people.
    pub fn says_as(&self, other: Option<&ToleratedDrift>) -> bool {
        other.is_some_and(|other| self.policy == other.policy && self.texts().eq(other.texts()))
    }
}

/// The first name of a field.
fn part_of(field: &str) -> &str {
    field.split(['.', '[']).next().unwrap_or(field)
}

/// Keyed digest of a rendered value: 16 hex digits.
fn digest(value: Option<&Value>, key: &Key) -> String {
    let text = value.unwrap_or(&Value::Null).to_string();
    let mut digest = key.digest(KeyUse::Drift, &[text.as_bytes()]);
    digest.truncate(16);
    digest
}

/// The parts that fields are in, each once, with one manager.
fn parts(drifted: &[DriftedField]) -> Vec<(String, Option<String>)> {
    let mut parts: Vec<(String, Option<String>)> = Vec::new();
    for field in drifted {
        let part = part_of(&field.field);
        match parts.iter_mut().find(|(name, _)| name == part) {
            Some((_, by)) => *by = by.take().or_else(|| field.by.clone()),
            None => parts.push((part.to_owned(), field.by.clone())),
        }
    }
    parts
}

/// Hash of who else wrote an object itself, and when: it changes with each write that changes fields. `None`: no other client did.
pub fn others(managed_fields: &[ManagedFieldsEntry], manager: &str) -> Option<u64> {
    // FNV-1a: stable across versions of this program, and cheap for each watch event.
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let add = |hash: u64, bytes: &[u8]| {
        let hash = bytes
            .iter()
            .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        // The end of a text.
        (hash ^ 0xff).wrapping_mul(PRIME)
    };
    let others = managed_fields.iter().filter(|entry| is_foreign(entry, manager));
    others.fold(None, |hash, entry| {
        let hash = add(
            hash.unwrap_or(OFFSET),
            entry.manager.as_deref().unwrap_or_default().as_bytes(),
        );
        let hash = add(hash, entry.operation.as_deref().unwrap_or_default().as_bytes());
        let seconds = entry.time.as_ref().map_or(0, |time| time.0.as_second());
        Some(add(hash, &seconds.to_be_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::drifted_fields;
    use crate::drift::field_path::without;
    use crate::testing::{Managed, managed_fields, table};
    use serde_json::json;

    const OURS: &str = "chartwright";

    fn key() -> Key {
        Key::new([1; 32])
    }

    #[derive(serde::Deserialize)]
    struct Case {
        /// The render with which the drift was found, and the next one.
        renders: (Value, Value),
        entries: Vec<Managed>,
        found: Vec<String>,
        /// What is applied of the next render.
        applied: Value,
    }

    #[test]
    fn an_edit_leaves_what_it_did_not_touch() {
        for case in table::<Case>("differences", "tolerated") {
            let entries = managed_fields(case.entries);
            let (first, next) = case.renders;
            let drift = ToleratedDrift::new(
                DriftPolicy::Warn,
                &drifted_fields(&first, &entries, OURS),
                &first,
                &key(),
            );
            assert_eq!(drift.texts().collect::<Vec<_>>(), case.found);
            let drifted = drifted_fields(&next, &entries, OURS);
            let left = drifted.into_iter().filter(|field| drift.covers(field, &next, &key()));
            let left: Vec<_> = left.filter_map(|field| field.at).collect();
            assert_eq!(without(&next, &left), case.applied, "{:?}", case.found);
        }
    }

    #[test]
    fn the_drift_of_many_fields_is_recorded_by_parts() {
        let data: serde_json::Map<String, Value> = (0..100).map(|index| (format!("k{index}"), json!("v"))).collect();
        let object = json!({"data": data, "metadata": {"labels": {"a": "b"}}});
        let drifted = drifted_fields(&object, &managed_fields(Vec::new()), OURS);
        assert_eq!(drifted.len(), 101);
        let drift = ToleratedDrift::new(DriftPolicy::Warn, &drifted, &object, &key());
        let names: Vec<&str> = drift.fields.iter().map(|field| field.field.as_str()).collect();
        assert_eq!(names, ["data", "metadata"]);
        assert!(drifted.iter().all(|field| drift.covers(field, &object, &key())));
        let mut edited = object.clone();
        edited["data"]["k7"] = "w".into();
        let covered = drifted.iter().filter(|field| drift.covers(field, &edited, &key()));
        assert_eq!(covered.count(), 1, "only the label");
    }

    #[test]
    fn each_write_of_others_shows() {
        let mut seen = std::collections::HashSet::new();
        for (entries, is_news) in table::<(Vec<Managed>, bool)>("differences", "others") {
            let news = seen.insert(others(&managed_fields(entries.clone()), OURS));
            assert_eq!(news, is_news, "{entries:?}");
        }
    }
}
