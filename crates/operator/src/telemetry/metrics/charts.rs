//! Metrics of charts, and of their rollout.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use chartwright_core::rollout::RolloutCounts;

use super::labels::{LabelPairs, group_and_kind};
use super::registration::{add, add_bytes, saturated};

/// About the chart of each kind.
#[derive(Debug)]
pub struct ChartMetrics {
    size: Family<LabelPairs<2>, Gauge>,
    crd_problems: Family<LabelPairs<2>, Gauge>,
}

/// About changes of `watches.yaml` and charts while the process runs.
#[derive(Debug)]
pub struct RolloutMetrics {
    reloads: Family<LabelPairs<1>, Counter>,
    reload_refused: Gauge,
    releases: Family<LabelPairs<3>, Gauge>,
    stopped: Family<LabelPairs<2>, Gauge>,
}

impl ChartMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        ChartMetrics {
            size: add_bytes(
                registry,
                "chart",
                "About what the chart of a kind takes in memory once it was rendered",
            ),
            crd_problems: add(
                registry,
                "chart_crd_problems",
                "Problems with the CustomResourceDefinitions of a chart's crds/ folder, by the kind of its watch",
            ),
        }
    }

    /// Says about how many bytes the chart of a kind takes.
    pub fn set_size(&self, group: &str, kind: &str, bytes: u64) {
        let labels = group_and_kind(group, kind);
        self.size.get_or_create(&labels).set(saturated(bytes));
    }

    /// Says how many problems there are with the `crds/` folders of the charts of a kind.
    pub fn set_crd_problems(&self, group: &str, kind: &str, count: usize) {
        let labels = group_and_kind(group, kind);
        self.crd_problems.get_or_create(&labels).set(saturated(count));
    }
}

impl RolloutMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        RolloutMetrics {
            reloads: add(
                registry,
                "reloads",
                "Times that watches.yaml and the charts were read again, by result",
            ),
            reload_refused: add(
                registry,
                "reload_refused",
                "1 while watches.yaml or a chart on disk is refused",
            ),
            releases: add(
                registry,
                "rollout_releases",
                "Releases that are not up to date with their chart, by state",
            ),
            stopped: add(
                registry,
                "rollout_stopped",
                "1 while the rollout of a chart is stopped, because too many releases failed",
            ),
        }
    }

    /// Counts a reload of `watches.yaml` and the charts, accepted or refused.
    pub fn count_reload(&self, accepted: bool) {
        let result = if accepted { "accepted" } else { "refused" };
        self.reloads.get_or_create(&[("result", result.to_owned())]).inc();
        self.reload_refused.set(i64::from(!accepted));
    }

    /// Reports how far the rollout of a new chart is. `kind`: group and kind of the watch.
    pub fn set_progress(&self, kind: &(Arc<str>, Arc<str>), counts: &RolloutCounts) {
        for (state, count) in [
            ("waiting", counts.waiting),
            ("in_flight", counts.in_flight),
            ("failed", counts.failed),
        ] {
            let labels = [
                ("group", kind.0.to_string()),
                ("kind", kind.1.to_string()),
                ("state", state.to_owned()),
            ];
            self.releases.get_or_create(&labels).set(saturated(count));
        }
        let labels = group_and_kind(&kind.0, &kind.1);
        self.stopped.get_or_create(&labels).set(i64::from(counts.is_stopped));
    }
}
