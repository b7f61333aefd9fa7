//! Notes, events, and the annotation that suspends.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::world::World;
use crate::world::fields::{ensure_contains, text, versions};

#[test]
fn notes_and_events_report_install_and_upgrade() -> Result<()> {
    let world = World::new("hooks-events")?;
    let operator = world.start()?;
    let widget = world.install("a", json!({"extra": ["one"]}))?;
    let notes = text(&widget["status"]["notes"]);
    ensure!(notes.trim() == "Widget a is blue.", "{notes}");
    world.await_event("a", "InstallSuccessful", &["2 objects applied"])?;
    let widget = world.update("a", json!({"color": "red"}))?;
    ensure_contains(text(&widget["status"]["notes"]), &["red"])?;
    world.await_event("a", "UpgradeSuccessful", &["1 object applied"])?;
    world.update("a", json!({"extra": []}))?;
    world.await_quiet(&operator)?;
    let events = world.events("a")?;
    let is_pruned = |note: &str| note.contains("pruned") && note.contains("a-one");
    ensure!(events.iter().any(|(_, note)| is_pruned(note)), "{events:?}");
    world.edit("a", json!({"fail": "oh no"}))?;
    world.await_event("a", "RenderFailed", &["oh no"])?;
    world.delete("a")?;
    world.await_event("a", "UninstallSuccessful", &[]).map(drop)
}

#[test]
fn a_suspended_release_is_neither_changed_nor_uninstalled() -> Result<()> {
    let world = World::new("hooks-suspend")?;
    let operator = world.start()?;
    for name in ["a", "b"] {
        world.install(name, json!({"extra": ["one"]}))?;
        world.suspend(name)?;
    }
    world.edit("a", json!({"color": "red", "extra": []}))?;
    world.patch("configmap", "a-one", &json!({"data": {"extra": "by hand"}}))?;
    world.kubectl.delete("configmap", "b-one")?;
    let before = versions(&world.labelled("configmaps")?);
    world.await_condition("a", "Suspended", "True")?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(versions(&world.labelled("configmaps")?) == before);

    // Nor by another process that meets it suspended.
    let _operator = world.replace(operator)?;
    world.install("c", json!({}))?;
    world.delete("c")?;
    ensure!(versions(&world.labelled("configmaps")?) == before);
    world.annotate("a", json!({"chartwright.dev/suspend": null}))?;
    let widget = world.await_ready("a")?;
    ensure!(
        crate::world::fields::condition(&widget, "Suspended").is_null(),
        "{widget}"
    );
    world.absent("configmap", ["a-one"])?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    Ok(())
}

#[test]
fn repetitions_of_an_event_are_counted_instead_of_written() -> Result<()> {
    let world = World::new("events-repeat")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    for _ in 0..4 {
        world.paint("a-main", "red")?;
        world.await_color("a-main", "blue")?;
    }
    world.await_quiet(&operator)?;
    let mut events = world.list("events", "")?;
    events.retain(|event| event["reason"] == "DriftCorrected");
    // The first Event has no series. The second counts all later ones.
    let counts: Vec<_> = events.iter().map(|event| event["series"]["count"].as_u64()).collect();
    ensure!(events.len() == 2, "{counts:?}");
    ensure!(counts.iter().flatten().any(|count| *count >= 2), "{events:?}");
    Ok(())
}
