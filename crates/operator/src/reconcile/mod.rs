//! One reconcile, a file per step: values, render, preflight, apply, health, prune; or the deletion, which needs none of
//! these. The order of the steps is the safety of the whole:
//!
//! 1. a deletion never touches chart, values or templates;
//! 2. everything that can be wrong is found before the first write;
//! 3. the custom resource says what it may own before the first member exists;
//! 4. nothing is pruned unless everything is known;
//! 5. the status tells what happened, however it ended.
//!
//! A step that fails gives the phase that the release is in for it.

mod apply;
mod check;
mod claim;
mod conclude;
mod context;
pub mod custom_resource;
mod delete;
mod hints;
mod hooks;
mod load;
mod observe;
mod outcome;
mod plans;
mod prune;
mod record;
pub mod rehearsal;
mod release;
mod render;
mod rollback;
mod scope;
mod status;
mod takeover;
mod test_panic;
mod unit;
mod values;

use crate::cluster::connection::throttle;
use crate::reconcile::apply::Applier;
use crate::reconcile::claim::Claimer;
use crate::reconcile::claim::decorator::ClaimRules;
use crate::reconcile::conclude::Concluder;
use crate::reconcile::delete::Deleter;
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
use crate::reconcile::rollback::RollbackStage;
use crate::reconcile::rollback::kept_renders::KeptRenders;
use crate::reconcile::scope::{ReleaseScope, interrupted};
use crate::reconcile::status::StatusWriter;
use crate::reconcile::status::conclusion::Conclusion;
use crate::reconcile::takeover::TakeoverStage;
use crate::reconcile::test_panic::panic_if_asked;
use crate::telemetry::metrics::ReconcileResult;
use crate::telemetry::redact;
use chartwright_core::annotations;
use chartwright_core::record::requests::Request;
use chartwright_core::status::{Changes, Phase, Reason};

pub use claim::member_scopes::MemberScopes;
pub use load::member_watches::watch_recorded;
pub use outcome::ReconcileOutcome;

pub use context::Context;
pub use unit::{Unit, reads_release_facts};

pub use custom_resource::{CustomResource, ResourceKey};

pub use delete::deleted_resource::{is_gone, uninstall, warn_finalizer_removed};

pub use release::Release;

pub use crate::cluster::objects::lookup::LookupAnswers;
pub use render::job::prepare;
pub use render::prepared::PreparedRelease;

/// So often a release is rendered in one reconcile while another operator draws its random results.
const TRIES: usize = 3;

/// Brings one release to what its custom resource says.
pub async fn reconcile(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
) -> ReconcileOutcome {
    let kind = &unit.group_kind;
    let timer = context.metrics.time_reconcile(&kind.group, &kind.kind);
    let mut scope = ReleaseScope::new(context, unit, resource);
    let secrets = release.secrets.clone();
    let outcome = redact::scope(&secrets, throttle::track_retry_after(run_stages(&mut scope, release))).await;
    let elapsed = timer.finish(outcome.result);
    tracing::debug!(%kind, resource = %resource.key, result = ?outcome.result, ?elapsed, "reconciled");
    outcome
}

/// Tells in the status that a reconcile panicked, starting from what the status said before.
pub async fn report_panic(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
) -> ReconcileOutcome {
    release.recover(resource, &resource.seal(&context.keys, &unit.group_kind));
    let mut scope = ReleaseScope::new(context, unit, resource);
    let message =
        "the operator stopped unexpectedly while it worked on this: this is a defect of chartwright; see its log";
    StatusWriter::new(&mut scope)
        .report(release, Phase::failed(Reason::Panicked, message))
        .await
}

async fn run_stages(scope: &mut ReleaseScope<'_>, release: &mut Release) -> ReconcileOutcome {
    let recalled = RecordStore::new(scope).load_record(release).await;
    if recalled.is_ok()
        && let Some(wait) = MemberWatches::new(scope).await_watches(release)
    {
        return ReconcileOutcome {
            written: Some(scope.written.clone()),
            ..ReconcileOutcome::again(wait, ReconcileResult::Progressing)
        };
    }
    if scope.written.deleting || ClaimRules::new(scope).has_left_selector() {
        return end(scope, release, recalled).await;
    }
    let failures = release.retry.backoff.failures;
    let conclusion = match recalled {
        Ok(()) => {
            let brought = converge(scope, release).await.unwrap_or_else(Conclusion::from);
            if brought.phase != Phase::Suspended {
                // Rules go by what is about to be told.
                if !scope.unit.watch.remediation.is_empty() {
                    StatusEvaluator::new(scope)
                        .evaluate_status_template(release, &brought.phase)
                        .await;
                }
                Remediator::new(scope).remediate(release, &brought).await;
                PlanRunner::new(scope).run_plans(release, &brought.phase).await;
                LeaderElector::new(scope).elect(release).await;
            }
            brought
        }
        Err(phase) => phase.into(),
    };
    StatusEvaluator::new(scope)
        .evaluate_status_template(release, &conclusion.phase)
        .await;
    MemberObserver::new(scope).end_look(release);
    let outcome = StatusWriter::new(scope).report(release, conclusion).await;
    TakeoverStage::new(scope)
        .finish_takeover(release, outcome, failures)
        .await
}

/// Step 2: a deletion, before any chart, value or template is touched.
async fn end(scope: &mut ReleaseScope<'_>, release: &mut Release, recalled: Result<(), Phase>) -> ReconcileOutcome {
    let found = match recalled {
        Ok(()) => TakeoverStage::new(scope).find_former_release(release).await,
        // It may be read in a moment, and names what no label finds.
        Err(phase @ Phase::Failed { .. }) => Err(phase),
        Err(_) => Ok(()),
    };
    match found {
        Ok(()) => Deleter::new(scope).delete(release).await,
        Err(phase) => StatusWriter::new(scope).report(release, phase).await,
    }
}

