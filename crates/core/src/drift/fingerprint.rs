//! Detects drift from `managedFields`, without reading objects.
//!
//! The API server keeps, for each manager, the set of fields that it applied. A client that changes or removes one of our
//! fields removes it from our set. A client that adds other fields or writes the status leaves our set unchanged. So a hash
//! of our set shows drift for every kind of object from its metadata alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::{Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::drift::managed_fields::{applied, fields, owns};

/// A hash of the fields that `manager` owns by server-side apply: the first 8 bytes, big-endian, of the SHA-256 of
/// `fieldsV1` as JSON with sorted keys, of the entry's time, and of the digest that an annotation holds of what was
/// applied. `None` if it owns nothing (any more).
///
/// The digest distinguishes recorded content from content that we applied before a crash, or that another operator
/// of our name applied, although all own the same fields. The time, of the manager's own last apply
/// that changed something, does as much for what has no such annotation yet, though not within one second.
pub fn fingerprint(managed_fields: &[ManagedFieldsEntry], manager: &str, digest: Option<&str>) -> Option<u64> {
    let entry = applied(managed_fields, manager)?;
    let mut text = serde_json::to_vec(&Canonical(fields(entry).unwrap_or(&Value::Null))).ok()?;
    if let Some(time) = &entry.time {
        text.extend(format!("@{}", time.0.as_second()).bytes());
    }
    if let Some(digest) = digest {
        text.extend(format!("#{digest}").bytes());
    }
    let hash = Sha256::digest(text);
    hash.first_chunk::<8>().map(|first| u64::from_be_bytes(*first))
}

/// Who owns `spec.replicas` through the subresource `scale`, if that is an autoscaler. Who scales with kubectl is no
/// autoscaler, though it goes the same way: that is a change by hand.
pub fn scaled_by(managed_fields: &[ManagedFieldsEntry]) -> Option<String> {
    let scales = |entry: &&ManagedFieldsEntry| {
        entry.subresource.as_deref() == Some("scale")
            && !entry.manager.as_deref().unwrap_or_default().starts_with("kubectl")
            && fields(entry).is_some_and(|fields| fields.pointer("/f:spec/f:replicas").is_some())
    };
    let managers = managed_fields.iter().filter(scales);
    managers.map(|entry| entry.manager.clone().unwrap_or_default()).next()
}

/// True if `manager` applied `spec.replicas` and owns it.
pub fn sets_replicas(managed_fields: &[ManagedFieldsEntry], manager: &str) -> bool {
    owns(managed_fields, manager, "/f:spec/f:replicas")
}

/// Canonical JSON: keys sorted, no blanks. serde_json's own order depends on a feature flag that any crate of the tree
/// could switch.
pub(crate) struct Canonical<'v>(pub(crate) &'v Value);

impl Serialize for Canonical<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let mut entries: Vec<(&String, &Value)> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                serializer.collect_map(entries.into_iter().map(|(key, value)| (key, Canonical(value))))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Canonical)),
            plain => plain.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Managed, managed_fields, table};
    use serde_json::json;

    const OURS: &str = "chartwright";

    fn ours(fields: Value) -> Vec<ManagedFieldsEntry> {
        managed_fields(vec![(OURS.into(), "Apply".into(), String::new(), Some(0), fields)])
    }

    #[test]
    fn the_hash_is_stable_across_versions_of_this_program() {
        for (fields, canonical) in [
            (
                json!({"f:data": {"f:b": {}, "f:a": {}}}),
                r#"{"f:data":{"f:a":{},"f:b":{}}}@1767225600"#,
            ),
            (
                json!([1, "k:\"x\"", null, true]),
                r#"[1,"k:\"x\"",null,true]@1767225600"#,
            ),
        ] {
            let expected = u64::from_be_bytes(*Sha256::digest(canonical).first_chunk().unwrap());
            assert_eq!(fingerprint(&ours(fields), OURS, None), Some(expected), "{canonical}");
        }
    }

    #[test]
    fn contents_of_the_same_second_differ() {
        let entries = ours(json!({"f:data": {}}));
        let of = |digest| fingerprint(&entries, OURS, digest);
        assert_ne!(of(Some("a")), of(Some("b")), "reverted within a second");
        assert_ne!(of(Some("a")), of(None));
        assert_eq!(of(Some("a")), of(Some("a")));
    }

    #[test]
    fn only_our_own_set_counts() {
        let mut first = None;
        for (entries, expected) in table::<(Vec<Managed>, Option<bool>)>("fields", "fingerprints") {
            let found = fingerprint(&managed_fields(entries), OURS, None);
            let first = *first.get_or_insert(found);
            assert_eq!(found.map(|_| found == first), expected);
        }
    }

    #[test]
    fn an_autoscaler_is_who_owns_the_replicas_through_scale() {
        for (entries, expected) in table::<(Vec<Managed>, Option<String>)>("fields", "scalers") {
            assert_eq!(scaled_by(&managed_fields(entries)), expected);
        }
    }
}
