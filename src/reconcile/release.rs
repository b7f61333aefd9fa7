//! What is remembered of a release between two reconciles.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::custom_resource::CustomResource;
use super::preflight::list;
use super::why::Whys;
use crate::plan::annotations;
use crate::plan::contest::Contest;
use crate::plan::identity::ObjectId;
use crate::plan::parts::Saved;
use crate::plan::record::{Record, Stored};
use crate::telemetry::redact::Secrets;

/// Retries wait at least and at most this long.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// The memory of a release. While the process lives it is what counts; what is stored is read once, at the start.
#[derive(Debug, Default)]
pub struct Release {
    uid: String,
    trigger: u64,
    pub record: Record,
    /// The Secrets that hold the record.
    pub saved: Saved,
    /// The record lacks entries or digests that were lost: what it doesn't know is no sign of an upgrade.
    pub partial: bool,
    /// The record could not be read: what is stored of it stays as it is.
    pub unread: bool,
    /// What the status was to say, where it doesn't keep all of it.
    pub said: Option<Value>,
    /// It is being taken over from somebody else, whose random results only the live objects know.
    pub inherited: bool,
    /// Failed attempts since something changed.
    pub failures: u32,
    /// Attempts in a row to write the status that failed.
    pub(super) unwritten: u32,
    /// The last event, so that the same failure is told once and not at every retry.
    pub last_event: String,
    /// What it looked up, as in the record, with the versions seen last.
    pub(super) looked_up: Vec<String>,
    /// Why its workloads aren't well.
    pub(super) whys: Whys,
    /// Warnings that were told, so that they are told once.
    pub told: HashSet<String>,
    /// Corrections of members, for those who correct them back.
    pub contests: HashMap<ObjectId, Contest>,
    /// When a correction that has to wait is due.
    pub due: Option<Duration>,
    /// How long the API server asked to be left alone.
    pub retry_after: Option<Duration>,
    /// Reconciles in a row that ended because it asked for that, and of which nothing was told.
    pub throttled: u32,
    /// Members that were applied since the last complete apply, in reconciles that had to wait for something.
    pub applied_before: usize,
    /// What the conditions said last, where Events tell it.
    pub last_conditions: Option<Vec<String>>,
    /// The record that was read was of a release of which nothing was left to be done.
    pub was_complete: bool,
    /// What must not be told of it.
    pub secrets: Arc<Secrets>,
    /// What the Secrets among its members hold is part of that.
    pub(super) knows_secrets: bool,
}

// === impl Release ===

impl Release {
    /// True if this custom resource is not the one that is remembered.
    pub(super) fn is_new(&self, resource: &CustomResource) -> bool {
        self.uid != resource.uid
    }

    /// Begins anew, from what is stored of a custom resource.
    pub(super) fn begin(&mut self, resource: &CustomResource, record: Record, saved: Saved) {
        *self = Release {
            uid: resource.uid.clone(),
            trigger: resource.trigger(),
            failures: resource.failures(),
            was_complete: !record.inputs.is_empty(),
            looked_up: record.lookups.clone(),
            record,
            saved,
            // The set that this reconcile has entered.
            secrets: self.secrets.clone(),
            ..Release::default()
        };
    }

    /// Takes in a custom resource as far as its status tells of the release: no request is made.
    pub fn adopt(&mut self, resource: &CustomResource) {
        if self.is_new(resource) {
            let stored = Record::from_status(&resource.status());
            let unread = !matches!(stored, Stored::Whole(..));
            let record = stored
                .into_record()
                .proven_by(resource.observed_generation(), resource.generation);
            self.begin(resource, record, Saved::default());
            self.unread = unread;
        }
        self.observe(resource);
    }

    /// Takes in the custom resource: a changed one starts counting anew.
    pub(super) fn observe(&mut self, resource: &CustomResource) {
        let trigger = resource.trigger();
        if self.trigger != trigger {
            self.trigger = trigger;
            self.failures = 0;
            self.unwritten = 0;
        }
        let reset = annotations::token(&resource.annotations, annotations::RESET_AT).unwrap_or_default();
        if !reset.is_empty() && reset != self.record.handled.reset && !annotations::is_suspended(&resource.annotations)
        {
            reset.clone_into(&mut self.record.handled.reset);
            self.failures = 0;
            self.contests.clear();
        }
        let now = Timestamp::now();
        self.contests.retain(|_, contest| !contest.is_over(now));
        self.due = None;
        self.retry_after = None;
    }

    /// After a panic: what is known is what the status says, and all of it must be looked at again.
    pub fn recover(&mut self, resource: &CustomResource) {
        let failures = self.failures;
        *self = Release {
            secrets: self.secrets.clone(),
            ..Release::default()
        };
        self.adopt(resource);
        if self.unread {
            // The next reconcile reads it.
            self.uid.clear();
        }
        self.failures = failures;
        self.record = std::mem::take(&mut self.record).unproven();
    }

