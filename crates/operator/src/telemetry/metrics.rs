//! Typed metrics, and their text for Prometheus.

mod admission;
mod conditions;
mod memory;
mod series;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use chartwright_core::rollout::RolloutCounts;
use chartwright_core::status::AbnormalCondition;

use self::admission::AdmissionMetrics;
pub use self::admission::AdmissionResult;
use self::conditions::ReleaseConditions;
use self::memory::ResidentMemory;
use self::series::{BoundedFamily, PlanRuns, ReleaseInfo, value};

/// Reconciles take milliseconds when nothing is to be done and seconds when hooks of the API server are slow.
const RECONCILE_BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Renders are pure computing: a tenth of that.
const RENDER_BUCKETS: [f64; 12] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 5.0,
];

type LabelPairs<const N: usize> = [(&'static str, String); N];

/// Every metric of the process. One is made at the start and shared as `Arc<Metrics>`.
///
/// Counters are named without `_total` in here: the text format adds it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reconcile: Family<LabelPairs<3>, Counter>,
    reconcile_duration: Family<LabelPairs<2>, Histogram, fn() -> Histogram>,
    writes: BoundedFamily<LabelPairs<2>, Counter>,
    drift_corrected: BoundedFamily<LabelPairs<1>, Counter>,
    drift_detected: BoundedFamily<LabelPairs<1>, Counter>,
    watch_failures: BoundedFamily<LabelPairs<1>, Counter>,
    unreadable_objects: BoundedFamily<LabelPairs<1>, Counter>,
    refused_writes: Family<LabelPairs<1>, Counter>,
    elections: Family<LabelPairs<2>, Counter>,
    plan_runs: PlanRuns,
    failed_upgrades: Family<LabelPairs<2>, Counter>,
    certificate: CertificateMetrics,
    /// About the admission webhook.
    pub admission: AdmissionMetrics,
    watches_failing: BoundedFamily<LabelPairs<1>, Gauge>,
    releases: ReleaseMetrics,
    queue_depth: Family<LabelPairs<2>, Gauge>,
    chart: Family<LabelPairs<2>, Gauge>,
    chart_crd_problems: Family<LabelPairs<2>, Gauge>,
    rollout: RolloutMetrics,
    /// CPU, memory and storage.
    usage: [Family<LabelPairs<2>, Counter<f64, AtomicU64>>; 3],
    /// Attempts to take a sample of what is requested, or to write what was counted, that failed.
    pub usage_failures: Counter,
    /// Bytes that the process may take; 0 without a limit.
    pub memory_limit: Gauge,
    /// Seconds that one render took, chart parsing apart.
    pub render_duration: Histogram,
    /// Members deleted because the chart no longer has them.
    pub pruned: Counter,
    /// Panics that were caught, each in one reconcile or render.
    pub panics: Counter,
    /// Watches on the API server that are open or trying to be.
    pub watches: Gauge,
    /// Members whose custom resource was not there when this process began to work.
    pub leftovers: Gauge,
    /// 1 while this process leads (always, without leader election), else 0.
    pub leader: Gauge,
}

/// The state of each release.
#[derive(Debug)]
struct ReleaseMetrics {
    ready: BoundedFamily<ReleaseLabels, Gauge>,
    info: ReleaseInfo,
    conditions: ReleaseConditions,
}

/// About the certificate of the metrics' own server. Empty without one.
#[derive(Debug)]
struct CertificateMetrics {
    reloads: Family<LabelPairs<1>, Counter>,
    expiry: Family<LabelPairs<1>, Gauge>,
}

/// About changes of `watches.yaml` and charts while the process runs.
#[derive(Debug)]
struct RolloutMetrics {
    reloads: Family<LabelPairs<1>, Counter>,
    reload_refused: Gauge,
    releases: Family<LabelPairs<3>, Gauge>,
    stopped: Family<LabelPairs<2>, Gauge>,
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

/// What a write did, the label `operation`.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum WriteOperation {
    /// A server-side apply of a member.
    Apply,
    /// A deletion of a member.
    Delete,
    /// Our labels taken off a member that stays behind.
    Release,
    /// A CR's status.
    Status,
    /// A CR's finalizer, labels and annotations.
    Metadata,
    /// An Event.
    Event,
}

/// Identifies a release's gauge. Group and kind are shared: there may be ten thousand of these.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReleaseLabels {
    /// API group of the CR
    pub group: Arc<str>,
    /// kind of the CR
    pub kind: Arc<str>,
    /// namespace of the CR; empty for a cluster-scoped one
    pub namespace: String,
    /// name of the CR
    pub name: String,
}

