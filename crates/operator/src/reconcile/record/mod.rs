//! Where the record of a release lies: in its status, unless it is too long for that or the status doesn't keep it; then
//! in a Secret beside the custom resource. Written before the status that speaks of it, and removed after the status that
//! has it all again: whenever the operator dies, one of the two is whole. Both are signed: what another client wrote is no
//! record, and the release is found again by the labels and tracking annotations of its members.

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
    DELETE_HOOKS, GENERATED_VALUES, PLAN_STEPS, RECORD, RENDERS, SealedSecrets, SecretPurpose,
};
use crate::reconcile::release::Release;
use crate::reconcile::release::saved_record::{SavedRecord, StatusRefusal};
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::digest;
use chartwright_core::plans::Plan;
use chartwright_core::record::secret::{Found, Packed};
use chartwright_core::record::signature::{self, RecordSeal};
use chartwright_core::record::{Entry, Record, STATUS_ENTRIES, STATUS_LOOKUPS, Stored};
use chartwright_core::status::{self, Phase, Reason, conditions};
use chartwright_watches::names::is_built_in;

const FILE: &str = "record.json.gz";

/// What is taken over of plans that a status claims to be part of a deletion: so many names, each cut at so many bytes.
const MOST_PLANS: usize = 50;

const NAME_BYTES: usize = 253;

/// The digest of the hooks for a deletion, where a Secret has some though the record is lost.
const UNKNOWN: &str = "unknown";

/// A record as it was read.
struct LoadedRecord {
    record: Record,
    saved: SavedRecord,
    /// Some of it is lost.
    is_partial: bool,
    /// All of it is, though the status claims one.
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
    /// Reads the record of a custom resource that isn't remembered. Most have it in their status: no request.
    pub(super) async fn load_record(&self, release: &mut Release) -> Flow {
        if release.is_new(&self.scope.written) {
            release.stored.unread = true;
            let status = self.scope.written_status();
            let recalled = self.stored(status).await?;
            let current = self.scope.context.keys.current().id();
            release.begin(&self.scope.written, status, recalled.record, recalled.saved);
            release.stored.partial = recalled.is_partial;
            release.stored.signer = recalled.signer.filter(|id| id != current);
            if recalled.is_missing {
                let note = "the record of this release is lost: its status was not written by this operator for this custom \
                            resource, or was signed with a key that it doesn't have. What is there is found by labels and \
                            tracking annotations";
                self.scope.warn_once(release, "RecordLost", note.to_owned()).await;
            }
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

    /// The key was replaced: what the earlier one signed for this release is signed with the new one, the status last.
    ///
    /// # Errors
    /// The phase of a release of which a Secret can't be read or written.
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
            match SealedSecrets::new(self.scope).reseal(purpose, &suffix).await {
                // An operator without rights on Secrets wrote none.
                Ok(()) | Err(Error::Forbidden(_)) => {}
                Err(error) => return Break(self.failed(&error)),
            }
        }
        release.retry.cache.kept = None;
        release.stored.signer = None;
        Continue(())
    }

