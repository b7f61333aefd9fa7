//! Replicas belong to an autoscaler as long as there is one, and to the chart again when it is gone.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::{IMAGE, World};

fn autoscaled(name: &str) -> Result<World> {
    World::of_chart(name, "autoscaled")?.granted("autoscaling", "horizontalpodautoscalers")
}

fn replicas(world: &World) -> Result<Value> {
    Ok(world.expect("deployment", "a")?["spec"]["replicas"].clone())
}

#[test]
fn replicas_belong_to_the_chart_again_without_its_autoscaler() -> Result<()> {
    let world = autoscaled("scale-chart")?;
    let operator = world.start()?;
    world.install("a", json!({"autoscaler": true}))?;
    world.kubectl.scale("kube-controller-manager", "a", 3)?;
    world.await_quiet(&operator)?;
    ensure!(replicas(&world)? == 3);
    world.update("a", json!({"autoscaler": false}))?;
    world.await_gone("hpa", "a")?;
    world.await_field("deployment", "a", "/spec/replicas", 2)?;
    let texts = ["replicas set by the chart again: Deployment.apps scale-chart/a"];
    world.await_event("a", "UpgradeSuccessful", &texts)?;
    world.await_ready("a")?;
    world.await_quiet(&operator)
}

#[test]
fn replicas_belong_to_a_foreign_autoscaler_until_it_is_deleted() -> Result<()> {
    let world = autoscaled("scale-other")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.run(["autoscale", "deployment", "a", "--max=9", "--min=1", "--cpu=80%"])?;
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    world.kubectl.scale("kube-controller-manager", "a", 4)?;
    std::thread::sleep(std::time::Duration::from_secs(2));
    world
        .requests(&operator, start)?
        .resource("deployments")
        .writes()
        .none()?;
    // Nor by another edit, nor when something else drifts, which is corrected.
    world.update("a", json!({"color": "red"}))?;
    world.run(["set", "image", "deployment/a", "app=example/other:1"])?;
    world.await_field("deployment", "a", IMAGE, "example/app:1")?;
    ensure!(replicas(&world)? == 4, "the autoscaler was overruled by the way");
    world.force("a", "once")?;
    ensure!(replicas(&world)? == 4, "the autoscaler was overruled");
    world.kubectl.delete("hpa", "a")?;
    world.update("a", json!({"color": "green"}))?;
    ensure!(replicas(&world)? == 2);

    // One of another kind can't be seen, so that only a person can know that it is gone.
    world.kubectl.scale("keda-operator", "a", 5)?;
    world.await_quiet(&operator)?;
    world.update("a", json!({"color": "blue"}))?;
    ensure!(replicas(&world)? == 5, "an autoscaler was overruled");
    world.force("a", "twice")?;
    world.await_field("deployment", "a", "/spec/replicas", 2)?;
    world
        .await_event("a", "ReplicasTakenBack", &["Deployment.apps scale-other/a"])
        .map(drop)
}

#[test]
fn the_live_number_of_replicas_stays_when_an_autoscaler_comes() -> Result<()> {
    let world = autoscaled("scale-handover")?;
    let operator = world.start()?;
    world.install("a", json!({"replicas": 5}))?;
    world.update("a", json!({"replicas": 0, "autoscaler": true}))?;
    ensure!(replicas(&world)? == 5, "the chart's own autoscaler begins at 1");
    world.kubectl.scale("kube-controller-manager", "a", 3)?;
    world.await_quiet(&operator)?;
    world.update("a", json!({"replicas": 4, "autoscaler": false}))?;
    world.await_field("deployment", "a", "/spec/replicas", 4)?;

    world.run(["autoscale", "deployment", "a", "--max=9", "--min=1", "--cpu=80%"])?;
    world.update("a", json!({"replicas": 0}))?;
    ensure!(replicas(&world)? == 4, "an autoscaler of another client begins at 1");
    world.update("a", json!({"replicas": 6}))?;
    world.await_field("deployment", "a", "/spec/replicas", 6)?;
    world.kubectl.delete("hpa", "a")?;
    world.update("a", json!({"replicas": 0}))?;
    ensure!(replicas(&world)? == 1, "without an autoscaler, the default counts");
    world.await_quiet(&operator)
}
