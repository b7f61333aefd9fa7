//! Runs plans, one run at a time: those requested by annotations, schedules and changed values. A run is rendered with
//! its parameters. Its steps are stored and recorded before the first object is created. From then on only these steps
//! count, also if the chart or the spec changes.

pub(crate) mod remediation;

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use serde_json::json;

use crate::cluster::error::Error;
use crate::cluster::objects::lookup::LookupAnswers;
use crate::reconcile::check::Checker;
use crate::reconcile::claim::Claimer;
use crate::reconcile::claim::member_scopes::{self, MemberScopes};
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hints::rights;
use crate::reconcile::hooks::HookRunner;
use crate::reconcile::hooks::objects::HookObjects;
use crate::reconcile::hooks::stored_objects::StoredObjects;
use crate::reconcile::record::signed_secrets::{PLAN_STEPS, SignedSecrets};
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::{POLL, RECHECK, RequeueReason, TIMEOUT};
use crate::reconcile::render::Renderer;
use crate::reconcile::render::job::prepare_plan;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::StatusWriter;
use crate::reconcile::status::build::StatusBuilder;
use chartwright_core::annotations::{PLAN_PARAMS, RUN_PLAN};
use chartwright_core::hooks::{Hook, in_order};
use chartwright_core::members::desired;
use chartwright_core::plans::{self, Due, StoredSteps};
use chartwright_core::record::requests::Request;
use chartwright_core::status::{Phase, Reason, conditions};

/// The state of the running plan after a step.
enum PlanProgress {
    Runs,
    /// The plan has ended, or none runs.
    Over,
}

/// Queues and runs the plans of a chart.
pub(crate) struct PlanRunner<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> PlanRunner<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        PlanRunner { scope }
    }
}

impl PlanRunner<'_, '_> {
    /// Queues requested plans, and runs plans until one has to wait. `phase`: the phase of the release.
    pub(super) async fn run_plans(&mut self, release: &mut Release, phase: &Phase) {
        if self.has_precedence(release, phase) {
            return;
        }
        self.enqueue_plans(release).await;
        self.scope.shown = Some(phase.clone());
        while let PlanProgress::Over = self.advance_plan(release).await {
            if !self.start_plan(release, phase).await {
                break;
            }
        }
        self.scope.shown = None;
        if let Some(next) = release.record.plans.next() {
            let wait = Duration::try_from(next - jiff::Timestamp::now()).unwrap_or_default();
            release
                .schedule
                .at(wait.max(Duration::from_millis(100)), RequeueReason::PlanSchedule);
        }
    }

    /// True while plans wait for the release: for its installation, a hook, an upgrade. One that fails, or that gets on
    /// no more, keeps no backup from being made: it waits for the plan.
    fn has_precedence(&self, release: &mut Release, phase: &Phase) -> bool {
        let record = &release.record;
        if record.revision == 0 || record.hooks.running().next().is_some() {
            return true;
        }
        let is_upgraded = record.upgrading || record.hooks.is_open();
        if !is_upgraded || record.plans.plans.is_empty() || !matches!(phase, Phase::Waiting { .. }) {
            return false;
        }
        let conditions = conditions::of(StatusBuilder::new(self.scope).previous(release));
        let ready = conditions::get(&conditions, "Ready").filter(|ready| ready.status != "True");
        let unready = ready.map_or(Duration::ZERO, |ready| {
            Duration::try_from(jiff::Timestamp::now() - ready.last_transition_time).unwrap_or_default()
        });
        let left = self.scope.unit.watch.timeout.unwrap_or(TIMEOUT).saturating_sub(unready);
        if left.is_zero() || release.record.plans.work.running.is_some() {
            return false;
        }
        release
            .schedule
            .at(left.max(Duration::from_millis(100)), RequeueReason::PlanTurn);
        true
    }

    /// Makes an upgrade wait for the plan that runs. Returns the phase for that time, or `None` if no plan runs.
    pub(super) async fn await_plan(&mut self, release: &mut Release, prepared: &PreparedRelease) -> Option<Phase> {
        let recorded = release.record.revision;
        let run = release.record.plans.work.running.as_ref()?;
        if recorded == 0 || prepared.revision <= recorded && !release.record.hooks.is_open() {
            return None;
        }
        let message = format!("plan {} runs: the upgrade begins when it is over", run.plan);
        let phase = Phase::waiting(Reason::PlanRunning, message);
        self.scope.shown = Some(phase.clone());
        let look = self.advance_plan(release).await;
        self.scope.shown = None;
        matches!(look, PlanProgress::Runs).then_some(phase)
    }

