//! Brings record and claim up to date with what apply and prune did.

use std::ops::ControlFlow::{Break, Continue};

use crate::reconcile::apply::ApplyResult;
use crate::reconcile::claim::Claimer;
use crate::reconcile::claim::decorator::ClaimRules;
use crate::reconcile::claim::member_scopes::MemberScopes;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::load::member_watches::MemberWatches;
use crate::reconcile::observe::health::HealthReporter;
use crate::reconcile::plans::PlanRunner;
use crate::reconcile::prune::PruneResult;
use crate::reconcile::release::Release;
use crate::reconcile::render::generated_values::GeneratedStore;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::rollback::kept_renders::KeptRenders;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::identity::ObjectId;
use chartwright_core::record::Entry;
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Changes, Phase, Reason};

/// Brings record and claim up to date after apply and prune.
pub(crate) struct Concluder<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> Concluder<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        Concluder { scope }
    }
}

impl Concluder<'_, '_> {
    /// Updates record and custom resource after apply and prune, and returns the phase of the release.
    pub(super) async fn conclude(
        &mut self,
        release: &mut Release,
        prepared: &PreparedRelease,
        applied: ApplyResult,
        pruned: PruneResult,
    ) -> Flow<(Phase, Changes)> {
        let settled = |entry: &Entry| pruned.settled.contains(&entry.id);
        release.record.entries.retain(|entry| !settled(entry));
        let mut changes = applied.changes;
        // While a member is awaited, the revision is incomplete, and the random results of the last one may still be
        // needed.
        let complete = applied.knowledge.not_applied.is_empty();
        let keeps = if complete {
            self.note_revision(release, prepared, &mut changes).await?;
            prepared.generated_values.has_generated_values()
        } else {
            prepared.generated_values.has_generated_values() || self.scope.has_generated_values()
        };
        changes.pruned = pruned.gone.iter().map(ToString::to_string).collect();
        if !pruned.failures.is_empty() {
            let failed = Phase::failed(Reason::PruneFailed, short_list(pruned.failures));
            return Break(failed.not_before(pruned.retry_after));
        }
        if pruned.gap.is_none() {
            let hooks = MemberScopes::from_objects(prepared.hook_ids());
            let superset = MemberScopes::from_record(&release.record).union(hooks);
            self.scope.claim.holds_finalizer = ClaimRules::new(self.scope).needs_finalizer(prepared)
                || ClaimRules::new(self.scope).holds_for_others(release, prepared);
            let written = Claimer::new(self.scope).write_member_scopes(&superset, keeps).await;
            written.or_stop(|error| Claimer::new(self.scope).claim_error(&error))?;
            // Held orphans stay watched even if the record does not name them.
            if pruned.held.is_empty() {
                MemberWatches::new(self.scope).want_only(&superset);
            }
            if complete {
                self.note_settled(release, prepared, &pruned);
            }
        }
        let is_there = |id: &&ObjectId| release.record.entry(id).is_some_and(|entry| !entry.finished);
        let desired: Vec<ObjectId> = prepared.ids().filter(is_there).cloned().collect();
        changes.gap = pruned.gap;
        changes.held = (!pruned.held.is_empty()).then(|| short_list(pruned.held));
        Continue((
            HealthReporter::new(self.scope).phase_of(release, &desired).await,
            changes,
        ))
    }

    /// Records the revision after all its members are applied.
    async fn note_revision(
        &mut self,
        release: &mut Release,
        prepared: &PreparedRelease,
        changes: &mut Changes,
    ) -> Flow {
        changes.installed = release.record.revision == 0;
        changes.upgraded = !changes.installed && prepared.revision > release.record.revision;
        changes.applied += std::mem::take(&mut release.retry.applied_before);
        let key = release.key(&self.scope.context.keys);
        release.note_applied(prepared, key.id());
        if prepared.rollback.is_some() {
            // After a rollback, the running render is not the render of these inputs.
            release.render.last.inputs.clear();
        }
        KeptRenders::new(self.scope).list_revision(release, prepared).await?;
        let hooks = &prepared.desired.hooks;
        // In a rollback the author has not changed the values.
        let values = Some(&prepared.inputs.values).filter(|_| prepared.rollback.is_none());
        release.record.plans.learn(hooks, key, values, jiff::Timestamp::now());
        PlanRunner::new(self.scope)
            .clear_dropped_steps(release, prepared)
            .await?;
        GeneratedStore::new(self.scope)
            .store_final_results(release, prepared)
            .await
    }

    /// All members are applied, and all that may be known of others is.
    fn note_settled(&mut self, release: &mut Release, prepared: &PreparedRelease, pruned: &PruneResult) {
        if let Some(former_release) = &mut self.scope.takeover.former_release {
            former_release.settled = true;
        }
        if !pruned.undecided {
            release.note_decided(prepared);
        }
        if pruned.held.is_empty() {
            release.record.done_for = Some(prepared.inputs.digest.clone());
        }
    }
}
