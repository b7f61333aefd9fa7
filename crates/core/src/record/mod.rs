//! The record of a release: everything that the next reconcile must know. It is kept in the status of the custom resource,
//! or in a Secret if it is too long or the schema drops part of it (see [`secret`]).
//!
//! The record saves work and names the objects to look for. It counts only with the operator's signature (see [`signature`]).
//! Even then it proves nothing, because an earlier record is signed too. So every write that follows from it first confirms on
//! the live object that the object belongs to the release.

pub(crate) mod entry;
pub mod history;
pub mod remediation;
pub mod requests;
pub mod secret;
pub mod signature;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hooks::{HookProgress, HookRun};
use crate::identity::ObjectId;
use crate::leader::Elected;
use crate::plans::{self, Plans};
use crate::record::history::{Fallback, History, UpgradeAttempt};
use crate::record::remediation::Remedied;
use crate::record::requests::Handled;
use crate::rollout::ReleaseRollout;
use crate::status::fields::{RecordLocation, Status};
use signature::RecordSeal;

pub use entry::Entry;

/// The version of the stored form, in the status (where an absent one is 1) and in a Secret. A later one is not read.
pub const VERSION: u64 = 1;
/// The status lists this many members; the record of more lies in a Secret.
pub const STATUS_ENTRIES: usize = 300;

/// The status lists this many lookups; those of a release with more lie in a Secret.
pub const STATUS_LOOKUPS: usize = 100;

/// All that is known of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// 0 before the first complete apply, then counts the renders that differed.
    pub revision: i64,
    /// Nothing is left to be done for the recorded revision, as long as these are the inputs: the digest of everything that
    /// the render depends on. `None`: something is, or may be, and the next reconcile looks at all of it.
    pub done_for: Option<String>,
    /// `.Release.Name`, if it is another than the name of the custom resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_name: Option<String>,
    /// `namespace/name` of the ServiceAccount with whose rights the members were applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The same with which the members were settled last: all applied, and what went missing pruned. See [`crate::prune::intent`].
    pub settled: String,
    pub entries: Vec<Entry>,
    /// [`crate::digest::Key::id`] of the key that the digests are made with; empty if that isn't known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// What the render looked up, as `LookupKey` prints it.
    pub lookups: Vec<String>,
    /// What the settled render asked of `.Capabilities`; that of the inputs is the same one.
    pub capabilities: Vec<String>,
    /// When the first of the kept certificates is to be renewed: a render from then on does it.
    pub renewal: Option<jiff::Timestamp>,
    pub handled: Handled,
    /// Some members of the next revision are applied, in reconciles that had to wait for something. What is left may be as
    /// it was: an upgrade it is all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub upgrading: bool,
    /// How far its hooks have come.
    #[serde(skip_serializing_if = "HookProgress::is_empty")]
    pub hooks: HookProgress,
    #[serde(skip_serializing_if = "Plans::is_empty")]
    pub plans: Plans,
    #[serde(skip_serializing_if = "History::is_empty")]
    pub history: History,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remediation: Vec<Remedied>,
    /// Who leads its workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elected: Vec<Elected>,
    /// The upgrade that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Box<UpgradeAttempt>>,
    /// The revision that runs instead of the specified one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<Fallback>>,
    /// Its part in the rollout of a new chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<ReleaseRollout>,
}

/// What a status holds of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// All of it; the empty record if there is none. `in_secret`: a Secret holds what it was before.
    Whole { record: Record, in_secret: bool },
    /// The first entries; all of them are in a Secret, if that is there already.
    Part { record: Record, in_secret: bool },
    /// Something that the operator did not write for this custom resource, or signed with a key that it no longer has. What
    /// it claims leads to no write.
    Lost { claimed: Box<Record> },
    /// Nothing that this program could read: a later one wrote it, in this version.
    Later(u64),
}
impl Stored {
    /// As much of the record as the status has, and the operator wrote.
    pub fn into_record(self) -> Record {
        match self {
            Stored::Whole { record, .. } | Stored::Part { record, .. } => record,
            Stored::Lost { .. } | Stored::Later(_) => Record::default(),
        }
    }
}
impl Record {
    pub fn entry(&self, id: &ObjectId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    pub fn entry_mut(&mut self, id: &ObjectId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == *id)
    }

    /// The name of an existing release of a custom resource `resource`, if it is another than this one.
    pub fn other_name<'n>(&'n self, resource: &'n str, now: &str) -> Option<&'n str> {
        let recorded = self.release_name.as_deref().unwrap_or(resource);
        (!self.is_new() && recorded != now).then_some(recorded)
    }

    /// True before the first member.
    pub fn is_new(&self) -> bool {
        self.revision == 0 && self.entries.is_empty()
    }

    /// True if drift of a member stays.
    pub fn tolerates_drift(&self) -> bool {
        self.entries.iter().any(|entry| entry.drift.is_some())
    }

