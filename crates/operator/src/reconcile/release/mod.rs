//! What is remembered of a release between two reconciles.

pub(crate) mod author_permit;
mod contests;
pub(crate) mod elections;
pub(crate) mod former_release;
pub(crate) mod full_members;
pub(crate) mod pod_problems;
pub(crate) mod retry_cache;
pub(crate) mod saved_record;
pub(crate) mod schedule;
pub(crate) mod status_template;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use contests::DriftContests;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::connection::throttle::{requested_wait, spread};
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::release::author_permit::AuthorPermit;
use crate::reconcile::release::elections::Elections;
use crate::reconcile::release::full_members::FullMembers;
use crate::reconcile::release::pod_problems::PodProblems;
use crate::reconcile::release::retry_cache::RetryCache;
use crate::reconcile::release::saved_record::{SavedRecord, StatusRefusal};
use crate::reconcile::release::status_template::StatusTemplate;
use crate::telemetry::redact::Secrets;
use chartwright_core::annotations;
use chartwright_core::digest::{Key, Keyring};
use chartwright_core::hooks::Hook;
use chartwright_core::identity::ObjectId;
use chartwright_core::record::requests::Request;
use chartwright_core::record::signature::RecordSeal;
use chartwright_core::record::{Record, Stored};
use chartwright_core::status::conditions::{self, cut};
use helm_template::render::LookupKey;

/// A recorded lookup, in bytes: group, version, kind, and two names of 253 bytes have room in it.
const LONGEST_LOOKUP: usize = 1024;

/// The memory of a release. While the process lives it is what counts; what is stored is read once, at the start.
#[derive(Default)]
pub struct Release {
    uid: String,
    /// What somebody asked for last: the finalizer and the annotations that the operator writes are no news.
    author_digest: u64,
    pub record: Record,
    /// The Secret that holds the record.
    pub saved: SavedRecord,
    /// The record lacks entries or digests that were lost: what it doesn't know is no sign of an upgrade.
    pub partial: bool,
    /// Digests in the record were made with another key, and are forgotten.
    pub rekeyed: bool,
    /// The earlier key that signed the status, until everything that it signed for the release is signed again.
    pub(super) signer: Option<String>,
    /// The record could not be read: what is stored of it stays as it is.
    pub unread: bool,
    /// It is being taken over from somebody else, whose random results only the live objects know.
    pub under_takeover: bool,
    pub backoff: Backoff,
    pub announced: AnnouncedEvents,
    pub contests: DriftContests,
    pub(super) last_render: LastRender,
    /// What the API server refuses of its status.
    pub(super) refused: StatusRefusal,
    /// All of its members were as they should be, once since this process began.
    pub(super) was_seen_whole: bool,
    /// What the next attempt need not do again.
    pub(super) retry_cache: RetryCache,
    /// What it depends on, as it was when it was looked at last.
    pub(super) verdicts: DependencyVerdicts,
    /// The steps of the plan that runs, once they were read.
    pub(super) steps: Option<Vec<Hook>>,
    /// Why its workloads aren't well.
    pub(super) pod_troubles: PodProblems,
    /// Its members as far as they are known whole; `None`: nobody asked for them. Few charts do, as with templates.
    pub(super) whole: Option<Box<FullMembers>>,
    /// What the chart's status template made.
    pub(super) template: Option<Box<StatusTemplate>>,
    /// Who leads its workloads.
    pub(super) elections: Elections,
    /// What its author was last permitted to create.
    pub(super) permit: AuthorPermit,
    /// Members that were applied since the last complete apply, in reconciles that had to wait for something.
    pub applied_before: usize,
    /// The record that was read was of a release of which nothing was left to be done.
    pub was_complete: bool,
    /// What must not be told of it.
    pub secrets: Arc<Secrets>,
    /// What the Secrets among its members hold is part of that.
    pub(super) knows_secrets: bool,
    /// Until when it waits for its watches, at first.
    pub(super) awaits: Option<Instant>,
    /// It waits no more.
    pub(super) begun: bool,
}

