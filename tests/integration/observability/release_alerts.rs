//! Alerts on releases and on their configuration.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::prometheus::{Prometheus, is_left_out};
use crate::world::operator::{IMPATIENT, METERED};
use crate::world::{CRASHES, World, config_map};

/// A claim that no pod uses. It stays Pending, and is pruned only if a user allows it.
fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": "none"},
    })
}

/// The labels of an alert about a widget.
fn about<'a>(world: &'a World, name: &'a str) -> [(&'static str, &'a str); 3] {
    [("kind", "Widget"), ("namespace", world.name.as_str()), ("name", name)]
}

#[test]
fn alerts_fire_for_releases_that_are_not_ready_stalled_or_held() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let world = World::new("alert-releases")?.granted("", "persistentvolumeclaims")?;
    let operator = world.launch(&METERED)?;
    world.install("well", json!({}))?;
    let prometheus = Prometheus::start(&world, &operator, "http")?;
    for alert in ["ChartwrightDown", "ChartwrightNoLeader", "ChartwrightReleaseNotReady"] {
        prometheus.await_silent(alert)?;
    }

    world.apply_widget("pending", json!({"extraDeploy": [claim("data")]}))?;
    let summary = prometheus.await_firing("ChartwrightReleaseNotReady", &about(&world, "pending"))?;
    ensure!(
        summary == format!("Widget {}/pending is not ready", world.name),
        "{summary}"
    );

    let mut odd = config_map("odd", json!({}));
    odd["dta"] = json!({"a": "b"});
    world.apply_widget("odd", json!({"extraDeploy": [odd]}))?;
    let summary = prometheus.await_firing("ChartwrightReleaseStalled", &about(&world, "odd"))?;
    ensure!(summary.ends_with("is stalled: ObjectInvalid"), "{summary}");
    let unready = prometheus.firing("ChartwrightReleaseNotReady")?;
    ensure!(
        unready.iter().all(|alert| alert["labels"]["name"] != "odd"),
        "{unready:?}"
    );

    world.edit("pending", json!({"extraDeploy": []}))?;
    prometheus.await_firing("ChartwrightPruneHeld", &about(&world, "pending"))?;
    prometheus.await_silent("ChartwrightReleaseNotReady")?;
    world.patch(
        "persistentvolumeclaim",
        "data",
        &json!({"metadata": {"annotations": {"chartwright.dev/prune": "true"}}}),
    )?;
    world.remove_finalizers("persistentvolumeclaim", "data")?;
    prometheus.await_silent("ChartwrightPruneHeld")?;

    // A suspended release is not reported, and a deleted one is forgotten.
    world.apply_widget("paused", json!({"extraDeploy": [claim("other")]}))?;
    prometheus.await_firing("ChartwrightReleaseNotReady", &about(&world, "paused"))?;
    world.suspend("paused")?;
    prometheus.await_silent("ChartwrightReleaseNotReady")?;
    world.delete("odd")?;
    prometheus.await_silent("ChartwrightReleaseStalled")
}

#[test]
fn an_alert_fires_while_drift_is_contested() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let world = World::new("alert-drift")?;
    let operator = world.launch(&METERED)?;
    let prometheus = Prometheus::start(&world, &operator, "http")?;
    world.install("a", json!({}))?;
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        if world.expect("configmap", "a-main")?["data"]["color"] == "blue" {
            world.paint("a-main", "pink")?;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    prometheus.await_firing("ChartwrightDriftContested", &about(&world, "a"))?;
    prometheus.await_silent("ChartwrightDriftContested")
}

#[test]
fn an_alert_fires_after_a_failed_plan() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let world = World::staged("alert-plan", &[], &[])?;
    let operator = world.launch(&METERED)?;
    let prometheus = Prometheus::start(&world, &operator, "http")?;
    let step = json!({"name": "check", "at": "plan-check", "pod": {CRASHES: "true"}});
    world.install("a", json!({"hooks": [step]}))?;
    world.annotate("a", json!({"chartwright.dev/run-plan": "check@1"}))?;
    prometheus
        .await_firing("ChartwrightPlanFailed", &about(&world, "a"))
        .map(drop)
}

#[test]
fn an_alert_fires_for_leftovers() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let world = World::new("alert-leftovers")?.watch_key("ownerReferences: false");
    let operator = world.start()?;
    // The operator looks for leftovers among the kinds that it watches.
    world.install_all(&["here", "gone"], |_| json!({}))?;
    operator.kill()?;
    world.remove_finalizers(&world.widgets(), "gone")?;
    world.delete("gone")?;
    let operator = world.launch(&METERED)?;
    let prometheus = Prometheus::start(&world, &operator, "http")?;
    let labels = [("namespace", "chartwright-system")];
    let summary = prometheus.await_firing("ChartwrightLeftovers", &labels)?;
    ensure!(
        summary.ends_with("objects belong to custom resources that do not exist"),
        "{summary}"
    );
    Ok(())
}

#[test]
fn alerts_fire_for_a_stopped_rollout_and_a_refused_reload() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let world = World::new("alert-rollout")?.watch_key("rollout: {maxInFlight: 1, maxFailed: 1}");
    world.write_watches()?;
    let operator = world.launch(&METERED)?;
    let prometheus = Prometheus::start(&world, &operator, "http")?;
    world.install_all(&["a", "b"], |_| json!({}))?;
    prometheus.await_silent("ChartwrightReloadRefused")?;
    let template = |data: &str| {
        let name = "{{ .Release.Name }}-main";
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{color: {data}}}\n")
    };
    world.write_template("configmap.yaml", &(template("red") + "{{ fail \"not today\" }}"))?;
    prometheus.await_firing("ChartwrightRolloutStopped", &[("kind", "Widget")])?;

    world.write_template("configmap.yaml", "{{ if }}")?;
    prometheus.await_firing("ChartwrightReloadRefused", &[])?;
    world.write_template("configmap.yaml", &template("green"))?;
    for alert in ["ChartwrightReloadRefused", "ChartwrightRolloutStopped"] {
        prometheus.await_silent(alert)?;
    }
    Ok(())
}

#[test]
fn an_alert_fires_while_a_watch_is_forbidden() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let world = World::new("alert-watches")?;
    let blind = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch", "delete"]});
    world.grant("blind", &[blind])?;
    let operator = world.launch(&IMPATIENT.metered())?;
    let prometheus = Prometheus::start(&world, &operator, "http")?;
    world.apply_widget("a", json!({"secret": {"enabled": true, "password": "x"}}))?;
    prometheus.await_firing("ChartwrightWatchesFailing", &[("kind", "Secret")])?;
    world.grant("seeing", &[crate::world::member_rule("", "secrets")])?;
    prometheus.await_silent("ChartwrightWatchesFailing")
}
