//! Waves go in the reverse order, each when the one above it is gone.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::{eventually, until};
use crate::world::fields::{inventory, text};
use crate::world::{SOON, World, annotated_map};

/// A release whose higher wave has a foreign finalizer while its custom resource is deleted.
fn held(name: &str, keys: &[&str]) -> Result<()> {
    let world = World::of_chart(name, "waves")?.watch_key("maxConcurrentReconciles: 1");
    let world = keys.iter().fold(world, |world, key| world.watch_key(key));
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    world.hold("configmap", "a-high")?;
    world.begin_delete("a")?;
    let ready = world.await_unready("a", "Uninstalling", &["a-high"])?;
    ensure!(!text(&ready["message"]).contains("a-low"), "{ready}");
    // The only worker has time for others.
    world.install("b", json!({}))?;
    let low = world.expect("configmap", "a-low")?;
    ensure!(low["metadata"]["deletionTimestamp"].is_null(), "too early: {low}");
    world.remove_finalizers("configmap", "a-high")?;
    world.await_deleted("a")?;
    world.absent("configmap", ["a-low", "a-high"])
}

#[test]
fn a_wave_is_deleted_after_the_wave_above_it() -> Result<()> {
    held("waves-delete", &[])
}

#[test]
fn a_wave_is_deleted_after_the_wave_above_it_with_wait_for_termination() -> Result<()> {
    held("waves-wait", &["deletionPolicy: WaitForTermination"])
}

#[test]
fn prune_follows_the_order_of_waves() -> Result<()> {
    let world = World::of_chart("waves-prune", "waves")?;
    let _operator = world.start()?;
    let widget = world.install("a", json!({}))?;
    let rows = widget["status"]["inventory"].as_array().into_iter().flatten();
    let waves: Vec<_> = rows.map(|row| json!([row["name"], row["wave"]])).collect();
    ensure!(waves == [json!(["a-low", 0]), json!(["a-high", 5])]);
    world.hold("configmap", "a-high")?;
    world.edit("a", json!({"none": true}))?;
    eventually("the status says what is waited for", SOON, || {
        let ready = world.await_condition("a", "Ready", "True")?;
        let message = text(&ready["message"]);
        ensure!(message.contains("a-high") && !message.contains("a-low"), "{ready}");
        Ok(Some(()))
    })?;
    let low = world.expect("configmap", "a-low")?;
    ensure!(low["metadata"]["deletionTimestamp"].is_null(), "too early: {low}");
    world.remove_finalizers("configmap", "a-high")?;
    world.await_gone("configmap", "a-low")?;
    until("nothing is left to be done", SOON, || {
        let widget = world.live("a")?;
        Ok(inventory(&widget).is_empty() && !widget["status"]["release"]["inputs"].is_null())
    })
}

/// The higher wave is the same as before, and waits until the lower one is healthy.
#[test]
fn an_upgrade_that_waits_for_a_wave_is_recorded_once() -> Result<()> {
    let world = World::new("waves-upgrade")?;
    let _operator = world.start()?;
    let later = [annotated_map("{{ .Release.Name }}-later", "chartwright.dev/wave", "1")];
    let spec = |replicas: u32| json!({"extraDeploy": later, "deployment": {"enabled": true, "replicas": replicas}});
    let widget = world.install("a", spec(1))?;
    ensure!(widget["status"]["release"]["revision"] == 1, "{widget}");
    let widget = world.update("a", spec(2))?;
    ensure!(widget["status"]["release"]["revision"] == 2, "{widget}");
    world.await_event("a", "UpgradeSuccessful", &[]).map(drop)
}
