//! Where the record of a release lies: in its status, unless it is too long for that or the status doesn't keep it; then
//! in a Secret beside the custom resource. Written before the status that speaks of it, and removed after the status that
//! has it all again: whenever the operator dies, one of the two is whole.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;

use super::Run;
use super::kept;
use super::release::Release;
use super::render::Prepared;
use super::status::rights;
use super::superset::Superset;
use crate::cluster::error::Error;
use crate::cluster::record::RecordSecret;
use crate::plan::conditions;
use crate::plan::record::secret::{Found, Packed};
use crate::plan::record::{Entry, Record, STATUS_ENTRIES, STATUS_LOOKUPS, Stored};
use crate::plan::status::{self, Phase, Reason};
use crate::telemetry::metrics::Operation;
use crate::watches::names::is_built_in;

/// What the status of a kind loses, once that was seen: its schema drops unknown fields, or it has none. That the API
/// server refuses the status of one custom resource, for its size or for what it says, is no business of the others
/// ([`Refused`]).
#[derive(Debug, Default)]
pub struct Lossy {
    record: AtomicBool,
    pub(super) conditions: AtomicBool,
    /// The schema refuses what it doesn't know.
    pub(super) refuses: AtomicBool,
    told: AtomicBool,
}

/// How much of the status of one custom resource the API server refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    #[default]
    Nothing,
    /// All that there is to say. What must be known of the release is in a Secret, and the least is written.
    Details,
    /// That, too: Events tell what conditions would.
    Everything,
}

/// What is known to be stored in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// There is one.
    pub exists: bool,
    /// Of the record that is stored; empty if that isn't known.
    stamp: String,
}

impl Lossy {
    /// True if it is noticed for the first time.
    fn notice(&self, record: bool, conditions: bool) -> bool {
        self.record.fetch_or(record, Relaxed);
        self.conditions.fetch_or(conditions, Relaxed);
        !self.told.swap(true, Relaxed)
    }
}

