//! The CustomResourceDefinitions of a chart's `crds/` folder. They belong to the watch, not to a release: they carry none of the labels
//! of members, and are never pruned or deleted.
//!
//! - [`ChartCrdTask`] runs beside a watch, as its key `crds` says
//! - [`read`]: the definitions of a chart
//! - [`replace`]: `crds: CreateReplace`

pub mod read;
mod replace;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cluster::objects;
use crate::reconcile::Context;
use crate::reconcile::chart_crd_index::{ChartCrdClaims, WatchClaims};
use crate::telemetry::test_limit;
use chartwright_core::crds::live::InstalledCrds;
use chartwright_core::identity::ObjectId;
use chartwright_watches::{CrdPolicy, Watch};
use helm_template::chart::Chart;
use helm_template::render::Engine;
use read::{Definitions, crd_kind};
use replace::Replacer;

/// How long to wait for the list of existing CRDs. Without it, each creation is attempted.
const LIST_WAIT: Duration = Duration::from_secs(10);
/// The pause between attempts after an error.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The work on the definitions of one watch.
pub struct ChartCrdTask<'a> {
    context: &'a Context,
    watch: &'a Watch,
    engine: Option<&'a Arc<Engine>>,
    installed: watch::Receiver<Option<Arc<InstalledCrds>>>,
    replacer: Replacer,
    /// Problems that were logged before.
    reported: Vec<String>,
    needs_retry: bool,
}

/// The outcome of one attempt.
#[derive(Default)]
struct CrdAttempt {
    /// Definitions that were written.
    written: usize,
    problems: Vec<String>,
    /// True if a retry may succeed, for example after a missing permission.
    needs_retry: bool,
}

impl<'a> ChartCrdTask<'a> {
    /// Makes the first attempt.
    pub async fn begin(context: &'a Context, watch: &'a Watch, engine: Option<&'a Arc<Engine>>) -> Self {
        let mut task = ChartCrdTask {
            context,
            watch,
            engine,
            installed: context.crds.subscribe(),
            replacer: Replacer::default(),
            reported: Vec::new(),
            needs_retry: false,
        };
        task.attempt().await;
        task
    }

    /// Retries after errors, and follows changes of the live definitions. Never returns.
    pub async fn keep(mut self) {
        let follows = self.watch.crds == CrdPolicy::CreateReplace;
        let pause = test_limit("CHARTWRIGHT_TEST_LONGEST_PAUSE_MS").map_or(RETRY_PAUSE, Duration::from_millis);
        loop {
            tokio::select! {
                changed = self.installed.changed(), if follows => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
                () = tokio::time::sleep(pause), if self.needs_retry => {}
                else => std::future::pending().await,
            }
            self.attempt().await;
        }
    }

    async fn attempt(&mut self) {
        let Some(engine) = self.engine else { return };
        let attempt = match self.watch.crds {
            CrdPolicy::Skip => return,
            CrdPolicy::Create => {
                let definitions = Definitions::of(engine.chart());
                create(self.context, &mut self.installed, definitions).await
            }
            CrdPolicy::CreateReplace => {
                await_list(&mut self.installed).await;
                let installed = self.installed.borrow_and_update().clone().unwrap_or_default();
                let replacing = self.replacer.attempt(self.context, self.watch, engine, &installed);
                replacing.await
            }
        };
        self.report(attempt).await;
    }

    async fn report(&mut self, attempt: CrdAttempt) {
        let kind = self.watch.group_kind();
        let is_news = |problem: &&String| !self.reported.contains(problem);
        for problem in attempt.problems.iter().filter(is_news) {
            tracing::warn!(%kind, "crds/: {problem}");
        }
        if attempt.written > 0 {
            tracing::info!(%kind, count = attempt.written, "applied the chart's CustomResourceDefinitions");
            self.context.refresh_discovery().await;
        }
        self.needs_retry = attempt.needs_retry;
        if self.reported != attempt.problems {
            self.reported.clone_from(&attempt.problems);
            let count = self.context.chart_crds.set_problems(self.watch, attempt.problems);
            let metrics = &self.context.metrics;
            metrics
                .charts
                .set_crd_problems(&self.watch.group, &self.watch.kind, count);
        }
    }
}

/// The names of the definitions that the unit of a watch creates or replaces.
pub fn names(watch: &Watch, chart: &Chart) -> Vec<String> {
    match watch.crds {
        CrdPolicy::Skip => Vec::new(),
        CrdPolicy::Create | CrdPolicy::CreateReplace => Definitions::of(chart)
            .found
            .into_iter()
            .map(|definition| definition.name)
            .collect(),
    }
}

/// Works on the definitions of one watch once, for a preview. `installed`: the live definitions. Returns the problems.
pub async fn apply_once(
    context: &Context,
    watch: &Watch,
    engine: &Arc<Engine>,
    installed: InstalledCrds,
) -> Vec<String> {
    context.crds.send_replace(Some(Arc::new(installed)));
    context
        .chart_crds
        .set_claims(claims([(watch, Some(engine.chart()))].into_iter()));
    ChartCrdTask::begin(context, watch, Some(engine)).await.reported
}

/// Reads the claims of the watches that replace definitions, in the order of the file.
pub fn claims<'w>(watches: impl Iterator<Item = (&'w Watch, Option<&'w Chart>)>) -> ChartCrdClaims {
    let mut claims = ChartCrdClaims::default();
    for (watch, chart) in watches {
        let kind = (watch.group.clone(), watch.kind.clone(), watch.version.clone());
        claims.watched.push(kind);
        if let (CrdPolicy::CreateReplace, Some(chart)) = (watch.crds, chart) {
            let (crds, problems) = Definitions::of(chart).into_chart_crds();
            claims.watches.push(WatchClaims {
                id: watch.id(),
                claims: crds.into_iter().map(|crd| crd.claim).collect(),
                problems,
            });
        }
    }
    claims
}

/// Waits for the first list of the definitions.
async fn await_list(installed: &mut watch::Receiver<Option<Arc<InstalledCrds>>>) {
    let _ = tokio::time::timeout(LIST_WAIT, installed.wait_for(Option::is_some)).await;
}

/// Creates the absent definitions.
async fn create(
    context: &Context,
    installed: &mut watch::Receiver<Option<Arc<InstalledCrds>>>,
    definitions: Definitions,
) -> CrdAttempt {
    let mut attempt = CrdAttempt {
        problems: definitions.problems,
        ..CrdAttempt::default()
    };
    if definitions.found.is_empty() {
        return attempt;
    }
    await_list(installed).await;
    let snapshot = context.discovery.snapshot();
    for definition in definitions.found {
        let source = &definition.source;
        let is_there = |known: &Option<Arc<InstalledCrds>>| {
            let known = known.as_ref();
            known.is_some_and(|known| known.by_name.contains_key(&definition.name))
        };
        if is_there(&installed.borrow()) {
            continue;
        }
        let id = ObjectId::new(crd_kind(), "", definition.name.as_str());
        let Some(resource) = snapshot.resource(&crd_kind(), &definition.version) else {
            attempt
                .problems
                .push(format!("{source}: {}", not_served(&definition.version)));
            continue;
        };
        match objects::create_if_absent(&context.client, resource, &id, &definition.object).await {
            Ok(true) => attempt.written += 1,
            Ok(false) => {}
            Err(error) => {
                attempt.needs_retry |= !error.is_permanent();
                attempt.problems.push(format!("{source}: {id}: {error}"));
            }
        }
    }
    attempt
}

fn not_served(version: &str) -> String {
    format!("the API server does not serve {} in {version}", crd_kind())
}
