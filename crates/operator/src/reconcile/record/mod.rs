//! Loads and saves the record of a release. The record is in the status of the custom resource. If it is too long for
//! the status, or the status does not keep it, it is in a Secret in the same namespace.
//!
//! Invariant: at any crash, the status or the Secret holds the complete record. The Secret is written before the status
//! that refers to it, and removed after a status that holds the complete record again. Both are signed. A record that
//! another client wrote is ignored, and the members are found by their labels and tracking annotations.

pub(crate) mod signed_secrets;

use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;

use crate::cluster::error::Error;
use crate::cluster::storage::secrets::Files;
use crate::reconcile::claim::member_scopes::MemberScopes;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hints::rights;
use crate::reconcile::record::signed_secrets::{
    DELETE_HOOKS, GENERATED_VALUES, PLAN_STEPS, RECORD, RENDERS, SecretPurpose, SignedSecrets,
};
use crate::reconcile::release::Release;
use crate::reconcile::release::saved_record::{SavedRecord, StatusRefusal};
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::annotations::RUN_PLAN;
use chartwright_core::digest;
use chartwright_core::plans::{self, Plan, StoredSteps};
use chartwright_core::record::requests::Request;
use chartwright_core::record::secret::{FoundRecord, Packed};
use chartwright_core::record::signature::{self, RecordSeal};
use chartwright_core::record::{Entry, Record, STATUS_ENTRIES, STATUS_LOOKUPS, Stored};
use chartwright_core::status::{self, Phase, Reason, conditions};
use chartwright_watches::names::is_built_in;

const FILE: &str = "record.json.gz";

/// How many plans on delete are read from an unsigned status. Their names are cut at [`NAME_BYTES`].
const MOST_PLANS: usize = 50;

const NAME_BYTES: usize = 253;

/// The digest of delete hooks that a Secret holds although the record is lost.
const UNKNOWN: &str = "unknown";

/// A record that was read from the status or a Secret.
struct LoadedRecord {
    record: Record,
    saved: SavedRecord,
    /// True if a part of the record is lost.
    is_partial: bool,
    /// True if the status has a record without a valid signature.
    is_missing: bool,
    /// The key that signed it.
    signer: Option<String>,
}

/// Loads and saves the record of a release.
pub(crate) struct RecordStore<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> RecordStore<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        RecordStore { scope }
    }
}

