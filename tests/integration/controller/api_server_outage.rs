//! An API server that stops and returns, or has compacted the versions of watches.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::{eventually, until};
use crate::world::fields::{ensure_contains, versions};
use crate::world::{SOON, World, WorldSetup};

#[test]
fn the_operator_resumes_after_an_api_server_restart() -> Result<()> {
    let world = World::with("absence", WorldSetup::ALONE)?.with_gadgets()?;
    let mut operator = world.start_and_settle()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.install("b", json!({"extra": ["two"]}))?;
    world.install("c", json!({"extraDeploy": [world.custom("Gadget", "made", json!({}))]}))?;
    world.await_quiet(&operator)?;
    let before = versions(&world.labelled("configmaps")?);
    world.control_plane.kill_part("kube-apiserver")?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(operator.is_running());
    world.control_plane.start_part("kube-apiserver")?;
    // At the first moment at which it answers: it doesn't know its CustomResourceDefinitions yet.
    eventually("the API server answers", SOON, || Ok(world.begin_delete("c").ok()))?;
    world.await_deleted("c")?;
    world.absent(&world.resource("Gadget"), ["made"])?;
    let mut after = before;
    after.retain(|name, _| !name.contains("c-main"));
    ensure!(versions(&world.labelled("configmaps")?) == after);
    ensure!(!operator.log().contains("no longer serve"), "{}", operator.log());

    world.edit("a", json!({"extra": [], "color": "red"}))?;
    world.await_gone("configmap", "a-one")?;
    world.await_ready("a")?;
    world.kubectl.delete("configmap", "b-two")?;
    world.await_there("configmap", "b-two").map(drop)
}

/// The operator is paused while its watches end. When it resumes, etcd has compacted their versions.
#[test]
fn compacted_watches_relist_and_miss_nothing() -> Result<()> {
    let world = World::with("compacted", WorldSetup::ALONE)?;
    let operator = world.start_and_settle()?;
    world.install("a", json!({"extra": ["one", "two"]}))?;
    world.install("b", json!({"extra": ["one"]}))?;
    world.install("d", json!({}))?;
    world.await_quiet(&operator)?;
    let version = || Ok::<_, anyhow::Error>(world.expect("configmap", "a-two")?["metadata"]["resourceVersion"].take());
    let before = version()?;
    operator.signal("STOP")?;
    world.control_plane.kill_part("kube-apiserver")?;
    // Its cache of watches would refuse old versions even if etcd still has them.
    let uncached = ["--watch-cache=false"];
    world.control_plane.start_part_with("kube-apiserver", &uncached)?;
    until("the API server answers", SOON, || Ok(world.live("a").is_ok()))?;
    world.paint("a-main", "pink")?;
    world.kubectl.delete("configmap", "a-one")?;
    world.edit("b", json!({"color": "green", "extra": []}))?;
    world.apply_widget("c", json!({}))?;
    world.begin_delete("d")?;
    world.control_plane.compact()?;
    operator.signal("CONT")?;

    world.await_color("a-main", "blue")?;
    world.await_there("configmap", "a-one")?;
    world.await_gone("configmap", "b-one")?;
    world.await_deleted("d")?;
    for name in ["a", "b", "c"] {
        world.await_ready(name)?;
    }
    ensure!(world.expect("configmap", "b-main")?["data"]["color"] == "green");
    world.absent("configmap", ["d-main"])?;
    ensure_contains(&operator.log(), &["the watch relists"])?;
    ensure!(version()? == before, "written though nothing was wrong with it");
    // From now on they watch again.
    world.paint("a-main", "pink")?;
    world.await_color("a-main", "blue")?;
    world.kubectl.delete("configmap", "c-main")?;
    world.await_there("configmap", "c-main")?;
    world.update("b", json!({"color": "red"}))?;
    world.await_quiet(&operator)
}