impl Run<'_> {
    /// Reads the record of a custom resource that isn't remembered. Most have it in their status: no request.
    pub(super) async fn recall(&self, release: &mut Release) -> Result<(), Phase> {
        if release.is_new(&self.written) {
            release.unread = true;
            let status = self.written_status();
            let (record, saved, partial) = self.stored(status).await?;
            release.begin(&self.written, status, record, saved);
            release.partial = partial;
        }
        // The operator was installed anew.
        let has_other_key = !release.record.key.is_empty() && release.record.key != self.context.key.id();
        if has_other_key && !std::mem::replace(&mut release.rekeyed, true) {
            release.record.forget_digests();
            release.partial = true;
        }
        release.observe(&self.written);
        Ok(())
    }

    /// The record, the Secret that holds it, and whether some of it is lost.
    async fn stored(&self, status: &Value) -> Result<(Record, Saved, bool), Phase> {
        let generation = self.generation;
        let observed = conditions::recorded_generation(status);
        let saved = |exists| Saved {
            exists,
            ..Saved::default()
        };
        let (in_status, known, expected) = match Record::from_status(status) {
            // A custom resource that never had a member has no record anywhere.
            Stored::Whole { record, in_secret }
                if record.is_complete() || Superset::of_resource(&self.written).is_empty() =>
            {
                return Ok((record.proven_by(observed, generation), saved(in_secret), false));
            }
            Stored::Whole { record, in_secret } => (record, in_secret, false),
            Stored::Part { record, in_secret } => (record, in_secret, true),
            Stored::Later(version) => return Err(later(version)),
        };
        let resource = &self.written.key;
        match self.record_secret().load().await {
            Ok(Found::Record {
                record,
                generation: stored_for,
                stamp,
            }) if record.revision >= in_status.revision => {
                let record = record.proven_by(Some(stored_for), generation);
                Ok((record, Saved { exists: true, stamp }, false))
            }
            Ok(Found::Record { .. }) => Ok((in_status.unproven(), saved(true), expected)),
            Ok(Found::Nothing) => {
                if expected {
                    tracing::warn!(%resource, "the Secret with the record is lost: labels tell of the members");
                }
                Ok((in_status.proven_by(observed, generation), saved(known), expected))
            }
            Ok(Found::Later(version)) => Err(later(version)),
            // Whoever may not read Secrets wrote none.
            Err(Error::Forbidden(_)) if !expected => {
                Ok((in_status.proven_by(observed, generation), Saved::default(), false))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Where the record lies if the status can't hold it.
    fn record_secret(&self) -> RecordSecret<'_> {
        RecordSecret {
            client: &self.context.client,
            namespace: kept::place(self.context, &self.written).namespace,
            uid: &self.written.uid,
            id: self.written.secret_id(),
            owner: self.written.secrets_owner(&self.unit.resource),
            about: format!("{} {}", self.unit.group_kind, self.written.key),
        }
    }

    fn failed(&self, error: &Error) -> Phase {
        let namespace = kept::place(self.context, &self.written).namespace;
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
            || release.refused > Refused::Nothing
            || !self.unit.resource.status
            || self.unit.lossy.record.load(Relaxed)
    }

    /// Before the first member of a release whose record goes to a Secret: it is there, so that the lack of a right is
    /// found before anything is made.
    pub(super) async fn reserve(&self, release: &mut Release, prepared: &Prepared) -> Result<(), Phase> {
        let desired = &prepared.desired.members;
        if release.saved.exists || !self.needs_secrets(release, desired.len()) {
            return Ok(());
        }
        let mut planned = release.record.clone();
        planned.done_for = None;
        let new = desired
            .iter()
            .filter(|member| release.record.entry(&member.id).is_none());
        planned.entries.extend(new.map(Entry::of));
        self.save(release, &planned).await
    }

    async fn save(&self, release: &mut Release, record: &Record) -> Result<(), Phase> {
        let packed = Packed::of(record, &self.written.uid, self.generation);
        if packed.stamp == release.saved.stamp {
            return Ok(());
        }
        // Unless all goes well, nobody knows what is there.
        release.saved.stamp.clear();
        let written = self.record_secret().save(&packed).await;
        written.map_err(|error| self.failed(&error))?;
        release.saved = Saved {
            exists: true,
            stamp: packed.stamp,
        };
        self.context.metrics.wrote("Secret", Operation::Apply);
        Ok(())
    }

    /// Writes the record to its Secret, if that is where it belongs. To be called before the status is written.
    ///
    /// # Errors
    /// The phase that the release is in instead.
    pub(super) async fn save_record(&self, release: &mut Release) -> Result<(), Phase> {
        if release.unread || !self.needs_secrets(release, release.record.entries.len()) {
            return Ok(());
        }
        let record = std::mem::take(&mut release.record);
        let saved = self.save(release, &record).await;
        release.record = record;
        if saved.is_err() {
            // Until it is written, nothing counts as done.
            release.record.done_for = None;
        }
        saved
    }

    /// Removes the Secret of a record that the status has as a whole again. True if there was one.
    pub(super) async fn drop_secrets(&self, release: &mut Release) -> bool {
        if !release.saved.exists || release.unread || self.needs_secrets(release, release.record.entries.len()) {
            return false;
        }
        match self.forget_record(release).await {
            Ok(()) => {
                release.saved = Saved::default();
                true
            }
            Err(phase) => {
                tracing::debug!(resource = %self.written.key, ?phase, "the Secret with the former record stays for now");
                false
            }
        }
    }

    /// Removes the record of a release that goes.
    pub(super) async fn forget_record(&self, release: &Release) -> Result<(), Phase> {
        if !release.saved.exists {
            return Ok(());
        }
        let removed = self.record_secret().remove().await;
        removed.map_err(|error| self.failed(&error))
    }

    /// Compares what the status was to say with what the API server made of it. What is lost goes elsewhere from now on,
    /// and one warning says so.
    pub(super) fn compare(&self, release: &mut Release, sent: &Value, read: &Value) {
        if status::survives(sent, read) {
            release.told.status = None;
            return;
        }
        release.told.status = Some(sent.clone());
        let lost = |field: &str| {
            let sent = sent.get(field);
            sent.is_some_and(|sent| read.get(field).is_none_or(|read| !status::survives(sent, read)))
        };
        let record = ["inventory", "release", "remediation", "plans", "planRun"]
            .into_iter()
            .any(lost);
        let conditions = lost("conditions");
        if !self.unit.lossy.notice(record, conditions) {
            return;
        }
        let kind = &self.unit.group_kind;
        let fields = sent.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        let lost: Vec<&str> = fields.filter(|field| lost(field)).collect();
        let remedy = "; to see it in the status, give the schema x-kubernetes-preserve-unknown-fields: true there";
        let (what, remedy) = match !self.unit.resource.status {
            true if self.written.decorator.is_some() => {
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
            "{what}. What must be known of a release is kept in Secrets beside it, Events tell what conditions would{remedy}"
        );
    }
}

fn later(version: u64) -> Phase {
    let message = format!(
        "the record of this release has version {version}, which a later chartwright wrote; this one reads version {}. \
         Nothing is changed until a chartwright runs that can read it",
        crate::plan::record::VERSION
    );
    Phase::stalled(Reason::Record, message)
}