/// Measures one reconcile: hand it the result with [`ReconcileTimer::finish`]. Dropped without one it counts a panic
/// when the thread is panicking, else a cancellation (the future was dropped).
#[must_use = "dropping the timer immediately counts a cancelled reconcile"]
#[derive(Debug)]
pub struct ReconcileTimer<'a> {
    metrics: &'a Metrics,
    labels: LabelPairs<2>,
    started: Instant,
    result: Option<ReconcileResult>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Names and help texts of what releases request.
const USAGE: [(&str, &str); 3] = [
    (
        "usage_cpu_core_seconds",
        "CPU requested by the pods of releases, over time",
    ),
    (
        "usage_memory_byte_seconds",
        "Memory requested by the pods of releases, over time",
    ),
    (
        "usage_storage_byte_seconds",
        "Storage requested by the claims of releases, over time",
    ),
];

impl Metrics {
    /// A fresh set, all zero.
    pub fn new() -> Self {
        let mut registry = registry();
        let r = &mut registry;
        Self {
            reconcile: add(r, "reconcile", "Reconciles by the kind of the CR and how they ended"),
            reconcile_duration: timing(
                r,
                "reconcile_duration",
                "Time that reconciles took",
                Family::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS)),
            ),
            render_duration: timing(
                r,
                "render_duration",
                "Time that renders of a chart took",
                Histogram::new(RENDER_BUCKETS),
            ),
            writes: BoundedFamily::new(add(r, "writes", "Writes sent to the API server by kind and operation")),
            pruned: add(r, "pruned", "Members deleted because their chart no longer has them"),
            drift_corrected: BoundedFamily::new(add(
                r,
                "drift_corrected",
                "Members corrected after another client changed or deleted them",
            )),
            drift_detected: BoundedFamily::new(add(r, "drift_detected", "Drift of members that stays (drift: warn)")),
            watch_failures: BoundedFamily::new(add(r, "watch_failures", "Watches that broke or were refused")),
            unreadable_objects: BoundedFamily::new(add(
                r,
                "unreadable_objects",
                "Objects that a list or watch showed and that were left out, since they can't be read",
            )),
            refused_writes: add(
                r,
                "refused_writes",
                "Writes on custom resources that the API server refuses for what they are: their size or the schema",
            ),
            elections: add(r, "elections", "Pods that were made the leader of a workload (`elect`)"),
            plan_runs: PlanRuns::new(add(r, "plan_runs", "Runs of plans that ended, by how they did")),
            failed_upgrades: add(
                r,
                "failed_upgrades",
                "Upgrades that were given up: rolled back, or left and not tried again (`onFailure`)",
            ),
            certificate: CertificateMetrics::new(r),
            admission: AdmissionMetrics::new(r),
            watches_failing: BoundedFamily::new(add(r, "watches_failing", "Watches that do not work at present")),
            watches: add(r, "watches", "Watches on the API server"),
            queue_depth: add(r, "queue_depth", "Releases that wait for a worker"),
            releases: ReleaseMetrics::new(r),
            chart: add_bytes(
                r,
                "chart",
                "About what the chart of a kind takes in memory once it was rendered",
            ),
            chart_crd_problems: add(
                r,
                "chart_crd_problems",
                "Problems with the CustomResourceDefinitions of a chart's crds/ folder, by the kind of its watch",
            ),
            rollout: RolloutMetrics::new(r),
            usage: USAGE.map(|(name, help)| add(r, name, help)),
            usage_failures: add(
                r,
                "usage_failures",
                "Attempts to see what releases request, or to write down what was counted, that failed",
            ),
            memory_limit: add_bytes(r, "memory_limit", "What the process may take; 0 without a limit"),
            panics: add(r, "panics", "Panics caught in reconciles and renders"),
            leftovers: add(
                r,
                "leftovers",
                "Members whose custom resource was not there when this process began to work",
            ),
            leader: add(r, "leader", "1 while this process leads"),
            registry,
        }
    }

    /// Starts to measure a reconcile of one CR of this group and kind.
    pub fn time_reconcile(&self, group: &str, kind: &str) -> ReconcileTimer<'_> {
        ReconcileTimer {
            metrics: self,
            labels: group_and_kind(group, kind),
            started: Instant::now(),
            result: None,
        }
    }

    /// Counts a write of an object of this kind.
    pub fn wrote(&self, kind: &str, operation: WriteOperation) {
        let [kind] = kind_alone(kind);
        let labels = [kind, ("operation", lower_case(operation))];
        self.writes.with(&labels, |count| _ = count.inc());
    }

    /// Counts a corrected member of this kind.
    pub fn corrected_drift(&self, kind: &str) {
        self.drift_corrected.with(&kind_alone(kind), |count| _ = count.inc());
    }

    /// Counts drift of a member of this kind that stays.
    pub fn detected_drift(&self, kind: &str) {
        self.drift_detected.with(&kind_alone(kind), |count| _ = count.inc());
    }

    /// Counts a watch of this kind that broke or was refused.
    pub fn watch_failed(&self, kind: &str) {
        self.watch_failures.with(&kind_alone(kind), |count| _ = count.inc());
    }

    /// Counts an object of this kind that can't be read.
    pub fn unreadable(&self, kind: &str) {
        self.unreadable_objects.with(&kind_alone(kind), |count| _ = count.inc());
    }

    /// Counts a write on a custom resource of this kind that is refused for what it is.
    pub fn refused(&self, kind: &str) {
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

    /// Counts a newer certificate for the metrics, or one that can't be used.
    pub fn certificate_reloaded(&self, succeeded: bool) {
        let result = if succeeded { "success" } else { "error" };
        self.certificate
            .reloads
            .get_or_create(&[("result", result.to_owned())])
            .inc();
    }

    /// Says when the certificate of the metrics expires, in seconds since 1970, and where it comes from.
    pub fn set_certificate_expiry(&self, source: &str, at: i64) {
        self.certificate
            .expiry
            .get_or_create(&[("source", source.to_owned())])
            .set(at);
        // From 0, so that `increase()` sees the first failure.
        let failures = [("result", "error".to_owned())];
        drop(self.certificate.reloads.get_or_create(&failures));
    }

    /// Says how many watches of this kind do not work.
    pub fn set_watches_failing(&self, kind: &str, count: usize) {
        let labels = kind_alone(kind);
        if count == 0 {
            self.watches_failing.remove(&labels);
        } else {
            self.watches_failing
                .with(&labels, |failing| _ = failing.set(saturated(count)));
        }
    }

    /// Says whether a release is ready, the reason of its condition `Ready`, and whether it is suspended.
    pub fn set_release_ready(&self, release: &ReleaseLabels, ready: bool, reason: &'static str, suspended: bool) {
        self.releases.ready.with(release, |gauge| _ = gauge.set(ready.into()));
        self.releases.info.set(release, reason, suspended);
    }

    /// Replaces the abnormal conditions of a release, each with its reason.
    pub fn set_release_conditions(&self, release: &ReleaseLabels, conditions: Vec<AbnormalCondition>) {
        self.releases.conditions.set(release, conditions);
    }

    /// Says how many releases of a kind wait for a worker.
    pub fn set_queue_depth(&self, group: &str, kind: &str, depth: usize) {
        let labels = group_and_kind(group, kind);
        self.queue_depth.get_or_create(&labels).set(saturated(depth));
    }

    /// Says about how many bytes the chart of a kind takes.
    pub fn set_chart_size(&self, group: &str, kind: &str, bytes: u64) {
        let labels = group_and_kind(group, kind);
        self.chart.get_or_create(&labels).set(saturated(bytes));
    }

    /// Says how many problems there are with the `crds/` folders of the charts of a kind.
    pub fn set_chart_crd_problems(&self, group: &str, kind: &str, count: usize) {
        let labels = group_and_kind(group, kind);
        self.chart_crd_problems.get_or_create(&labels).set(saturated(count));
    }

    /// Counts a reload of `watches.yaml` and the charts, accepted or refused.
    pub fn configuration_reloaded(&self, accepted: bool) {
        let result = if accepted { "accepted" } else { "refused" };
        self.rollout
            .reloads
            .get_or_create(&[("result", result.to_owned())])
            .inc();
        self.rollout.reload_refused.set(i64::from(!accepted));
    }

    /// Reports how far the rollout of a new chart is. `kind`: group and kind of the watch.
    pub fn set_rollout(&self, kind: &(Arc<str>, Arc<str>), counts: &RolloutCounts) {
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
            self.rollout.releases.get_or_create(&labels).set(saturated(count));
        }
        let labels = group_and_kind(&kind.0, &kind.1);
        self.rollout
            .stopped
            .get_or_create(&labels)
            .set(i64::from(counts.is_stopped));
    }

    /// Says what was counted for a kind since its counters were begun: core-seconds, and byte-seconds of memory and storage.
    pub fn set_usage(&self, group: &str, kind: &str, counted: [f64; 3]) {
        for (family, counted) in self.usage.iter().zip(counted) {
            let counter = family.get_or_create(&group_and_kind(group, kind));
            counter.inc_by((counted - counter.get()).max(0.0));
        }
    }

    /// Drops a release's series: its CR is gone.
    pub fn forget_release(&self, release: &ReleaseLabels) {
        self.releases.ready.remove(release);
        self.releases.info.remove(release);
        self.releases.conditions.remove(release);
        self.plan_runs.forget(release);
    }

    /// All of it in the OpenMetrics text format, whose media type is [`super::server::OPENMETRICS`].
    ///
    /// # Errors
    /// Never in practice: writing to a string doesn't fail.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl RolloutMetrics {
    fn new(registry: &mut Registry) -> Self {
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
}

