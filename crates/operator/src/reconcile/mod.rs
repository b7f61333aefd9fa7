//! One reconcile: [`reconcile`] shows the order of the stages, and each stage has a folder or file.
//!
//! 1. load: the record, the watches of the members, a former release to take over
//! 2. delete: never reads chart, values or templates
//! 3. values, render, check: find everything that can be wrong before the first write
//! 4. claim: the custom resource lists the kinds and namespaces of its members before the first member exists
//! 5. apply, prune: nothing is pruned without complete knowledge
//! 6. observe: health, plans, remediation, leaders, status template
//! 7. status: reports what happened, however the reconcile ended
//!
//! A stage owns its state in [`Release`]. It returns [`ControlFlow`](std::ops::ControlFlow): `Break` ends the pipeline
//! with the phase that the status reports. Only this module branches between stages.

mod account;
mod apply;
pub mod chart_crd_index;
mod check;
mod claim;
mod conclude;
mod context;
pub mod custom_resource;
mod delete;
mod flow;
mod hints;
mod hooks;
mod load;
mod observe;
mod outcome;
mod plans;
mod prune;
mod record;
mod release;
mod render;
mod requested_panic;
mod rollback;
mod rollout;
mod schemas;
mod scope;
mod status;
mod takeover;
mod unit;
mod values;

use std::ops::ControlFlow::{Break, Continue};

use tracing::Instrument as _;

use crate::reconcile::account::AccountStage;
use crate::reconcile::apply::Applier;
use crate::reconcile::claim::Claimer;
use crate::reconcile::claim::decorator::ClaimRules;
use crate::reconcile::conclude::Concluder;
use crate::reconcile::delete::Deleter;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hooks::HookRunner;
use crate::reconcile::load::dependencies::DependencyGate;
use crate::reconcile::load::input_digest::ConvergenceCheck;
use crate::reconcile::load::job_ttls::JobTtls;
use crate::reconcile::load::member_watches::MemberWatches;
use crate::reconcile::observe::health::HealthReporter;
use crate::reconcile::observe::leader_pods::LeaderElector;
use crate::reconcile::observe::live_members::MemberObserver;
use crate::reconcile::observe::status_template::StatusEvaluator;
use crate::reconcile::observe::warnings::Warnings;
use crate::reconcile::plans::PlanRunner;
use crate::reconcile::plans::remediation::Remediator;
use crate::reconcile::prune::Pruner;
use crate::reconcile::record::RecordStore;
use crate::reconcile::render::Renderer;
use crate::reconcile::render::generated_values::GeneratedStore;
use crate::reconcile::requested_panic::panic_if_requested;
use crate::reconcile::rollback::RollbackStage;
use crate::reconcile::rollback::kept_renders::KeptRenders;
use crate::reconcile::rollout::RolloutStage;
use crate::reconcile::scope::{ReleaseScope, interrupted};
use crate::reconcile::status::StatusWriter;
use crate::reconcile::status::conclusion::Conclusion;
use crate::reconcile::takeover::TakeoverStage;
use crate::telemetry::metrics::ReconcileResult;
use crate::telemetry::redact;
use crate::telemetry::traces::{InStage as _, note_result};
use chartwright_core::annotations;
use chartwright_core::record::requests::Request;
use chartwright_core::status::{Changes, Phase, Reason};

pub use claim::member_scopes::MemberScopes;
pub use load::member_watches::watch_recorded;
pub use outcome::ReconcileOutcome;

pub(crate) use context::lease_kind;
pub use context::{Context, RenderResources};
pub use unit::{Unit, reads_release_facts};

pub use custom_resource::{CustomResource, ResourceKey};

pub use delete::deleted_resource::{is_gone, uninstall, warn_finalizer_removed};

pub use release::Release;

pub use render::secret_values::learn_secrets;

pub use crate::cluster::objects::lookup::LookupAnswers;
pub use render::job::prepare;
pub use render::prepared::PreparedRelease;

pub use rollout::gate::RolloutGate;

pub use values::effective::explain_values;

/// Renders in one reconcile, while another operator writes other random results.
const TRIES: usize = 3;

/// Brings one release to what its custom resource says.
pub async fn reconcile(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
) -> ReconcileOutcome {
    let kind = &unit.group_kind;
    let timer = context.metrics.reconciles.start_timer(&kind.group, &kind.kind);
    let mut scope = ReleaseScope::new(context, unit, resource);
    let secrets = release.secrets.clone();
    let span = scope.span.clone();
    let stages = run_stages(&mut scope, release).instrument(span.clone());
    let outcome = redact::scope(&secrets, stages).await;
    let elapsed = timer.finish(outcome.result);
    note_result(&span, outcome.result);
    tracing::debug!(%kind, resource = %resource.key, result = ?outcome.result, ?elapsed, "reconciled");
    outcome
}

