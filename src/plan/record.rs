//! The record of a release: all that the next reconcile must know. It is kept in the status of its custom resource, or,
//! where it is too long for that or the status doesn't hold, in a Secret (see [`secret`]).
//!
//! It saves work and names what to look for. It is never proof: whoever may write the status could have written it,
//! so every deletion confirms what it finds on the live object.

pub mod secret;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::desired::Member;
use super::identity::{GroupKind, ObjectId};
use super::request::Handled;

/// The version of the stored form, in the status (where an absent one is 1) and in a Secret. A later one is not read.
pub const VERSION: u64 = 1;
/// The status lists this many members; the record of more lies in a Secret.
pub const STATUS_ENTRIES: usize = 300;

/// The status lists this many lookups; those of a release with more lie in a Secret.
pub const STATUS_LOOKUPS: usize = 100;

/// One member, as last applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct Entry {
    pub id: ObjectId,
    /// The API version it was applied with, without the group.
    pub version: String,
    pub uid: String,
    /// The wave it was applied in; prune and deletion go through the waves backwards.
    pub wave: i32,
    /// Keyed digest of what was sent; empty when the last apply failed or it only waits to be deleted.
    pub digest: String,
    /// Hash of our managedFields entry after the apply, as `Live::fingerprint`.
    pub fingerprint: Option<u64>,
    /// A Job that was complete, and that its TTL removes or has removed: it need not be there.
    pub finished: bool,
}

/// Whether anything is left to be done for the recorded revision. Stored as the text of the inputs, empty without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Completion {
    /// Something is, or may be: the next reconcile looks at all of it.
    #[default]
    Open,
    /// Nothing is, as long as these are the inputs: the digest of everything that the render depends on.
    Done(String),
}

/// All that is known of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// 0 before the first complete apply, then counts the renders that differed.
    pub revision: i64,
    #[serde(rename = "inputs")]
    pub completion: Completion,
    /// The same with which the members were settled last: all applied, and what went missing pruned. See [`super::intent`].
    pub settled: String,
    /// Stored elsewhere than the rest: the status has its inventory.
    #[serde(skip)]
    pub entries: Vec<Entry>,
    /// What the render looked up, as `LookupKey` prints it.
    pub lookups: Vec<String>,
    /// What the settled render asked of `.Capabilities`; that of the inputs is the same one.
    pub capabilities: Vec<String>,
    /// When the first of the kept certificates is to be renewed: a render from then on does it.
    pub renewal: Option<jiff::Timestamp>,
    pub handled: Handled,
}

/// What a status holds of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// All of it; the empty record if there is none. So many Secrets hold what it was before: one, or several of an earlier
    /// version.
    Whole(Record, usize),
    /// The first entries; all of them are in so many Secrets.
    Part(Record, usize),
    /// Nothing that this program could read: a later one wrote it, in this version.
    Later(u64),
}

/// An entry as it is stored.
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
    /// An earlier version kept the stage here, which all objects of one stage share: that changes nothing in their order.
    #[serde(default)]
    wave: i32,
    #[serde(default)]
    digest: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    fingerprint: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
}

// === impl Entry ===

impl Entry {
    /// Of a member that is not applied yet.
    pub fn of(member: &Member) -> Self {
        Entry {
            id: member.id.clone(),
            version: member.version.clone(),
            uid: String::new(),
            wave: member.policy.wave,
            digest: String::new(),
            fingerprint: None,
            finished: false,
        }
    }
}

// === impl Stored ===

impl Stored {
    /// As much of the record as the status has.
    pub fn into_record(self) -> Record {
        match self {
            Stored::Whole(record, _) | Stored::Part(record, _) => record,
            Stored::Later(_) => Record::default(),
        }
    }
}

// === impl Completion ===

impl From<String> for Completion {
    fn from(inputs: String) -> Self {
        match inputs.is_empty() {
            true => Completion::Open,
            false => Completion::Done(inputs),
        }
    }
}

impl From<Completion> for String {
    fn from(completion: Completion) -> Self {
        match completion {
            Completion::Open => String::new(),
            Completion::Done(inputs) => inputs,
        }
    }
}

// === impl Record ===

impl Record {
    pub fn entry(&self, id: &ObjectId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    pub fn entry_mut(&mut self, id: &ObjectId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == *id)
    }