    /// What annotations and schedules ask for goes into the queue.
    async fn enqueue_plans(&mut self, release: &mut Release) {
        if let Some(text) = self.scope.requested(release, Request::Plan) {
            let params = self.scope.written.annotations.get(PLAN_PARAMS).map(String::as_str);
            release.record.plans.request(&text, params);
            release.record.handled.set(Request::Plan, &text);
            let refused = release.record.plans.work.refused.clone();
            if !refused.is_empty() {
                self.scope.warn("PlanRefused", &refused).await;
            }
        }
        if !self.scope.written.annotations.contains_key(RUN_PLAN) {
            release.record.plans.work.refused.clear();
        }
        for due in release.record.plans.tick(jiff::Timestamp::now()) {
            match due {
                Due::Missed(note) => self.scope.warn_once(release, "PlanMissed", note).await,
                Due::Replace(_) => {
                    if let Break(phase) = self.stop_plan(release).await {
                        tracing::info!(resource = %self.scope.written.key, ?phase, "the plan that is to be replaced still runs");
                    }
                }
            }
        }
    }

    /// Begins the next run. False if there is none to begin.
    async fn start_plan(&mut self, release: &mut Release, phase: &Phase) -> bool {
        let Some(run) = release.record.plans.start(jiff::Timestamp::now()) else {
            return false;
        };
        let context = json!({"Name": run.plan, "Params": run.params});
        match self.prepare_steps(release, &run.plan, context).await {
            Continue(steps) => release.render.plan_steps = Some(steps),
            // Nothing was made, and it may pass: it begins again.
            Break(Phase::Failed { message, .. }) => {
                release.record.plans.take_back();
                release.schedule.at(RECHECK, RequeueReason::PlanStart);
                let note = format!("plan {} can't begin yet: {message}", run.plan);
                self.scope.warn_once(release, "PlanWaits", note).await;
                return false;
            }
            Break(phase) => {
                let (Phase::Stalled { message, .. } | Phase::Waiting { message, .. }) = phase else {
                    return false;
                };
                self.finish_plan(release, Some(message)).await;
                return true;
            }
        }
        if let Break(unwritten) = StatusWriter::new(self.scope)
            .store_decision(release, phase.clone())
            .await
        {
            tracing::info!(resource = %self.scope.written.key, ?unwritten, "the beginning of a plan can't be written down yet");
            release.render.plan_steps = None;
            release.record.plans.take_back();
            release.schedule.at(POLL, RequeueReason::PlanStep);
            return false;
        }
        true
    }

    /// Renders the steps of a plan, checks and stores them.
    async fn prepare_steps(
        &mut self,
        release: &mut Release,
        plan: &str,
        context: serde_json::Value,
    ) -> Flow<Vec<Hook>> {
        let mut answers = LookupAnswers::new();
        let prepared = prepare_plan(
            (self.scope.context, &self.scope.client),
            self.scope.unit,
            &self.scope.written,
            release,
            &mut answers,
            context,
        )
        .await;
        let prepared = prepared?;
        Checker::new(self.scope)
            .check_release(release, &prepared, &mut answers)
            .await?;
        let event = plans::event(plan);
        let steps = in_order(&prepared.desired.hooks, &event);
        if steps.is_empty() {
            let message = "with these parameters, the chart renders no step of it";
            return Break(Phase::stalled(Reason::RenderFailed, message));
        }
        let key = release.key(&self.scope.context.keys);
        let digest = desired::digest(key, steps.iter().map(|hook| &hook.member));
        release.record.plans.identify(key, &digest);
        let ids: Vec<_> = steps.iter().map(|hook| hook.member.id.clone()).collect();
        let stored = StoredObjects::to_store(&steps, StoredObjects::new(self.scope).permits(release, &steps));
        let handled = release.record.handled.last(Request::Plan).unwrap_or_default();
        let stored = StoredSteps {
            handled: handled.to_owned(),
            steps: stored,
        };
        let sealed = SignedSecrets::new(self.scope)
            .write_signed(&PLAN_STEPS, "", &stored)
            .await;
        sealed.or_stop(|error| Phase::failed(Reason::Record, self.step_storage_error(&error)))?;
        let superset = MemberScopes::from_resource(&self.scope.written)
            .union(MemberScopes::from_record(&release.record))
            .union(MemberScopes::from_objects(&ids));
        let keeps = self.scope.has_generated_values();
        let written = Claimer::new(self.scope).write_member_scopes(&superset, keeps).await;
        written.or_stop(|error| Claimer::new(self.scope).claim_error(&error))?;
        let steps = StoredObjects::new(self.scope).check_stored(release, stored.steps);
        self.watch_steps(&steps);
        Continue(steps)
    }

    fn watch_steps(&self, steps: &[Hook]) {
        let places = MemberScopes::from_objects(steps.iter().map(|hook| &hook.member.id));
        member_scopes::want(self.scope.context, &self.scope.owner.set, &places);
    }

    fn step_storage_error(&self, error: &Error) -> String {
        let hint = rights(
            error,
            "plans need the rights to get, create, patch and delete Secrets there",
        );
        format!(
            "{}, which keeps its steps: {error}{hint}",
            SignedSecrets::new(self.scope).secret_name(&PLAN_STEPS, "")
        )
    }

