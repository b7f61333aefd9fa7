//! Runs Helm's hooks around an installation, an upgrade and a deletion. `chartwright_core::hooks` decides which hook is
//! next. This module runs one hook after the other until one has to wait.

pub(crate) mod delete_hooks;
pub(crate) mod logs;
pub(crate) mod objects;
pub(crate) mod stored_objects;

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::objects::ApplyTarget;
use crate::reconcile::claim::member_scopes::{self, MemberScopes};
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hooks::delete_hooks::StoredDeleteHooks;
use crate::reconcile::hooks::logs::HookLogs;
use crate::reconcile::hooks::objects::{HookObject, HookObjects};
use crate::reconcile::observe::live_members::MemberObserver;
use crate::reconcile::observe::pods::diagnose_hook;
use crate::reconcile::prune::removal::RemovalCandidate;
use crate::reconcile::prune::search::MemberSearch;
use crate::reconcile::release::Release;
use crate::reconcile::release::pod_problems::PodProblems;
use crate::reconcile::release::schedule::{POLL, RequeueReason, TIMEOUT};
use crate::reconcile::render::pool::off_worker;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::StatusWriter;
use chartwright_core::annotations::ON_CREATE;
use chartwright_core::digest::KeyUse;
use chartwright_core::health::HealthStatus;
use chartwright_core::health::gates::{Gate, is_stated};
use chartwright_core::hooks::{self, Hook, HookRun, HookState, Next, Removal, RunPhase, in_order};
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::members::desired::{self, Unknown};
use chartwright_core::operation::{
    self, Operation, OperationEffect, OperationEvent, OperationKind, OperationPhase, WantedRender,
};
use chartwright_core::plans::{self, By};
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Changes, Phase, Reason};
use chartwright_watches::cel;

/// The annotation that makes an object of a chart a hook.
const HOOK_ANNOTATION: &str = "helm.sh/hook";

fn failed(message: String) -> Phase {
    Phase::failed(Reason::HookFailed, message)
}

/// Names a hook in messages.
fn describe(event: &str, id: &ObjectId) -> String {
    format!("{event} hook {} {}", id.group_kind.kind, id.name)
}

/// Stops if the API server does not serve the kind of a hook of the event. Helm creates nothing then either.
fn await_kinds_of(prepared: &PreparedRelease, event: &str) -> Flow {
    let is_of_event = |unknown: &&Unknown| unknown.events.iter().any(|known| known == event);
    let unknown: Vec<String> = prepared
        .desired
        .unknown
        .iter()
        .filter(is_of_event)
        .map(|unknown| unknown.message(None))
        .collect();
    if unknown.is_empty() {
        return Continue(());
    }
    let message = format!(
        "{event} hooks wait, and nothing is applied before them: {}",
        short_list(unknown)
    );
    Break(Phase::waiting(Reason::KindUnknown, message))
}

/// Runs the hooks of an operation.
pub(crate) struct HookRunner<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> HookRunner<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        HookRunner { scope }
    }
}

