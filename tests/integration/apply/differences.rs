//! `drift` and `ignoreDifferences`: changes by other clients that stay.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::fields::{annotation, condition, ensure_contains, label, text, uid};
use crate::world::operator::{METERED, Operator};
use crate::world::{IMAGE, SOON, World, config_map, member_rule};
use chartwright_core::identity::applyset::PART_OF_LABEL;

/// A watch with this key.
fn world(name: &str, key: &str) -> Result<(World, Operator)> {
    let world = World::new(name)?.watch_key(key);
    world.write_watches()?;
    world.grant("workloads", &[member_rule("apps", "deployments")])?;
    let operator = world.launch(&METERED)?;
    Ok((world, operator))
}

fn settings(data: Value) -> Value {
    json!({"extraDeploy": [config_map("settings", data)]})
}

/// Changes an object with the field manager of `kubectl edit`.
fn change(world: &World, kind: &str, name: &str, patch: &Value) -> Result<()> {
    let patch = patch.to_string();
    let manager = "--field-manager=kubectl-edit";
    world
        .kubectl
        .run(["patch", kind, name, "--type=merge", manager, "-p", &patch])?;
    Ok(())
}

/// The data of the ConfigMap `settings`.
fn data(world: &World) -> Result<Value> {
    Ok(world.expect("configmap", "settings")?["data"].clone())
}

fn drifted(world: &World) -> Result<Value> {
    Ok(condition(&world.live("a")?, "Drifted"))
}

#[test]
fn drift_that_is_reported_stays_until_an_edit_changes_the_field() -> Result<()> {
    let (world, operator) = world("drift-warn", "drift: warn")?;
    world.install("a", settings(json!({"color": "blue", "size": "1"})))?;
    change(&world, "configmap", "settings", &json!({"data": {"color": "red"}}))?;
    let texts = [
        "ConfigMap drift-warn/settings",
        "data.color changed by kubectl-edit",
        "left as it is",
    ];
    world.await_event("a", "DriftDetected", &texts)?;
    let found = world.await_condition("a", "Drifted", "True")?;
    ensure!(found["reason"] == "DriftDetected", "{found}");
    ensure_contains(text(&found["message"]), &texts)?;
    world.await_ready("a")?;

    // It costs nothing while nothing changes, also after a restart.
    world.await_quiet(&operator)?;
    let renders = operator.renders()?;
    world.ensure_no_requests(&operator, 1.5)?;
    ensure!(operator.renders()? == renders);
    ensure!(operator.metric("chartwright_drift_detected_total{kind=\"ConfigMap\"}")? == 1.0);
    operator.kill()?;
    let operator = world.launch(&METERED)?;
    world.await_quiet(&operator)?;
    ensure!(data(&world)? == json!({"color": "red", "size": "1"}));
    ensure!(operator.renders()? == 0.0, "rendered after a restart");
    // A further change is noticed, and reported once.
    change(&world, "configmap", "settings", &json!({"data": {"size": "7"}}))?;
    world.await_event("a", "DriftDetected", &["data.size changed by kubectl-edit"])?;
    change(&world, "configmap", "settings", &json!({"data": {"theirs": "1"}}))?;
    world.await_quiet(&operator)?;
    let events = world.events("a")?;
    let reported = events.iter().filter(|(reason, _)| reason == "DriftDetected");
    ensure!(reported.count() == 2, "{events:?}");

    // An edit applies what it changes, and leaves the rest.
    let edited = json!({"color": "blue", "size": "2", "more": "3"});
    world.update("a", settings(edited))?;
    let left = json!({"color": "red", "size": "2", "more": "3", "theirs": "1"});
    ensure!(data(&world)? == left, "{}", data(&world)?);
    ensure!(drifted(&world)?["status"] == "True");
    world.update("a", settings(json!({"color": "green", "size": "2"})))?;
    ensure!(data(&world)? == json!({"color": "green", "size": "2", "theirs": "1"}));
    ensure!(drifted(&world)?.is_null(), "{}", drifted(&world)?);

    // A person can have it corrected.
    change(&world, "configmap", "settings", &json!({"data": {"color": null}}))?;
    world.await_event("a", "DriftDetected", &["data.color removed"])?;
    world.force("a", "now")?;
    ensure!(data(&world)?["color"] == "green");
    ensure!(drifted(&world)?.is_null());
    // A deleted member is created again.
    world.kubectl.delete("configmap", "settings")?;
    world.await_there("configmap", "settings").map(drop)
}

