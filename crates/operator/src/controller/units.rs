//! The units that run: one for each watch. A changed watch restarts its own unit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::chart_crds;
use super::unit::Blueprint;
use crate::reconcile::Context;
use crate::telemetry::probes::ProcessHealth;
use chartwright_core::status::conditions::short_list;

/// The units that run.
pub(super) struct Units {
    pub(super) context: Arc<Context>,
    health: ProcessHealth,
    /// How long running reconciles of a changed watch may take to end.
    timeout: Duration,
    running: HashMap<String, RunningUnit>,
    tasks: JoinSet<()>,
    is_begun: bool,
}

struct RunningUnit {
    blueprint: Blueprint,
    stop: CancellationToken,
    task: AbortHandle,
}

impl Units {
    pub(super) fn new(context: Arc<Context>, health: ProcessHealth, timeout: Duration) -> Self {
        Units {
            context,
            health,
            timeout,
            running: HashMap::new(),
            tasks: JoinSet::new(),
            is_begun: false,
        }
    }

    /// Starts, restarts and ends units, so that one runs for each blueprint. Units of unchanged watches go on. Returns early at `stop`.
    pub(super) async fn update(&mut self, blueprints: &[Blueprint], stop: &CancellationToken) {
        let wanted: HashMap<String, &Blueprint> = blueprints
            .iter()
            .map(|blueprint| (blueprint.watch.id(), blueprint))
            .collect();
        let is_as_wanted =
            |id: &String, unit: &RunningUnit| wanted.get(id).is_some_and(|wanted| wanted.is_as(&unit.blueprint));
        let (same, other) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|(id, unit)| is_as_wanted(id, unit));
        self.running = same;
        self.end(other, &wanted, stop).await;
        if stop.is_cancelled() {
            return;
        }
        self.set_charts(blueprints);
        let added: Vec<(String, Blueprint)> = wanted
            .into_iter()
            .filter(|(id, _)| !self.running.contains_key(id))
            .map(|(id, blueprint)| (id, blueprint.clone()))
            .collect();
        self.start(added, stop);
    }

    /// Ends units. Running reconciles end by themselves, within a limit.
    async fn end(
        &mut self,
        units: HashMap<String, RunningUnit>,
        wanted: &HashMap<String, &Blueprint>,
        stop: &CancellationToken,
    ) {
        for (id, unit) in &units {
            unit.stop.cancel();
            if wanted.contains_key(id) {
                tracing::info!(watch = id, "the watch or its chart changed: it is restarted");
            } else {
                tracing::warn!(
                    watch = id,
                    "the watch is gone: its releases stay as they are, and deletions wait for a watch"
                );
            }
        }
        let deadline = tokio::time::Instant::now() + self.timeout;
        while units.values().any(|unit| !unit.task.is_finished()) {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(deadline) => {
                    tracing::warn!("reconciles of a changed watch were cut off; they are repeated");
                    units.values().for_each(|unit| unit.task.abort());
                }
                _ = self.tasks.join_next() => {}
            }
        }
    }

    /// What the process knows of all charts.
    fn set_charts(&self, blueprints: &[Blueprint]) {
        let labels = blueprints.iter().flat_map(|blueprint| &blueprint.watch.elect);
        self.context.pod_index().labels = labels.map(|elect| elect.label.clone()).collect();
        self.context.wanted.notify_one();
        let charts = blueprints.iter().map(|blueprint| {
            let engine = blueprint.renderer.as_ref().ok();
            (&blueprint.watch, engine.map(|engine| engine.chart()))
        });
        self.context.chart_crds.set_claims(chart_crds::claims(charts));
    }

    fn start(&mut self, added: Vec<(String, Blueprint)>, stop: &CancellationToken) {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if is_first && added.is_empty() {
            self.health.set_ready();
        }
        let waiting = Arc::new(AtomicUsize::new(added.len()));
        for (id, blueprint) in added {
            let (waiting, health, context) = (waiting.clone(), self.health.clone(), self.context.clone());
            let was_called = AtomicBool::new(!is_first);
            let ready = move || {
                if !was_called.swap(true, Ordering::SeqCst) && waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
                    health.set_ready();
                    report_leftovers(&context);
                }
            };
            let token = stop.child_token();
            let unit = blueprint.clone().supervise(self.context.clone(), token.clone(), ready);
            let task = self.tasks.spawn(unit);
            self.running.insert(
                id,
                RunningUnit {
                    blueprint,
                    stop: token,
                    task,
                },
            );
        }
    }

    /// The tasks of all units, to wait for their end.
    pub(super) fn into_tasks(self) -> JoinSet<()> {
        self.tasks
    }
}

/// Logs objects whose custom resource no longer exists: it was deleted while suspended, or without the operator and in spite
/// of the finalizer.
fn report_leftovers(context: &Context) {
    // With incomplete discovery, custom resources may be unknown. With a label selector, other processes have some.
    if !context.discovery.snapshot().is_complete() || context.settings.watch_labels.is_some() {
        return;
    }
    let left = context.leftovers();
    context
        .metrics
        .process
        .leftovers
        .set(i64::try_from(left.len()).unwrap_or(i64::MAX));
    if left.is_empty() {
        return;
    }
    tracing::warn!(
        count = left.len(),
        "objects of custom resources that are not there: {}; `chartwright leftovers` lists them and, on request, \
         deletes them",
        short_list(&left)
    );
}