impl HookRunner<'_, '_> {
    /// Runs the hooks of an installation or an upgrade that come before the first member. Stops hooks of an earlier
    /// operation first. `before`: the scopes that the custom resource named before this reconcile. Stops with the phase
    /// of the release while members must not be applied yet.
    pub(super) async fn begin_operation(
        &mut self,
        release: &mut Release,
        prepared: &PreparedRelease,
        before: &MemberScopes,
    ) -> Flow {
        if self.scope.takeover.is_under_way() {
            // The former owner has run the hooks.
            StoredDeleteHooks::new(self.scope)
                .store_delete_hooks(release, &prepared.desired.hooks, false)
                .await?;
            release.record.hooks.after_takeover = true;
            return Continue(());
        }
        let hooks = &prepared.desired.hooks;
        let key = release.key(&self.scope.context.keys);
        let members = desired::digest(key, prepared.desired.members.iter());
        let parts = [&members, &prepared.hooks_digest].map(|digest| digest.as_bytes());
        let digest = key.digest(KeyUse::Operation, &parts);
        let wanted = WantedRender {
            revision: prepared.revision,
            recorded: release.record.revision,
            digest: &digest,
            is_rollback: prepared.rollback.is_some(),
            is_found: self.had_members(release, prepared, before).await?,
        };
        let operation = release.record.hooks.operation.as_ref();
        if operation.is_some_and(|operation| operation.is_before_install() && operation.digest != digest) {
            self.finish_begun_plan(release).await?;
        }
        let operation = release.record.hooks.operation.as_ref();
        let (operation, effects) = operation::next(operation, OperationEvent::Rendered(wanted));
        let is_before_install = operation.as_ref().is_some_and(Operation::is_before_install);
        if effects.contains(&OperationEffect::RunPreHooks)
            && let Some(kind) = operation.as_ref().map(|operation| operation.kind)
        {
            await_kinds_of(prepared, kind.before())?;
        }
        for effect in effects {
            match effect {
                OperationEffect::StopHooks => {
                    self.stop_hooks(release).await?;
                    for id in release.record.hooks.dropped(hooks) {
                        HookObjects::new(self.scope).delete_if_ours(&id).await?;
                        release.record.hooks.forget(&id);
                    }
                }
                OperationEffect::StoreDeleteHooks => {
                    StoredDeleteHooks::new(self.scope)
                        .store_delete_hooks(release, hooks, is_before_install)
                        .await?;
                }
                OperationEffect::Begin => {
                    release.record.hooks.operation.clone_from(&operation);
                    release.record.done_for = None;
                    release
                        .record
                        .entries
                        .retain(|entry| !hooks.iter().any(|hook| hook.member.id == entry.id));
                }
                OperationEffect::ForgetRuns => release.record.hooks.forget_runs(hooks),
                OperationEffect::Store if hooks.is_empty() => {}
                OperationEffect::Store => {
                    StatusWriter::new(self.scope)
                        .store_progress(release, "hooks run before the first object is applied".into())
                        .await?;
                }
                OperationEffect::RunPreHooks => self.run_pre_hooks(release, hooks).await?,
                OperationEffect::Apply | OperationEffect::RunPostHooks | OperationEffect::Report => {}
            }
        }
        Continue(())
    }

    /// Runs the hooks before the first member. Stops with the phase of the release while one has not succeeded.
    async fn run_pre_hooks(&mut self, release: &mut Release, hooks: &[Hook]) -> Flow {
        let Some(kind) = release.record.hooks.operation.as_ref().map(|operation| operation.kind) else {
            return Continue(());
        };
        if kind == OperationKind::Install {
            self.run_marked_plans(release, hooks, ON_CREATE).await?;
            StoredDeleteHooks::new(self.scope)
                .store_delete_hooks(release, hooks, false)
                .await?;
        }
        let event = kind.before();
        self.run_hooks(release, &in_order(hooks, event), event, None).await?;
        release.record.hooks.advance(OperationEvent::PreHooksSucceeded);
        Continue(())
    }

    /// True if the release already has members but no record: the record is lost, and the install hooks have run. A
    /// failed installation has a record, because it lists its members.
    async fn had_members(&self, release: &Release, prepared: &PreparedRelease, before: &MemberScopes) -> Flow<bool> {
        let record = &release.record;
        let has_record = record.revision > 0 || record.hooks.operation.is_some() || !record.entries.is_empty();
        if has_record || before.is_empty() || prepared.desired.hooks.is_empty() {
            return Continue(false);
        }
        let found = MemberSearch::new(self.scope).find_members(release, true).await;
        let found = found.or_stop(|error| failed(format!("whether the release is there already: {error}")))?;
        let is_member = |(id, candidate): &(ObjectId, RemovalCandidate)| match candidate {
            RemovalCandidate::Read(live) | RemovalCandidate::Watched(live) => {
                !live.marks.is_of_hook && ownership(id, live, &self.scope.owner) == Ownership::Ours
            }
            RemovalCandidate::Unknown => false,
        };
        Continue(found.iter().any(is_member))
    }