impl CertificateMetrics {
    fn new(registry: &mut Registry) -> Self {
        CertificateMetrics {
            reloads: add(
                registry,
                "metrics_certificate_reloads",
                "Attempts to replace the certificate of the metrics by a newer one",
            ),
            expiry: timing(
                registry,
                "metrics_certificate_expiry_timestamp",
                "When the certificate of the metrics expires, in seconds since 1970",
                Family::default(),
            ),
        }
    }
}

impl ReleaseMetrics {
    fn new(registry: &mut Registry) -> Self {
        ReleaseMetrics {
            ready: BoundedFamily::new(add(
                registry,
                "release_ready",
                "1 if the release of this CR is Ready, 0 if it is not",
            )),
            info: ReleaseInfo::new(add(
                registry,
                "release_info",
                "1, with the reason of the condition Ready",
            )),
            conditions: ReleaseConditions::new(add(
                registry,
                "release_condition",
                "1 while the release has this condition",
            )),
        }
    }
}

/// A registry that knows of the build.
fn registry() -> Registry {
    let mut registry = Registry::with_prefix("chartwright");
    let build = [
        ("version", super::VERSION),
        ("commit", super::COMMIT.unwrap_or("unknown")),
    ];
    registry.register_collector(Box::new(ResidentMemory));
    registry.register("build", "Version and commit of this binary", Info::new(build));
    registry
}