/// Loads what is stored of a release, as its first reconcile does. A preview of an edit begins with the state before the edit: a record of
/// another generation proves nothing, and every member would be applied once more.
pub async fn load(context: &Context, unit: &Unit, resource: &CustomResource, release: &mut Release) {
    let scope = ReleaseScope::new(context, unit, resource);
    let secrets = release.secrets.clone();
    let loaded = redact::scope(&secrets, RecordStore::new(&scope).load_record(release)).await;
    if loaded.is_break() {
        // The first reconcile tries again, and reports why it fails.
        *release = Release::default();
    }
}

/// Reports in the status that a reconcile panicked, starting from what the status said before.
pub async fn report_panic(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
) -> ReconcileOutcome {
    release.recover(resource, &resource.record_seal(&context.keys, &unit.group_kind));
    let mut scope = ReleaseScope::new(context, unit, resource);
    let message =
        "the operator stopped unexpectedly while it worked on this: this is a defect of chartwright; see its log";
    StatusWriter::new(&mut scope)
        .report(release, Phase::failed(Reason::Panicked, message))
        .await
}

/// Runs the stages in their order.
async fn run_stages(scope: &mut ReleaseScope<'_>, release: &mut Release) -> ReconcileOutcome {
    let loaded = RecordStore::new(scope).load_record(release).in_stage("load").await;
    if loaded.is_continue()
        && let Some(wait) = MemberWatches::new(scope).await_watches(release)
    {
        return ReconcileOutcome {
            written: Some(scope.written.clone()),
            ..ReconcileOutcome::again(wait, ReconcileResult::Progressing)
        };
    }
    if scope.written.deleting || ClaimRules::new(scope).has_left_selector() {
        return run_deletion(scope, release, loaded).await;
    }
    let failures = release.retry.backoff.failures;
    let conclusion = match loaded {
        Continue(()) => {
            let conclusion = match converge(scope, release).await {
                Continue(conclusion) => conclusion,
                Break(phase) => phase.into(),
            };
            RolloutStage::new(scope).note_end(release, &conclusion.phase, jiff::Timestamp::now());
            if conclusion.phase != Phase::Suspended {
                // The rules read the status that is about to be written.
                if !scope.unit.watch.remediation.is_empty() && !scope.waits_for_rollout {
                    StatusEvaluator::new(scope)
                        .evaluate_status_template(release, &conclusion.phase)
                        .await;
                }
                Remediator::new(scope).remediate(release, &conclusion).await;
                PlanRunner::new(scope)
                    .run_plans(release, &conclusion.phase)
                    .in_stage("plans")
                    .await;
                LeaderElector::new(scope).elect(release).await;
            }
            conclusion
        }
        Break(phase) => phase.into(),
    };
    // The template of a new chart is for releases that have the chart.
    if !scope.waits_for_rollout {
        StatusEvaluator::new(scope)
            .evaluate_status_template(release, &conclusion.phase)
            .await;
    }
    MemberObserver::new(scope).end_look(release);
    let outcome = StatusWriter::new(scope)
        .report(release, conclusion)
        .in_stage("report")
        .await;
    TakeoverStage::new(scope)
        .finish_takeover(release, outcome, failures)
        .await
}

/// Deletes the release. Reads no chart, value or template.
async fn run_deletion(scope: &mut ReleaseScope<'_>, release: &mut Release, loaded: Flow) -> ReconcileOutcome {
    let found = match loaded {
        Continue(()) => match AccountStage::new(scope).take_account_of_deletion(release) {
            Continue(()) => TakeoverStage::new(scope).find_former_release(release).await,
            Break(phase) => Break(phase),
        },
        // The record may be readable later, and names members that no label finds.
        Break(phase @ Phase::Failed { .. }) => Break(phase),
        Break(_) => Continue(()),
    };
    match found {
        Continue(()) => Deleter::new(scope).delete(release).in_stage("delete").await,
        Break(phase) => StatusWriter::new(scope).report(release, phase).in_stage("report").await,
    }
}

