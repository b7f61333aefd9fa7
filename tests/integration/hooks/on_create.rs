//! Edits while a plan with `chartwright.dev/on-create` runs.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::uid;
use crate::world::{HANGS, World};

/// A step of the plan `restore`.
fn step(kind: &str, name: &str, weight: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"name": name, "annotations": {
            "helm.sh/hook": "plan-restore", "helm.sh/hook-weight": weight, "chartwright.dev/on-create": "true",
        }},
    })
}

/// A Pod that runs until the test ends it.
fn pod(name: &str) -> Value {
    let mut pod = step("Pod", name, "1");
    pod["spec"] = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "example/main"}]});
    pod
}

fn mark() -> Value {
    let mut mark = step("ConfigMap", "mark", "2");
    mark["data"] = json!({"color": "{{ .Values.color }}"});
    mark
}

fn runs(world: &World) -> Result<Value> {
    let widget = world.live("a")?;
    let mut plans = widget["status"]["plans"].as_array().into_iter().flatten();
    Ok(plans
        .find(|plan| plan["name"] == "restore")
        .cloned()
        .unwrap_or_default())
}

#[test]
fn an_edit_does_not_change_a_plan_on_create_that_has_begun() -> Result<()> {
    let world = World::new("on-create-edit")?
        .granted("", "pods")?
        .granted("", "secrets")?;
    let operator = world.start()?;
    world.apply_widget("a", json!({"extraDeploy": [pod("load"), mark()]}))?;
    let running = world.await_object("pod", "load", "runs", |pod| pod["status"]["phase"] == "Running")?;
    // Its steps have other names from now on, and one is new.
    let steps = json!([step("ConfigMap", "new", "0"), pod("other"), mark()]);
    world.edit("a", json!({"color": "red", "extraDeploy": steps}))?;
    let waits = ["plan restore ends with the inputs that it began with", "Pod load"];
    world.await_unready("a", "HookRunning", &waits)?;
    // A new process goes on with it as well.
    let operator = world.replace_and_settle(operator)?;
    world.await_unready("a", "HookRunning", &waits)?;
    ensure!(uid(&world.expect("pod", "load")?) == uid(&running), "it began again");
    world.absent("configmap", ["mark", "new", "a-main"])?;
    let ended = json!({"status": {"phase": "Succeeded"}});
    world.kubectl.patch_status("pod", "load", &ended)?;
    world.await_ready("a")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    ensure!(
        world.expect("configmap", "mark")?["data"]["color"] == "blue",
        "its inputs are those of the beginning"
    );
    world.absent("pod", ["other"])?;
    world.absent("configmap", ["new"])?;
    let plan = runs(&world)?;
    ensure!(plan["count"] == 1 && plan["phase"] == "Succeeded", "{plan}");
    world.await_quiet(&operator)?;
    let mut stored = world.list("secrets", "")?;
    stored.retain(|secret| secret["type"] == "chartwright.dev/delete-hooks");
    ensure!(stored.is_empty(), "{stored:?}");
    world.delete("a")?;
    world.await_gone("configmap", "mark")
}

#[test]
fn an_edit_takes_the_place_of_a_plan_on_create_that_failed() -> Result<()> {
    let world = World::new("on-create-failed")?
        .granted("", "pods")?
        .granted("", "secrets")?;
    let _operator = world.start()?;
    world.apply_widget("a", json!({"extraDeploy": [pod("load")]}))?;
    world.await_object("pod", "load", "runs", |pod| pod["status"]["phase"] == "Running")?;
    world.edit("a", json!({"color": "red", "extraDeploy": [mark()]}))?;
    world.await_unready("a", "HookRunning", &["with the inputs that it began with"])?;
    world.absent("configmap", ["mark"])?;
    let ended = json!({"status": {"phase": "Failed"}});
    world.kubectl.patch_status("pod", "load", &ended)?;
    world.await_ready("a")?;
    ensure!(world.expect("configmap", "mark")?["data"]["color"] == "red");
    world.await_gone("pod", "load")?;
    let plan = runs(&world)?;
    let phases = [&plan["runs"][0]["phase"], &plan["runs"][1]["phase"]];
    ensure!(phases == ["Succeeded", "Failed"], "{plan}");
    Ok(())
}

#[test]
fn an_edit_takes_the_place_of_a_plan_on_create_whose_pod_cannot_start() -> Result<()> {
    let world = World::staged("on-create-stuck", &[], &[])?;
    let _operator = world.start()?;
    let step = |labels: Value| {
        let on_create = json!({"chartwright.dev/on-create": "true"});
        json!([{"name": "load", "at": "plan-restore", "annotations": on_create, "pod": labels}])
    };
    // Its image cannot be pulled.
    world.apply_widget("a", json!({"hooks": step(json!({HANGS: "true"}))}))?;
    let first = world.await_there("job", "a-load")?;
    world.update(
        "a",
        json!({"color": "red", "hooks": step(json!({HANGS: null, "app": "fixed"}))}),
    )?;
    ensure!(uid(&world.expect("job", "a-load")?) != uid(&first));
    world.expect("configmap", "a-main").map(drop)
}