    /// The record as it can be believed, and the Secret that holds it.
    async fn stored(&self, status: &Value) -> Flow<LoadedRecord> {
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
        let (in_status, known, expected, claimed) = match Record::from_status(
            status,
            Some(
                &self
                    .scope
                    .written
                    .seal(&self.scope.context.keys, &self.scope.unit.group_kind),
            ),
        ) {
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
        let loaded = SealedSecrets::new(self.scope).load_sealed(&RECORD, "").await;
        let loaded = match loaded {
            // An operator without rights on Secrets wrote none.
            Err(Error::Forbidden(_)) if !expected => signed_secrets::SealedContent::default(),
            loaded => loaded.or_stop(|error| self.failed(&error))?,
        };
        let file = loaded.files.and_then(|mut files| files.remove(FILE));
        match file.map_or(Found::Nothing, |file| Found::read(&file, &self.scope.written.uid)) {
            Found::Record {
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
            Found::Record { .. } => Continue(recalled(in_status.unproven(), saved(true), expected)),
            Found::Nothing => {
                if expected {
                    tracing::warn!(%resource, "the Secret with the record is lost: members are found by labels");
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
            Found::Later(version) => Break(later(version)),
        }
    }

    /// A deletion whose record is lost looks for the hooks and plans that come before it: a Secret may have them all the
    /// same, and where the status claims a plan without which nothing is deleted, people are asked.
    ///
    /// # Errors
    /// The phase of a release of which they can't be read.
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
        let has_some = match SealedSecrets::new(self.scope).load_sealed(&DELETE_HOOKS, "").await {
            Ok(found) => found.files.is_some() || !record.plans.plans.is_empty(),
            Err(Error::Forbidden(_)) => false,
            Err(error) => return Break(self.failed(&error)),
        };
        if has_some {
            UNKNOWN.clone_into(&mut record.hooks.stored);
        }
        Continue(())
    }

    /// Signs and checks what the status says of the record.
    pub(super) fn record_seal(&self, release: &Release) -> RecordSeal<'_> {
        let keys = &self.scope.context.keys;
        let signer = release.stored.signer.as_deref().and_then(|id| keys.get(id));
        let seal = self.scope.written.seal(keys, &self.scope.unit.group_kind);
        RecordSeal {
            key: signer.unwrap_or(seal.key),
            ..seal
        }
    }

    fn failed(&self, error: &Error) -> Phase {
        let namespace = SealedSecrets::new(self.scope).sealed_place(&RECORD, "").namespace;
        let hint = rights(
            error,
            "a release of many members, or one whose status keeps no record, needs the rights to get, create, patch and \
             delete Secrets there",
        );
        let message = format!("the Secret in {namespace} that holds the record of the release: {error}{hint}");
        Phase::failed(Reason::Record, message)
    }

    /// True if the status can't hold the record of a release with so many members.
    fn needs_secrets(&self, release: &Release, members: usize) -> bool {
        members > STATUS_ENTRIES
            || release.record.lookups.len() > STATUS_LOOKUPS
            || release.retry.refused_status > StatusRefusal::Nothing
            || !self.scope.unit.resource.status
            || self.scope.unit.lossy.record.load(Relaxed)
    }

    /// Before the first member of a release whose record goes to a Secret: it is there, so that the lack of a right is
    /// found before anything is made.
    pub(super) async fn reserve(&self, release: &mut Release, prepared: &PreparedRelease) -> Flow {
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

    async fn save(&self, release: &mut Release, record: &Record) -> Flow {
        let packed = Packed::of(record, &self.scope.written.uid, self.scope.generation);
        if packed.stamp == release.stored.saved.stamp {
            return Continue(());
        }
        // Until the write succeeds, the stored content is unknown.
        release.stored.saved.stamp.clear();
        let files = Files::from([(FILE.to_owned(), packed.bytes())]);
        let written = SealedSecrets::new(self.scope)
            .store_sealed(&RECORD, "", files, None)
            .await;
        written.or_stop(|error| self.failed(&error))?;
        release.stored.saved = SavedRecord {
            exists: true,
            stamp: packed.stamp,
        };
        Continue(())
    }

    /// Writes the record to its Secret, if that is where it belongs. To be called before the status is written.
    ///
    /// # Errors
    /// The phase that the release is in instead.
    pub(super) async fn save_record(&self, release: &mut Release) -> Flow {
        if release.stored.unread || !self.needs_secrets(release, release.record.entries.len()) {
            return Continue(());
        }
        let record = std::mem::take(&mut release.record);
        let saved = self.save(release, &record).await;
        release.record = record;
        if saved.is_break() {
            // Until it is written, nothing counts as done.
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
                tracing::debug!(resource = %self.scope.written.key, ?phase, "the Secret with the former record stays for now");
                false
            }
        }
    }

    /// Removes the record of a release that goes.
    pub(super) async fn forget_record(&self, release: &Release) -> Flow {
        if !release.stored.saved.exists {
            return Continue(());
        }
        let removed = SealedSecrets::new(self.scope).remove_sealed(&RECORD, "").await;
        removed.or_stop(|error| self.failed(&error))
    }

    /// Compares what the status was to say with what the API server made of it. What is lost goes elsewhere from now on,
    /// and one warning says so.
    pub(super) fn compare(&self, release: &mut Release, sent: &Value, read: &Value) {
        if status::survives(sent, read) {
            release.announced.status = None;
            return;
        }
        release.announced.status = Some(sent.clone());
        let lost = |field: &str| {
            let sent = sent.get(field);
            sent.is_some_and(|sent| read.get(field).is_none_or(|read| !status::survives(sent, read)))
        };
        // A record of which a part is lost is none: its signature is of all parts.
        let record = status::recorded().any(lost);
        let conditions = lost("conditions");
        if !self.scope.unit.lossy.notice(record, conditions) {
            return;
        }
        let kind = &self.scope.unit.group_kind;
        let fields = sent.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        let lost: Vec<&str> = fields.filter(|field| lost(field)).collect();
        let remedy = "; to see it in the status, give the schema x-kubernetes-preserve-unknown-fields: true there";
        let (what, remedy) = match !self.scope.unit.resource.status {
            true if self.scope.written.decorator.is_some() => {
                ("the status of what is decorated is never written".to_owned(), "")
            }
            true if is_built_in(&kind.group) => ("the status of Kubernetes' own kinds is never written".to_owned(), ""),
            true => {
                let what = "the CustomResourceDefinition has no subresource status, so that no status is written";
                (what.to_owned(), remedy)
            }
            false => {
                let what = format!("the schema of its status drops these fields: {}", lost.join(", "));
                (what, remedy)
            }
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
