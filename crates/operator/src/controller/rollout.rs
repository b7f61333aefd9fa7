//! Drives the rollout of a new chart: wakes releases whose turn has come, and reports the progress in log and metrics.

use std::time::Duration;

use tokio::time::Instant;

use crate::reconcile::{Context, ResourceKey, Unit};
use chartwright_core::rollout::RolloutCounts;
use chartwright_core::status::conditions::short_list;

/// The log reports the progress of a rollout at this interval.
const PROGRESS: Duration = Duration::from_secs(30);

/// What the log reported last.
#[derive(Default)]
struct Reported {
    counts: RolloutCounts,
    /// `None`: no rollout.
    at: Option<Instant>,
}

/// Runs until it is dropped.
pub(super) async fn follow(context: &Context, unit: &Unit, wake: impl Fn(ResourceKey)) {
    let mut reported = Reported::default();
    loop {
        unit.rollout.changed.notified().await;
        unit.rollout.next().into_iter().for_each(&wake);
        let counts = unit.rollout.counts();
        context.metrics.rollout.set_progress(&unit.labels, &counts);
        reported.report(unit, counts);
    }
}

impl Reported {
    fn report(&mut self, unit: &Unit, counts: RolloutCounts) {
        let RolloutCounts {
            waiting,
            in_flight,
            failed,
            is_stopped,
        } = counts;
        let was_stopped = std::mem::replace(&mut self.counts, counts).is_stopped;
        let kind = &unit.group_kind;
        let chart = unit.renderer.as_ref().map(|engine| &engine.chart().metadata);
        let chart = chart
            .map(|chart| format!("{} {}", chart.name, chart.version))
            .unwrap_or_default();
        let now = Instant::now();
        if is_stopped && !was_stopped {
            let names = short_list(unit.rollout.failed().iter().map(ToString::to_string));
            tracing::warn!(
                %kind, chart, waiting, in_flight, failed,
                "the rollout stops, because too many releases failed: {names}; it goes on with a chart that works for them, and when they are \
                 ready, edited, suspended or deleted"
            );
            self.at = Some(now);
        } else if waiting == 0 && in_flight == 0 {
            if self.at.take().is_some() {
                tracing::info!(%kind, chart, failed, "the rollout is complete");
            }
        } else if let Some(at) = self.at {
            if was_stopped && !is_stopped {
                tracing::info!(%kind, chart, waiting, in_flight, failed, "the rollout goes on");
                self.at = Some(now);
            } else if now >= at + PROGRESS {
                tracing::info!(%kind, chart, waiting, in_flight, failed, "the rollout is in progress");
                self.at = Some(now);
            }
        } else {
            tracing::info!(%kind, chart, "a rollout begins");
            self.at = Some(now);
        }
    }
}