    /// How far the hooks of an event have come, or the steps of the plan that runs.
    pub fn progress(&self, event: &str) -> &HookProgress {
        if self.is_of_plan(event) {
            &self.plans.work.steps
        } else {
            &self.hooks
        }
    }

    pub fn progress_mut(&mut self, event: &str) -> &mut HookProgress {
        if self.is_of_plan(event) {
            &mut self.plans.work.steps
        } else {
            &mut self.hooks
        }
    }

    /// Takes note of a run of a hook, or of a step.
    pub fn note(&mut self, run: HookRun) {
        if self.is_of_plan(&run.event) {
            self.plans.work.steps.note(run)
        } else {
            self.hooks.note(run)
        }
    }

    fn is_of_plan(&self, event: &str) -> bool {
        let running = self.plans.work.running.as_ref();
        running.is_some_and(|run| plans::plan_of(event) == Some(&run.plan))
    }

    /// True if it says of everything how it was left. One that doesn't is of a release that isn't complete, or went
    /// through a schema that drops some of it.
    pub fn is_complete(&self) -> bool {
        self.done_for.is_some() && self.entries.iter().all(|entry| !entry.digest.is_empty())
    }

    /// Reads the record back from a status; what is missing or malformed is as if it had never been there. `seal`: checks
    /// that the operator wrote it; `None` where it is only shown to people.
    pub fn from_status(status: &Value, seal: Option<&RecordSeal<'_>>) -> Stored {
        let stored = status.pointer("/release/record");
        let number = |key: &str| stored.and_then(|stored| stored.get(key)).and_then(Value::as_u64);
        if let Some(version) = number("version").filter(|version| *version > VERSION) {
            return Stored::Later(version);
        }
        let mut record = Record::read(status);
        let is_nothing = || stored.is_none() && record == Record::default();
        if seal.is_some_and(|seal| !is_nothing() && !seal.holds(&record, status)) {
            let claimed = Box::new(record);
            return Stored::Lost { claimed };
        }
        let in_secret = number("secrets").is_some_and(|count| count > 0);
        let is_all = |key: &str, count: usize| number(key).is_none_or(|all| all == count as u64);
        if is_all("members", record.entries.len()) && is_all("lookups", record.lookups.len()) {
            return Stored::Whole { record, in_secret };
        }
        // Nothing may be taken for done by a part.
        record.done_for = None;
        Stored::Part { record, in_secret }
    }

    fn read(status: &Value) -> Self {
        let mut status = Status::read(status);
        // They are in memory as long as the release.
        status.inventory.shrink_to_fit();
        status.history.shrink_to_fit();
        let handled = Handled::take_from(&mut status);
        let release = status.release.unwrap_or_default();
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let done_for = given(release.inputs);
        Record {
            revision: release.revision,
            release_name: given(release.given_name),
            service_account: given(release.service_account),
            settled: given(release.settled).or_else(|| done_for.clone()).unwrap_or_default(),
            done_for,
            entries: status.inventory,
            key: release.key.unwrap_or_default(),
            lookups: release.lookups,
            capabilities: release.capabilities,
            renewal: release.renewal,
            handled,
            upgrading: release.upgrading,
            hooks: status.hooks,
            plans: Plans {
                plans: status.plans,
                work: status.plan_run,
            },
            remediation: status.remediation,
            history: status.history,
            elected: status.elected,
            attempt: release.attempt,
            fallback: release.fallback,
            rollout: release.rollout,
        }
    }

    /// The record as it can be trusted for a custom resource of this generation, if it was stored for that one.
    #[must_use]
    pub fn proven_by(self, stored_for: Option<i64>, generation: i64) -> Self {
        if stored_for == Some(generation) {
            self
        } else {
            self.unproven()
        }
    }

    /// The same for a custom resource that changed after this was stored: an operator may have begun to apply what
    /// came in between, and stopped before it wrote the status. Its fields may be those that were recorded, with other
    /// values, and even the time of an apply has a resolution of a second. So every member is applied once more, which
    /// writes nothing where nothing is to be written.
    #[must_use]
    pub fn unproven(mut self) -> Self {
        self.done_for = None;
        for entry in &mut self.entries {
            entry.fingerprint = None;
        }
        self
    }

    /// What is left of a record that the operator did not write. The requests that it claims to have carried out are not
    /// carried out once more: a forged one can only prevent a request.
    #[must_use]
    pub fn left_of_claim(&self) -> Self {
        Record {
            handled: self.handled.clone(),
            ..Record::default()
        }
    }

    /// Removes digests that were made with another key: they would mark everything as changed.
    pub fn forget_digests(&mut self) {
        self.done_for = None;
        self.entries.iter_mut().for_each(|entry| entry.digest.clear());
        self.plans.plans.iter_mut().for_each(|plan| plan.value.clear());
    }

    /// `status.inventory`: the first [`STATUS_ENTRIES`] entries.
    pub fn shown_entries(&self) -> &[Entry] {
        self.entries.get(..STATUS_ENTRIES).unwrap_or(&self.entries)
    }

