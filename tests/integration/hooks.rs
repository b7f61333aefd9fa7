//! Hooks, notes, events, and the annotation that suspends.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::look::{inventory, uid, versions};
use crate::world::World;

#[test]
fn hooks_are_told_and_not_applied() -> Result<()> {
    let world = World::new("hooks-told")?;
    let _operator = world.start()?;
    let widget = world.install("a", json!({"hook": true}))?;
    ensure!(
        world.get("configmap", "a-hook")?.is_none() && inventory(&widget) == ["ConfigMap a-main"],
        "{widget}"
    );
    let hooks = &widget["status"]["hooks"]["notRun"];
    ensure!(hooks.as_array().is_some_and(|hooks| hooks.len() == 1), "{hooks}");
    let told = hooks[0].as_str().unwrap_or_default();
    for part in ["ConfigMap a-hook", "pre-install", "pre-upgrade", "templates/hook.yaml"] {
        ensure!(told.contains(part), "{part}: {told}");
    }
    let events = world.events("a")?;
    ensure!(
        events
            .iter()
            .any(|(_, note)| note.contains("a-hook") && note.contains("pre-install")),
        "{events:?}"
    );
    let widget = world.update("a", json!({"hook": false}))?;
    ensure!(widget["status"]["hooks"].is_null(), "{widget}");
    Ok(())
}

#[test]
fn notes_and_events_tell_what_happened() -> Result<()> {
    let world = World::new("hooks-events")?;
    let operator = world.start()?;
    let widget = world.install("a", json!({"extra": ["one"]}))?;
    ensure!(
        widget["status"]["notes"]
            .as_str()
            .is_some_and(|notes| notes.trim() == "Widget a is blue."),
        "{widget}"
    );
    ensure!(
        world
            .await_event("a", "InstallSuccessful")?
            .contains("2 objects applied")
    );
    let widget = world.update("a", json!({"color": "red"}))?;
    ensure!(
        widget["status"]["notes"]
            .as_str()
            .is_some_and(|notes| notes.contains("red")),
        "{widget}"
    );
    ensure!(
        world
            .await_event("a", "UpgradeSuccessful")?
            .contains("1 object applied")
    );
    world.update("a", json!({"extra": []}))?;
    world.await_quiet(&operator)?;
    let events = world.events("a")?;
    ensure!(
        events
            .iter()
            .any(|(_, note)| note.contains("pruned") && note.contains("a-one")),
        "{events:?}"
    );
    world.edit("a", json!({"fail": "oh no"}))?;
    ensure!(world.await_event("a", "RenderFailed")?.contains("oh no"));
    world.delete("a")?;
    world.await_event("a", "UninstallSuccessful")?;
    Ok(())
}

#[test]
fn a_suspended_release_is_neither_changed_nor_uninstalled() -> Result<()> {
    let world = World::new("hooks-suspend")?;
    let operator = world.start()?;
    for name in ["a", "b"] {
        world.install(name, json!({"extra": ["one"]}))?;
        world.annotate(name, json!({"chartwright.dev/suspend": "true"}))?;
        world.await_condition(name, "Suspended", "True")?;
    }
    world.edit("a", json!({"color": "red", "extra": []}))?;
    world.patch("configmap", "a-one", &json!({"data": {"extra": "by hand"}}))?;
    world.kubectl.delete("configmap", "b-one")?;
    let before = versions(&world.labelled("configmaps")?);
    world.await_condition("a", "Suspended", "True")?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(
        versions(&world.labelled("configmaps")?) == before,
        "a suspended release was changed"
    );

    // Nor by another process that meets it suspended.
    operator.kill()?;
    let _operator = world.start()?;
    world.install("c", json!({}))?;
    world.delete("c")?;
    ensure!(
        versions(&world.labelled("configmaps")?) == before,
        "a suspended release was changed"
    );
    let main = world.expect("configmap", "b-main")?;
    world.delete("b")?;
    // It loses its owner, so that it isn't collected with it.
    let left = world.expect("configmap", "b-main")?;
    ensure!(
        uid(&left) == uid(&main)
            && left["data"] == main["data"]
            && left["metadata"]["labels"] == main["metadata"]["labels"],
        "deletion changed members of a suspended release: {left}"
    );
    ensure!(
        versions(&world.labelled("configmaps")?).len() == before.len(),
        "deletion took members of a suspended release"
    );

    world.annotate("a", json!({"chartwright.dev/suspend": null}))?;
    let widget = world.await_ready("a")?;
    ensure!(crate::look::condition(&widget, "Suspended").is_none(), "{widget}");
    ensure!(world.get("configmap", "a-one")?.is_none(), "what waited is done");
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    Ok(())
}