impl Release {
    /// True if this custom resource is not the one that is remembered.
    pub(super) fn is_new(&self, resource: &CustomResource) -> bool {
        self.uid != resource.uid
    }

    /// Begins anew, from what is stored of a custom resource and what its status tells.
    pub(super) fn begin(&mut self, resource: &CustomResource, status: &Value, record: Record, saved: SavedRecord) {
        *self = Release {
            uid: resource.uid.clone(),
            author_digest: resource.author_digest(),
            backoff: Backoff {
                uid: resource.uid.clone(),
                failures: resource.failures(status),
                ..Backoff::default()
            },
            was_complete: record.done_for.is_some(),
            last_render: LastRender::of_record(&record),
            pod_troubles: PodProblems::new(resource.is_unready(status)),
            record,
            saved,
            // The set that this reconcile has entered.
            secrets: self.secrets.clone(),
            ..Release::default()
        };
        // While no operator ran, nothing could be done about it.
        self.restart_clock();
    }

    /// The key of this release's digests: the one that they were made with, as long as the operator has it.
    pub(super) fn key<'k>(&self, keys: &'k Keyring) -> &'k Key {
        keys.get(&self.record.key).unwrap_or_else(|| keys.current())
    }

    /// Takes in a custom resource as far as its status tells of the release: no request is made. `seal`: checks the status;
    /// `None` where nothing is written.
    pub fn adopt(&mut self, resource: &CustomResource, seal: Option<&RecordSeal<'_>>) {
        if self.is_new(resource) {
            let status = resource.status();
            let stored = Record::from_status(&status, seal);
            let unread = !matches!(stored, Stored::Whole { .. });
            let record = stored
                .into_record()
                .proven_by(conditions::recorded_generation(&status), resource.generation);
            self.begin(resource, &status, record, SavedRecord::default());
            self.unread = unread;
        }
        self.observe(resource);
    }

    /// Takes in the custom resource: a changed one starts counting anew.
    pub(super) fn observe(&mut self, resource: &CustomResource) {
        let author_digest = resource.author_digest();
        if self.author_digest != author_digest {
            self.author_digest = author_digest;
            self.restart_clock();
            self.backoff.failures = 0;
            self.backoff.unwritten = 0;
            // There may be room now.
            self.refused = StatusRefusal::Nothing;
            self.announced.changed();
            self.retry_cache = RetryCache::default();
        }
        let reset = self.record.handled.pending(Request::Reset, &resource.annotations);
        if let Some(text) = reset.filter(|_| !annotations::is_suspended(&resource.annotations)) {
            self.record.handled.set(Request::Reset, text);
            self.retry_upgrade();
            self.backoff.failures = 0;
            self.contests.forget();
        }
        self.contests.begin();
        self.backoff.retry_after = None;
    }

    /// After a panic: what is known is what the status says, and all of it must be looked at again.
    pub(super) fn recover(&mut self, resource: &CustomResource, seal: &RecordSeal<'_>) {
        let failures = self.backoff.failures;
        *self = Release {
            secrets: self.secrets.clone(),
            ..Release::default()
        };
        self.adopt(resource, Some(seal));
        if self.unread {
            // The next reconcile reads it.
            self.uid.clear();
        }
        self.backoff.failures = failures;
        self.record = std::mem::take(&mut self.record).unproven();
    }

    /// How long to wait after one more failure, at least as long as the API server requested.
    pub(super) fn back_off(&mut self) -> Duration {
        self.backoff.retry_after = requested_wait();
        self.backoff.failed()
    }

    /// True if it waits for its watches.
    pub fn is_waiting(&self) -> bool {
        self.awaits.is_some() && !self.begun
    }

    /// Takes in what the last render looked up. While that render changed nothing, the recorded versions may be old: a
    /// status that is written whenever somebody touches a looked-up object would cost more than it tells.
    /// `seen`: with the versions that there are by now.
    pub(super) fn learn_lookups(&mut self, lookups: &[String], seen: &[String], changed: bool) {
        let names =
            |lookups: &[String]| -> Vec<String> { lookups.iter().map(|text| split(text).0.to_owned()).collect() };
        self.last_render.lookups = seen.to_vec();
        // A name that nothing can have finds nothing; after a start it is looked up once more.
        let lookups: Vec<String> = lookups.iter().map(|text| cut(text, LONGEST_LOOKUP)).collect();
        if changed || names(&self.record.lookups) != names(&lookups) {
            self.record.lookups = lookups;
        }
    }
}

