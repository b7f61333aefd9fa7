//! Hooks with `metadata.generateName`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::{text, uid};
use crate::world::{HANGS, SOON, World};

/// A Job or ConfigMap with `generateName`.
fn hook(kind: &str, prefix: &str, at: &str, more: Value) -> Value {
    let mut annotations = json!({"helm.sh/hook": at});
    for (key, value) in more.as_object().into_iter().flatten() {
        annotations[format!("helm.sh/{key}")] = value.clone();
    }
    let version = if kind == "Job" { "batch/v1" } else { "v1" };
    json!({"apiVersion": version, "kind": kind, "metadata": {"generateName": prefix, "annotations": annotations}})
}

fn with_pod(mut job: Value, labels: Value) -> Value {
    job["spec"] = json!({"backoffLimit": 0, "template": {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example/main"}]},
    }});
    job
}

fn all(world: &World, kind: &str, prefix: &str) -> Result<Vec<Value>> {
    let mut found = world.list(kind, "")?;
    found.retain(|object| text(&object["metadata"]["name"]).starts_with(prefix));
    Ok(found)
}

/// The object with this prefix, which must be the only one.
fn only(world: &World, kind: &str, prefix: &str) -> Result<Value> {
    let mut found = all(world, kind, prefix)?;
    ensure!(found.len() == 1, "{} {prefix}: {found:?}", found.len());
    found.pop().context("there is one")
}

fn none(world: &World, kind: &str, prefix: &str) -> Result<()> {
    eventually(&format!("no {kind} {prefix} is left"), SOON, || {
        let found = all(world, kind, prefix)?;
        ensure!(found.is_empty(), "{found:?}");
        Ok(Some(()))
    })
}

#[test]
fn a_hook_with_a_generated_name_runs_once_and_is_found_again() -> Result<()> {
    let world = World::new("hooks-generated")?.granted("batch", "jobs")?;
    let operator = world.start()?;
    let start = world.mark()?;
    let slow = with_pod(
        hook("Job", "slow-", "pre-install", json!({"hook-weight": "1"})),
        json!({HANGS: "true"}),
    );
    let note = hook(
        "ConfigMap",
        "note-",
        "pre-install",
        json!({"hook-delete-policy": "hook-succeeded"}),
    );
    let map = hook("ConfigMap", "map-", "pre-install,pre-upgrade", json!({}));
    let each = |label: &str| {
        with_pod(
            hook("Job", "each-", "post-install,post-upgrade", json!({})),
            json!({"app": label}),
        )
    };
    world.apply_widget("a", json!({"extraDeploy": [slow, note, map, each("one")]}))?;
    let running = eventually("the hook runs", SOON, || only(&world, "jobs", "slow-").map(Some))?;
    only(&world, "configmaps", "note-")?;
    let first_map = uid(&only(&world, "configmaps", "map-")?);

    // A new process finds the Job again, and awaits it.
    let operator = world.replace_and_settle(operator)?;
    ensure!(uid(&only(&world, "jobs", "slow-")?) == uid(&running), "it ran twice");
    let user = operator.user.clone();
    operator.kill()?;
    world.end_pods_of(text(&running["metadata"]["name"]), "Succeeded")?;
    world
        .kubectl
        .wait("Complete", "job", text(&running["metadata"]["name"]), SOON)?;
    let operator = world.start()?;
    world.await_ready("a")?;
    ensure!(uid(&only(&world, "jobs", "slow-")?) == uid(&running), "it ran twice");
    ensure!(operator.user == user);
    let creations = world.all_requests(&operator, start)?.resource("jobs").verb("patch");
    let creations = creations
        .iter()
        .filter(|request| request.name.starts_with("slow-"))
        .count();
    ensure!(creations == 1, "the hook was created {creations} times");
    none(&world, "configmaps", "note-")?;
    let first = uid(&only(&world, "jobs", "each-")?);

    // No restart and no request runs a hook again.
    world.annotate("a", json!({"chartwright.dev/requested-at": "now"}))?;
    let _operator = world.replace_and_settle(operator)?;
    ensure!(uid(&only(&world, "jobs", "each-")?) == first);

    // An upgrade replaces the objects of the run before, also those with other content.
    world.update("a", json!({"color": "red"}))?;
    let second = only(&world, "jobs", "each-")?;
    ensure!(uid(&second) != first, "{second}");
    ensure!(
        uid(&only(&world, "configmaps", "map-")?) != first_map,
        "before-hook-creation"
    );
    ensure!(
        uid(&only(&world, "jobs", "slow-")?) == uid(&running),
        "the installation ran once"
    );
    world.update("a", json!({"extraDeploy": [slow, note, map, each("two")]}))?;
    let third = only(&world, "jobs", "each-")?;
    ensure!(third["metadata"]["name"] != second["metadata"]["name"], "{third}");
    none(&world, "configmaps", "note-")?;

    world.delete("a")?;
    for (kind, prefix) in [
        ("jobs", "slow-"),
        ("jobs", "each-"),
        ("configmaps", "map-"),
        ("configmaps", "note-"),
    ] {
        none(&world, kind, prefix)?;
    }
    Ok(())
}

#[test]
fn another_generated_name_leaves_a_config_map_until_the_release_is_deleted() -> Result<()> {
    let world = World::new("hooks-generated-2")?;
    let _operator = world.start()?;
    let map = |color: &str| {
        let mut map = hook("ConfigMap", "map-", "pre-install,pre-upgrade", json!({}));
        map["data"] = json!({"color": color});
        map
    };
    world.install("a", json!({"extraDeploy": [map("blue")]}))?;
    world.update("a", json!({"extraDeploy": [map("red")]}))?;
    std::thread::sleep(Duration::from_secs(2));
    let found = all(&world, "configmaps", "map-")?;
    ensure!(found.len() == 2, "{found:?}");
    world.delete("a")?;
    none(&world, "configmaps", "map-")
}