    /// Runs the hooks that come after apply and prune. `phase`: the phase of the members.
    pub(super) async fn end_operation(
        &mut self,
        release: &mut Release,
        prepared: &PreparedRelease,
        phase: Phase,
        mut changes: Changes,
    ) -> (Phase, Changes) {
        let Some(operation) = release.record.hooks.operation.clone().filter(Operation::is_open) else {
            return (phase, changes);
        };
        if operation.revision != release.record.revision {
            return (phase, changes);
        }
        if operation.phase == OperationPhase::Apply {
            release.retry.backoff.failures = 0;
        }
        release.record.hooks.advance(OperationEvent::MembersApplied);
        let event = operation.kind.after();
        let hooks = in_order(&prepared.desired.hooks, event);
        let unready = Some(&phase).filter(|phase| !phase.is_ready());
        match self.run_hooks(release, &hooks, event, unready).await {
            Continue(()) => {
                let effects = release.record.hooks.advance(OperationEvent::PostHooksSucceeded);
                let is_over = effects.contains(&OperationEffect::Report);
                let is_install = operation.kind == OperationKind::Install;
                changes.installed = is_over && is_install;
                changes.upgraded = is_over && !is_install;
                release.record.hooks.forget_operation_without_hooks();
                (phase, changes)
            }
            Break(unfinished) => {
                // Reported once, after the hooks are over.
                (changes.installed, changes.upgraded) = (false, false);
                release.retry.applied_before += std::mem::take(&mut changes.applied);
                release.record.done_for = None;
                (unfinished, changes)
            }
        }
    }

    /// Runs the plans whose annotation `mark` makes them part of the operation. Stops with the phase of the release
    /// while a step runs or has failed.
    pub(super) async fn run_marked_plans(&mut self, release: &mut Release, hooks: &[Hook], mark: &str) -> Flow {
        let by = if mark == ON_CREATE { By::Create } else { By::Delete };
        for plan in plans::marked(hooks, mark) {
            // An edit may have renamed the steps of a plan that succeeded in this installation.
            if by == By::Delete || !release.record.plans.has_succeeded(&plan) {
                self.run_marked_plan(release, hooks, &plan, by).await?;
            }
        }
        Continue(())
    }

    async fn run_marked_plan(&mut self, release: &mut Release, hooks: &[Hook], plan: &str, by: By) -> Flow {
        let event = plans::event(plan);
        let ended = self.run_hooks(release, &in_order(hooks, &event), &event, None).await;
        let record = &mut release.record;
        record.plans.follow(plan, by, &record.hooks, ended.is_continue());
        ended
    }

    /// Finishes a plan on create that began with an earlier render, from the stored steps. A run that fails, or whose
    /// pods have a problem, gives way to the new render.
    async fn finish_begun_plan(&mut self, release: &mut Release) -> Flow {
        let Some(plan) = release.record.plans.begun().map(str::to_owned) else {
            return Continue(());
        };
        let hooks = StoredDeleteHooks::new(self.scope).stored_hooks(release).await?;
        if !hooks.iter().any(|hook| hook.is_step_of(std::slice::from_ref(&plan))) {
            return Continue(());
        }
        let places = MemberScopes::from_objects(hooks.iter().map(|hook| &hook.member.id));
        member_scopes::want(self.scope.context, &self.scope.owner.set, &places);
        let ended = self.run_marked_plan(release, &hooks, &plan, By::Create).await;
        let mut running = release.record.hooks.running();
        let has_problem = running.any(|run| release.observed.hook_pods.of(&run.object).is_some());
        match ended {
            Break(Phase::Waiting { reason, message }) if !has_problem => {
                let message =
                    format!("plan {plan} ends with the inputs that it began with; the newer ones follow: {message}");
                Break(Phase::waiting(reason, message))
            }
            Break(
                Phase::Waiting { message, .. }
                | Phase::Failed {
                    reason: Reason::HookFailed,
                    message,
                    ..
                },
            ) => {
                tracing::info!(resource = %self.scope.written.key, plan, "the plan goes on with newer inputs: {message}");
                Continue(())
            }
            ended => ended,
        }
    }