/// Retries wait at least and at most this long.
const SHORTEST: Duration = Duration::from_secs(1);

const LONGEST: Duration = Duration::from_secs(300);

/// The failures of a release in a row.
#[derive(Debug, Default)]
pub struct Backoff {
    /// Of the custom resource: releases that fail together don't come back together.
    pub(super) uid: String,
    /// Failed attempts since something changed.
    pub failures: u32,
    /// Attempts in a row to write the status that failed.
    pub unwritten: u32,
    /// Reconciles in a row that ended because the API server asked to be left alone, and of which nothing was told.
    pub throttled: u32,
    /// For how long the API server asked to be left alone.
    pub retry_after: Option<Duration>,
}

impl Backoff {
    /// How long to wait after one more failure: doubling, with jitter so that many releases don't retry as one.
    pub fn failed(&mut self) -> Duration {
        let wait = wait(&self.uid, &mut self.failures);
        wait.max(self.spread(self.retry_after))
    }

    /// The same after one more failure to write the status, whatever the release itself is like. `retry_after`: for how
    /// long the API server wants to be left alone.
    pub fn failed_to_write(&mut self, retry_after: Option<Duration>) -> Duration {
        wait(&self.uid, &mut self.unwritten).max(self.spread(retry_after))
    }

    /// When this release comes back that was asked to stay away for so long.
    fn spread(&self, after: Option<Duration>) -> Duration {
        spread(after.unwrap_or_default(), (&self.uid, self.failures))
    }
}

/// Counts a failure.
fn wait(uid: &str, failures: &mut u32) -> Duration {
    let doubled = SHORTEST.saturating_mul(1 << (*failures).min(10)).min(LONGEST);
    *failures = failures.saturating_add(1);
    jitter(doubled, uid, *failures)
}

/// What the last render of a release read, for the next one.
#[derive(Debug, Default)]
pub struct LastRender {
    /// The inputs of the recorded revision, whatever is left to be done; empty if they aren't known.
    pub inputs: String,
    /// What the render of these inputs asked of `.Capabilities`.
    pub capabilities: Vec<String>,
    /// What it looked up, as in the record, with the versions seen last.
    pub lookups: Vec<String>,
    /// Answers of lookups changed since its members were settled.
    pub answers_changed: bool,
    /// Members that the answer of a lookup took out of the render, and since when.
    pub dropped: HashMap<ObjectId, Instant>,
}

impl LastRender {
    pub(super) fn of_record(record: &Record) -> Self {
        LastRender {
            inputs: match record.fallback {
                None => record.done_for.clone().unwrap_or_default(),
                Some(_) => String::new(),
            },
            capabilities: record.capabilities.clone(),
            lookups: record.lookups.clone(),
            ..LastRender::default()
        }
    }

    /// True if something that was looked up before has another answer now.
    pub fn has_other_answers(&self, lookups: &[String]) -> bool {
        let known: HashMap<&str, &str> = self.lookups.iter().map(|lookup| split(lookup)).collect();
        let mut lookups = lookups.iter().map(|lookup| split(lookup));
        lookups.any(|(text, version)| known.get(text).is_some_and(|known| *known != version))
    }
}

/// So many warnings are told of one state of a custom resource, and remembered: neither a release whose warnings keep
/// changing nor one that has more of them may write Events for ever.
const MAX_WARNINGS: usize = 100;

/// What was told of a release, so that it is told once.
#[derive(Debug, Default)]
pub struct AnnouncedEvents {
    warnings: HashSet<String>,
    /// The last Event: the same failure isn't told at every retry.
    pub event: String,
    /// What the conditions said last, where Events tell it.
    pub conditions: Option<Vec<String>>,
    /// What the status was to say, where it doesn't keep all of it.
    pub status: Option<Value>,
    /// What it waited for when that was reported last.
    pub(super) awaited: Option<String>,
    /// The generation whose values were compared with those that the chart reads.
    pub(super) generation: Option<i64>,
}

