//! Runs the stored hooks of a deletion.

use std::ops::ControlFlow::Continue;

use crate::reconcile::claim::member_scopes::{self, MemberScopes};
use crate::reconcile::flow::Flow;
use crate::reconcile::hooks::HookRunner;
use crate::reconcile::hooks::delete_hooks::StoredDeleteHooks;
use crate::reconcile::plans::PlanRunner;
use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::StatusWriter;
use chartwright_core::annotations::{self, ON_DELETE};
use chartwright_core::hooks::{RunPhase, in_order};
use chartwright_core::identity::ObjectId;
use chartwright_core::operation::{OperationEvent, OperationKind};
use chartwright_core::plans;

/// Runs the stored hooks of a deletion.
pub(crate) struct DeleteHookRunner<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> DeleteHookRunner<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        DeleteHookRunner { scope }
    }
}

impl DeleteHookRunner<'_, '_> {
    /// Runs the delete hooks until they end or their timeout passes. Stops with the phase of the release while they
    /// run.
    pub(crate) async fn run_delete_hooks(&mut self, release: &mut Release, event: &str) -> Flow {
        let mut hooks = StoredDeleteHooks::new(self.scope).stored_hooks(release).await?;
        let plans = plans::marked(&hooks, ON_DELETE);
        hooks.retain(|hook| hook.is_of_deletion() || hook.is_step_of(&plans));
        let ids: Vec<_> = hooks.iter().map(|hook| hook.member.id.clone()).collect();
        member_scopes::want(
            self.scope.context,
            &self.scope.owner.set,
            &MemberScopes::from_objects(&ids),
        );
        let stored = release.record.hooks.stored.clone();
        if !release.record.hooks.is_of_deletion() {
            HookRunner::new(self.scope).stop_hooks(release).await?;
            PlanRunner::new(self.scope).stop_plan(release).await?;
            let revision = release.record.revision;
            let digest = &stored;
            release
                .record
                .hooks
                .advance(OperationEvent::Deleting { revision, digest });
            release.record.hooks.forget_runs(&hooks);
        }
        if event == OperationKind::Delete.before() && !annotations::skips_plans(&self.scope.written.annotations) {
            HookRunner::new(self.scope)
                .run_marked_plans(release, &hooks, ON_DELETE)
                .await?;
        }
        HookRunner::new(self.scope)
            .run_hooks(release, &in_order(&hooks, event), event, None)
            .await?;
        let is_refused = |id: &ObjectId| hooks.iter().any(|hook| hook.member.id == *id && hook.refused.is_some());
        for run in release.record.hooks.runs.clone() {
            if run.phase == RunPhase::GivenUp && run.event == event && !is_refused(&run.object) {
                let note = format!(
                    "the {} hook {} {} failed for as long as it may take: the deletion goes on without it. {}",
                    run.event, run.object.group_kind.kind, run.object.name, run.message
                );
                self.scope.warn_once(release, "HookGivenUp", note).await;
            }
        }
        Continue(())
    }

    /// Records that the delete hooks are over before the members are deleted. After a crash they would run again
    /// without members.
    pub(crate) async fn end_delete_hooks(&mut self, release: &mut Release) -> Flow {
        if !release.record.hooks.is_open() {
            return Continue(());
        }
        let before = release.record.hooks.operation.clone();
        release.record.hooks.advance(OperationEvent::PostHooksSucceeded);
        let message = "the hooks of the deletion are over".to_owned();
        let stored = StatusWriter::new(self.scope).store_progress(release, message).await;
        if stored.is_break() {
            release.record.hooks.operation = before;
        }
        stored
    }
}
