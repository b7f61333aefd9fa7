//! Deletes a release: finds its members by record and labels, deletes them in reverse order, and removes the finalizer.
//! Reads no chart, values or template, so errors in them cannot block the deletion.

pub(crate) mod deleted_resource;
pub(crate) mod hook_runs;

use std::collections::HashSet;
use std::ops::ControlFlow::{Break, Continue};

use crate::cluster::error::Error;
use crate::reconcile::account::AccountStage;
use crate::reconcile::claim::Claimer;
use crate::reconcile::claim::member_scopes::{self, MemberScopes};
use crate::reconcile::delete::hook_runs::DeleteHookRunner;
use crate::reconcile::flow::Flow;
use crate::reconcile::hints::refusal;
use crate::reconcile::hooks::delete_hooks::StoredDeleteHooks;
use crate::reconcile::outcome::ReconcileOutcome;
use crate::reconcile::plans::PlanRunner;
use crate::reconcile::prune::removal::{MemberRemover, RemovalCandidate, RemovalResult};
use crate::reconcile::prune::search::MemberSearch;
use crate::reconcile::record::RecordStore;
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::{POLL, RECHECK};
use crate::reconcile::render::generated_values::GeneratedStore;
use crate::reconcile::rollback::kept_renders::KeptRenders;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::StatusWriter;
use crate::reconcile::takeover::TakeoverStage;
use crate::reconcile::takeover::former_members::FormerMembers;
use crate::telemetry::metrics::{ReconcileResult, WriteOperation};
use chartwright_core::apply::sequence::{self, SequenceTurn};
use chartwright_core::identity::ObjectId;
use chartwright_core::operation::{OperationEvent, OperationKind};
use chartwright_core::prune::Purpose;
use chartwright_core::prune::deletion::policy;
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Phase, Reason};
use chartwright_core::{annotations, takeover};
use chartwright_watches::DeletionPolicy;

pub(super) enum UninstallProgress {
    /// The deletion is complete. Holds what happened to the members.
    All(&'static str),
    /// The deletion waits until these objects are gone.
    Going(Vec<ObjectId>),
}

/// Deletes the members of a release and removes the finalizer.
pub(crate) struct Deleter<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> Deleter<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        Deleter { scope }
    }
}

impl Deleter<'_, '_> {
    pub(super) async fn delete(&mut self, release: &mut Release) -> ReconcileOutcome {
        let is_held = match self.scope.written.decorator {
            None => self.scope.written.has_finalizer() || takeover::is_held(&self.scope.written.finalizers),
            // Without a finalizer the garbage collector deletes the members.
            Some(_) => {
                self.scope.written.has_finalizer() || !self.scope.written.deleting && self.scope.written.is_marked()
            }
        };
        if !is_held {
            return finished();
        }
        let mut done = self.uninstall(release, false).await;
        if matches!(done, Break(Phase::Failed { .. })) && AccountStage::new(self.scope).may_fall_back() {
            done = self.uninstall_as_operator(release, done).await;
        }
        match done {
            Continue(UninstallProgress::All(note)) => self.remove_release_finalizer(release, note).await,
            Continue(UninstallProgress::Going(going)) => {
                member_scopes::want(
                    self.scope.context,
                    &self.scope.owner.set,
                    &MemberScopes::from_record(&release.record),
                );
                let message = format!("waiting until all members are gone: {}", short_list(going));
                let waiting = Phase::waiting(Reason::Uninstalling, message);
                ReconcileOutcome {
                    again: Some(POLL),
                    ..StatusWriter::new(self.scope).report(release, waiting).await
                }
            }
            Break(phase) => StatusWriter::new(self.scope).report(release, phase).await,
        }
    }

    /// Goes on with the rights of the operator. `failed`: what the account could not do.
    async fn uninstall_as_operator(
        &mut self,
        release: &mut Release,
        failed: Flow<UninstallProgress>,
    ) -> Flow<UninstallProgress> {
        let Break(Phase::Failed { message, .. }) = &failed else {
            return failed;
        };
        let note = format!("the deletion goes on with the rights of the operator: {message}");
        self.scope.warn_once(release, "DeletionFallback", note).await;
        if self.scope.act_as(None).is_err() {
            return failed;
        }
        self.uninstall(release, false).await
    }