    /// Runs the hooks of an event in the given order. `unready`: the phase of members that are not ready. Stops with
    /// the phase of the release while a hook runs, waits or has failed.
    pub(super) async fn run_hooks(
        &mut self,
        release: &mut Release,
        hooks: &[&Hook],
        event: &str,
        unready: Option<&Phase>,
    ) -> Flow {
        loop {
            let (hook, run) = match hooks::next(hooks, event, release.record.progress(event)) {
                Next::Done => break,
                Next::Await(hook, run) => (hook, run),
                Next::Start(hook) => {
                    if let Some(unready) = unready.filter(|_| hook.after_healthy || self.scope.unit.watch.wait) {
                        return Break(unready.clone());
                    }
                    let name = release.record.progress(event).name(event);
                    (hook, HookRun::begins(event, &hook.member.id, name, Timestamp::now()))
                }
                Next::Retry(hook, run) => match self.retry(release, hook, event, run)? {
                    Some(run) => (hook, run),
                    None => continue,
                },
            };
            self.advance(release, hook, run).await?;
        }
        self.remove_succeeded(release, hooks, event).await
    }

    /// Starts the next run of a failed hook. `None` if the deletion continues without the hook.
    fn retry(&self, release: &mut Release, hook: &Hook, event: &str, run: HookRun) -> Flow<Option<HookRun>> {
        let what = describe(&run.event, &hook.member.id);
        let progress = release.record.progress_mut(event);
        // A plan on delete saves data: it is retried until it succeeds, each time from its first step.
        let is_bounded = progress.is_of_deletion() && plans::plan_of(event).is_none();
        let left = run.time_left(self.timeout(hook), Timestamp::now());
        if is_bounded && left.is_zero() {
            progress.note(HookRun {
                phase: RunPhase::GivenUp,
                ..run
            });
            return Continue(None);
        }
        let now = tokio::time::Instant::now();
        if let Some(wait) = release
            .retry
            .cache
            .hook_retry
            .and_then(|retry| retry.checked_duration_since(now))
        {
            let wait = if is_bounded { wait.min(left) } else { wait };
            release.schedule.at(wait, RequeueReason::HookRetry);
            // The backoff has already counted this failure.
            release.retry.backoff.failures = release.retry.backoff.failures.saturating_sub(1);
            return Break(failed(format!("{what} failed: {}", run.message)));
        }
        release.retry.cache.hook_retry = None;
        let progress = release.record.progress_mut(event);
        progress.advance(OperationEvent::HookRetried);
        let mut next = run.retry(progress.name(event), Timestamp::now());
        if is_bounded {
            // All attempts share one timeout.
            next.started = run.started;
        }
        Continue(Some(next))
    }

    fn timeout(&self, hook: &Hook) -> Duration {
        hook.timeout.or(self.scope.unit.watch.timeout).unwrap_or(TIMEOUT)
    }

    /// Advances the run of a hook and records its state. Stops with the phase of the release while the hook has not
    /// ended.
    async fn advance(&mut self, release: &mut Release, hook: &Hook, mut run: HookRun) -> Flow {
        let id = &hook.member.id;
        let what = describe(&run.event, id);
        run.ttl = hook.ttl();
        let is_of_deletion = release.record.hooks.is_of_deletion();
        // A plan on delete saves data, so the deletion never continues without it.
        let is_bounded = is_of_deletion && plans::plan_of(&run.event).is_none();
        let state = self.reconcile_object(release, hook, &mut run).await?;
        let now = Timestamp::now();
        let state = match state {
            HookState::AwaitsRemoval(removal) if run.awaits(&removal, is_bounded, now) => {
                release.schedule.at(POLL, RequeueReason::HookStep);
                release.record.note(run);
                let message = format!("{what}: {}", removal.message);
                return Break(Phase::waiting(Reason::HookRunning, message));
            }
            HookState::AwaitsRemoval(removal) => HookState::Running(removal.message),
            state => {
                run.resume(now);
                state
            }
        };
        let left = run.time_left(self.timeout(hook), now);
        match state {
            HookState::Succeeded => {
                let lines = if hook.reports_log {
                    HookLogs::new(self.scope).last_lines(release, hook, &run).await
                } else {
                    String::new()
                };
                let note = format!("{what} succeeded{lines}");
                if lines.is_empty() {
                    tracing::info!(kind = %self.scope.unit.group_kind, resource = %self.scope.written.key, "{note}")
                } else {
                    self.scope.inform("HookSucceeded", &note).await
                }
                // The timeout of the members starts after the hook.
                release.restart_clock();
                release.retry.backoff.failures = 0;
                release.record.note(run.ends(RunPhase::Succeeded, "", Timestamp::now()));
                Continue(())
            }
            HookState::Running(message) if !left.is_zero() => {
                // No watch shows when a former owner's object with the hook's name is gone.
                let is_unseen = id.group_kind.kind == "Pod" || run.uid.is_empty() || is_stated(&hook.member.object);
                let often = if is_unseen { POLL } else { left };
                release.schedule.at(left.min(often), RequeueReason::HookStep);
                let problem = diagnose_hook(self.scope, release, id).await;
                let message = problem.map_or(message.clone(), |problem| format!("{message}: {problem}"));
                let failures = release.record.progress(&run.event).failures();
                let message = format!("{what}: {}", run.progress_message(&message, failures));
                release.record.note(run);
                Break(Phase::waiting(Reason::HookRunning, message))
            }
            HookState::Running(message) => {
                let message = format!("it did not end within {:?}: {message}", self.timeout(hook));
                self.record_failure(release, hook, run, &what, message).await
            }
            HookState::Hopeless(message) if is_of_deletion => {
                release
                    .record
                    .note(run.ends(RunPhase::GivenUp, &message, Timestamp::now()));
                Continue(())
            }
            HookState::Refused(why) if is_bounded => {
                let note = format!("{what} is not run: the deletion goes on without it. {why}");
                self.scope.warn_once(release, "HookRefused", note).await;
                release.record.note(run.ends(RunPhase::GivenUp, &why, Timestamp::now()));
                Continue(())
            }
            HookState::AwaitsRemoval(Removal { message, .. })
            | HookState::Failed(message)
            | HookState::Hopeless(message)
            | HookState::Refused(message) => self.record_failure(release, hook, run, &what, message).await,
        }
    }