#[test]
fn the_marks_of_a_member_are_restored_and_its_drift_stays() -> Result<()> {
    let (world, operator) = world("drift-own-marks", "drift: ignore")?;
    world.install("a", settings(json!({"color": "blue"})))?;
    let patch = json!({"data": {"color": "red"}, "metadata": {"labels": {(PART_OF_LABEL): null}}});
    change(&world, "configmap", "settings", &patch)?;
    let is_marked = |live: &Value| label(live, PART_OF_LABEL).is_some();
    let live = world.await_object("configmap", "settings", "is marked again", is_marked)?;
    ensure!(live["data"]["color"] == "red", "{live}");
    world.await_quiet(&operator)?;
    ensure!(drifted(&world)?.is_null(), "ignored drift is reported");
    world.update("a", settings(json!({"color": "blue", "size": "2"})))?;
    ensure!(data(&world)? == json!({"color": "red", "size": "2"}));
    // With the default policy it is corrected.
    drop(operator);
    world.write_watches_of(&[("Widget", &world.chart(), &[])])?;
    let operator = world.launch(&METERED)?;
    world.await_field("configmap", "settings", "/data/color", "blue")?;
    world.await_event("a", "DriftCorrected", &["data.color changed by kubectl-edit"])?;
    world.await_quiet(&operator)?;
    ensure!(operator.metric("chartwright_drift_corrected_total{kind=\"ConfigMap\"}")? == 1.0);
    let record = world.live("a")?["status"]["inventory"].to_string();
    ensure!(!record.contains("drift\""), "{record}");
    Ok(())
}

#[test]
fn a_member_has_its_own_policy() -> Result<()> {
    let (world, operator) = world("drift-own-policy", "drift: warn")?;
    let object = |name: &str, policy: &str, size: &str| {
        let mut object = config_map(name, json!({"color": "blue", "size": size}));
        object["metadata"]["annotations"] = json!({"chartwright.dev/drift": policy});
        object
    };
    let values = |size: &str| json!({"extraDeploy": [object("own", "correct", size), object("free", "ignore", size)]});
    world.install("a", values("1"))?;
    let patch = json!({"data": {"color": "red"}});
    change(&world, "configmap", "free", &patch)?;
    change(&world, "configmap", "own", &patch)?;
    world.await_field("configmap", "own", "/data/color", "blue")?;
    world.await_quiet(&operator)?;
    ensure!(world.expect("configmap", "free")?["data"]["color"] == "red");
    ensure!(drifted(&world)?.is_null());
    world.update("a", values("2"))?;
    ensure!(world.expect("configmap", "free")?["data"] == json!({"color": "red", "size": "2"}));
    Ok(())
}

fn deployment(image: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": image, "resources": {"requests": {"cpu": "1m"}}}]},
            },
        },
    })
}

fn deploy(image: &str, replicas: i64) -> Value {
    json!({"extraDeploy": [deployment(image, replicas)]})
}

/// The fields that the operator owns.
fn own_fields(object: &Value) -> String {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let own = entries.into_iter().find(|entry| entry["manager"] == "chartwright");
    own.map(|entry| entry["fieldsV1"].to_string()).unwrap_or_default()
}

fn with_fields(world: &World, kind: &str, name: &str) -> Result<Value> {
    let shown = world
        .kubectl
        .run(["get", kind, name, "-o", "json", "--show-managed-fields"])?;
    Ok(serde_json::from_str(&shown)?)
}

#[test]
fn an_ignored_field_is_set_at_the_creation_only() -> Result<()> {
    let key = "ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas, \
               /spec/template/spec/containers/name=app/resources/requests/cpu]}]";
    let (world, operator) = world("ignore-pointers", key)?;
    world.install("a", deploy("example/app:1", 0))?;
    let live = with_fields(&world, "deployment", "web")?;
    ensure!(live["spec"]["replicas"] == 0, "{live}");
    ensure!(!own_fields(&live).contains("f:replicas"), "{}", own_fields(&live));
    // Another client may apply it without a conflict, and nothing happens.
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": world.name},
        "spec": {"replicas": 0, "template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "7m"}}}]}}},
    });
    let arguments = ["apply", "--server-side", "--field-manager=other", "-f", "-"];
    world.kubectl.run_with_input(arguments, &theirs.to_string())?;
    world.run(["scale", "deployment/web", "--replicas=1"])?;
    world.await_quiet(&operator)?;
    world.requests(&operator, start)?.resource("deployments").none()?;

    let cpu = "/spec/template/spec/containers/0/resources/requests/cpu";
    let is_left = |live: &Value| live["spec"]["replicas"] == 1 && live.pointer(cpu) == Some(&json!("7m"));
    world.update("a", deploy("example/app:2", 0))?;
    let live = world.await_field("deployment", "web", IMAGE, "example/app:2")?;
    ensure!(is_left(&live), "{live}");
    // Other drift is corrected.
    world.run(["set", "image", "deployment/web", "app=example/other:1"])?;
    let live = world.await_field("deployment", "web", IMAGE, "example/app:2")?;
    ensure!(is_left(&live), "{live}");
    world.force("a", "now")?;
    ensure!(
        is_left(&world.expect("deployment", "web")?),
        "force-at applies an ignored field"
    );
    // A member that is created again has all fields of the chart.
    world.kubectl.delete("deployment", "web")?;
    let live = world.await_there("deployment", "web")?;
    ensure!(
        live["spec"]["replicas"] == 0 && live.pointer(cpu) == Some(&json!("1m")),
        "{live}"
    );
    world.await_quiet(&operator)
}

