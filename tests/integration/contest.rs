//! Other controllers that want a member otherwise: who is right, and for how long.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::look::condition;
use crate::support::eventually;
use crate::world::{SOON, World};

/// Changes the color of the main member back, as often as it is put right, for a time. Returns how often.
fn rival(world: &World, time: Duration) -> Result<usize> {
    let end = std::time::Instant::now() + time;
    let mut changes = 0;
    while std::time::Instant::now() < end {
        if world.expect("configmap", "a-main")?["data"]["color"] == "blue" {
            let color = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-main}\ndata: {color: pink}\n";
            world.kubectl.take_over("rival", color)?;
            changes += 1;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(changes)
}

#[test]
fn a_controller_that_fights_back_is_named_and_not_fought_for_ever() -> Result<()> {
    let world = World::new("contest")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    let changes = rival(&world, Duration::from_secs(5))?;
    ensure!(
        (6..=8).contains(&changes),
        "five corrections at once, then after 2 s, 4 s, ...: {changes}"
    );
    let requests = world.requests(&operator, start)?;
    let applies = requests.clone().resource("configmaps").verb("patch");
    ensure!(applies.len() <= 9, "{requests}");

    let widget = world.expect(&world.widgets(), "a")?;
    let Some(drifted) = condition(&widget, "Drifted") else {
        bail!("no Drifted: {}", widget["status"])
    };
    let message = drifted["message"].as_str().unwrap_or_default();
    ensure!(
        drifted["reason"] == "Contested" && message.contains("data.color") && message.contains("rival"),
        "{drifted}"
    );
    ensure!(message.contains("ConfigMap contest/a-main"), "{drifted}");
    let note = world.await_event("a", "DriftContested")?;
    ensure!(note.contains("data.color changed by rival"), "{note}");
    let told = world.events("a")?;
    let contested = told.iter().filter(|(reason, _)| reason == "DriftContested");
    ensure!(contested.count() == 1, "{told:?}");
    let writes = requests.resource("events").writes();
    ensure!(writes.len() <= 8, "a flood of events:\n{writes}");

    // Peace: it comes back, and after a while the condition goes by itself.
    eventually("the contest is over", SOON, || {
        let widget = world.expect(&world.widgets(), "a")?;
        ensure!(
            world.expect("configmap", "a-main")?["data"]["color"] == "blue",
            "not put right"
        );
        ensure!(
            condition(&widget, "Drifted").is_none(),
            "{}",
            widget["status"]["conditions"]
        );
        Ok(Some(()))
    })?;
    world.await_ready("a")?;
    Ok(())
}

#[test]
fn replicas_that_an_autoscaler_sets_are_given_up() -> Result<()> {
    let world = World::new("autoscaled")?;
    let operator = world.start()?;
    world.install("a", json!({"deployment": {"enabled": true, "replicas": 1}}))?;
    world.run(["autoscale", "deployment", "a", "--max=9", "--min=1", "--cpu=80%"])?;
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    world.kubectl.scale("kube-controller-manager", "a", 3)?;
    std::thread::sleep(Duration::from_secs(2));
    let replicas = || -> Result<Value> { Ok(world.expect("deployment", "a")?["spec"]["replicas"].clone()) };
    ensure!(replicas()? == 3, "the autoscaler was overruled");
    let writes = world.requests(&operator, start)?.resource("deployments").writes();
    ensure!(writes.is_empty(), "nothing is to be written:\n{writes}");
    // Nor by another edit, nor when something else drifts; which is put right.
    world.update(
        "a",
        json!({"color": "red", "deployment": {"enabled": true, "failing": false}}),
    )?;
    world.run(["set", "image", "deployment/a", "app=example/other:1"])?;
    world.await_object("deployment", "a", "has its image", |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "example/app:7"
    })?;
    ensure!(replicas()? == 3, "the autoscaler was overruled by the way");
    Ok(())
}