    /// Records that a run failed, and applies `hook-failed`. Stops with the phase of the release.
    async fn record_failure(
        &mut self,
        release: &mut Release,
        hook: &Hook,
        run: HookRun,
        what: &str,
        message: String,
    ) -> Flow {
        let message = message + &HookLogs::new(self.scope).last_lines(release, hook, &run).await;
        release
            .record
            .progress_mut(&run.event)
            .advance(OperationEvent::HookFailed);
        let run = run.ends(RunPhase::Failed, &message, Timestamp::now());
        release.record.note(run.clone());
        if hook.deleted_on_failure {
            HookObjects::new(self.scope).delete_if_ours(&hook.member.id).await?;
            release.record.note(HookRun { deleted: true, ..run });
        }
        Break(failed(format!("{what} failed: {message}")))
    }

    /// Reads the object of a hook, creates or deletes it if needed, and returns the state of the run. Stops with the
    /// phase of the release if the object cannot be read.
    async fn reconcile_object(&mut self, release: &mut Release, hook: &Hook, run: &mut HookRun) -> Flow<HookState> {
        let Hook { member, .. } = hook;
        let snapshot = self.scope.context.discovery.snapshot();
        let Some(resource) = snapshot.resource(&member.id.group_kind, &member.version) else {
            return Continue(HookState::Failed("the API server does not serve its kind".into()));
        };
        let found = match HookObjects::new(self.scope).find(resource, &member.id, &run.run).await {
            Ok(found) => found,
            Err(error) => return HookObjects::new(self.scope).state_of(&member.id, error),
        };
        match found {
            HookObject::Run(object) => {
                uid(&object).clone_into(&mut run.uid);
                let gate = off_worker(|| Gate::of_object(&object));
                let gated = gate.map(|gate| (gate, object.clone()));
                let state = if hook.is_awaited() {
                    hooks::state(object, Timestamp::now())
                } else {
                    HookState::Succeeded
                };
                match (gated, state) {
                    (Some((gate, object)), HookState::Succeeded) => {
                        Continue(self.pass_gate(release, gate, &member.id, object).await)
                    }
                    (_, state) => Continue(state),
                }
            }
            // The object existed and is gone, but no reconcile saw it succeed. Our own TTL did not remove it.
            HookObject::Nothing | HookObject::Other(..) if !run.uid.is_empty() => {
                Continue(HookState::Failed(hooks::DELETED.into()))
            }
            HookObject::Nothing | HookObject::Other(..) if hook.refused.is_some() => {
                Continue(HookState::Refused(hook.refused.clone().unwrap_or_default()))
            }
            HookObject::Nothing => {
                HookObjects::new(self.scope)
                    .create_object(resource, hook, run, ApplyTarget::Nothing)
                    .await
            }
            HookObject::Other(live, object) => {
                let is_left_behind = release.record.hooks.after_takeover
                    && live.ownership.tracking.is_none()
                    && live.ownership.controller.is_none()
                    && object["metadata"]["annotations"].get(HOOK_ANNOTATION).is_some();
                match ownership(&member.id, &live, &self.scope.owner) {
                    Ownership::Ours => {}
                    _ if is_left_behind => {}
                    other => return Continue(HookState::Failed(format!("{} is left untouched: {other}", member.id))),
                }
                if !live.deleting && !hook.is_recreated() {
                    return HookObjects::new(self.scope)
                        .create_object(resource, hook, run, ApplyTarget::Object(&live.uid))
                        .await;
                }
                match HookObjects::new(self.scope)
                    .delete_hook(resource, &member.id, &live)
                    .await
                {
                    Ok(true) => {
                        HookObjects::new(self.scope)
                            .create_object(resource, hook, run, ApplyTarget::Nothing)
                            .await
                    }
                    Ok(false) => Continue(HookState::AwaitsRemoval(hooks::removal(&member.id, &object))),
                    Err(error) => HookObjects::new(self.scope).state_of(&member.id, error),
                }
            }
        }
    }

