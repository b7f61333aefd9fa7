//! Typed metrics, and their text for Prometheus.

mod admission;
mod certificate;
mod charts;
mod labels;
mod memory;
mod objects;
mod process;
mod reconciles;
mod registration;
mod release_series;
mod releases;
mod series;
mod usage;
mod watches;

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use self::admission::AdmissionMetrics;
pub use self::admission::AdmissionResult;
use self::certificate::CertificateMetrics;
use self::charts::{ChartMetrics, RolloutMetrics};
pub use self::labels::ReleaseLabels;
pub(super) use self::labels::lower_case;
use self::memory::ResidentMemory;
use self::objects::ObjectMetrics;
pub use self::objects::WriteOperation;
use self::process::ProcessMetrics;
use self::reconciles::ReconcileMetrics;
pub use self::reconciles::{ReconcileResult, ReconcileTimer};
use self::releases::{ReleaseCounters, ReleaseMetrics};
use self::usage::UsageMetrics;
use self::watches::{WatchErrors, WatchGauges};

/// Every metric of the process. One is made at the start and shared as `Arc<Metrics>`.
///
/// Counters are named without `_total` in here: the text format adds it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// How many reconciles there were, and how long they took.
    pub reconciles: ReconcileMetrics,
    /// Writes, prunes, and drift of members.
    pub objects: ObjectMetrics,
    /// What went wrong with watches so far.
    pub watch_errors: WatchErrors,
    /// What happened to releases so far.
    pub release_counters: ReleaseCounters,
    /// About the certificate of the metrics' own server.
    pub certificate: CertificateMetrics,
    /// About the admission webhook.
    pub admission: AdmissionMetrics,
    /// How the watches are at present.
    pub watches: WatchGauges,
    /// The state of each release, and how many wait.
    pub releases: ReleaseMetrics,
    /// About the chart of each kind.
    pub charts: ChartMetrics,
    /// About changes of `watches.yaml` and charts.
    pub rollout: RolloutMetrics,
    /// What releases request over time.
    pub usage: UsageMetrics,
    /// The limits, defects and role of this process.
    pub process: ProcessMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A fresh set, all zero. The text lists the metrics in the order of these fields.
    pub fn new() -> Self {
        let mut registry = registry();
        let r = &mut registry;
        Self {
            reconciles: ReconcileMetrics::new(r),
            objects: ObjectMetrics::new(r),
            watch_errors: WatchErrors::new(r),
            release_counters: ReleaseCounters::new(r),
            certificate: CertificateMetrics::new(r),
            admission: AdmissionMetrics::new(r),
            watches: WatchGauges::new(r),
            releases: ReleaseMetrics::new(r),
            charts: ChartMetrics::new(r),
            rollout: RolloutMetrics::new(r),
            usage: UsageMetrics::new(r),
            process: ProcessMetrics::new(r),
            registry,
        }
    }

    /// Drops a release's series: its CR is gone.
    pub fn forget_release(&self, release: &ReleaseLabels) {
        self.releases.forget(release);
        self.release_counters.forget(release);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::labels::value;

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
        metrics.release_counters.plan_ended(&sibling, "backup", true);
        for number in 0..5000 {
            let long = "x".repeat(number);
            metrics
                .release_counters
                .plan_ended(&hostile, &format!("plan-{number}-{long}"), number % 2 == 0);
            metrics.release_counters.plan_ended(&hostile, "backup", true);
        }
        assert!(plans().len() <= 2 * series::MAX_PLANS + 4, "{}", plans().len());
        assert!(plans().iter().all(|series| series.len() < 400), "{:?}", plans());
        assert!(plans().contains(&of("other")));
        // Others still have theirs.
        metrics.release_counters.plan_ended(&late, "restore", true);
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
            metrics
                .release_counters
                .plan_ended(&release, &format!("plan-{number}"), true);
            metrics
                .release_counters
                .plan_ended(&release, &format!("plan-{number}"), false);
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
            metrics.objects.wrote(&kind, WriteOperation::Apply);
            metrics.objects.corrected_drift(&kind);
            metrics.objects.detected_drift(&kind);
            metrics.watch_errors.count_failure(&kind);
            metrics.watch_errors.count_unreadable(&kind);
            metrics.watches.set_failing(&kind, 1);
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
            metrics
                .releases
                .set_ready(&release("g", "K", &number.to_string()), true, "Succeeded", false);
        }
        let ready = || series(&metrics, "chartwright_release_ready").len();
        assert_eq!(ready(), series::MAX_RELEASES);
        metrics.forget_release(&release("g", "K", "0"));
        metrics
            .releases
            .set_ready(&release("g", "K", "late"), true, "Succeeded", false);
        assert_eq!(ready(), series::MAX_RELEASES);
    }

    #[test]
    fn long_values_differ_as_what_they_stand_for_does() {
        let [one, two] = ["1", "2"].map(|end| "ü".repeat(300) + end);
        let [one, two] = [value(&one), value(&two)];
        assert!(one != two && one.len() <= labels::MAX_VALUE && two.len() <= labels::MAX_VALUE);
        assert_eq!(value("backup"), "backup");
    }

    #[test]
    fn every_metric_has_its_published_name() {
        let metrics = Metrics::new();
        metrics
            .reconciles
            .start_timer("cache.example.com", "Memcached")
            .finish(ReconcileResult::Success);
        metrics.reconciles.render_duration.observe(0.003);
        metrics.objects.wrote("Service", WriteOperation::Apply);
        metrics.objects.pruned.inc_by(2);
        metrics.objects.corrected_drift("ConfigMap");
        metrics.objects.detected_drift("Secret");
        metrics.release_counters.elected("example.com", "Shop");
        metrics
            .release_counters
            .plan_ended(&release("example.com", "Shop", "a"), "backup", true);
        metrics
            .release_counters
            .plan_ended(&release("example.com", "Shop", "a"), "backup", false);
        metrics.release_counters.upgrade_failed("example.com", "Shop");
        metrics.certificate.count_reload(true);
        metrics.certificate.set_expiry("directory", 4_000_000_000);
        metrics.watch_errors.count_failure("a\"b\nc");
        metrics.watches.set_failing("Secret", 2);
        metrics.watches.set_failing("ConfigMap", 1);
        metrics.watches.set_failing("ConfigMap", 0);
        metrics.watches.open.set(5);
        metrics.releases.set_queue_depth("example.com", "Shop", 7);
        metrics.charts.set_size("example.com", "Shop", 9);
        metrics.usage.set_totals("example.com", "Shop", [1.5, 2e9, 3.0]);
        metrics.usage.set_totals("example.com", "Shop", [2.5, 4e9, 3.0]);
        metrics.usage.failures.inc();
        metrics.process.memory_limit.set(512);
        metrics.process.panics.inc();
        metrics.process.leader.set(1);
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
        metrics.releases.set_ready(&release("a"), true, "Succeeded", false);
        metrics.releases.set_ready(&release("b"), true, "Succeeded", false);
        metrics.releases.set_ready(&release("b"), false, "HookFailed", true);
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
        drop(metrics.reconciles.start_timer("g", "K"));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _timer = metrics.reconciles.start_timer("g", "K");
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
