//! The record of a release: all that the next reconcile must know, kept in the status of its custom resource.
//!
//! It saves work and names what to look for. It is never proof: whoever may write the status could have written it,
//! so every deletion confirms what it finds on the live object.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::identity::{GroupKind, ObjectId};

/// One member, as last applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub id: ObjectId,
    /// The API version it was applied with, without the group.
    pub version: String,
    pub uid: String,
    /// The stage it was applied in; deletion goes through the stages backwards.
    pub stage: u8,
    /// Keyed digest of what was sent; empty when the last apply failed or it only waits to be deleted.
    pub digest: String,
    /// Hash of our managedFields entry after the apply, as `Live::fingerprint`.
    pub fingerprint: Option<u64>,
    /// A Job that was complete, and that its TTL removes or has removed: it need not be there.
    pub finished: bool,
}

/// All that is known of a release.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// 0 before the first complete apply, then counts the renders that differed.
    pub revision: i64,
    /// Digest of everything that the render depended on.
    pub inputs: String,
    pub entries: Vec<Entry>,
    /// What the render looked up, as `LookupKey` prints it.
    pub lookups: Vec<String>,
    /// When the first of the kept certificates is to be renewed: a render from then on does it.
    pub renewal: Option<jiff::Timestamp>,
    /// The request to draw random results anew that was carried out last.
    pub regenerated: String,
    pub handled: Handled,
}

/// The requests in annotations that were carried out last, each by its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handled {
    /// `chartwright.dev/requested-at`
    pub reconcile: String,
    /// `chartwright.dev/force-at`
    pub force: String,
    /// `chartwright.dev/reset-at`
    pub reset: String,
}

#[derive(Serialize, Deserialize)]
struct Row {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    group: String,
    version: String,
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    wave: u8,
    #[serde(default)]
    digest: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    fingerprint: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
}

// === impl Record ===

impl Record {
    pub fn entry(&self, id: &ObjectId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// Reads the record back from a status; what is missing or malformed is as if it had never been there.
    pub fn from_status(status: &Value) -> Self {
        let release = status.get("release");
        let text = |key: &str| {
            release
                .and_then(|r| r.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let handled = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let lookups = release.and_then(|r| r.get("lookups")).and_then(Value::as_array);
        let rows = status.get("inventory").and_then(Value::as_array);
        Record {
            revision: release
                .and_then(|r| r.get("revision"))
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            inputs: text("inputs"),
            renewal: text("renewal").parse().ok(),
            regenerated: handled("lastHandledRegenerateAt"),
            handled: Handled {
                reconcile: handled("lastHandledReconcileAt"),
                force: handled("lastHandledForceAt"),
                reset: handled("lastHandledResetAt"),
            },
            lookups: lookups
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            entries: rows
                .into_iter()
                .flatten()
                .filter_map(|row| serde_json::from_value::<Row>(row.clone()).ok())
                .map(Entry::from)
                .collect(),
        }
    }

    /// The same for a custom resource that changed after this status was written: somebody may have begun to apply what
    /// came in between, and died before the status told of it. Its fields may be those that were recorded, with other
    /// values, and even the time of an apply has a resolution of a second. So every member is applied once more, which
    /// writes nothing where nothing is to be written.
    #[must_use]
    pub fn unproven(mut self) -> Self {
        self.inputs.clear();
        for entry in &mut self.entries {
            entry.fingerprint = None;
        }
        self
    }

    /// `status.inventory`.
    pub fn inventory(&self) -> Value {
        self.entries.iter().map(|entry| json!(Row::from(entry))).collect()
    }
}

impl From<Row> for Entry {
    fn from(row: Row) -> Self {
        Entry {
            id: ObjectId::new(GroupKind::new(row.group, row.kind), row.namespace, row.name),
            version: row.version,
            uid: row.uid,
            stage: row.wave,
            digest: row.digest,
            fingerprint: u64::from_str_radix(&row.fingerprint, 16).ok(),
            finished: row.finished,
        }
    }
}

impl From<&Entry> for Row {
    fn from(entry: &Entry) -> Self {
        Row {
            group: entry.id.group_kind.group.clone(),
            version: entry.version.clone(),
            kind: entry.id.group_kind.kind.clone(),
            namespace: entry.id.namespace.clone(),
            name: entry.id.name.clone(),
            uid: entry.uid.clone(),
            wave: entry.stage,
            digest: entry.digest.clone(),
            fingerprint: entry.fingerprint.map(|hash| format!("{hash:016x}")).unwrap_or_default(),
            finished: entry.finished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_status() {
        let record = Record {
            revision: 3,
            inputs: "abc".into(),
            renewal: Some("2026-02-03T04:05:06Z".parse().unwrap()),
            regenerated: "once".into(),
            handled: Handled {
                reconcile: "1".into(),
                force: "2".into(),
                reset: "3".into(),
            },
            lookups: vec!["v1/Secret/shop/tls".into()],
            entries: vec![Entry {
                id: ObjectId::new(GroupKind::new("apps", "Deployment"), "shop", "web"),
                version: "v1".into(),
                uid: "u".into(),
                stage: 1,
                digest: "d".into(),
                fingerprint: Some(0xab),
                finished: true,
            }],
        };
        let status = json!({
            "release": {
                "revision": 3, "inputs": "abc", "lookups": ["v1/Secret/shop/tls"], "renewal": "2026-02-03T04:05:06Z",
            },
            "lastHandledRegenerateAt": "once", "lastHandledReconcileAt": "1", "lastHandledForceAt": "2",
            "lastHandledResetAt": "3",
            "inventory": record.inventory(),
        });
        assert_eq!(Record::from_status(&status), record);
    }

    #[test]
    fn a_forged_status_is_no_record() {
        for status in [
            json!(null),
            json!({"inventory": "x"}),
            json!({"inventory": [1, {"kind": 2}], "release": []}),
        ] {
            assert_eq!(Record::from_status(&status), Record::default(), "{status}");
        }
    }
}
