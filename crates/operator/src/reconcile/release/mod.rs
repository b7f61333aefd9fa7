//! What is remembered of a release between two reconciles.

pub(crate) mod announced;
pub(crate) mod author_permit;
pub(crate) mod backoff;
mod contests;
pub(crate) mod elections;
pub(crate) mod former_release;
pub(crate) mod full_members;
pub(crate) mod last_render;
pub(crate) mod pod_problems;
pub(crate) mod retry_cache;
pub(crate) mod saved_record;
pub(crate) mod schedule;
pub(crate) mod status_template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contests::DriftContests;
use serde_json::Value;

use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::release::announced::AnnouncedEvents;
use crate::reconcile::release::author_permit::AuthorPermit;
use crate::reconcile::release::backoff::Backoff;
use crate::reconcile::release::elections::Elections;
use crate::reconcile::release::full_members::FullMembers;
use crate::reconcile::release::last_render::{LastRender, split};
use crate::reconcile::release::pod_problems::PodProblems;
use crate::reconcile::release::retry_cache::RetryCache;
use crate::reconcile::release::saved_record::{SavedRecord, StatusRefusal};
use crate::reconcile::release::schedule::{InitialWait, RequeueReason, Schedule};
use crate::reconcile::release::status_template::StatusTemplate;
use crate::telemetry::redact::Secrets;
use chartwright_core::annotations;
use chartwright_core::digest::{Key, Keyring};
use chartwright_core::hooks::Hook;
use chartwright_core::identity::ObjectId;
use chartwright_core::operation::Operation;
use chartwright_core::record::requests::Request;
use chartwright_core::record::signature::RecordSeal;
use chartwright_core::record::{Record, Stored};
use chartwright_core::status::conditions::{self, cut};
use helm_template::render::LookupKey;

/// A recorded lookup, in bytes: group, version, kind, and two names of 253 bytes have room in it.
const LONGEST_LOOKUP: usize = 1024;

/// The state of a release between two reconciles. Each part has one owner.
#[derive(Default)]
pub struct Release {
    uid: String,
    /// What the author requested last. The finalizer and the annotations that the operator writes are not part of it.
    author_digest: u64,
    /// What is persisted. While the process lives, this copy counts.
    pub record: Record,
    pub stored: StoredState,
    pub(super) render: RenderCache,
    pub retry: RetryState,
    pub(super) schedule: Schedule,
    pub contests: DriftContests,
    pub announced: AnnouncedEvents,
    pub(super) observed: ObservedState,
    /// Texts that must not appear in logs, Events and the status.
    pub secrets: Arc<Secrets>,
}

/// What is known of the stored copy of the record.
#[derive(Default)]
pub struct StoredState {
    /// The Secret that holds the record.
    pub saved: SavedRecord,
    /// The record lacks entries or digests that were lost. Missing entries are no sign of an upgrade.
    pub partial: bool,
    /// Digests in the record were made with another key, and are forgotten.
    pub rekeyed: bool,
    /// The earlier key that signed the status, until everything that it signed for the release is signed again.
    pub signer: Option<String>,
    /// The record could not be read. The stored copy stays as it is.
    pub unread: bool,
    /// The release is being taken over. Only the live objects have its random results.
    pub under_takeover: bool,
    /// When the record was read, nothing was left to do for the release.
    pub was_complete: bool,
}

/// Results of the last render that the next one can use.
#[derive(Default)]
pub(super) struct RenderCache {
    pub last: LastRender,
    /// What the author was last permitted to create.
    pub permit: AuthorPermit,
    /// The steps of the plan that runs, once they were read.
    pub plan_steps: Option<Vec<Hook>>,
    /// The data of the Secrets among the members is part of the texts to redact.
    pub knows_secrets: bool,
}

/// What failed, and what the next attempt need not do again.
#[derive(Default)]
pub struct RetryState {
    pub backoff: Backoff,
    pub(super) cache: RetryCache,
    /// What the API server refuses of the status.
    pub(super) refused_status: StatusRefusal,
    /// Members that were applied since the last complete apply, in reconciles that had to wait.
    pub applied_before: usize,
}

/// What was observed of members, dependencies and pods.
#[derive(Default)]
pub(super) struct ObservedState {
    /// All members were healthy at least once since this process began.
    pub was_healthy: bool,
    pub dependencies: DependencyVerdicts,
    /// Why workloads are not ready.
    pub pods: PodProblems,
    /// Why the hook in progress has not ended.
    pub hook_pods: PodProblems,
    /// The members that were read complete. `None`: nothing requested them, as with most charts.
    pub full_members: Option<Box<FullMembers>>,
    /// What the chart's status template printed.
    pub template: Option<Box<StatusTemplate>>,
    /// The leaders of the workloads.
    pub elections: Elections,
}

impl Release {
    /// True if this custom resource is not the one that is remembered.
    pub(super) fn is_new(&self, resource: &CustomResource) -> bool {
        self.uid != resource.uid
    }

