//! `watches.yaml` at the start, and the project's own `config/`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::security::metrics_access::{reader_of_metrics, scrape_insecurely};
use crate::security::operator_rights::unused;
use crate::support::{ControlPlane, eventually, until};
use crate::world::fields::{condition, ensure_contains, inventory, is_ready, text};
use crate::world::operator::{Launch, Operator};
use crate::world::{SOON, World, widget_chart};

/// Runs the operator on a watches file that it can't accept; gives what it said.
fn refusal(text: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("watches.yaml");
    fs::write(&file, text)?;
    let output = Command::new(env!("CARGO_BIN_EXE_chartwright"))
        .args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .arg(format!("--watches-file={}", file.display()))
        .env("KUBECONFIG", "/nonexistent")
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1), "{:?}: {errors}", output.status);
    Ok(errors.replace(&file.display().to_string(), "watches.yaml"))
}

#[test]
fn all_errors_in_watches_yaml_are_reported_together_with_their_lines() -> Result<()> {
    let chart = widget_chart().display().to_string();
    let wrong =
        |kind: &str, key: &str| format!("- group: a.test\n  version: v1\n  kind: {kind}\n  chart: {chart}\n{key}");
    let watches = wrong("Widget", "  reconcilPeriod: 1m\n") + &wrong("Gadget", "");
    let watches = watches + &wrong("Gizmo", "  maxConcurrentReconciles: many\n");
    let errors = refusal(&(watches + &wrong("Widget", "  releaseName: x\n")))?;
    let misspelt = "watches.yaml:5:3: unknown key `reconcilPeriod`: did you mean `reconcilePeriod`?";
    let fixed = "watches.yaml:19:16: `releaseName` must be a template";
    ensure_contains(&errors, &[misspelt, "watches.yaml:14:", "whole number", fixed])?;
    let watch = |version: &str| format!("- {{group: a.test, version: {version}, kind: Widget, chart: {chart}}}\n");
    let twice = refusal(&(watch("v1") + &watch("v2")))?;
    ensure_contains(&twice, &["watches.yaml:2:", "selector"])?;
    ensure_contains(&refusal("- group: [\n")?, &["watches.yaml:"])
}

/// `kubectl apply -k config/default`, and then the operator with nothing but the rights that this gave its account.
#[test]
fn the_projects_own_manifests_are_accepted_and_are_enough() -> Result<()> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let control_plane = ControlPlane::shared();
    let kubectl = control_plane.kubectl();
    let default = project.join("config/default");
    kubectl.run(["apply", "--server-side", "-k", &default.display().to_string()])?;
    kubectl.wait("Established", "crd", "memcacheds.cache.example.com", SOON)?;
    let deployments = kubectl.in_namespace("chartwright-system").list("deployments", "")?;
    ensure!(deployments.len() == 1, "{deployments:?}");
    let pod = &deployments[0]["spec"]["template"]["spec"];
    let arguments: Vec<String> = serde_json::from_value(pod["containers"][0]["args"].clone())?;
    // As the Deployment starts it, but for the addresses, which other processes may have taken here.
    let local = |argument: &String| argument != "run" && !argument.contains("bind-address");
    let arguments: Vec<String> = arguments.into_iter().filter(local).collect();
    let account = pod["serviceAccountName"].as_str().unwrap_or("?");
    let user = format!("system:serviceaccount:chartwright-system:{account}");
    let kubeconfig = control_plane.kubeconfig_for(&user, &[])?;
    let scratch = tempfile::tempdir()?;
    let launch = Launch::with(&[("POD_NAMESPACE", "chartwright-system")]).metered();
    let operator = Operator::start(control_plane, scratch.path(), &kubeconfig, &user, &arguments, &launch)?;

    let world = kubectl.create_namespace("watches-config")?;
    let samples = project.join("config/samples");
    world.run(["apply", "--server-side", "-k", &samples.display().to_string()])?;
    let kinds = "memcacheds.cache.example.com,etcdclusters.etcd.example.com,flighttickets.flights.com,sampledbs.sample.example.com";
    let ready = || {
        eventually("the samples are ready", SOON, || {
            let samples = world.list(kinds, "")?;
            ensure!(
                samples.len() == 4 && samples.iter().all(is_ready),
                "{samples:?}\n{}",
                operator.log()
            );
            Ok(Some(samples))
        })
    };
    let samples = ready()?;
    let sample = samples.iter().find(|sample| sample["kind"] == "Memcached");
    let members = inventory(sample.context("a Memcached")?);
    for kind in ["Service", "PodDisruptionBudget"] {
        ensure!(members.iter().any(|member| member.starts_with(kind)), "{members:?}");
    }
    let name = "memcached-sample";
    world.patch("memcacheds.cache.example.com", name, &json!({"spec": {"size": 2}}))?;
    ready()?;
    let pods = format!("app.kubernetes.io/instance={name}");
    until("two pods run", SOON, || Ok(world.list("pods", &pods)?.len() == 2))?;
    for sample in samples {
        let (kind, group) = (text(&sample["kind"]).to_lowercase(), text(&sample["apiVersion"]));
        // In full: other tests have kinds of the same names.
        let kind = format!("{kind}s.{}", group.split('/').next().unwrap_or_default());
        world.delete(&kind, text(&sample["metadata"]["name"]))?;
    }
    let kinds = "statefulsets,deployments,services,poddisruptionbudgets,jobs,pods";
    eventually("all is gone", SOON, || {
        let left = world.list(kinds, "")?;
        ensure!(left.is_empty(), "{left:?}\n{}", operator.log());
        Ok(Some(()))
    })?;
    let token = reader_of_metrics(&world, "chartwright-metrics-reader")?;
    let answer = scrape_insecurely(operator.metrics_port()?, Some(&token))?;
    ensure_contains(&answer, &["HTTP/1.1 200", "chartwright_leader 1"])?;
    ensure_contains(&scrape_insecurely(operator.metrics_port()?, None)?, &["HTTP/1.1 401"])?;
    every_right_of_the_charts_is_used(&user)?;
    ensure!(!operator.log().contains("forbidden"), "{}", operator.log());
    ensure!(operator.terminate()?.success());
    Ok(())
}

