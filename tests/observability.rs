//! Alerts and dashboards of `config/observability`, as far as they can be tested without a cluster. `promtool` tests the alerts;
//! `PROMETHEUS=off` leaves it out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test may fail loudly"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use chartwright_core::rollout::RolloutCounts;
use chartwright_core::status::AbnormalCondition;
use chartwright_operator::telemetry::metrics::{
    AdmissionResult, Metrics, ReconcileResult, ReleaseLabels, WriteOperation,
};
use regex::Regex;
use serde_yaml::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const RULES: &str = "config/observability/rules.yaml";
const DASHBOARDS: [&str; 2] = [
    "config/observability/dashboards/operator.json",
    "config/observability/dashboards/releases.json",
];

/// Labels that Prometheus adds to each series of a target.
const OF_TARGET: [&str; 4] = ["job", "instance", "namespace", "pod"];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).expect(path)
}

fn yaml(path: &str) -> Value {
    serde_yaml::from_str(&read(path)).expect(path)
}

fn list(value: &Value) -> &[Value] {
    value.as_sequence().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn rules() -> Vec<Value> {
    let groups = yaml(RULES)["spec"]["groups"].clone();
    let rules = list(&groups).iter().flat_map(|group| list(&group["rules"]));
    rules.cloned().collect()
}

/// A registry in which every metric has a series.
fn registry() -> Metrics {
    let metrics = Metrics::new();
    let (group, kind) = ("g", "K");
    let release = ReleaseLabels {
        group: group.into(),
        kind: kind.into(),
        namespace: "ns".to_owned(),
        name: "a".to_owned(),
    };
    metrics
        .reconciles
        .start_timer(group, kind)
        .finish(ReconcileResult::Success);
    metrics.objects.wrote(kind, WriteOperation::Apply);
    metrics.objects.corrected_drift(kind);
    metrics.objects.detected_drift(kind);
    metrics.watch_errors.count_failure(kind);
    metrics.watches.set_failing(kind, 1);
    metrics.watch_errors.count_unreadable(kind);
    metrics.release_counters.refused_write(kind);
    metrics.release_counters.elected(group, kind);
    metrics.release_counters.plan_ended(&release, "backup", true);
    metrics.release_counters.upgrade_failed(group, kind);
    metrics.certificate.set_expiry("directory", 1);
    let admission = &metrics.admission;
    admission.reviewed(group, kind, AdmissionResult::Allowed, Duration::ZERO);
    admission.registered(true);
    admission.set_certificate_expiry(1);
    metrics.releases.set_ready(&release, true, "Succeeded", false);
    let held = AbnormalCondition {
        name: "PruneHeld",
        reason: "Protected",
    };
    metrics.releases.set_conditions(&release, vec![held]);
    metrics.releases.set_queue_depth(group, kind, 1);
    metrics.charts.set_size(group, kind, 1);
    metrics.charts.set_crd_problems(group, kind, 1);
    metrics.rollout.count_reload(true);
    metrics
        .rollout
        .set_progress(&(group.into(), kind.into()), &RolloutCounts::default());
    metrics.usage.set_totals(group, kind, [1.0; 3]);
    metrics
}

/// The labels of each metric of the registry.
fn known() -> BTreeMap<String, BTreeSet<String>> {
    let label = Regex::new(r#"(\w+)="(?:[^"\\]|\\.)*""#).expect("a pattern");
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in registry().encode().expect("text").lines() {
        if let Some(name) = line.split(['{', ' ']).next().filter(|name| *name != "#") {
            let labels = label.captures_iter(line).map(|found| found[1].to_owned());
            known.entry(name.to_owned()).or_default().extend(labels);
        }
    }
    known
}

/// A query's metrics, each with the labels that its braces name, and the labels of `by`, `on` and `without`.
fn names(query: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let strings = Regex::new(r#""(?:[^"\\]|\\.)*""#).expect("a pattern");
    let bare = strings.replace_all(query, "\"\"").into_owned();
    let metric = Regex::new(r"\b((?:chartwright_\w+)|up)\b(?:\{([^}]*)\})?").expect("a pattern");
    let label = Regex::new(r"(\w+)\s*(?:=~|!~|!=|=)").expect("a pattern");
    let grouped = Regex::new(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)").expect("a pattern");
    let metrics = metric.captures_iter(&bare).map(|found| {
        let matchers = found.get(2).map_or("", |braces| braces.as_str());
        let labels = label.captures_iter(matchers).map(|found| found[1].to_owned());
        (found[1].to_owned(), labels.collect())
    });
    let labels = grouped.captures_iter(&bare).flat_map(|found| {
        found[1]
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect::<Vec<_>>()
    });
    (metrics.collect(), labels.collect())
}

/// What is wrong with a query: names that are not in the registry.
fn unknown_names(query: &str, known: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let (metrics, grouped) = names(query);
    let mut wrong = Vec::new();
    if metrics.is_empty() {
        wrong.push(format!("no metric in {query}"));
    }
    let mut all: BTreeSet<&str> = OF_TARGET.into_iter().collect();
    for (metric, labels) in &metrics {
        let Some(own) = known.get(metric) else {
            if metric != "up" {
                wrong.push(format!("{metric} in {query}"));
            }
            continue;
        };
        all.extend(own.iter().map(String::as_str));
        let missing = labels
            .iter()
            .filter(|label| !own.contains(*label) && !OF_TARGET.contains(&label.as_str()));
        wrong.extend(missing.map(|label| format!("{metric}{{{label}}} in {query}")));
    }
    let missing = grouped.iter().filter(|label| !all.contains(label.as_str()));
    wrong.extend(missing.map(|label| format!("by or on {label} in {query}")));
    wrong
}

/// The queries of a dashboard: of its panels, then of its variables.
fn queries(path: &str) -> (Vec<String>, Vec<String>) {
    let dashboard = yaml(path);
    let of_panels = list(&dashboard["panels"])
        .iter()
        .flat_map(|panel| list(&panel["targets"]))
        .map(|target| text(&target["expr"]).to_owned());
    let variables = list(&dashboard["templating"]["list"]).iter();
    let of_variables = variables.filter_map(|variable| variable["query"]["query"].as_str().map(str::to_owned));
    (of_panels.collect(), of_variables.collect())
}

#[test]
fn a_name_that_is_not_in_the_registry_is_found() {
    let known = known();
    for (query, is_good) in [
        (
            r#"sum by (kind) (rate(chartwright_writes_total{operation="apply"}[5m]))"#,
            true,
        ),
        (r#"chartwright_leader{namespace=~"a|b", pod="c"} == 0"#, true),
        ("chartwright_writes", false),
        (r#"chartwright_writes_total{verb="apply"}"#, false),
        ("sum by (plan) (chartwright_writes_total)", false),
        ("1 + 1", false),
    ] {
        assert_eq!(unknown_names(query, &known).is_empty(), is_good, "{query}");
    }
}

#[test]
fn each_query_names_metrics_and_labels_that_exist() {
    let known = known();
    let mut all: Vec<String> = rules().iter().map(|rule| text(&rule["expr"]).to_owned()).collect();
    assert!(all.len() >= 14);
    let source = Regex::new(r"^label_values\((.*), (namespace|kind)\)$").expect("a pattern");
    for path in DASHBOARDS {
        let (of_panels, of_variables) = queries(path);
        assert!(of_panels.len() > 15 && of_variables.len() == 2, "{path}");
        all.extend(of_panels);
        for variable in of_variables {
            let found = source.captures(&variable).expect(&variable);
            all.push(format!("sum by ({}) ({})", &found[2], &found[1]));
        }
    }
    let wrong: Vec<String> = all.iter().flat_map(|query| unknown_names(query, &known)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Alerts use labels in their texts, too.
    let used = Regex::new(r"\$labels\.(\w+)").expect("a pattern");
    let labels: BTreeSet<&str> = known.values().flatten().map(String::as_str).chain(OF_TARGET).collect();
    for rule in rules() {
        let annotations = serde_yaml::to_string(&rule["annotations"]).expect("YAML");
        for found in used.captures_iter(&annotations) {
            assert!(labels.contains(&found[1]), "{annotations}");
        }
    }
}

#[test]
fn the_page_of_metrics_lists_the_registry() {
    let page = read("docs/reference/metrics.md");
    let row = Regex::new(r"(?m)^\| `(chartwright_\w+)` \|([^|]*)\|").expect("a pattern");
    let label = Regex::new(r"`(\w+)`").expect("a pattern");
    let documented: BTreeMap<String, BTreeSet<String>> = row
        .captures_iter(&page)
        .map(|found| {
            let labels = label.captures_iter(&found[2]).map(|label| label[1].to_owned());
            (found[1].to_owned(), labels.collect())
        })
        .collect();
    let mut registered = BTreeMap::new();
    for (name, mut labels) in known() {
        let base = ["_bucket", "_count", "_sum"].iter().find_map(|part| {
            name.strip_suffix(part)
                .filter(|base| base.ends_with("_duration_seconds"))
        });
        labels.remove("le");
        registered.insert(base.unwrap_or(&name).to_owned(), labels);
    }
    assert_eq!(documented, registered);
}

#[test]
fn each_alert_links_to_a_runbook_that_exists() {
    const SITE: &str = "https://runbooks.example.com/";
    for rule in rules() {
        let alert = text(&rule["alert"]);
        let link = text(&rule["annotations"]["runbook_url"]);
        let (page, anchor) = link.strip_prefix(SITE).expect(link).split_once(".html#").expect(link);
        assert_eq!(anchor, alert.to_lowercase(), "{link}");
        let page = read(&format!("docs/{page}.md"));
        let heading = |line: &str| line.trim_start_matches('#') == format!(" {alert}") && line.starts_with('#');
        assert!(page.lines().any(heading), "{link}: no heading {alert}");
        for key in ["summary", "description"] {
            assert!(!text(&rule["annotations"][key]).is_empty(), "{alert}: {key}");
        }
        assert!(
            ["critical", "warning", "info"].contains(&text(&rule["labels"]["severity"])),
            "{alert}"
        );
    }
}

#[test]
fn each_alert_fires_in_a_test_with_a_real_operator() {
    let folder = "tests/integration/observability";
    let tests = read(&format!("{folder}/release_alerts.rs")) + &read(&format!("{folder}/operator_alerts.rs"));
    for rule in rules() {
        let fires = format!("await_firing(\"{}\"", text(&rule["alert"]));
        assert!(tests.contains(&fires), "{fires}");
    }
}

#[test]
fn the_alert_of_an_operator_that_is_down_names_the_metrics_service() {
    let prefix = yaml("config/default/kustomization.yaml")["namePrefix"].clone();
    let service = yaml("config/default/metrics_service.yaml")["metadata"]["name"].clone();
    let down = rules()
        .into_iter()
        .find(|rule| rule["alert"] == "ChartwrightDown")
        .expect("the alert");
    let job = format!("job=\"{}{}\"", text(&prefix), text(&service));
    assert!(text(&down["expr"]).contains(&job), "{job}");
}

/// Otherwise, Prometheus renames the label `namespace` of releases, and no alert nor dashboard finds it.
#[test]
fn prometheus_keeps_the_namespace_of_a_release() {
    let monitor = yaml("config/prometheus/monitor.yaml");
    assert_eq!(monitor["spec"]["endpoints"][0]["honorLabels"], true);
}

#[test]
fn dashboards_have_the_variables_and_the_label_that_grafana_needs() {
    let kustomization = yaml("config/observability/kustomization.yaml");
    for path in DASHBOARDS {
        let dashboard: serde_json::Value = serde_json::from_str(&read(path)).expect(path);
        let variables = dashboard["templating"]["list"].as_array().expect(path);
        let variables: Vec<_> = variables.iter().map(|variable| variable["name"].clone()).collect();
        assert_eq!(variables, ["datasource", "namespace", "kind"], "{path}");
        for panel in dashboard["panels"].as_array().expect(path) {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{path}: {panel}");
        }
        let file = path.trim_start_matches("config/observability/");
        let map = list(&kustomization["configMapGenerator"])
            .iter()
            .find(|map| text(&map["files"][0]).ends_with(file))
            .expect(path);
        assert_eq!(map["options"]["labels"]["grafana_dashboard"], "1", "{path}");
    }
}

/// The schema of a field, where `[type=X]` selects an item of a list.
fn field<'s>(schema: &'s Value, path: &[Value]) -> &'s Value {
    path.iter().fold(schema, |schema, step| match text(step) {
        selector if selector.starts_with('[') => &schema["items"],
        name => &schema["properties"][name],
    })
}

#[test]
fn the_config_of_kube_state_metrics_names_fields_of_the_crd() {
    let config = yaml("config/observability/custom-resource-state.yaml");
    let crd = yaml("config/crd/bases/cache.example.com_memcacheds.yaml");
    assert_eq!(config["kind"], "CustomResourceStateMetrics");
    let resource = &config["spec"]["resources"][0];
    let about = &resource["groupVersionKind"];
    let version = list(&crd["spec"]["versions"])
        .iter()
        .find(|version| version["name"] == about["version"])
        .expect("the version");
    assert_eq!(
        (&about["group"], &about["kind"]),
        (&crd["spec"]["group"], &crd["spec"]["names"]["kind"])
    );
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut labels = BTreeSet::new();
    for metric in list(&resource["metrics"]) {
        let each = &metric["each"];
        let how = &each[text(&each["type"]).to_lowercase().as_str()];
        let base = field(schema, list(&how["path"]));
        let item = if base["type"] == "array" { &base["items"] } else { base };
        assert!(!item.is_null(), "{metric:?}");
        let from = how["valueFrom"].as_sequence().map(Vec::as_slice);
        assert!(!field(item, from.unwrap_or_default()).is_null(), "{metric:?}");
        for (label, path) in how["labelsFromPath"].as_mapping().into_iter().flatten() {
            labels.insert(text(label).to_owned());
            assert!(!field(item, list(path)).is_null(), "{label:?}: {path:?}");
        }
    }
    for label in ["ready", "reason", "revision", "chart_version"] {
        assert!(labels.contains(label), "{label}");
    }
}

/// Runs promtool in a folder. False if `PROMETHEUS=off` leaves it out.
fn promtool(folder: &Path, arguments: &[&str]) -> bool {
    if std::env::var("PROMETHEUS").is_ok_and(|value| value == "off") {
        eprintln!("promtool: left out (PROMETHEUS=off)");
        return false;
    }
    let run = Command::new("promtool").args(arguments).current_dir(folder).output();
    let output = run.unwrap_or_else(|error| {
        panic!(
            "promtool: {error}; install your system's package prometheus, or set PROMETHEUS=off to leave this test out"
        )
    });
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {printed}");
    true
}

#[test]
fn promtool_accepts_the_rules_and_their_unit_tests() {
    let folder = tempfile::tempdir().expect("a folder");
    let groups = serde_yaml::to_string(&yaml(RULES)["spec"]).expect("YAML");
    fs::write(folder.path().join("rules.yaml"), groups).expect("rules");
    let tests = read("config/observability/tests/alerts.yaml");
    fs::write(folder.path().join("alerts.yaml"), &tests).expect("tests");
    // Each alert fires in a test.
    for rule in rules() {
        let alert = text(&rule["alert"]);
        let fires = format!("alertname: {alert}\n        exp_alerts:\n");
        assert!(tests.contains(&fires), "no unit test in which {alert} fires");
    }
    if promtool(folder.path(), &["check", "rules", "rules.yaml"]) {
        promtool(folder.path(), &["test", "rules", "alerts.yaml"]);
    }
}

#[test]
fn promtool_parses_the_queries_of_dashboards() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in DASHBOARDS {
        let queries = queries(path).0.into_iter().enumerate().map(|(number, query)| {
            let expr = query.replace("$__rate_interval", "5m");
            serde_json::json!({"record": format!("query:{number}"), "expr": expr})
        });
        let rules = serde_json::json!({"groups": [{"name": "g", "rules": queries.collect::<Vec<_>>()}]});
        fs::write(folder.path().join("rules.yaml"), rules.to_string()).expect("rules");
        promtool(folder.path(), &["check", "rules", "rules.yaml"]);
    }
}