/// The value of a gauge.
fn saturated(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// Registers a metric under its name and help text. Metrics are handles: the registry gets a clone.
fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The same for one that counts bytes.
fn add_bytes<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, Unit::Bytes, metric.clone());
    metric
}

/// The same for one that measures time.
fn timing<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
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
        self.metrics.reconcile.get_or_create(&labels).inc();
        self.metrics
            .reconcile_duration
            .get_or_create(&self.labels)
            .observe(self.started.elapsed().as_secs_f64());
    }
}

fn kind_alone(kind: &str) -> LabelPairs<1> {
    [("kind", value(kind).into_owned())]
}

fn group_and_kind(group: &str, kind: &str) -> LabelPairs<2> {
    [("group", group.to_owned()), ("kind", kind.to_owned())]
}

pub(super) fn lower_case(label: impl std::fmt::Debug) -> String {
    format!("{label:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(metrics: &Metrics, start: &str) -> Option<String> {
        metrics
            .encode()
            .unwrap()
            .lines()
            .find(|line| line.starts_with(start))
            .map(str::to_owned)
    }

    fn release(group: &str, kind: &str, name: &str) -> ReleaseLabels {
        ReleaseLabels {
            group: group.into(),
            kind: kind.into(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    /// Series of a metric, by the beginning of its name.
    fn series(metrics: &Metrics, start: &str) -> Vec<String> {
        let text = metrics.encode().unwrap();
        let lines = text.lines().filter(|line| line.starts_with(start));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    }

    #[test]
    fn plans_of_a_hostile_author_have_bounded_series_that_go_with_his_custom_resources() {
        let metrics = Metrics::new();
        let [hostile, sibling, late] = ["hostile", "sibling", "late"].map(|name| release("g", "K", name));
        let plans = || series(&metrics, "chartwright_plan_runs");
        let of =
            |plan: &str| format!(r#"chartwright_plan_runs_total{{group="g",kind="K",plan="{plan}",result="success"}}"#);
        metrics.plan_ended(&sibling, "backup", true);
        for number in 0..5000 {
            let long = "x".repeat(number);
            metrics.plan_ended(&hostile, &format!("plan-{number}-{long}"), number % 2 == 0);
            metrics.plan_ended(&hostile, "backup", true);
        }
        assert!(plans().len() <= 2 * series::MAX_PLANS + 4, "{}", plans().len());
        assert!(plans().iter().all(|series| series.len() < 400), "{:?}", plans());
        assert!(plans().contains(&of("other")));
        // Others still have theirs.
        metrics.plan_ended(&late, "restore", true);
        assert!(plans().contains(&of("restore")) && plans().contains(&of("backup")));
        metrics.forget_release(&hostile);
        let mut left = plans();
        left.sort();
        assert_eq!(left, [of("backup"), of("restore")]);
        metrics.forget_release(&sibling);
        metrics.forget_release(&late);
        metrics.forget_release(&late);
        assert_eq!(plans(), [""; 0]);

        // As many custom resources as they like.
        for number in 0..2000 {
            let release = release("g", "K", &number.to_string());
            metrics.plan_ended(&release, &format!("plan-{number}"), true);
            metrics.plan_ended(&release, &format!("plan-{number}"), false);
        }
        assert!(plans().len() <= series::MAX_SERIES + 2, "{}", plans().len());
        for number in 0..2000 {
            metrics.forget_release(&release("g", "K", &number.to_string()));
        }
        assert_eq!(plans(), [""; 0]);
    }

    #[test]
    fn every_family_by_kinds_or_releases_has_a_bound() {
        let metrics = Metrics::new();
        for number in 0..2 * series::MAX_SERIES {
            let kind = format!("Kind{number}");
            metrics.wrote(&kind, WriteOperation::Apply);
            metrics.corrected_drift(&kind);
            metrics.detected_drift(&kind);
            metrics.watch_failed(&kind);
            metrics.unreadable(&kind);
            metrics.set_watches_failing(&kind, 1);
        }
        let metered = [
            "writes",
            "drift_corrected",
            "drift_detected",
            "watch_failures",
            "unreadable_objects",
            "watches_failing",
        ];
        for name in metered {
            let series = series(&metrics, &format!("chartwright_{name}"));
            assert_eq!(series.len(), series::MAX_SERIES + 1, "{name}");
            assert!(series.iter().any(|series| series.contains(r#"kind="other""#)), "{name}");
        }
        for number in 0..series::MAX_RELEASES + 10 {
            metrics.set_release_ready(&release("g", "K", &number.to_string()), true, "Succeeded", false);
        }
        let ready = || series(&metrics, "chartwright_release_ready").len();
        assert_eq!(ready(), series::MAX_RELEASES);
        metrics.forget_release(&release("g", "K", "0"));
        metrics.set_release_ready(&release("g", "K", "late"), true, "Succeeded", false);
        assert_eq!(ready(), series::MAX_RELEASES);
    }

    #[test]
    fn long_values_differ_as_what_they_stand_for_does() {
        let [one, two] = ["1", "2"].map(|end| "ü".repeat(300) + end);
        let [one, two] = [value(&one), value(&two)];
        assert!(one != two && one.len() <= series::MAX_VALUE && two.len() <= series::MAX_VALUE);
        assert_eq!(value("backup"), "backup");
    }

    #[test]
    fn every_metric_has_its_published_name() {
        let metrics = Metrics::new();
        metrics
            .time_reconcile("cache.example.com", "Memcached")
            .finish(ReconcileResult::Success);
        metrics.render_duration.observe(0.003);
        metrics.wrote("Service", WriteOperation::Apply);
        metrics.pruned.inc_by(2);
        metrics.corrected_drift("ConfigMap");
        metrics.detected_drift("Secret");
        metrics.elected("example.com", "Shop");
        metrics.plan_ended(&release("example.com", "Shop", "a"), "backup", true);
        metrics.plan_ended(&release("example.com", "Shop", "a"), "backup", false);
        metrics.upgrade_failed("example.com", "Shop");
        metrics.certificate_reloaded(true);
        metrics.set_certificate_expiry("directory", 4_000_000_000);
        metrics.watch_failed("a\"b\nc");
        metrics.set_watches_failing("Secret", 2);
        metrics.set_watches_failing("ConfigMap", 1);
        metrics.set_watches_failing("ConfigMap", 0);
        metrics.watches.set(5);
        metrics.set_queue_depth("example.com", "Shop", 7);
        metrics.set_chart_size("example.com", "Shop", 9);
        metrics.set_usage("example.com", "Shop", [1.5, 2e9, 3.0]);
        metrics.set_usage("example.com", "Shop", [2.5, 4e9, 3.0]);
        metrics.usage_failures.inc();
        metrics.memory_limit.set(512);
        metrics.panics.inc();
        metrics.leader.set(1);
        let text = metrics.encode().unwrap();
        let expected = r#"chartwright_reconcile_total{group="cache.example.com",kind="Memcached",result="success"} 1
chartwright_reconcile_duration_seconds_count{group="cache.example.com",kind="Memcached"} 1
chartwright_render_duration_seconds_bucket{le="0.005"} 1
chartwright_writes_total{kind="Service",operation="apply"} 1
chartwright_pruned_total 2
chartwright_drift_corrected_total{kind="ConfigMap"} 1
chartwright_drift_detected_total{kind="Secret"} 1
chartwright_elections_total{group="example.com",kind="Shop"} 1
chartwright_plan_runs_total{group="example.com",kind="Shop",plan="backup",result="success"} 1
chartwright_plan_runs_total{group="example.com",kind="Shop",plan="backup",result="error"} 1
chartwright_failed_upgrades_total{group="example.com",kind="Shop"} 1
chartwright_metrics_certificate_reloads_total{result="success"} 1
chartwright_metrics_certificate_expiry_timestamp_seconds{source="directory"} 4000000000
chartwright_watch_failures_total{kind="a\"b\nc"} 1
chartwright_watches_failing{kind="Secret"} 2
chartwright_watches 5
chartwright_queue_depth{group="example.com",kind="Shop"} 7
chartwright_chart_bytes{group="example.com",kind="Shop"} 9
chartwright_usage_cpu_core_seconds_total{group="example.com",kind="Shop"} 2.5
chartwright_usage_memory_byte_seconds_total{group="example.com",kind="Shop"} 4000000000.0
chartwright_usage_storage_byte_seconds_total{group="example.com",kind="Shop"} 3.0
chartwright_usage_failures_total 1
chartwright_memory_limit_bytes 512
chartwright_panics_total 1
chartwright_leader 1"#;
        for series in expected.lines() {
            assert!(text.lines().any(|line| line == series), "{series}\n{text}");
        }
        assert!(!text.contains(r#"chartwright_watches_failing{kind="ConfigMap"}"#));
        assert!(text.contains(&format!(
            "chartwright_build_info{{version=\"{}\"",
            crate::telemetry::VERSION
        )));
        assert!(!text.contains("_total_total") && !text.contains("seconds_seconds"));
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_releases_series_goes_with_its_cr() {
        let metrics = Metrics::new();
        let release = |name: &str| release("g", "K", name);
        metrics.set_release_ready(&release("a"), true, "Succeeded", false);
        metrics.set_release_ready(&release("b"), true, "Succeeded", false);
        metrics.set_release_ready(&release("b"), false, "HookFailed", true);
        let series =
            |name: &str| format!(r#"chartwright_release_ready{{group="g",kind="K",namespace="ns",name="{name}"}} "#);
        assert!(line(&metrics, &series("a")).unwrap().ends_with(" 1"));
        assert!(line(&metrics, &series("b")).unwrap().ends_with(" 0"));
        metrics.forget_release(&release("a"));
        assert_eq!(line(&metrics, &series("a")), None);
        assert!(line(&metrics, &series("b")).is_some());
    }

    #[test]
    fn a_reconcile_that_never_finished_is_counted() {
        let metrics = Metrics::new();
        drop(metrics.time_reconcile("g", "K"));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _timer = metrics.time_reconcile("g", "K");
            std::panic::resume_unwind(Box::new("boom"));
        }));
        assert!(caught.is_err());
        for result in ["cancelled", "panic"] {
            let series = format!(r#"chartwright_reconcile_total{{group="g",kind="K",result="{result}"}} 1"#);
            assert_eq!(line(&metrics, &series).as_deref(), Some(series.as_str()));
        }
        assert!(
            line(
                &metrics,
                r#"chartwright_reconcile_duration_seconds_count{group="g",kind="K"} 2"#
            )
            .is_some()
        );
    }
}