#[test]
fn a_rule_that_is_added_keeps_the_value_of_the_last_apply() -> Result<()> {
    let (world, operator) = world("ignore-added", "drift: correct")?;
    world.install("a", deploy("example/app:1", 0))?;
    drop(operator);
    let rule = "ignoreDifferences: [{kind: Deployment, jsonPointers: [/spec/replicas]}]";
    world.write_watches_of(&[("Widget", &world.chart(), &[rule])])?;
    let start = world.mark()?;
    let operator = world.start()?;
    world.await_quiet(&operator)?;
    world
        .requests(&operator, start)?
        .resource("deployments")
        .writes()
        .none()?;
    let before = uid(&world.expect("deployment", "web")?);
    world.update("a", deploy("example/app:2", 3))?;
    let live = with_fields(&world, "deployment", "web")?;
    ensure!(live["spec"]["replicas"] == 0 && uid(&live) == before, "{live}");
    ensure!(!own_fields(&live).contains("f:replicas"), "{}", own_fields(&live));
    world.await_quiet(&operator)
}

#[test]
fn what_a_field_manager_owns_is_left_to_it() -> Result<()> {
    let key = "ignoreDifferences: [{managers: [vpa, injector]}]";
    let (world, operator) = world("ignore-managers", key)?;
    world.install("a", deploy("example/app:1", 0))?;
    // As an update and, as in argo-cd#9071, as a server-side apply that shares the ownership.
    let resources =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests/cpu", "value": "9m"}]);
    let resources = resources.to_string();
    world.run([
        "patch",
        "deployment",
        "web",
        "--type=json",
        "--field-manager=vpa",
        "-p",
        &resources,
    ])?;
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": world.name, "annotations": {"injected": "1"}},
        "spec": {"replicas": 2},
    });
    let arguments = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=injector",
        "-f",
        "-",
    ];
    world.kubectl.run_with_input(arguments, &theirs.to_string())?;
    let is_left = |live: &Value| {
        let cpu = live.pointer("/spec/template/spec/containers/0/resources/requests/cpu");
        live["spec"]["replicas"] == 2 && cpu == Some(&json!("9m")) && annotation(live, "injected") == Some("1")
    };
    world.await_quiet(&operator)?;
    ensure!(is_left(&world.expect("deployment", "web")?));
    world.update("a", deploy("example/app:2", 5))?;
    let live = world.await_field("deployment", "web", IMAGE, "example/app:2")?;
    ensure!(is_left(&live), "{live}");
    // argo-cd#9696: what another manager owns is corrected.
    world.run(["set", "image", "deployment/web", "app=example/other:1"])?;
    let live = world.await_field("deployment", "web", IMAGE, "example/app:2")?;
    ensure!(is_left(&live), "{live}");
    world.await_quiet(&operator)
}

#[test]
fn a_field_that_an_admission_policy_rewrites_is_left_to_it() -> Result<()> {
    let key = "ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/template/spec/containers/name=app/image]}]";
    let (world, operator) = world("ignore-mutation", key)?;
    let policy = include_str!("../../fixtures/integration/mutation.yaml").replace("NAME", &world.name);
    world.kubectl.apply(&policy)?;
    // The API server learns the policy with a delay.
    until("the policy acts", SOON, || {
        let object = json!({"metadata": {"namespace": world.name}});
        let mut probe = deployment("example/app:1", 0);
        json_patch::merge(&mut probe, &object);
        let arguments = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
        let made: Value = serde_json::from_str(&world.kubectl.run_with_input(arguments, &probe.to_string())?)?;
        Ok(made.pointer(IMAGE) == Some(&json!("mirror.test/app:1")))
    })?;
    world.install("a", deploy("example/app:1", 0))?;
    let is_rewritten = |live: &Value| live.pointer(IMAGE) == Some(&json!("mirror.test/app:1"));
    world.await_quiet(&operator)?;
    ensure!(is_rewritten(&world.expect("deployment", "web")?));
    // The field is the policy's, also after an edit; the others are the chart's.
    world.update("a", deploy("example/app:2", 1))?;
    let live = world.await_field("deployment", "web", "/spec/replicas", 1)?;
    ensure!(is_rewritten(&live), "{live}");
    world.run(["scale", "deployment/web", "--replicas=0"])?;
    let live = world.await_field("deployment", "web", "/spec/replicas", 1)?;
    ensure!(is_rewritten(&live), "{live}");
    world.await_quiet(&operator)?;
    ensure!(condition(&world.live("a")?, "DriftContested").is_null());
    world.kubectl.delete("mutatingadmissionpolicybinding", &world.name)
}