impl AnnouncedEvents {
    /// True if this warning is to be told: it wasn't yet.
    pub fn is_news(&mut self, warning: &str) -> bool {
        self.warnings.len() < MAX_WARNINGS && self.warnings.insert(warning.to_owned())
    }

    /// The custom resource is another one now: where the bound is reached, there is something to tell again.
    pub(super) fn changed(&mut self) {
        if self.warnings.len() >= MAX_WARNINGS {
            self.warnings.clear();
        }
    }
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

/// What came of earlier looks, with the version of the object: why it isn't ready.
pub(crate) type DependencyVerdicts = BTreeMap<(LookupKey, Option<String>), (String, Option<String>)>;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_of_another_generation_proves_nothing() {
        let resource = |generation: i64, conditions: Value| {
            let object = json!({
                "metadata": {"name": "a", "uid": "u", "generation": generation},
                "status": {
                    "observedGeneration": 2, "conditions": conditions, "release": {"revision": 1, "inputs": "i"},
                    "inventory": [{"version": "v1", "kind": "ConfigMap", "name": "a", "digest": "d", "fingerprint": "7"}],
                },
            });
            CustomResource::from(serde_json::from_value::<kube::api::DynamicObject>(object).unwrap())
        };
        for (generation, inputs, fingerprint) in [(2, Some("i"), Some(7)), (3, None, None)] {
            let mut release = Release::default();
            release.adopt(&resource(generation, json!([])), None);
            assert_eq!(release.record.done_for.as_deref(), inputs);
            assert_eq!(release.record.entries[0].fingerprint, fingerprint);
            assert_eq!(release.record.revision, 1);
        }
        // Its members are applied, and not ready: that decides nothing, and all of it is known.
        let waiting = json!([{"type": "Ready", "status": "False", "observedGeneration": 3}]);
        let mut release = Release::default();
        release.adopt(&resource(3, waiting.clone()), None);
        assert_eq!(release.record.done_for.as_deref(), Some("i"));
        let mut release = Release::default();
        release.adopt(&resource(4, waiting), None);
        assert_eq!(release.record.done_for, None);
    }

    #[test]
    fn warnings_are_bounded_over_thousands_of_rounds() {
        // More of them than are remembered, the same in each round.
        let mut told = AnnouncedEvents::default();
        let mut count = 0;
        for _ in 0..1000 {
            count += (0..150).filter(|n| told.is_news(&n.to_string())).count();
        }
        assert_eq!((count, told.warnings.len()), (MAX_WARNINGS, MAX_WARNINGS));
        // Others in each round, and an edit now and then.
        for round in 0..5000 {
            if round % 1000 == 0 {
                told.changed();
            }
            count += usize::from(told.is_news(&format!("round {round}")));
        }
        assert_eq!(
            count,
            6 * MAX_WARNINGS,
            "after each edit there is something to tell again"
        );
        assert!(!told.is_news("round 4000"));
    }

    #[test]
    fn retries_slow_down_and_are_bounded() {
        let mut backoff = Backoff {
            uid: "u".into(),
            ..Backoff::default()
        };
        let waits: Vec<_> = (0..12).map(|_| backoff.failed()).collect();
        assert!(waits[0] >= SHORTEST.mul_f64(0.8) && waits[0] <= SHORTEST.mul_f64(1.2));
        assert!(waits[4] > waits[0] * 4);
        assert!(waits.iter().all(|wait| *wait <= LONGEST.mul_f64(1.2)));
        assert_eq!(backoff.failures, 12, "counted, for the status");
        let asked = Duration::from_secs(900);
        backoff.failures = 0;
        backoff.retry_after = Some(asked);
        let wait = backoff.failed();
        assert!(
            (asked..=asked * 3 / 2).contains(&wait),
            "the server knows better: {wait:?}"
        );
        backoff.failures = 0;
        backoff.uid = "another".into();
        assert_ne!(backoff.failed(), wait, "they don't come back as one");
    }
}
