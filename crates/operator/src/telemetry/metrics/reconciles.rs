//! Metrics of reconciles, and of the renders in them.

use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{LabelPairs, group_and_kind, lower_case};
use super::registration::{add, timing};

/// Reconciles take milliseconds when nothing is to be done and seconds when hooks of the API server are slow.
const RECONCILE_BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Renders are pure computing: a tenth of that.
const RENDER_BUCKETS: [f64; 12] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 5.0,
];

/// How many reconciles there were, and how long they and their renders took.
#[derive(Debug)]
pub struct ReconcileMetrics {
    count: Family<LabelPairs<3>, Counter>,
    duration: Family<LabelPairs<2>, Histogram, fn() -> Histogram>,
    /// Seconds that one render took, chart parsing apart.
    pub render_duration: Histogram,
}

/// How a reconcile ended, the label `result`.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum ReconcileResult {
    /// The release is as its CR says, and healthy.
    Success,
    /// Everything was sent; members aren't healthy yet, or a wave waits.
    Progressing,
    /// Only a change of the CR, chart or watch can help.
    Stalled,
    /// It will be tried again.
    Error,
    /// A newer generation or the shutdown cut it short.
    Cancelled,
    /// A bug was caught.
    Panic,
}

/// Measures one reconcile: hand it the result with [`ReconcileTimer::finish`]. Dropped without one it counts a panic
/// when the thread is panicking, else a cancellation (the future was dropped).
#[must_use = "dropping the timer immediately counts a cancelled reconcile"]
#[derive(Debug)]
pub struct ReconcileTimer<'a> {
    metrics: &'a ReconcileMetrics,
    labels: LabelPairs<2>,
    started: Instant,
    result: Option<ReconcileResult>,
}

impl ReconcileMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        ReconcileMetrics {
            count: add(
                registry,
                "reconcile",
                "Reconciles by the kind of the CR and how they ended",
            ),
            duration: timing(
                registry,
                "reconcile_duration",
                "Time that reconciles took",
                Family::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS)),
            ),
            render_duration: timing(
                registry,
                "render_duration",
                "Time that renders of a chart took",
                Histogram::new(RENDER_BUCKETS),
            ),
        }
    }

    /// Starts to measure a reconcile of one CR of this group and kind.
    pub fn start_timer(&self, group: &str, kind: &str) -> ReconcileTimer<'_> {
        ReconcileTimer {
            metrics: self,
            labels: group_and_kind(group, kind),
            started: Instant::now(),
            result: None,
        }
    }
}

impl ReconcileTimer<'_> {
    /// Counts the reconcile under its result. Returns how long it took.
    pub fn finish(mut self, result: ReconcileResult) -> Duration {
        self.result = Some(result);
        self.started.elapsed()
    }
}

impl Drop for ReconcileTimer<'_> {
    fn drop(&mut self) {
        let unfinished = if std::thread::panicking() {
            ReconcileResult::Panic
        } else {
            ReconcileResult::Cancelled
        };
        let [group, kind] = self.labels.clone();
        let labels = [group, kind, ("result", lower_case(self.result.unwrap_or(unfinished)))];
        self.metrics.count.get_or_create(&labels).inc();
        self.metrics
            .duration
            .get_or_create(&self.labels)
            .observe(self.started.elapsed().as_secs_f64());
    }
}
