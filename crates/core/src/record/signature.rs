//! The signature of the record in a status. A client with write access to the status could forge the record, and the record
//! leads to requests with the operator's rights. So the record counts only as the operator wrote it.
//!
//! The signature covers the record as it is read back. A schema that drops or changes a part of it breaks the signature; fields
//! that are not read are free. An earlier status of the same custom resource has a valid signature too, so every write that
//! follows from a record first confirms on the live object that the object belongs to the release.

use serde_json::Value;

use super::Record;
use crate::digest::{self, Key, KeyUse, Keyring};
use crate::identity::GroupKind;

/// The field of `status.release`.
const FIELD: &str = "signature";

/// Signs and checks the record of one custom resource.
#[derive(Clone, Copy, Debug)]
pub struct RecordSeal<'a> {
    pub keys: &'a Keyring,
    /// Signs. Another one than the current key until everything that an earlier one signed is signed again.
    pub key: &'a Key,
    pub group_kind: &'a GroupKind,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// The signature of a status; `None` if it has none.
pub fn of_status(status: &Value) -> Option<&str> {
    status.get("release")?.get(FIELD)?.as_str()
}
impl RecordSeal<'_> {
    /// Signs what a new status says of the record.
    pub fn sign(&self, status: &mut Value) {
        let content = content(&Record::read(status), status);
        let signature = self.with_parts(&content, |parts| digest::sign(self.key, KeyUse::Status, parts));
        if let Some(release) = status.get_mut("release").and_then(Value::as_object_mut) {
            release.insert(FIELD.to_owned(), signature.into());
        }
    }

    /// True if this record, as it was read from a status, is as the operator wrote it.
    pub(super) fn holds(&self, record: &Record, status: &Value) -> bool {
        let Some(signature) = of_status(status) else {
            return false;
        };
        let content = content(record, status);
        self.with_parts(&content, |parts| self.keys.is_signed(KeyUse::Status, parts, signature))
    }

    fn with_parts<T>(&self, content: &[u8], use_parts: impl FnOnce(&[&[u8]]) -> T) -> T {
        let kind = self.group_kind.to_string();
        use_parts(&[
            kind.as_bytes(),
            self.namespace.as_bytes(),
            self.name.as_bytes(),
            self.uid.as_bytes(),
            content,
        ])
    }
}

/// The record, and where the rest of it is.
fn content(record: &Record, status: &Value) -> Vec<u8> {
    let elsewhere = status.pointer("/release/record");
    // Our own types are all JSON.
    serde_json::to_vec(&(record, elsewhere)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Stored;
    use super::*;
    use crate::digest::Key;

    #[test]
    fn only_what_was_written_for_this_custom_resource_is_believed() {
        let (old, new) = (Key::new([1; 32]), Key::new([2; 32]));
        let before = Keyring::new(old.clone(), Vec::new());
        let after = Keyring::new(new.clone(), vec![old.clone()]);
        let kind = GroupKind::parse("Shop.a.test");
        let seal = RecordSeal {
            keys: &before,
            key: before.current(),
            group_kind: &kind,
            namespace: "shop",
            name: "a",
            uid: "u",
        };
        let mut status = json!({
            "release": {"revision": 3, "inputs": "abc"}, "lastHandledForceAt": "2",
            "elected": [{"kind": "StatefulSet", "namespace": "shop", "name": "db", "label": "role", "value": "primary",
                "transitions": 0}],
            "hooks": {"operation": {"kind": "upgrade", "revision": 3, "attempt": 1, "digest": "d", "phase": "Done"}},
        });
        seal.sign(&mut status);
        let is_whole = |seal: &RecordSeal<'_>, status: &Value| matches!(Record::from_status(status, Some(seal)), Stored::Whole { record, .. } if record.revision == 3);
        assert!(is_whole(&seal, &status), "{status}");
        let rotated = RecordSeal { keys: &after, ..seal };
        assert!(is_whole(&rotated, &status), "by an earlier key");
        let only_new = Keyring::new(new, Vec::new());
        for (what, other) in [
            (
                "a key that is gone",
                RecordSeal {
                    keys: &only_new,
                    ..seal
                },
            ),
            ("another one's UID", RecordSeal { uid: "v", ..seal }),
            (
                "another namespace",
                RecordSeal {
                    namespace: "yard",
                    ..seal
                },
            ),
            ("another name", RecordSeal { name: "b", ..seal }),
        ] {
            assert!(!is_whole(&other, &status), "{what}");
        }
        let others = json!({"notes": "x", "conditions": [], "observedGeneration": 5, "phase": "Fine"});
        let mut more = status.clone();
        more.as_object_mut()
            .unwrap()
            .extend(others.as_object().unwrap().clone());
        assert!(is_whole(&seal, &more), "what is no part of the record is free");
        for (pointer, value) in [
            ("/release/signature", json!("")),
            ("/release/signature", Value::Null),
            ("/release/inputs", json!("abd")),
            ("/release/record", json!({"secrets": 1})),
            ("/lastHandledForceAt", json!("3")),
            ("/elected/0/namespace", json!("victim")),
            ("/hooks/operation/attempt", json!(2)),
            (
                "/hooks/runs",
                json!([{"event": "pre-install", "group": "batch", "kind": "Job", "namespace": "victim",
                "name": "migration", "run": "r", "uid": "u", "phase": "Succeeded", "started": "2026-01-01T00:00:00Z", "ttl": 0}]),
            ),
            (
                "/inventory",
                json!([{"version": "v1", "kind": "ConfigMap", "namespace": "victim", "name": "a"}]),
            ),
            ("/history", json!([{"revision": 2, "kept": true}])),
            ("/remediation", json!([{"name": "x"}])),
            ("/plans", json!([{"name": "backup"}])),
            ("/planRun", json!({"running": {"plan": "backup", "by": "request"}})),
        ] {
            let mut forged = status.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            forged.pointer_mut(parent).unwrap()[field] = value;
            let Stored::Lost { claimed } = Record::from_status(&forged, Some(&seal)) else {
                panic!("{pointer} is believed: {forged}")
            };
            assert_eq!(claimed.revision, 3);
        }
    }
}
