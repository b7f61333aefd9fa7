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
mod context;
pub mod custom_resource;
mod delete;
mod hooks;
mod load;
mod observe;
mod plans;
mod prune;
mod record;
pub mod rehearsal;
mod release;
mod render;
mod rollback;
mod status;
mod takeover;
mod values;

use std::sync::OnceLock;
use std::time::Duration;

use api_objects::CustomObject;
use serde_json::Value;

pub use check::list;
pub use claim::member_scopes::{MemberScopes, watch_recorded};
pub(crate) use context::lock;
pub use context::{Context, Unit, reads_release_facts};
pub use custom_resource::{CustomResource, ResourceKey};
pub use delete::deleted_resource::{is_gone, uninstall, warn_finalizer_removed};
pub use release::Release;
pub use render::{LookupAnswers, PreparedRelease, prepare};
use status::Conclusion;

use crate::cluster::connection::throttle;
use crate::cluster::error::Error;
use crate::telemetry::metrics::ReconcileResult;
use crate::telemetry::redact;
use chartwright_core::annotations;
use chartwright_core::identity::ownership::Owner;
use chartwright_core::record::requests::Request;
use chartwright_core::status::{Changes, Phase, Reason};

/// How a reconcile ended, for the queue.
#[derive(Debug)]
pub struct ReconcileOutcome {
    /// When to look again without being asked; `None`: only at the resync.
    pub again: Option<Duration>,
    /// The API server asked for that time: what only looks whether something can go on waits for it.
    pub put_off: bool,
    /// The custom resource as our last write left it.
    pub written: Option<CustomResource>,
    /// Nothing of the release is left.
    pub finished: bool,
    /// A write did not find the custom resource.
    pub missing: bool,
    /// For logs and metrics.
    pub result: ReconcileResult,
}

impl ReconcileOutcome {
    /// Nothing was written, and nothing is looked at again without being asked.
    fn of(result: ReconcileResult) -> Self {
        ReconcileOutcome {
            again: None,
            put_off: false,
            written: None,
            finished: false,
            missing: false,
            result,
        }
    }

    fn again(wait: Duration, result: ReconcileResult) -> Self {
        ReconcileOutcome {
            again: Some(wait),
            ..ReconcileOutcome::of(result)
        }
    }
}

/// So often a release is rendered in one reconcile while another operator draws its random results.
const TRIES: usize = 3;

/// A health that only time changes is looked at again after this; it costs no request.
const RECHECK: Duration = Duration::from_secs(30);

/// The same for a release of which a watch tells nothing.
const RECHECK_UNSEEN: Duration = Duration::from_secs(300);

/// Brings one release to what its custom resource says.
pub async fn reconcile(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
) -> ReconcileOutcome {
    let kind = &unit.group_kind;
    let timer = context.metrics.time_reconcile(&kind.group, &kind.kind);
    let mut run = Reconcile::new(context, unit, resource);
    let secrets = release.secrets.clone();
    let outcome = redact::scope(&secrets, throttle::track_retry_after(run.reconcile(release))).await;
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
    let mut run = Reconcile::new(context, unit, resource);
    let message =
        "the operator stopped unexpectedly while it worked on this: this is a defect of chartwright; see its log";
    run.report(release, Phase::failed(Reason::Panicked, message)).await
}

/// Lets a test see what a defect would do: the custom resource that this variable names makes its reconcile panic, and
/// `<name>/render` its render, with a text that quotes what was at hand.
#[cfg(debug_assertions)]
fn panic_if_asked(name: &str, quoted: impl FnOnce() -> String) {
    if std::env::var("CHARTWRIGHT_TEST_PANIC").is_ok_and(|named| named == name) {
        panic!("CHARTWRIGHT_TEST_PANIC names {name}: {}", quoted());
    }
}

#[cfg(not(debug_assertions))]
fn panic_if_asked(_: &str, _: impl FnOnce() -> String) {}