    /// Advances the running plan.
    async fn advance_plan(&mut self, release: &mut Release) -> PlanProgress {
        let Some(run) = release.record.plans.work.running.clone() else {
            return PlanProgress::Over;
        };
        if release.render.plan_steps.is_none() {
            match SignedSecrets::new(self.scope)
                .read_signed::<StoredSteps>(&PLAN_STEPS, "")
                .await
            {
                Ok(Some(stored)) => {
                    // The watch may permit less than it did when the run began.
                    let steps = StoredObjects::new(self.scope).check_stored(release, stored.steps);
                    // The record does not contain the steps that have not started.
                    self.watch_steps(&steps);
                    Renderer::new(self.scope).learn_secrets(release, steps.iter().map(|step| &step.member));
                    release.render.plan_steps = Some(steps);
                }
                Ok(None) => {
                    self.finish_plan(
                        release,
                        Some("the Secret with its steps is absent or not ours".to_owned()),
                    )
                    .await;
                    return PlanProgress::Over;
                }
                Err(error) => {
                    tracing::info!(resource = %self.scope.written.key, "{}", self.step_storage_error(&error));
                    release.schedule.at(POLL, RequeueReason::PlanStep);
                    return PlanProgress::Runs;
                }
            }
        }
        let steps = release.render.plan_steps.clone().unwrap_or_default();
        let event = plans::event(&run.plan);
        // A failed step ends the plan: its Job has used up the retries that it requests.
        let failed = release.record.plans.work.steps.failed(&event).cloned();
        if let Some(failed) = failed {
            let why = format!(
                "{} {}: {}",
                failed.object.group_kind.kind, failed.object.name, failed.message
            );
            self.finish_plan(release, Some(why)).await;
            return PlanProgress::Over;
        }
        match HookRunner::new(self.scope)
            .run_hooks(release, &in_order(&steps, &event), &event, None)
            .await
        {
            Continue(()) => {
                self.finish_plan(release, None).await;
                PlanProgress::Over
            }
            Break(Phase::Failed {
                reason: Reason::HookFailed,
                ..
            }) => Box::pin(self.advance_plan(release)).await,
            Break(Phase::Waiting { .. }) => PlanProgress::Runs,
            Break(phase) => {
                tracing::info!(resource = %self.scope.written.key, ?phase, plan = run.plan, "the plan can't go on yet");
                release.schedule.at(POLL, RequeueReason::PlanStep);
                PlanProgress::Runs
            }
        }
    }

    /// Records the end of the running plan and reports it. `failed`: why it failed.
    async fn finish_plan(&mut self, release: &mut Release, failed: Option<String>) {
        let Some(run) = release.record.plans.work.running.clone() else {
            return;
        };
        release.render.plan_steps = None;
        let failed = failed.map(|why| release.secrets.redact(&why).into_owned());
        release.record.plans.finish(failed.as_deref(), jiff::Timestamp::now());
        let labels = self.scope.unit.metric_labels(&self.scope.written.key);
        self.scope
            .context
            .metrics
            .release_counters
            .plan_ended(&labels, &run.plan, failed.is_none());
        match failed {
            Some(why) => {
                self.scope
                    .warn("PlanFailed", &format!("plan {} failed: {why}", run.plan))
                    .await
            }
            None => {
                self.scope
                    .inform("PlanSucceeded", &format!("plan {} succeeded", run.plan))
                    .await
            }
        }
    }

    /// Stops the running plan and deletes the objects of its running steps. Stops with the phase of the release until
    /// they are gone.
    pub(super) async fn stop_plan(&mut self, release: &mut Release) -> Flow {
        let steps = &release.record.plans.work.steps;
        let running: Vec<_> = steps.running().map(|run| run.object.clone()).collect();
        for id in running {
            if !HookObjects::new(self.scope).delete_if_ours(&id).await? {
                release.schedule.at(POLL, RequeueReason::PlanStep);
                let message = format!("{id} is a step of a plan that was stopped: waiting until it is deleted");
                return Break(Phase::waiting(Reason::PlanRunning, message));
            }
        }
        if release.record.plans.work.running.is_some() {
            let why = "stopped: another operation was requested since".to_owned();
            self.finish_plan(release, Some(why)).await;
        }
        Continue(())
    }

    /// Deletes the finished Jobs and Pods of steps that the chart no longer has.
    pub(super) async fn clear_dropped_steps(&self, release: &mut Release, prepared: &PreparedRelease) -> Flow {
        let work = &release.record.plans.work;
        if work.running.is_some() {
            return Continue(());
        }
        for id in work.steps.dropped(&prepared.desired.hooks) {
            if !prepared.ids().any(|member| *member == id) {
                HookObjects::new(self.scope).delete_if_ours(&id).await?;
            }
            release.record.plans.work.steps.forget(&id);
        }
        Continue(())
    }

    /// Removes the stored steps, if a plan ever ran.
    pub(super) async fn forget_steps(&self, release: &Release) -> Flow {
        if release.record.plans.work.steps.is_empty() {
            return Continue(());
        }
        let removed = SignedSecrets::new(self.scope).remove_signed(&PLAN_STEPS, "").await;
        removed.or_stop(|error| Phase::failed(Reason::Record, self.step_storage_error(&error)))
    }
}
