//! Steps 9 and 10: what the render no longer contains goes, if and only if everything is known.

use std::collections::HashSet;

use super::Run;
use super::apply::Applied;
use super::dispose::{Candidate, Disposed};
use super::preflight::list;
use super::release::Release;
use super::render::Prepared;
use super::status::refusal;
use super::superset::Superset;
use crate::cluster::error::Error;
use crate::plan::annotations;
use crate::plan::identity::ObjectId;
use crate::plan::prune::{Knowledge, Purpose, orphans};
use crate::plan::status::{Phase, Reason};

/// What a prune came to. Consumed by `conclude`, so that it cannot be forgotten.
#[derive(Default)]
#[must_use = "a prune that failed must stay in the record"]
pub(super) struct Pruned {
    /// Why nothing was looked at.
    gap: Option<String>,
    gone: Vec<ObjectId>,
    /// Deleted or no longer ours; out of the record.
    settled: HashSet<ObjectId>,
    held: Vec<String>,
    failures: Vec<String>,
}

impl Run<'_> {
    /// Deletes orphans. `before` is what the custom resource said before this reconcile: a release that never had
    /// members has no orphans, so the first install needs no synced watches.
    pub(super) async fn prune(
        &self,
        release: &Release,
        prepared: &Prepared,
        knowledge: &Knowledge,
        before: &Superset,
    ) -> Pruned {
        let mut pruned = Pruned::default();
        if before.is_empty() && release.record.revision == 0 {
            return pruned;
        }
        let mut knowledge = knowledge.clone();
        let snapshot = self.context.discovery.snapshot();
        // Those that failed when it was rendered, too: what it could not see, it may have left out.
        for failed in snapshot.failed.iter().chain(&prepared.failed_groups) {
            if !knowledge.failed_groups.contains(failed) {
                knowledge.failed_groups.push(failed.clone());
            }
        }
        let orphans = {
            let members = self.context.members();
            // A kind that is no longer served, while discovery is complete, has no objects.
            let unsynced = before
                .places(&snapshot)
                .filter(|(kind, namespace)| !members.is_synced(kind, namespace));
            knowledge.unsynced.extend(unsynced.map(|(kind, _)| kind.to_string()));
            let desired: HashSet<&ObjectId> = prepared.desired.members.iter().map(|member| &member.id).collect();
            orphans(&members, &release.record, &desired, &prepared.identity.owner)
        };
        knowledge.unsynced.dedup();
        if !orphans.is_empty() && !self.unit.is_chart_unchanged().await {
            knowledge
                .changed_charts
                .push(self.unit.watch.chart.display().to_string());
        }
        if let Some(gap) = knowledge.gap() {
            pruned.gap = Some(gap);
            return pruned;
        }
        let everything = prepared.desired.members.is_empty() && !orphans.is_empty();
        if everything && !annotations::is_prune_allowed(&self.written.annotations) {
            pruned.held.push(format!(
                "the chart suddenly renders no objects at all; its {} members stay. To let them go, annotate the custom \
                 resource with {}=true",
                orphans.len(),
                annotations::PRUNE
            ));
            return pruned;
        }
        let owner = &prepared.identity.owner;
        let candidates = {
            let members = self.context.members();
            let candidate = |id: ObjectId| match members.get(&id).cloned() {
                Some(live) => (id, Candidate::Watched(live)),
                None => (id, Candidate::Unknown),
            };
            orphans.into_iter().map(candidate).collect()
        };
        for (id, disposed) in self.dispose_all(candidates, owner, Purpose::Prune).await {
            self.note(id, disposed, &mut pruned);
        }
        pruned
    }

    fn note(&self, id: ObjectId, disposed: Disposed, pruned: &mut Pruned) {
        match disposed {
            Disposed::Deleted => {
                self.context.metrics.pruned.inc();
                pruned.gone.push(id.clone());
                pruned.settled.insert(id);
            }
            Disposed::Going | Disposed::Left | Disposed::Absent => {
                pruned.settled.insert(id);
            }
            Disposed::Held => pruned.held.push(format!(
                "{id} is no longer rendered, but deleting it would take data or other objects with it. To let it go, \
                 annotate it with {}=true",
                annotations::PRUNE
            )),
            Disposed::Failed(message) => pruned.failures.push(message),
        }
    }

    /// Brings record and custom resource to what is really there, and says how the release is.
    pub(super) async fn conclude(
        &mut self,
        release: &mut Release,
        prepared: &Prepared,
        applied: Applied,
        pruned: Pruned,
    ) -> Phase {
        release
            .record
            .entries
            .retain(|entry| !pruned.settled.contains(&entry.id));
        // While a member is awaited, this revision is not there yet.
        let complete = applied.knowledge.not_applied.is_empty();
        let first = complete && release.record.revision == 0;
        let upgraded = complete && !first && prepared.revision > release.record.revision;
        // Until then, those that are stored may still be wanted.
        let mut keeps = prepared.memory.keeps() || self.keeps();
        let mut changes = applied.changes;
        if complete {
            changes.applied += std::mem::take(&mut release.applied_before);
            release.record.revision = prepared.revision;
            if let Err(phase) = self.settle(release, prepared).await {
                return phase;
            }
            keeps = prepared.memory.keeps();
        }
        changes.installed = first;
        changes.upgraded = upgraded;
        // Told once for each revision, not with every correction.
        if first || upgraded {
            changes.hooks = prepared.hooks.clone();
        }
        changes.pruned = pruned.gone.iter().map(ToString::to_string).collect();
        if !pruned.failures.is_empty() {
            return Phase::Failed {
                reason: Reason::PruneFailed,
                message: list(pruned.failures),
            };
        }
        if pruned.gap.is_none() {
            let superset = Superset::of_record(&release.record);
            if let Err(error) = self.write_superset(&superset, keeps).await {
                return unclaimed(&error);
            }
            if complete && pruned.held.is_empty() {
                release.record.inputs = prepared.inputs.clone();
            }
        }
        let desired: Vec<ObjectId> = prepared
            .desired
            .members
            .iter()
            .map(|member| member.id.clone())
            .filter(|id| release.record.entry(id).is_some_and(|entry| !entry.finished))
            .collect();
        if complete && pruned.gap.is_none() {
            self.settle_heritage();
        }
        let held = (!pruned.held.is_empty()).then(|| list(pruned.held));
        self.phase_of(release, &desired, changes, pruned.gap, held).await
    }
}

/// The finalizer or the ApplySet annotations could not be written.
pub(super) fn unclaimed(error: &Error) -> Phase {
    Phase::Failed {
        reason: Reason::Claim,
        message: format!(
            "finalizer and ApplySet annotations can't be written: {error}{}",
            refusal(error).unwrap_or_default()
        ),
    }
}