/// Brings the members to what the custom resource requests.
async fn converge(scope: &mut ReleaseScope<'_>, release: &mut Release) -> Flow<Conclusion> {
    let suspended = annotations::is_suspended(&scope.written.annotations);
    if !suspended {
        AccountStage::new(scope).take_account()?;
        TakeoverStage::new(scope).find_former_release(release).await?;
    }
    Warnings::new(scope).check_annotations(release).await;
    Warnings::new(scope).check_chart_crds(release).await;
    if suspended {
        return Break(Phase::Suspended);
    }
    Claimer::new(scope).restore_finalizer(release).await?;
    JobTtls::new(scope).note_finished_jobs(release);
    RollbackStage::new(scope).note_rollback_request(release).await;
    let inputs = ConvergenceCheck::new(scope).inputs(release);
    if let Some(inputs) = &inputs {
        RolloutStage::new(scope).await_turn(release, inputs, jiff::Timestamp::now());
    }
    let is_converged = || {
        let check = ConvergenceCheck::new(scope);
        inputs
            .as_ref()
            .is_some_and(|inputs| check.is_converged(release, inputs))
    };
    if scope.waits_for_rollout || (!scope.takeover.is_under_way() && !release.record.hooks.is_open() && is_converged())
    {
        Warnings::new(scope).warn_leftovers(release).await;
        let phase = HealthReporter::new(scope).recorded_health(release).await;
        if !RollbackStage::new(scope).begin_fallback(release, &phase).await? {
            let phase = DependencyGate::new(scope).with_dependency_warning(phase);
            return Continue(
                KeptRenders::new(scope)
                    .with_fallback_message(release, phase, &mut Changes::default())
                    .into(),
            );
        }
    }
    DependencyGate::new(scope)
        .await_to_install(release)
        .in_stage("dependencies")
        .await?;
    let mut tries = 0;
    loop {
        let mut prepared = match Renderer::new(scope).prepare(release).in_stage("render").await {
            Continue(prepared) => prepared,
            Break(phase) => return Break(DependencyGate::new(scope).or_dependency_phase(release, phase).await),
        };
        KeptRenders::new(scope).apply_fallback(release, &mut prepared).await?;
        DependencyGate::new(scope).await_to_upgrade(release, &prepared).await?;
        tries += 1;
        if let Some(running) = PlanRunner::new(scope)
            .await_plan(release, &prepared)
            .in_stage("plans")
            .await
        {
            return Continue(Conclusion {
                phase: running,
                changes: Changes::default(),
                prepared: Some(prepared),
            });
        }
        let (phase, mut changes) = match apply_and_prune(scope, release, &prepared).await {
            Continue(Some(done)) => done,
            Continue(None) if tries < TRIES => continue,
            Continue(None) => (interrupted(), Changes::default()),
            Break(phase) => (phase, Changes::default()),
        };
        if RollbackStage::new(scope).begin_fallback(release, &phase).await? {
            tries = 0;
            continue;
        }
        Warnings::new(scope).warn_leftovers(release).await;
        let phase = DependencyGate::new(scope).with_dependency_warning(phase);
        return Continue(Conclusion {
            phase: KeptRenders::new(scope).with_fallback_message(release, phase, &mut changes),
            changes,
            prepared: Some(prepared),
        });
    }
}

/// Claims, stores random results, applies and prunes. Returns `None` before the first member if another operator stored
/// other random results since: the release has to be rendered again.
async fn apply_and_prune(
    scope: &mut ReleaseScope<'_>,
    release: &mut Release,
    prepared: &PreparedRelease,
) -> Flow<Option<(Phase, Changes)>> {
    let recorded = MemberScopes::from_record(&release.record);
    let before = MemberScopes::from_resource(&scope.written).union(recorded);
    let author_digest = scope.written.author_digest();
    let claimed = Claimer::new(scope).claim(release, prepared).in_stage("claim").await;
    claimed.or_stop(|error| Claimer::new(scope).claim_error(&error))?;
    // The response can be newer than the watch: then the release has to be rendered again.
    if scope.written.author_digest() != author_digest {
        return Break(interrupted());
    }
    if !GeneratedStore::new(scope).store_results(release, prepared).await? {
        return Continue(None);
    }
    RecordStore::new(scope).reserve_secret(release, prepared).await?;
    let rendered = prepared.desired.members.iter().map(|member| &member.id);
    TakeoverStage::new(scope)
        .mark_orphans(release, &rendered.collect())
        .await?;
    panic_if_requested(&scope.written.key.name, || {
        let objects = prepared.desired.members.iter().map(|member| member.object.to_string());
        format!("{:?} {}", prepared.notes, objects.collect::<String>())
    });
    release.record.service_account = scope.account.as_ref().map(ToString::to_string);
    if release.record.is_new() {
        let name = Some(&prepared.release_name).filter(|name| **name != scope.written.key.name);
        release.record.release_name = name.cloned();
    }
    release.note_intent(prepared, before.is_empty());
    KeptRenders::new(scope).note_attempt(release, prepared);
    HookRunner::new(scope)
        .begin_operation(release, prepared, &before)
        .in_stage("hooks")
        .await?;
    let forced = scope
        .requested(release, Request::Force)
        .filter(|_| prepared.rollback.is_none());
    let is_forced = forced.is_some();
    let mut applied = Applier::new(scope)
        .apply(release, prepared, forced)
        .in_stage("apply")
        .await;
    if let Some(phase) = applied.phase {
        release.retry.applied_before += applied.changes.applied;
        release.record.upgrading |= applied.changes.applied > 0 && prepared.revision > release.record.revision;
        return Break(phase);
    }
    let pruned = Pruner::new(scope)
        .prune(release, prepared, &applied.knowledge, &before)
        .in_stage("prune")
        .await;
    // After the prune of an autoscaler that the chart no longer has.
    Applier::new(scope)
        .reclaim_replicas(release, prepared, is_forced, &mut applied.changes)
        .await?;
    let (phase, changes) = Concluder::new(scope)
        .conclude(release, prepared, applied, pruned)
        .in_stage("observe")
        .await?;
    Continue(Some(
        HookRunner::new(scope)
            .end_operation(release, prepared, phase, changes)
            .in_stage("hooks")
            .await,
    ))
}