    /// The inputs for which nothing is left to be done.
    pub fn done_for(&self) -> Option<&str> {
        match &self.completion {
            Completion::Open => None,
            Completion::Done(inputs) => Some(inputs),
        }
    }

    /// True if it says of everything how it was left. One that doesn't is of a release that isn't complete, or went
    /// through a schema that drops some of it.
    pub fn is_complete(&self) -> bool {
        self.completion != Completion::Open && self.entries.iter().all(|entry| !entry.digest.is_empty())
    }

    /// Reads the record back from a status; what is missing or malformed is as if it had never been there.
    pub fn from_status(status: &Value) -> Stored {
        let stored = status.pointer("/release/record");
        let number = |key: &str| stored.and_then(|stored| stored.get(key)).and_then(Value::as_u64);
        if let Some(version) = number("version").filter(|version| *version > VERSION) {
            return Stored::Later(version);
        }
        let mut record = Record::read(status);
        let secrets = number("secrets").and_then(|secrets| usize::try_from(secrets).ok());
        let secrets = secrets.unwrap_or_default();
        let is_all = |key: &str, count: usize| number(key).is_none_or(|all| all == count as u64);
        if is_all("members", record.entries.len()) && is_all("lookups", record.lookups.len()) {
            return Stored::Whole(record, secrets);
        }
        // Nothing may be taken for done by a part.
        record.completion = Completion::Open;
        Stored::Part(record, secrets)
    }