/// The state of one reconcile: the custom resource moves on with each of our writes.
struct Reconcile<'a> {
    context: &'a Context,
    unit: &'a Unit,
    written: CustomResource,
    /// Its status, once somebody asked for it.
    status_of_written: OnceLock<Value>,
    /// What its members name as their owner.
    owner: Owner,
    /// The generation that this reconcile is about; that of `written` may be newer.
    generation: i64,
    /// Nothing was ever applied for it: what says so, and comes before the first member, wasn't there.
    is_first: bool,
    /// The finalizer is needed on it.
    holds_finalizer: bool,
    /// What was there before us, while it is being taken over.
    former_release: Option<takeover::FormerRelease>,
    /// Why it can't be told whether Helm has a release of this name.
    unlisted: Option<Error>,
    /// A write did not find the custom resource.
    missing: bool,
    /// What the status says of the release meanwhile, while a plan runs.
    shown: Option<Phase>,
}

impl<'a> Reconcile<'a> {
    fn new(context: &'a Context, unit: &'a Unit, resource: &CustomResource) -> Self {
        Reconcile {
            context,
            unit,
            written: resource.clone(),
            status_of_written: OnceLock::new(),
            owner: resource.owner(&unit.group_kind),
            generation: resource.generation,
            is_first: !resource.is_claimed(),
            holds_finalizer: true,
            former_release: None,
            unlisted: None,
            missing: false,
            shown: None,
        }
    }
}

