//! Metrics of releases: what happened to them, and how they are.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use chartwright_core::status::AbnormalCondition;

use super::labels::{LabelPairs, ReleaseLabels, group_and_kind, kind_alone};
use super::registration::{add, saturated};
use super::release_series::{ReadyState, ReleaseSeries};
use super::series::{BoundedFamily, PlanRuns};

/// What happened to releases so far.
#[derive(Debug)]
pub struct ReleaseCounters {
    refused_writes: Family<LabelPairs<1>, Counter>,
    elections: Family<LabelPairs<2>, Counter>,
    plan_runs: PlanRuns,
    failed_upgrades: Family<LabelPairs<2>, Counter>,
}

/// The state of each release, and how many wait.
#[derive(Debug)]
pub struct ReleaseMetrics {
    queue_depth: Family<LabelPairs<2>, Gauge>,
    ready: BoundedFamily<ReleaseLabels, Gauge>,
    info: ReleaseSeries<ReadyState>,
    conditions: ReleaseSeries<Vec<AbnormalCondition>>,
}

impl ReleaseCounters {
    pub(super) fn new(registry: &mut Registry) -> Self {
        ReleaseCounters {
            refused_writes: add(
                registry,
                "refused_writes",
                "Writes on custom resources that the API server refuses for what they are: their size or the schema",
            ),
            elections: add(
                registry,
                "elections",
                "Pods that were made the leader of a workload (`elect`)",
            ),
            plan_runs: PlanRuns::new(add(registry, "plan_runs", "Runs of plans that ended, by how they did")),
            failed_upgrades: add(
                registry,
                "failed_upgrades",
                "Upgrades that were given up: rolled back, or left and not tried again (`onFailure`)",
            ),
        }
    }

    /// Counts a write on a custom resource of this kind that is refused for what it is.
    pub fn refused_write(&self, kind: &str) {
        self.refused_writes.get_or_create(&kind_alone(kind)).inc();
    }

    /// Counts a pod that was made leader in a release of this kind.
    pub fn elected(&self, group: &str, kind: &str) {
        self.elections.get_or_create(&group_and_kind(group, kind)).inc();
    }

    /// Counts a run of a plan that ended. `succeeded`: false if a step failed, or it was stopped. The series is there until
    /// the last release that had such a run is forgotten.
    pub fn plan_ended(&self, release: &ReleaseLabels, plan: &str, succeeded: bool) {
        self.plan_runs.count(release, plan, succeeded);
    }

    /// Counts an upgrade of a release of this kind that is given up.
    pub fn upgrade_failed(&self, group: &str, kind: &str) {
        self.failed_upgrades.get_or_create(&group_and_kind(group, kind)).inc();
    }

    /// Drops a release's series.
    pub(super) fn forget(&self, release: &ReleaseLabels) {
        self.plan_runs.forget(release);
    }
}

impl ReleaseMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        ReleaseMetrics {
            queue_depth: add(registry, "queue_depth", "Releases that wait for a worker"),
            ready: BoundedFamily::new(add(
                registry,
                "release_ready",
                "1 if the release of this CR is Ready, 0 if it is not",
            )),
            info: add(registry, "release_info", "1, with the reason of the condition Ready"),
            conditions: add(registry, "release_condition", "1 while the release has this condition"),
        }
    }

    /// Says how many releases of a kind wait for a worker.
    pub fn set_queue_depth(&self, group: &str, kind: &str, depth: usize) {
        let labels = group_and_kind(group, kind);
        self.queue_depth.get_or_create(&labels).set(saturated(depth));
    }

    /// Says whether a release is ready, the reason of its condition `Ready`, and whether it is suspended.
    pub fn set_ready(&self, release: &ReleaseLabels, ready: bool, reason: &'static str, suspended: bool) {
        self.ready.with(release, |gauge| _ = gauge.set(ready.into()));
        self.info.set(release, ReadyState { reason, suspended });
    }

    /// Replaces the abnormal conditions of a release, each with its reason.
    pub fn set_conditions(&self, release: &ReleaseLabels, conditions: Vec<AbnormalCondition>) {
        self.conditions.set(release, conditions);
    }

    /// Drops a release's series.
    pub(super) fn forget(&self, release: &ReleaseLabels) {
        self.ready.remove(release);
        self.info.remove(release);
        self.conditions.remove(release);
    }
}