    /// True if somebody fights over this member.
    pub fn is_contested(&self, id: &ObjectId) -> bool {
        self.contests.get(id).is_some_and(Contest::is_contested)
    }

    /// A correction has to wait; the first that is due counts.
    pub fn wait_for(&mut self, wait: Duration) {
        self.due = Some(self.due.map_or(wait, |due| due.min(wait)));
    }

    /// The members that somebody fights over, in words that stay the same while it lasts.
    pub fn contested(&self) -> Option<String> {
        let contested = self.contests.iter().filter(|(_, contest)| contest.is_contested());
        let mut texts: Vec<String> = contested
            .map(|(id, contest)| format!("{id}: {}", contest.about))
            .collect();
        texts.sort();
        let end = "; it is put right at growing intervals, at most every 5m";
        (!texts.is_empty()).then(|| list(texts) + end)
    }

    /// When a contest may be over, or the next correction is due.
    pub fn next_round(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let contested = self.contests.values().filter(|contest| contest.is_contested());
        let rest = contested.map(|contest| contest.rest(now)).min();
        // A little late, so that it is over when it is looked at.
        let late = Duration::from_millis(100);
        rest.into_iter().chain(self.due).min().map(|wait| wait + late)
    }

    /// Takes in what the last render looked up. While that render changed nothing, the recorded versions may be old: a
    /// status that is written whenever somebody touches a looked-up object would cost more than it tells.
    pub(super) fn learn_lookups(&mut self, lookups: &[String], changed: bool) {
        let names =
            |lookups: &[String]| -> Vec<String> { lookups.iter().map(|text| split(text).0.to_owned()).collect() };
        self.looked_up = lookups.to_vec();
        if changed || names(&self.record.lookups) != names(lookups) {
            self.record.lookups = lookups.to_vec();
        }
    }

    /// How long to wait after one more failure: doubling, with jitter so that many releases don't retry as one.
    pub fn back_off(&mut self) -> Duration {
        let wait = wait(&self.uid, &mut self.failures);
        wait.max(self.retry_after.unwrap_or_default())
    }

    /// The same after one more failure to write the status, whatever the release itself is like. `asked`: how long the
    /// API server wants to be left alone.
    pub(super) fn back_off_unwritten(&mut self, asked: Option<Duration>) -> Duration {
        wait(&self.uid, &mut self.unwritten).max(asked.unwrap_or_default())
    }
}

/// Counts a failure.
fn wait(uid: &str, failures: &mut u32) -> Duration {
    let doubled = SHORTEST.saturating_mul(1 << (*failures).min(10)).min(LONGEST);
    *failures = failures.saturating_add(1);
    jitter(doubled, uid, *failures)
}

/// A recorded lookup: what was looked up, and the version that was found.
pub(super) fn split(lookup: &str) -> (&str, &str) {
    lookup.rsplit_once('@').unwrap_or((lookup, ""))
}

/// Between 80 and 120 percent of a duration, the same for the same release and count.
pub(super) fn jitter(duration: Duration, uid: &str, count: u32) -> Duration {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    (uid, count).hash(&mut hash);
    let percent = 80 + hash.finish() % 41;
    duration.mul_f64(percent as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_another_generation_proves_nothing() {
        let resource = |generation: i64| {
            let object = serde_json::json!({
                "metadata": {"name": "a", "uid": "u", "generation": generation},
                "status": {
                    "observedGeneration": 2, "release": {"revision": 1, "inputs": "i"},
                    "inventory": [{"version": "v1", "kind": "ConfigMap", "name": "a", "digest": "d", "fingerprint": "7"}],
                },
            });
            CustomResource::from(serde_json::from_value::<kube::api::DynamicObject>(object).unwrap())
        };
        for (generation, inputs, fingerprint) in [(2, "i", Some(7)), (3, "", None)] {
            let mut release = Release::default();
            release.adopt(&resource(generation));
            assert_eq!(release.record.inputs, inputs);
            assert_eq!(release.record.entries[0].fingerprint, fingerprint);
            assert_eq!(release.record.revision, 1);
        }
    }

    #[test]
    fn retries_slow_down_and_are_bounded() {
        let mut release = Release {
            uid: "u".into(),
            ..Release::default()
        };
        let waits: Vec<_> = (0..12).map(|_| release.back_off()).collect();
        assert!(waits[0] >= SHORTEST.mul_f64(0.8) && waits[0] <= SHORTEST.mul_f64(1.2));
        assert!(waits[4] > waits[0] * 4);
        assert!(waits.iter().all(|wait| *wait <= LONGEST.mul_f64(1.2)));
        assert_eq!(release.failures, 12, "counted, for the status");
        let asked = Duration::from_secs(900);
        release.failures = 0;
        release.retry_after = Some(asked);
        assert_eq!(release.back_off(), asked, "the server knows better");
    }
}