impl Reconcile<'_> {
    /// Takes in what a write of ours answered.
    fn set_written(&mut self, object: CustomObject) {
        self.written = self.unit.take_in(object);
        self.status_of_written = OnceLock::new();
    }

    /// What the status of the custom resource says.
    fn written_status(&self) -> &Value {
        self.status_of_written.get_or_init(|| self.written.status())
    }

    async fn reconcile(&mut self, release: &mut Release) -> ReconcileOutcome {
        let recalled = self.load_record(release).await;
        if recalled.is_ok()
            && let Some(wait) = self.await_watches(release)
        {
            return ReconcileOutcome {
                written: Some(self.written.clone()),
                ..ReconcileOutcome::again(wait, ReconcileResult::Progressing)
            };
        }
        if self.written.deleting || self.has_left_selector() {
            return self.end(release, recalled).await;
        }
        let failures = release.backoff.failures;
        let conclusion = match recalled {
            Ok(()) => {
                let brought = self.converge(release).await.unwrap_or_else(Conclusion::from);
                if brought.phase != Phase::Suspended {
                    // Rules go by what is about to be told.
                    if !self.unit.watch.remediation.is_empty() {
                        self.evaluate_status_template(release, &brought.phase).await;
                    }
                    self.remediate(release, &brought).await;
                    self.run_plans(release, &brought.phase).await;
                    self.elect(release).await;
                }
                brought
            }
            Err(phase) => phase.into(),
        };
        self.evaluate_status_template(release, &conclusion.phase).await;
        self.end_look(release);
        let outcome = self.report(release, conclusion).await;
        self.finish_takeover(release, outcome, failures).await
    }

    /// Step 2: a deletion, before any chart, value or template is touched.
    async fn end(&mut self, release: &mut Release, recalled: Result<(), Phase>) -> ReconcileOutcome {
        let found = match recalled {
            Ok(()) => self.find_former_release(release).await,
            // It may be read in a moment, and names what no label finds.
            Err(phase @ Phase::Failed { .. }) => Err(phase),
            Err(_) => Ok(()),
        };
        match found {
            Ok(()) => self.delete(release).await,
            Err(phase) => self.report(release, phase).await,
        }
    }

    /// Steps 3 to 10.
    async fn converge(&mut self, release: &mut Release) -> Result<Conclusion, Phase> {
        let suspended = annotations::is_suspended(&self.written.annotations);
        if !suspended {
            self.find_former_release(release).await?;
        }
        self.check_annotations(release).await;
        if suspended {
            return Err(Phase::Suspended);
        }
        self.restore_finalizer(release).await?;
        self.note_finished_jobs(release);
        self.note_rollback_request(release).await;
        if self.former_release.is_none() && !release.record.hooks.is_open() && self.is_converged(release) {
            self.warn_leftovers(release).await;
            let phase = self.recorded_health(release).await;
            if !self.begin_fallback(release, &phase).await? {
                let phase = self.with_dependency_warning(phase);
                return Ok(self
                    .with_fallback_message(release, phase, &mut Changes::default())
                    .into());
            }
        }
        self.await_to_install(release).await?;
        let mut tries = 0;
        loop {
            let mut prepared = match self.prepare(release).await {
                Ok(prepared) => prepared,
                Err(phase) => return Err(self.or_dependency_phase(release, phase).await),
            };
            self.apply_fallback(release, &mut prepared).await?;
            self.await_to_upgrade(release, &prepared).await?;
            tries += 1;
            if let Some(running) = self.await_plan(release, &prepared).await {
                return Ok(Conclusion {
                    phase: running,
                    changes: Changes::default(),
                    prepared: Some(prepared),
                });
            }
            let (phase, mut changes) = match self.apply_and_prune(release, &prepared).await {
                Ok(Some(done)) => done,
                Ok(None) if tries < TRIES => continue,
                Ok(None) => (apply::interrupted(), Changes::default()),
                Err(phase) => (phase, Changes::default()),
            };
            if self.begin_fallback(release, &phase).await? {
                tries = 0;
                continue;
            }
            self.warn_leftovers(release).await;
            let phase = self.with_dependency_warning(phase);
            return Ok(Conclusion {
                phase: self.with_fallback_message(release, phase, &mut changes),
                changes,
                prepared: Some(prepared),
            });
        }
    }

    /// Steps 6 to 10: claim, keep random results, apply, prune, shrink. `None` before the first member if another operator
    /// drew other random results meanwhile: what was rendered is in vain.
    async fn apply_and_prune(
        &mut self,
        release: &mut Release,
        prepared: &PreparedRelease,
    ) -> Result<Option<(Phase, Changes)>, Phase> {
        let recorded = MemberScopes::from_record(&release.record);
        let before = MemberScopes::from_resource(&self.written).union(recorded);
        let author_digest = self.written.author_digest();
        let claimed = self.claim(release, prepared).await;
        claimed.map_err(|error| self.claim_error(&error))?;
        // The answer shows what the watch may not have told yet: what was rendered is in vain.
        if self.written.author_digest() != author_digest {
            return Err(apply::interrupted());
        }
        if !self.keep(release, prepared).await? {
            return Ok(None);
        }
        self.reserve(release, prepared).await?;
        let rendered = prepared.desired.members.iter().map(|member| &member.id);
        self.mark_orphans(release, &rendered.collect()).await?;
        panic_if_asked(&self.written.key.name, || {
            let objects = prepared.desired.members.iter().map(|member| member.object.to_string());
            format!("{:?} {}", prepared.notes, objects.collect::<String>())
        });
        release.note_intent(prepared, before.is_empty());
        self.note_attempt(release, prepared);
        self.begin_operation(release, prepared, &before).await?;
        let forced = self
            .requested(release, Request::Force)
            .filter(|_| prepared.rollback.is_none());
        let is_forced = forced.is_some();
        let mut applied = self.apply(release, prepared, forced).await;
        if let Some(phase) = applied.phase {
            release.applied_before += applied.changes.applied;
            release.record.upgrading |= applied.changes.applied > 0 && prepared.revision > release.record.revision;
            return Err(phase);
        }
        let pruned = self.prune(release, prepared, &applied.knowledge, &before).await;
        // Now that an autoscaler which the chart no longer has is gone.
        self.reclaim_replicas(release, prepared, is_forced, &mut applied.changes)
            .await?;
        let (phase, changes) = self.conclude(release, prepared, applied, pruned).await?;
        Ok(Some(self.end_operation(release, prepared, phase, changes).await))
    }
}
