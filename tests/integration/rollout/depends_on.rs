//! `dependsOn`: what waits until something else is ready, by watch, and what goes on all the same.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::operator::METERED;
use crate::world::{PROMPT, World};

/// The widgets of a world depend on a Gadget that they name.
fn world(name: &str) -> Result<World> {
    let on = format!(
        "dependsOn: [{{group: {name}.test, kind: Gadget, name: '{{{{ .spec.gadget }}}}', readyWhen: \"self.status.phase == 'Up'\"}}]"
    );
    let world = World::new(name)?.watch_key(&on);
    world.install_crd("Gadget")?;
    Ok(world)
}

fn set_phase(world: &World, phase: &str) -> Result<()> {
    let status = json!({"status": {"phase": phase}});
    world.kubectl.patch_status(&world.resource("Gadget"), "db", &status)
}

/// A widget that depends on others, by its annotation.
fn dependent(world: &World, name: &str, on: &Value) -> Value {
    let mut widget = world.widget(name, json!({}));
    widget["metadata"]["annotations"] = json!({"chartwright.dev/depends-on": on.to_string()});
    widget
}

fn on(world: &World, name: &str) -> Value {
    json!([{"group": world.group(), "kind": "Widget", "name": name}])
}

#[test]
fn a_release_starts_when_its_dependency_is_ready() -> Result<()> {
    let world = world("depends")?;
    let operator = world.launch(&METERED)?;
    world.apply_widget("a", json!({"gadget": "db"}))?;
    let waits = |part: &str| world.await_unready("a", "DependencyNotReady", &["Gadget.depends.test depends/db", part]);
    waits("is not there")?;
    world.await_event(
        "a",
        "DependencyNotReady",
        &["Gadget.depends.test depends/db is not there"],
    )?;
    world.apply(&world.custom("Gadget", "db", json!({})))?;
    waits("there is no status")?;
    world.await_event("a", "DependencyNotReady", &["there is no status"])?;
    let widget = world.live("a")?;
    ensure!(widget["metadata"]["finalizers"].is_null(), "{widget}");
    world.absent("configmap", ["a-main"])?;
    world.await_quiet(&operator)?;
    ensure!(operator.renders()? == 0.0, "nothing is to be rendered yet");
    let begun = Instant::now();
    set_phase(&world, "Up")?;
    world.await_ready("a")?;
    ensure!(begun.elapsed() < PROMPT, "after {:?}", begun.elapsed());

    // What runs goes on, and an upgrade waits.
    set_phase(&world, "Down")?;
    world.await_quiet(&operator)?;
    world.await_ready("a")?;
    world.edit("a", json!({"color": "red"}))?;
    waits("is false")?;
    world.await_color("a-main", "blue")?;
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 2.0)?;
    set_phase(&world, "Up")?;
    world.await_color("a-main", "red")?;
    world.await_ready("a")?;

    // Each change is one Event.
    let events = world.events("a")?;
    let waited: Vec<_> = events
        .iter()
        .filter(|(reason, _)| reason == "DependencyNotReady")
        .collect();
    let mut distinct = waited.clone();
    distinct.sort();
    distinct.dedup();
    ensure!(waited.len() == distinct.len() && waited.len() <= 4, "{events:?}");

    // Deletion ignores dependencies in both directions.
    world.kubectl.delete(&world.resource("Gadget"), "db")?;
    world.await_ready("a")?;
    world.delete("a")
}

#[test]
fn a_dependency_cycle_is_reported() -> Result<()> {
    let world = World::new("depends-cycle")?;
    let _operator = world.start()?;
    for (name, other) in [("a", "b"), ("b", "c")] {
        world.apply(&dependent(&world, name, &on(&world, other)))?;
    }
    world.await_unready("a", "DependencyNotReady", &["depends-cycle/b is not"])?;
    world.apply(&dependent(&world, "c", &on(&world, "a")))?;
    world.await_stalled(
        "c",
        "DependencyCycle",
        &["Widget/c -> Widget/a -> Widget/b -> Widget/c"],
    )?;
    world.await_stalled(
        "b",
        "DependencyCycle",
        &["Widget/b -> Widget/c -> Widget/a -> Widget/b"],
    )?;
    world.await_stalled(
        "a",
        "DependencyCycle",
        &["Widget/a -> Widget/b -> Widget/c -> Widget/a"],
    )?;
    world.absent("configmap", ["a-main", "b-main", "c-main"])?;

    world.annotate("b", json!({"chartwright.dev/depends-on": null}))?;
    for name in ["b", "a", "c"] {
        world.await_ready(name)?;
    }
    // The cycle is reported on running releases too, and ends when another edge is removed.
    world.annotate("b", json!({"chartwright.dev/depends-on": on(&world, "c").to_string()}))?;
    world.await_stalled("b", "DependencyCycle", &["Widget/b -> Widget/c"])?;
    world.paint("b-main", "odd")?;
    world.await_color("b-main", "blue")?;
    world.annotate("c", json!({"chartwright.dev/depends-on": null}))?;
    world.await_ready("b")?;
    // One that others wait for goes.
    world.annotate("a", json!({"chartwright.dev/depends-on": on(&world, "a").to_string()}))?;
    world.await_stalled("a", "DependencyCycle", &["Widget/a -> Widget/a"])?;
    world.delete("c")?;
    world.delete("a")
}

#[test]
fn depends_on_reveals_only_the_authors_namespace() -> Result<()> {
    let world = World::new("depends-own")?.granted("", "secrets")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let set = |name: &str, list: Value| {
        let list = list.to_string();
        world.annotate(name, json!({"chartwright.dev/depends-on": list}))
    };
    for (entry, reason, message) in [
        (json!({"kind": "ConfigMap"}), "ValuesInvalid", "missing field `name`"),
        (
            json!({"kind": "ConfigMap", "name": "{{ .x }}"}),
            "ValuesInvalid",
            "depends-on[0]: name: \"{{ .x }}\"",
        ),
        (
            json!({"kind": "ConfigMap", "name": "x", "readyWhen": "self."}),
            "ValuesInvalid",
            "chartwright.dev/depends-on[0]: readyWhen: the expression \"self.\" does not compile",
        ),
        (
            json!({"kind": "Secret", "name": "x", "readyWhen": "true"}),
            "Refused",
            "Secrets can be named",
        ),
        (
            json!({"kind": "ConfigMap", "name": "x", "namespace": "kube-system"}),
            "Refused",
            "`lookups.namespaces`",
        ),
        (
            json!({"kind": "PersistentVolume", "name": "x"}),
            "Refused",
            "`lookups.kinds`",
        ),
    ] {
        set("a", json!([entry]))?;
        world.await_unready("a", reason, &[message])?;
    }
    // It runs all the same, and is well as soon as that is.
    world.paint("a-main", "odd")?;
    world.await_color("a-main", "blue")?;
    set("a", json!([{"kind": "ConfigMap", "name": "x", "readyWhen": "true"}]))?;
    world.await_ready("a")?;
    world.edit("a", json!({"color": "red"}))?;
    world.await_unready("a", "DependencyNotReady", &["ConfigMap depends-own/x is not there"])?;
    world.apply(&crate::world::config_map("x", json!({})))?;
    world.await_ready("a")?;
    world.await_color("a-main", "red").map(drop)
}