    /// Deletes or detaches all members of a release. With `listed`, the members are listed from the API server and not
    /// taken from the watches.
    pub(super) async fn uninstall(&mut self, release: &mut Release, listed: bool) -> Flow<UninstallProgress> {
        let suspended = annotations::is_suspended(&self.scope.written.annotations);
        let policy = policy(
            self.scope.unit.watch.deletion_policy,
            &self.scope.written.annotations,
            self.scope.written.cascade,
        );
        let has_hooks = !listed && !suspended && policy != DeletionPolicy::Orphan;
        let has_hooks = has_hooks && !release.record.hooks.stored.is_empty();
        if has_hooks {
            DeleteHookRunner::new(self.scope)
                .run_delete_hooks(release, OperationKind::Delete.before())
                .await?;
            release.record.hooks.advance(OperationEvent::PreHooksSucceeded);
        }
        if suspended {
            FormerMembers::new(self.scope).detach_former_members(release).await?
        } else {
            TakeoverStage::new(self.scope)
                .mark_orphans(release, &HashSet::new())
                .await?
        }
        let removed = if suspended {
            self.disown_members(release, listed).await
        } else {
            self.delete_members(release, policy, listed, has_hooks).await
        };
        if let Some(going) = awaited_objects(removed)? {
            return Continue(UninstallProgress::Going(going));
        }
        if has_hooks {
            release.record.hooks.advance(OperationEvent::MembersApplied);
            DeleteHookRunner::new(self.scope)
                .run_delete_hooks(release, OperationKind::Delete.after())
                .await?;
            DeleteHookRunner::new(self.scope).end_delete_hooks(release).await?;
            if let Some(going) = awaited_objects(self.delete_members(release, policy, listed, false).await)? {
                return Continue(UninstallProgress::Going(going));
            }
        }
        StoredDeleteHooks::new(self.scope).forget_delete_hooks(release).await?;
        FormerMembers::new(self.scope).forget_stored().await?;
        GeneratedStore::new(self.scope).forget_kept().await?;
        KeptRenders::new(self.scope).forget_renders(release).await?;
        PlanRunner::new(self.scope).forget_steps(release).await?;
        RecordStore::new(self.scope).forget_record(release).await?;
        Continue(UninstallProgress::All(match (suspended, policy) {
            (true, _) => "suspended: its objects are left as they are",
            (_, DeletionPolicy::Orphan) => "its objects stay, without the marks of a release",
            _ => "its objects are deleted",
        }))
    }

    /// Removes the finalizer: the last write of a release.
    async fn remove_release_finalizer(&mut self, release: &mut Release, note: &str) -> ReconcileOutcome {
        let finalizer = self.scope.written.finalizer();
        let removed = Claimer::new(self.scope).unclaim().await;
        if let Err(error) = removed {
            if let Some(remedy) = refusal(&error) {
                let message = format!("{note}, but the finalizer {finalizer} can't be taken off: {error}{remedy}");
                return StatusWriter::new(self.scope)
                    .report(release, Phase::failed(Reason::DeleteFailed, message))
                    .await;
            }
            tracing::info!(resource = %self.scope.written.key, %error, "the finalizer could not be removed yet");
            let requested = error.retry_after();
            let wait = release.back_off(requested).min(RECHECK);
            let wait = wait.max(requested.unwrap_or_default());
            return ReconcileOutcome {
                put_off: requested.is_some(),
                ..ReconcileOutcome::again(wait, ReconcileResult::Error)
            };
        }
        self.scope
            .context
            .metrics
            .objects
            .wrote("CustomResource", WriteOperation::Metadata);
        self.scope.inform("UninstallSuccessful", note).await;
        // The watches of the members may report their end before the watch of the custom resource reports its own.
        self.scope.written.finalizers.retain(|other| *other != finalizer);
        ReconcileOutcome {
            written: Some(self.scope.written.clone()),
            ..finished()
        }
    }

    /// Deletes members once and removes deleted and released ones from the record. `spares_hooks`: objects of hooks
    /// stay for now.
    async fn delete_members(
        &self,
        release: &mut Release,
        policy: DeletionPolicy,
        listed: bool,
        spares_hooks: bool,
    ) -> Result<RemovalResult, Error> {
        let purpose = match policy {
            DeletionPolicy::Orphan => Purpose::Orphan,
            DeletionPolicy::Delete | DeletionPolicy::WaitForTermination => Purpose::Delete,
        };
        let mut found = MemberSearch::new(self.scope).find_members(release, listed).await?;
        found.retain(|(_, candidate)| !(spares_hooks && candidate.is_of_hook()));
        let wave = |(_, candidate): &(ObjectId, RemovalCandidate)| candidate.wave();
        let turns = sequence::removal(found, |(id, _)| id, wave, &release.record, policy);
        let removed = MemberRemover::new(self.scope).remove(turns, purpose).await;
        let settled: HashSet<&ObjectId> = removed.left.iter().chain(&removed.held).collect();
        release.record.entries.retain(|entry| !settled.contains(&entry.id));
        Ok(removed)
    }

    /// Removes the owner references of the members, so that the garbage collector does not delete them.
    async fn disown_members(&self, release: &Release, listed: bool) -> Result<RemovalResult, Error> {
        let found = MemberSearch::new(self.scope).find_members(release, listed).await?;
        Ok(MemberRemover::new(self.scope)
            .remove(vec![SequenceTurn::Members(found)], Purpose::Suspended)
            .await)
    }
}

/// Returns the objects that must be gone before a removal continues, if any. Stops with the phase of the release if an
/// object could not be deleted.
fn awaited_objects(removed: Result<RemovalResult, Error>) -> Flow<Option<Vec<ObjectId>>> {
    let removed = removed.unwrap_or_else(|error| RemovalResult {
        retry_after: error.retry_after(),
        failures: vec![error.to_string()],
        ..RemovalResult::default()
    });
    if removed.failures.is_empty() {
        Continue(removed.awaited.map(|_| removed.open))
    } else {
        let failed = Phase::failed(Reason::DeleteFailed, short_list(removed.failures));
        Break(failed.not_before(removed.retry_after))
    }
}

pub(super) fn finished() -> ReconcileOutcome {
    ReconcileOutcome {
        finished: true,
        ..ReconcileOutcome::of(ReconcileResult::Success)
    }
}