    /// `status.release.lookups`: the first [`STATUS_LOOKUPS`].
    pub fn shown_lookups(&self) -> &[String] {
        self.lookups.get(..STATUS_LOOKUPS).unwrap_or(&self.lookups)
    }

    /// `status.release.record`, if the status doesn't hold all of it or a Secret does; otherwise `None`.
    pub fn location(&self, in_secret: bool) -> Option<RecordLocation> {
        let longer = self.lookups.len() > STATUS_LOOKUPS;
        let elsewhere = in_secret || longer || self.entries.len() > STATUS_ENTRIES;
        elsewhere.then(|| RecordLocation {
            version: Some(VERSION),
            members: Some(self.entries.len() as u64),
            lookups: longer.then_some(self.lookups.len() as u64),
            secrets: Some(u64::from(in_secret)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::recorded;
    use crate::testing::{entry, id};

    /// Whether a status has all of a record, what it has, and whether a Secret has it.
    fn read(status: &Value) -> (bool, Record, bool) {
        match Record::from_status(status, None) {
            Stored::Whole { record, in_secret } => (true, record, in_secret),
            Stored::Part { record, in_secret } => (false, record, in_secret),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_survives_the_status() {
        let status = json!({
            "release": {
                "revision": 3, "inputs": "abc", "lookups": ["v1/Secret/shop/tls"],
                "capabilities": ["KubeVersion"], "renewal": "2026-02-03T04:05:06Z",
            },
            "lastHandledRegenerateAt": "once", "lastHandledReconcileAt": "1", "lastHandledForceAt": "2",
            "lastHandledResetAt": "3", "hooks": {"operation": {"kind": "upgrade", "revision": 3, "attempt": 1, "digest": "d", "phase": "Done"}, "stored": "s"},
            "inventory": [{
                "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web",
                "uid": "u", "wave": -3, "digest": "d", "fingerprint": "00000000000000ab", "finished": true,
            }],
        });
        let (is_whole, record, in_secret) = read(&status);
        assert_eq!((is_whole, in_secret), (true, false));
        assert_eq!(
            (record.revision, record.done_for.as_deref(), record.settled.as_str()),
            (3, Some("abc"), "abc")
        );
        assert_eq!(record.lookups, ["v1/Secret/shop/tls"]);
        assert_eq!(record.capabilities, ["KubeVersion"]);
        assert_eq!(
            record.renewal.map(|time| time.to_string()).as_deref(),
            Some("2026-02-03T04:05:06Z")
        );
        assert_eq!(json!(record.hooks), status["hooks"]);
        let mut written = Status::default();
        record.handled.write_into(&mut written);
        let written = json!(written);
        let handled: Vec<_> = recorded().filter(|field| field.starts_with("last")).collect();
        assert!(
            handled.len() == 6 && handled.iter().all(|field| written[*field] == status[*field]),
            "{written:?}"
        );
        let member = Entry {
            id: id("Deployment.apps", "web"),
            version: "v1".into(),
            uid: "u".into(),
            wave: -3,
            digest: "d".into(),
            fingerprint: Some(0xab),
            drift: None,
            adopted: false,
            finished: true,
        };
        assert_eq!(
            (&record.entries, json!(record.shown_entries())),
            (&vec![member], status["inventory"].clone())
        );
    }

    #[test]
    fn a_forged_status_is_no_record() {
        let inventory = json!([1, {"kind": 2}, {"version": "v1", "kind": "A", "name": "a", "fingerprint": 7}]);
        for status in [
            json!(null),
            json!({"inventory": "x"}),
            json!({"inventory": inventory, "release": []}),
        ] {
            assert_eq!(read(&status), (true, Record::default(), false), "{status}");
        }
    }

    #[test]
    fn a_long_inventory_is_a_part_and_a_later_version_is_nothing() {
        let entry = |n: usize| entry(&id("ConfigMap", &format!("c{n}")));
        for (members, in_secret) in [
            (STATUS_ENTRIES + 1, false),
            (STATUS_ENTRIES + 1, true),
            (1, true),
            (1, false),
        ] {
            let record = Record {
                revision: 2,
                done_for: Some("abc".into()),
                settled: "abc".into(),
                entries: (0..members).map(entry).collect(),
                ..Record::default()
            };
            let location = record.location(in_secret);
            assert_eq!(location.is_some(), in_secret || members > 1);
            let status = json!({
                "release": {"revision": 2, "inputs": "abc", "record": location}, "inventory": record.shown_entries(),
            });
            let is_whole = members == 1;
            let shown = Record {
                done_for: record.done_for.filter(|_| is_whole),
                entries: (0..members.min(STATUS_ENTRIES)).map(entry).collect(),
                ..record
            };
            assert_eq!(read(&status), (is_whole, shown, in_secret));
        }
        let later = json!({"release": {"revision": 2, "record": {"version": 2}}});
        assert_eq!(Record::from_status(&later, None), Stored::Later(2));
    }
}