    /// Starts from the stored record and status of a custom resource.
    pub(super) fn begin(&mut self, resource: &CustomResource, status: &Value, record: Record, saved: SavedRecord) {
        *self = Release {
            uid: resource.uid.clone(),
            author_digest: resource.author_digest(),
            retry: RetryState {
                backoff: Backoff {
                    uid: resource.uid.clone(),
                    failures: resource.failures(status),
                    ..Backoff::default()
                },
                ..RetryState::default()
            },
            stored: StoredState {
                was_complete: record.done_for.is_some(),
                saved,
                ..StoredState::default()
            },
            render: RenderCache {
                last: LastRender::of_record(&record),
                ..RenderCache::default()
            },
            observed: ObservedState {
                pods: PodProblems::new(resource.is_unready(status)),
                ..ObservedState::default()
            },
            record,
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

    /// Adopts a custom resource as far as its status describes the release, without a request. `seal`: checks the
    /// signature of the status; `None` where nothing is written.
    pub fn adopt(&mut self, resource: &CustomResource, seal: Option<&RecordSeal<'_>>) {
        if self.is_new(resource) {
            let status = resource.status();
            let stored = Record::from_status(&status, seal);
            let unread = !matches!(stored, Stored::Whole { .. });
            let record = stored
                .into_record()
                .proven_by(conditions::recorded_generation(&status), resource.generation);
            self.begin(resource, &status, record, SavedRecord::default());
            self.stored.unread = unread;
        }
        self.observe(resource);
    }

    /// Observes the custom resource. A change by its author resets failures and caches.
    pub(super) fn observe(&mut self, resource: &CustomResource) {
        let author_digest = resource.author_digest();
        if self.author_digest != author_digest {
            self.author_digest = author_digest;
            self.restart_clock();
            self.retry.backoff.failures = 0;
            self.retry.backoff.unwritten = 0;
            // There may be room now.
            self.retry.refused_status = StatusRefusal::Nothing;
            self.announced.changed();
            self.retry.cache = RetryCache::default();
        }
        let reset = self.record.handled.pending(Request::Reset, &resource.annotations);
        if let Some(text) = reset.filter(|_| !annotations::is_suspended(&resource.annotations)) {
            self.record.handled.set(Request::Reset, text);
            self.retry_upgrade();
            self.retry.backoff.failures = 0;
            self.contests.forget();
        }
        self.contests.begin();
        self.schedule.begin();
    }

    /// After a panic: what is known is what the status says, and all of it must be looked at again.
    pub(super) fn recover(&mut self, resource: &CustomResource, seal: &RecordSeal<'_>) {
        let failures = self.retry.backoff.failures;
        *self = Release {
            secrets: self.secrets.clone(),
            ..Release::default()
        };
        self.adopt(resource, Some(seal));
        if self.stored.unread {
            // The next reconcile reads it.
            self.uid.clear();
        }
        self.retry.backoff.failures = failures;
        self.record = std::mem::take(&mut self.record).unproven();
    }

    /// How long to wait after one more failure, at least as long as the API server requested.
    pub(super) fn back_off(&mut self, requested: Option<Duration>) -> Duration {
        self.retry.backoff.failed(requested)
    }

    /// True if the correction of a member has to wait, because another client reverts it each time.
    pub(super) fn must_wait(&mut self, id: &ObjectId) -> bool {
        let Some(wait) = self.contests.wait(id) else {
            return false;
        };
        self.schedule.at(wait, RequeueReason::DriftContest);
        true
    }

    /// When the release is to be reconciled next, unless a watch event comes first: a requested wait or the end of a contest.
    pub(super) fn next_round(&self) -> Option<Duration> {
        let contest = self.contests.next_end().map(|wait| (wait, RequeueReason::DriftContest));
        let next = self.schedule.due().into_iter().chain(contest);
        let (wait, why) = next.min_by_key(|(wait, _)| *wait)?;
        tracing::debug!(uid = self.uid, ?wait, ?why, "the next reconcile");
        // A little later, so that the wait is over when the reconcile begins.
        Some(wait + Duration::from_millis(100))
    }

    /// True if it waits for its watches.
    pub fn is_waiting(&self) -> bool {
        matches!(self.schedule.initial_wait, InitialWait::Watches(_))
    }

    /// The operation that it is in, or was in last.
    pub fn operation(&self) -> Option<&Operation> {
        self.record.hooks.operation.as_ref()
    }

    /// Records the lookups of the last render. If that render changed nothing, the recorded versions may be old:
    /// writing the status at each change of a looked-up object would cost too much. `seen`: the lookups with their
    /// present versions.
    pub(super) fn learn_lookups(&mut self, lookups: &[String], seen: &[String], changed: bool) {
        let names =
            |lookups: &[String]| -> Vec<String> { lookups.iter().map(|text| split(text).0.to_owned()).collect() };
        self.render.last.lookups = seen.to_vec();
        // A name that nothing can have finds nothing; after a start it is looked up once more.
        let lookups: Vec<String> = lookups.iter().map(|text| cut(text, LONGEST_LOOKUP)).collect();
        if changed || names(&self.record.lookups) != names(&lookups) {
            self.record.lookups = lookups;
        }
    }
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
}