impl RecordStore<'_> {
    /// Loads the record of a custom resource that is new to this process. Most records are in the status and need no
    /// request.
    pub(super) async fn load_record(&self, release: &mut Release) -> Flow {
        if release.is_new(&self.scope.written) {
            release.stored.unread = true;
            let status = self.scope.written_status();
            let recalled = self.read_record(status).await?;
            let current = self.scope.context.keys.current().id();
            release.begin(&self.scope.written, status, recalled.record, recalled.saved);
            release.stored.partial = recalled.is_partial;
            release.stored.signer = recalled.signer.filter(|id| id != current);
            if recalled.is_missing {
                let note = "the record of this release is lost: its status was not written by this operator for this custom \
                            resource, or was signed with a key that it doesn't have. The operator finds the members by labels and \
                            tracking annotations";
                self.scope.warn_once(release, "RecordLost", note.to_owned()).await;
            }
            self.recall_plan_request(release).await?;
        }
        if release.stored.signer.is_some() && !self.scope.written.deleting {
            self.sign_again(release).await?;
        }
        let key = &release.record.key;
        let has_other_key = !key.is_empty() && self.scope.context.keys.get(key).is_none();
        if has_other_key && !std::mem::replace(&mut release.stored.rekeyed, true) {
            release.record.forget_digests();
            release.stored.partial = true;
        }
        release.observe(&self.scope.written);
        Continue(())
    }

    /// Marks a `run-plan` request as handled if the record does not know it, and it may have been carried out before: for this custom
    /// resource, or for one that a backup was made of. A plan may restore or delete data.
    async fn recall_plan_request(&self, release: &mut Release) -> Flow {
        if release.record.revision > 0 || release.record.handled.last(Request::Plan).is_some() {
            return Continue(());
        }
        let Some(text) = self.scope.requested(release, Request::Plan) else {
            return Continue(());
        };
        if self.scope.written.is_claimed() {
            let stored = SignedSecrets::new(self.scope)
                .read_signed::<StoredSteps>(&PLAN_STEPS, "")
                .await;
            match stored {
                Ok(Some(stored)) if stored.handled == text => {
                    release.record.handled.set(Request::Plan, &text);
                    return Continue(());
                }
                // Without rights on Secrets no plan can run.
                Ok(_) | Err(Error::Forbidden(_)) => {}
                Err(error) => return Break(self.failed(&error).not_before(error.retry_after())),
            }
        }
        if !plans::is_made_for(&text, self.scope.written.created) {
            release.record.handled.set(Request::Plan, &text);
            let note = format!(
                "{RUN_PLAN}: {text} is as old as the custom resource, which may come from a backup: the plan is not run. To run it, set \
                 the annotation to another value"
            );
            self.scope.warn_once(release, "PlanRefused", note).await;
        }
        Continue(())
    }

    /// Signs all Secrets of the release with the current key after a key change. The status is signed last.
    async fn sign_again(&self, release: &mut Release) -> Flow {
        let record = &release.record;
        let mut all: Vec<(&SecretPurpose, String)> = Vec::new();
        if self.scope.has_generated_values() {
            all.push((&GENERATED_VALUES, String::new()));
        }
        if !record.hooks.stored.is_empty() {
            all.push((&DELETE_HOOKS, String::new()));
        }
        if !record.plans.work.steps.is_empty() {
            all.push((&PLAN_STEPS, String::new()));
        }
        let kept = record.history.kept().map(signed_secrets::suffix);
        all.extend(kept.map(|suffix| (&RENDERS, suffix)));
        if release.stored.saved.exists {
            all.push((&RECORD, String::new()));
        }
        for (purpose, suffix) in all {
            match SignedSecrets::new(self.scope).sign_again(purpose, &suffix).await {
                // Without rights on Secrets the operator has written none.
                Ok(()) | Err(Error::Forbidden(_)) => {}
                Err(error) => return Break(self.failed(&error).not_before(error.retry_after())),
            }
        }
        release.retry.cache.kept = None;
        release.stored.signer = None;
        Continue(())
    }

    /// Reads the record from the status or the Secret, as far as its signature is valid.
    async fn read_record(&self, status: &Value) -> Flow<LoadedRecord> {
        let generation = self.scope.generation;
        let observed = conditions::recorded_generation(status);
        let saved = |exists| SavedRecord {
            exists,
            ..SavedRecord::default()
        };
        let recalled = |record: Record, saved: SavedRecord, is_partial: bool| LoadedRecord {
            record,
            saved,
            is_partial,
            is_missing: false,
            signer: signature::of_status(status).and_then(digest::signer).map(str::to_owned),
        };
        // A custom resource that never had a member has no record anywhere.
        let had_none = || MemberScopes::from_resource(&self.scope.written).is_empty();
        let (keys, kind) = (&self.scope.context.keys, &self.scope.unit.group_kind);
        let seal = self.scope.written.record_seal(keys, kind);
        let (in_status, known, expected, claimed) = match Record::from_status(status, Some(&seal)) {
            Stored::Whole { record, in_secret } if record.is_complete() || had_none() => {
                return Continue(recalled(
                    record.proven_by(observed, generation),
                    saved(in_secret),
                    false,
                ));
            }
            Stored::Whole { record, in_secret } => (record, in_secret, false, None),
            Stored::Part { record, in_secret } => (record, in_secret, true, None),
            Stored::Lost { claimed } => (claimed.left_of_claim(), false, false, Some(claimed)),
            Stored::Later(version) => return Break(later(version)),
        };
        let is_missing = claimed.is_some();
        if is_missing && had_none() {
            return Continue(LoadedRecord {
                is_missing,
                ..recalled(in_status, SavedRecord::default(), false)
            });
        }
        let resource = &self.scope.written.key;
        let loaded = SignedSecrets::new(self.scope).read_signed_files(&RECORD, "").await;
        let loaded = match loaded {
            // Without rights on Secrets the operator has written none.
            Err(Error::Forbidden(_)) if !expected => signed_secrets::SignedContent::default(),
            loaded => loaded.or_stop(|error| self.failed(&error))?,
        };
        let file = loaded.files.and_then(|mut files| files.remove(FILE));
        match file.map_or(FoundRecord::Nothing, |file| {
            FoundRecord::read(&file, &self.scope.written.uid)
        }) {
            FoundRecord::Record {
                record,
                generation: stored_for,
                stamp,
            } if record.revision >= in_status.revision => {
                let record = record.proven_by(Some(stored_for), generation);
                Continue(LoadedRecord {
                    signer: loaded.signer,
                    ..recalled(record, SavedRecord { exists: true, stamp }, false)
                })
            }
            FoundRecord::Record { .. } => Continue(recalled(in_status.unproven(), saved(true), expected)),
            FoundRecord::Nothing => {
                if expected {
                    tracing::warn!(%resource, "the Secret with the record is absent or not ours: the operator finds the members by their labels");
                }
                let mut record = in_status.proven_by(observed, generation);
                if self.scope.written.deleting && record.revision == 0 {
                    self.find_delete_hooks(&mut record, claimed.as_deref()).await?;
                }
                Continue(LoadedRecord {
                    is_missing,
                    ..recalled(record, saved(known), expected)
                })
            }
            FoundRecord::Later(version) => Break(later(version)),
        }
    }

    /// Looks for delete hooks and plans on delete when a deletion has lost its record. Their Secret may still exist. If
    /// the unsigned status names a plan on delete, the deletion waits for a user's decision.
    async fn find_delete_hooks(&self, record: &mut Record, claimed: Option<&Record>) -> Flow {
        if !record.hooks.stored.is_empty() {
            return Continue(());
        }
        let plans = claimed.into_iter().flat_map(|claimed| &claimed.plans.plans);
        let plans = plans.filter(|plan| plan.on_delete).map(|plan| Plan {
            name: conditions::cut(&plan.name, NAME_BYTES),
            on_delete: true,
            ..Plan::default()
        });
        record.plans.plans = plans.take(MOST_PLANS).collect();
        let has_some = match SignedSecrets::new(self.scope)
            .read_signed_files(&DELETE_HOOKS, "")
            .await
        {
            Ok(found) => found.files.is_some() || !record.plans.plans.is_empty(),
            Err(Error::Forbidden(_)) => false,
            Err(error) => return Break(self.failed(&error).not_before(error.retry_after())),
        };
        if has_some {
            UNKNOWN.clone_into(&mut record.hooks.stored);
        }
        Continue(())
    }

    /// Returns the key and the signed facts of the record in the status.
    pub(super) fn record_seal(&self, release: &Release) -> RecordSeal<'_> {
        let keys = &self.scope.context.keys;
        let signer = release.stored.signer.as_deref().and_then(|id| keys.get(id));
        let seal = self.scope.written.record_seal(keys, &self.scope.unit.group_kind);
        RecordSeal {
            key: signer.unwrap_or(seal.key),
            ..seal
        }
    }

    fn failed(&self, error: &Error) -> Phase {
        let namespace = SignedSecrets::new(self.scope).secret_name(&RECORD, "").namespace;
        let hint = rights(
            error,
            "a release of many members, or one whose status keeps no record, needs the rights to get, create, patch and \
             delete Secrets there",
        );
        let message = format!("the Secret in {namespace} that holds the record of the release: {error}{hint}");
        Phase::failed(Reason::Record, message)
    }

    /// True if the status cannot hold the record of a release with this number of members.
    fn needs_secrets(&self, release: &Release, members: usize) -> bool {
        members > STATUS_ENTRIES
            || release.record.lookups.len() > STATUS_LOOKUPS
            || release.retry.refused_status > StatusRefusal::Nothing
            || !self.scope.unit.resource.status
            || self.scope.unit.lossy.record.load(Relaxed)
    }

    /// Writes the Secret of the record before the first member is applied, so that a missing right stops the release
    /// before it creates an object.
    pub(super) async fn reserve_secret(&self, release: &mut Release, prepared: &PreparedRelease) -> Flow {
        let desired = &prepared.desired.members;
        if release.stored.saved.exists || !self.needs_secrets(release, desired.len()) {
            return Continue(());
        }
        let mut planned = release.record.clone();
        planned.done_for = None;
        let new = desired
            .iter()
            .filter(|member| release.record.entry(&member.id).is_none());
        planned.entries.extend(new.map(Entry::of));
        self.save(release, &planned).await
    }

    /// Writes a record to its Secret, unless the Secret already holds it.
    async fn save(&self, release: &mut Release, record: &Record) -> Flow {
        let packed = Packed::of(record, &self.scope.written.uid, self.scope.generation);
        if packed.stamp == release.stored.saved.stamp {
            return Continue(());
        }
        // Until the write succeeds, the stored content is unknown.
        release.stored.saved.stamp.clear();
        let files = Files::from([(FILE.to_owned(), packed.bytes())]);
        let written = SignedSecrets::new(self.scope)
            .write_signed_files(&RECORD, "", files, None)
            .await;
        written.or_stop(|error| self.failed(&error))?;
        release.stored.saved = SavedRecord {
            exists: true,
            stamp: packed.stamp,
        };
        Continue(())
    }

    /// Writes the record to its Secret if the status cannot hold it. Call this before the status is written.
    pub(super) async fn save_record(&self, release: &mut Release) -> Flow {
        if release.stored.unread || !self.needs_secrets(release, release.record.entries.len()) {
            return Continue(());
        }
        let record = std::mem::take(&mut release.record);
        let saved = self.save(release, &record).await;
        release.record = record;
        if saved.is_break() {
            // Until the record is written, the next reconcile must repeat all stages.
            release.record.done_for = None;
        }
        saved
    }

    /// Removes the Secret of a record that the status holds completely again. Returns true if there was one.
    pub(super) async fn drop_secrets(&self, release: &mut Release) -> bool {
        if !release.stored.saved.exists
            || release.stored.unread
            || self.needs_secrets(release, release.record.entries.len())
        {
            return false;
        }
        match self.forget_record(release).await {
            Continue(()) => {
                release.stored.saved = SavedRecord::default();
                true
            }
            Break(phase) => {
                tracing::debug!(resource = %self.scope.written.key, ?phase, "the Secret with the former record cannot be removed yet");
                false
            }
        }
    }

    /// Removes the record of a deleted release.
    pub(super) async fn forget_record(&self, release: &Release) -> Flow {
        if !release.stored.saved.exists {
            return Continue(());
        }
        let removed = SignedSecrets::new(self.scope).remove_signed(&RECORD, "").await;
        removed.or_stop(|error| self.failed(&error))
    }

    /// Compares the sent status with the status that the API server stored. The operator stores dropped fields
    /// elsewhere from now on and warns once.
    pub(super) fn compare_status(&self, release: &mut Release, sent: &Value, read: &Value) {
        if status::survives(sent, read) {
            release.announced.status = None;
            return;
        }
        release.announced.status = Some(sent.clone());
        let lost = |field: &str| {
            let sent = sent.get(field);
            sent.is_some_and(|sent| read.get(field).is_none_or(|read| !status::survives(sent, read)))
        };
        // The signature covers all parts, so a record with a lost part is invalid.
        let record = status::recorded().any(lost);
        let conditions = lost("conditions");
        if !self.scope.unit.lossy.notice(record, conditions) {
            return;
        }
        let kind = &self.scope.unit.group_kind;
        let fields = sent.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        let lost: Vec<&str> = fields.filter(|field| lost(field)).collect();
        let remedy = "; to see it in the status, give the schema x-kubernetes-preserve-unknown-fields: true there";
        let (what, remedy) = if self.scope.unit.resource.status {
            let what = format!("the schema of its status drops these fields: {}", lost.join(", "));
            (what, remedy)
        } else if self.scope.written.decorator.is_some() {
            ("the status of a decorated object is never written".to_owned(), "")
        } else if is_built_in(&kind.group) {
            ("the status of Kubernetes' own kinds is never written".to_owned(), "")
        } else {
            let what = "the CustomResourceDefinition has no subresource status, so that no status is written";
            (what.to_owned(), remedy)
        };
        tracing::warn!(
            %kind,
            "{what}. Secrets beside it hold the record of a release, and Events replace its conditions{remedy}"
        );
    }
}

fn later(version: u64) -> Phase {
    let message = format!(
        "the record of this release has version {version}, which a later chartwright wrote; this one reads version {}. \
         Nothing is changed until a chartwright runs that can read it",
        chartwright_core::record::VERSION
    );
    Phase::stalled(Reason::Record, message)
}
