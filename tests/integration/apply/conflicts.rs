//! Other controllers that want a member otherwise: who is right, and for how long.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::eventually;
use crate::world::fields::{condition, ensure_contains, text};
use crate::world::{SOON, World};

/// Changes the color of the main member back, as often as it is corrected, for a time. Returns how often.
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
fn a_competing_controller_is_reported_and_corrections_are_limited() -> Result<()> {
    let world = World::new("contest")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    let changes = rival(&world, Duration::from_secs(5))?;
    ensure!((6..=8).contains(&changes), "{changes}");
    let requests = world.requests(&operator, start)?;
    let applies = requests.clone().resource("configmaps").verb("patch");
    ensure!(applies.len() <= 9, "{requests}");

    let widget = world.live("a")?;
    let drifted = condition(&widget, "Drifted");
    ensure!(drifted["reason"] == "Contested", "{}", widget["status"]);
    let parts = ["data.color", "rival", "ConfigMap contest/a-main"];
    ensure_contains(text(&drifted["message"]), &parts)?;
    world.await_event("a", "DriftContested", &["data.color changed by rival"])?;
    let events = world.events("a")?;
    let contested = events.iter().filter(|(reason, _)| reason == "DriftContested");
    ensure!(contested.count() == 1, "{events:?}");
    let writes = requests.resource("events").writes();
    ensure!(writes.len() <= 8, "a flood of events:\n{writes}");

    // Without competition it is restored, and the condition ends.
    eventually("the contest is over", SOON, || {
        let drifted = condition(&world.live("a")?, "Drifted");
        ensure!(drifted.is_null(), "{drifted}");
        Ok((world.expect("configmap", "a-main")?["data"]["color"] == "blue").then_some(()))
    })?;
    world.await_ready("a").map(drop)
}