    fn read(status: &Value) -> Self {
        let release = status.get("release");
        let text = |key: &str| {
            release
                .and_then(|r| r.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let texts = |key: &str| -> Vec<String> {
            let texts = release.and_then(|r| r.get(key)).and_then(Value::as_array);
            let texts = texts.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        let rows = status.get("inventory").and_then(Value::as_array);
        let settled = Some(text("settled")).filter(|settled| !settled.is_empty());
        Record {
            revision: release
                .and_then(|r| r.get("revision"))
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            completion: text("inputs").into(),
            settled: settled.unwrap_or_else(|| text("inputs")),
            renewal: text("renewal").parse().ok(),
            handled: Handled::of_status(status),
            lookups: texts("lookups"),
            capabilities: texts("capabilities"),
            entries: rows
                .into_iter()
                .flatten()
                .filter_map(|row| serde_json::from_value::<Row>(row.clone()).ok())
                .map(Entry::from)
                .collect(),
        }
    }

    /// The record as it can be trusted for a custom resource of this generation, if it was stored for that one.
    #[must_use]
    pub fn proven_by(self, stored_for: Option<i64>, generation: i64) -> Self {
        match stored_for == Some(generation) {
            true => self,
            false => self.unproven(),
        }
    }

    /// The same for a custom resource that changed after this was stored: somebody may have begun to apply what
    /// came in between, and died before the status told of it. Its fields may be those that were recorded, with other
    /// values, and even the time of an apply has a resolution of a second. So every member is applied once more, which
    /// writes nothing where nothing is to be written.
    #[must_use]
    pub fn unproven(mut self) -> Self {
        self.completion = Completion::Open;
        for entry in &mut self.entries {
            entry.fingerprint = None;
        }
        self
    }

    /// `status.inventory`: the first [`STATUS_ENTRIES`] entries.
    pub fn inventory(&self) -> Value {
        let shown = self.entries.iter().take(STATUS_ENTRIES);
        shown.map(|entry| json!(entry)).collect()
    }

    /// `status.release.lookups`: the first [`STATUS_LOOKUPS`].
    pub fn shown_lookups(&self) -> &[String] {
        self.lookups.get(..STATUS_LOOKUPS).unwrap_or(&self.lookups)
    }

    /// `status.release.record`, where `secrets` Secrets hold the record; `None` where the status does.
    pub fn whereabouts(&self, secrets: usize) -> Option<Value> {
        let longer = self.lookups.len() > STATUS_LOOKUPS;
        let elsewhere = secrets > 0 || longer || self.entries.len() > STATUS_ENTRIES;
        elsewhere.then(|| {
            let mut stored = json!({"version": VERSION, "members": self.entries.len(), "secrets": secrets});
            if longer {
                stored["lookups"] = self.lookups.len().into();
            }
            stored
        })
    }
}

impl From<Row> for Entry {
    fn from(row: Row) -> Self {
        Entry {
            id: ObjectId::new(GroupKind::new(row.group, row.kind), row.namespace, row.name),
            version: row.version,
            uid: row.uid,
            wave: row.wave,
            digest: row.digest,
            fingerprint: u64::from_str_radix(&row.fingerprint, 16).ok(),
            finished: row.finished,
        }
    }
}

impl From<Entry> for Row {
    fn from(entry: Entry) -> Self {
        let GroupKind { group, kind } = entry.id.group_kind;
        Row {
            group,
            version: entry.version,
            kind,
            namespace: entry.id.namespace,
            name: entry.id.name,
            uid: entry.uid,
            wave: entry.wave,
            digest: entry.digest,
            fingerprint: entry.fingerprint.map(|hash| format!("{hash:016x}")).unwrap_or_default(),
            finished: entry.finished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::Request;
    use super::super::testing::{entry, id};
    use super::*;

    #[test]
    fn a_record_survives_the_status() {
        let mut handled = Handled::default();
        for (request, text) in Request::ALL.into_iter().zip(["once", "1", "2", "3"]) {
            handled.set(request, text);
        }
        let record = Record {
            revision: 3,
            completion: Completion::Done("abc".into()),
            settled: "abc".into(),
            renewal: Some("2026-02-03T04:05:06Z".parse().unwrap()),
            handled,
            lookups: vec!["v1/Secret/shop/tls".into()],
            capabilities: vec!["KubeVersion".into()],
            entries: vec![Entry {
                id: ObjectId::new(GroupKind::new("apps", "Deployment"), "shop", "web"),
                version: "v1".into(),
                uid: "u".into(),
                wave: -3,
                digest: "d".into(),
                fingerprint: Some(0xab),
                finished: true,
            }],
        };
        let status = json!({
            "release": {
                "revision": 3, "inputs": "abc", "lookups": ["v1/Secret/shop/tls"],
                "capabilities": ["KubeVersion"], "renewal": "2026-02-03T04:05:06Z",
            },
            "lastHandledRegenerateAt": "once", "lastHandledReconcileAt": "1", "lastHandledForceAt": "2",
            "lastHandledResetAt": "3",
            "inventory": record.inventory(),
        });
        assert_eq!(Record::from_status(&status), Stored::Whole(record, 0));
    }

    #[test]
    fn a_forged_status_is_no_record() {
        for status in [
            json!(null),
            json!({"inventory": "x"}),
            json!({"inventory": [1, {"kind": 2}], "release": []}),
        ] {
            assert_eq!(
                Record::from_status(&status),
                Stored::Whole(Record::default(), 0),
                "{status}"
            );
        }
    }

    #[test]
    fn a_long_inventory_is_a_part_and_a_later_version_is_nothing() {
        let entry = |n: usize| entry(&id("ConfigMap", &format!("c{n}")));
        let record = Record {
            revision: 2,
            completion: Completion::Done("abc".into()),
            settled: "abc".into(),
            entries: (0..STATUS_ENTRIES + 1).map(entry).collect(),
            ..Record::default()
        };
        for secrets in [0, 2] {
            let status = json!({
                "release": {"revision": 2, "inputs": "abc", "record": record.whereabouts(secrets)},
                "inventory": record.inventory(),
            });
            let Stored::Part(part, found) = Record::from_status(&status) else {
                panic!("{status}");
            };
            assert_eq!(
                (part.entries.len(), part.done_for(), part.revision, found),
                (STATUS_ENTRIES, None, 2, secrets)
            );
        }
        let small = Record {
            entries: vec![entry(1)],
            lookups: Vec::new(),
            ..record
        };
        assert_eq!(small.whereabouts(0), None);
        let status = json!({
            "release": {"revision": 2, "inputs": "abc", "record": small.whereabouts(1)}, "inventory": small.inventory(),
        });
        assert_eq!(Record::from_status(&status), Stored::Whole(small, 1));
        let later = json!({"release": {"revision": 2, "record": {"version": 2}}});
        assert_eq!(Record::from_status(&later), Stored::Later(2));
    }
}