/// No rule of the charts' role has a verb that the operator doesn't use.
fn every_right_of_the_charts_is_used(user: &str) -> Result<()> {
    const ROLE: &str = "config/rbac/charts_role.yaml";
    let role: Value = serde_yaml::from_str(&fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(ROLE))?)?;
    let requests = ControlPlane::shared().audit().requests()?.by_user(user);
    let mut left = unused(ROLE, role["rules"].as_array().context("rules")?, &requests);
    // Only where a Prometheus operator is, for a Job that failed, and where a restore replaces a claim.
    let elsewhere = ["\"monitoring.coreos.com\"", "pods/log", "delete persistentvolumeclaims"];
    left.retain(|right| !elsewhere.iter().any(|what| right.contains(what)));
    ensure!(left.is_empty(), "{left:#?}");
    Ok(())
}

#[test]
fn a_built_in_kind_is_a_release_only_with_a_selector() -> Result<()> {
    let chart = widget_chart().display().to_string();
    let every = format!("- {{group: apps, version: v1, kind: Deployment, chart: {chart}}}\n");
    let own = "watches.yaml:1:36: Deployment is one of Kubernetes' own kinds";
    ensure_contains(&refusal(&every)?, &[own, "selector"])?;

    let world = World::new("watches-own")?.granted("", "secrets")?;
    let labels = json!({"example.com/chart": "widget"});
    let watch = json!([{
        "group": "apps", "version": "v1", "kind": "Deployment", "chart": world.chart(), "selector": {"matchLabels": labels},
    }]);
    fs::write(world.watches_file(), watch.to_string())?;
    let deployment = |name: &str, labels: &serde_json::Value| {
        let pod =
            json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "app", "image": "example/app:1"}]});
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": pod});
        let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels}, "spec": spec})
    };
    world.apply(&deployment("a", &labels))?;
    world.apply(&deployment("b", &json!({})))?;
    let start = world.mark()?;
    let operator = world.start()?;
    operator.await_log("waits for it when it is deleted")?;
    world.await_there("configmap", "a-main")?;
    world.await_field("deployment", "a", "/status/readyReplicas", 1)?;
    world.await_quiet(&operator)?;
    let made = world.expect("deployment", "a")?;
    let ready = condition(&made, "Ready");
    ensure!(ready.is_null() && made["status"]["inventory"].is_null(), "{made}");
    let requests = world.requests(&operator, start)?;
    requests.filter(|request| request.subresource == "status").none()?;
    world.absent("configmap", ["b-main"])?;
    ensure!(world.expect("deployment", "b")?["metadata"]["finalizers"].is_null());
    world.kubectl.delete("deployment", "a")?;
    world.absent("configmap", ["a-main"])
}