    /// Deletes the running hooks of an earlier operation. Stops with the phase of the release until they are gone.
    pub(super) async fn stop_hooks(&mut self, release: &mut Release) -> Flow {
        let running: Vec<HookRun> = release.record.hooks.running().cloned().collect();
        for run in running {
            let id = run.object.clone();
            if !HookObjects::new(self.scope).delete_if_ours(&id).await? {
                release.schedule.at(POLL, RequeueReason::HookStep);
                let what = describe(&run.event, &id);
                return Break(Phase::waiting(
                    Reason::HookRunning,
                    format!("{what} belongs to an operation that was replaced: waiting until it is deleted"),
                ));
            }
            let ended = run.ends(
                RunPhase::Failed,
                "stopped: another operation was requested since",
                Timestamp::now(),
            );
            release.record.hooks.note(HookRun { deleted: true, ..ended });
            // The next object of that name has pods of its own.
            release.observed.hook_pods = PodProblems::default();
        }
        Continue(())
    }

    /// Carries out `hook-succeeded` once all hooks of an event are over: a later hook may need the object of an earlier
    /// one. The success is recorded first, because a deleted object cannot show it any more.
    async fn remove_succeeded(&mut self, release: &mut Release, hooks: &[&Hook], event: &str) -> Flow {
        let progress = release.record.progress(event);
        let due = |hook: &&&Hook| {
            let run = progress.run(event, &hook.member.id);
            hook.deleted_on_success && run.is_some_and(|run| run.phase == RunPhase::Succeeded && !run.deleted)
        };
        let due: Vec<ObjectId> = hooks.iter().filter(due).map(|hook| hook.member.id.clone()).collect();
        if due.is_empty() {
            return Continue(());
        }
        StatusWriter::new(self.scope)
            .store_progress(release, format!("{event} hooks have succeeded"))
            .await?;
        for id in due.iter().rev() {
            HookObjects::new(self.scope).delete_if_ours(id).await?;
            let progress = release.record.progress_mut(event);
            if let Some(run) = progress.run(event, id).cloned() {
                progress.note(HookRun { deleted: true, ..run });
            }
        }
        Continue(())
    }

    /// Evaluates the `ready-when` condition of a hook that has succeeded.
    async fn pass_gate(
        &self,
        release: &mut Release,
        gate: Result<Gate, cel::CelError>,
        id: &ObjectId,
        object: Value,
    ) -> HookState {
        let health = match gate {
            Ok(gate) => {
                MemberObserver::new(self.scope)
                    .judge_object(release, gate, id, object)
                    .await
            }
            Err(error) => return HookState::Failed(error.to_string()),
        };
        match health.status {
            HealthStatus::Current => HookState::Succeeded,
            _ => HookState::Running(health.message),
        }
    }
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}