/// Steps 3 to 10.
async fn converge(scope: &mut ReleaseScope<'_>, release: &mut Release) -> Result<Conclusion, Phase> {
    let suspended = annotations::is_suspended(&scope.written.annotations);
    if !suspended {
        TakeoverStage::new(scope).find_former_release(release).await?;
    }
    Warnings::new(scope).check_annotations(release).await;
    if suspended {
        return Err(Phase::Suspended);
    }
    Claimer::new(scope).restore_finalizer(release).await?;
    JobTtls::new(scope).note_finished_jobs(release);
    RollbackStage::new(scope).note_rollback_request(release).await;
    if scope.former_release.is_none()
        && !release.record.hooks.is_open()
        && ConvergenceCheck::new(scope).is_converged(release)
    {
        Warnings::new(scope).warn_leftovers(release).await;
        let phase = HealthReporter::new(scope).recorded_health(release).await;
        if !RollbackStage::new(scope).begin_fallback(release, &phase).await? {
            let phase = DependencyGate::new(scope).with_dependency_warning(phase);
            return Ok(KeptRenders::new(scope)
                .with_fallback_message(release, phase, &mut Changes::default())
                .into());
        }
    }
    DependencyGate::new(scope).await_to_install(release).await?;
    let mut tries = 0;
    loop {
        let mut prepared = match Renderer::new(scope).prepare(release).await {
            Ok(prepared) => prepared,
            Err(phase) => return Err(DependencyGate::new(scope).or_dependency_phase(release, phase).await),
        };
        KeptRenders::new(scope).apply_fallback(release, &mut prepared).await?;
        DependencyGate::new(scope).await_to_upgrade(release, &prepared).await?;
        tries += 1;
        if let Some(running) = PlanRunner::new(scope).await_plan(release, &prepared).await {
            return Ok(Conclusion {
                phase: running,
                changes: Changes::default(),
                prepared: Some(prepared),
            });
        }
        let (phase, mut changes) = match apply_and_prune(scope, release, &prepared).await {
            Ok(Some(done)) => done,
            Ok(None) if tries < TRIES => continue,
            Ok(None) => (interrupted(), Changes::default()),
            Err(phase) => (phase, Changes::default()),
        };
        if RollbackStage::new(scope).begin_fallback(release, &phase).await? {
            tries = 0;
            continue;
        }
        Warnings::new(scope).warn_leftovers(release).await;
        let phase = DependencyGate::new(scope).with_dependency_warning(phase);
        return Ok(Conclusion {
            phase: KeptRenders::new(scope).with_fallback_message(release, phase, &mut changes),
            changes,
            prepared: Some(prepared),
        });
    }
}

/// Steps 6 to 10: claim, keep random results, apply, prune, shrink. `None` before the first member if another operator
/// drew other random results meanwhile: what was rendered is in vain.
async fn apply_and_prune(
    scope: &mut ReleaseScope<'_>,
    release: &mut Release,
    prepared: &PreparedRelease,
) -> Result<Option<(Phase, Changes)>, Phase> {
    let recorded = MemberScopes::from_record(&release.record);
    let before = MemberScopes::from_resource(&scope.written).union(recorded);
    let author_digest = scope.written.author_digest();
    let claimed = Claimer::new(scope).claim(release, prepared).await;
    claimed.map_err(|error| Claimer::new(scope).claim_error(&error))?;
    // The answer shows what the watch may not have told yet: what was rendered is in vain.
    if scope.written.author_digest() != author_digest {
        return Err(interrupted());
    }
    if !GeneratedStore::new(scope).keep(release, prepared).await? {
        return Ok(None);
    }
    RecordStore::new(scope).reserve(release, prepared).await?;
    let rendered = prepared.desired.members.iter().map(|member| &member.id);
    TakeoverStage::new(scope)
        .mark_orphans(release, &rendered.collect())
        .await?;
    panic_if_asked(&scope.written.key.name, || {
        let objects = prepared.desired.members.iter().map(|member| member.object.to_string());
        format!("{:?} {}", prepared.notes, objects.collect::<String>())
    });
    release.note_intent(prepared, before.is_empty());
    KeptRenders::new(scope).note_attempt(release, prepared);
    HookRunner::new(scope)
        .begin_operation(release, prepared, &before)
        .await?;
    let forced = scope
        .requested(release, Request::Force)
        .filter(|_| prepared.rollback.is_none());
    let is_forced = forced.is_some();
    let mut applied = Applier::new(scope).apply(release, prepared, forced).await;
    if let Some(phase) = applied.phase {
        release.retry.applied_before += applied.changes.applied;
        release.record.upgrading |= applied.changes.applied > 0 && prepared.revision > release.record.revision;
        return Err(phase);
    }
    let pruned = Pruner::new(scope)
        .prune(release, prepared, &applied.knowledge, &before)
        .await;
    // Now that an autoscaler which the chart no longer has is gone.
    Applier::new(scope)
        .reclaim_replicas(release, prepared, is_forced, &mut applied.changes)
        .await?;
    let (phase, changes) = Concluder::new(scope)
        .conclude(release, prepared, applied, pruned)
        .await?;
    Ok(Some(
        HookRunner::new(scope)
            .end_operation(release, prepared, phase, changes)
            .await,
    ))
}
