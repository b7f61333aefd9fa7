//! The operator ends or dies, and the next one finishes what it began. Kills at each write: `tests/torture/real_server/kill.rs`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::{eventually, until};
use crate::world::fields::{inventory, is_ready, text};
use crate::world::{SOON, World};

const COUNT: usize = 20;

fn apply_all(world: &World, spec: &Value) -> Result<()> {
    let widget = |number| world.widget(&format!("w{number:02}"), spec.clone());
    let items: Vec<Value> = (0..COUNT).map(widget).collect();
    world.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// Waits until all are ready at their generation; gives them.
fn await_all_ready(world: &World) -> Result<Vec<Value>> {
    eventually("all widgets are ready", SOON, || {
        let widgets = world.list(&world.widgets(), "")?;
        let count = widgets.iter().filter(|widget| is_ready(widget)).count();
        ensure!(count == COUNT, "{count} are");
        Ok(Some(widgets))
    })
}

/// Every object with the operator's label is in the inventory of a widget, and the other way round.
fn nothing_leaks(world: &World, widgets: &[Value]) -> Result<()> {
    let listed: BTreeSet<String> = widgets.iter().flat_map(inventory).collect();
    let named = |object: &Value| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]));
    let live: BTreeSet<String> = world.labelled("configmaps,deployments")?.iter().map(named).collect();
    ensure!(live == listed);
    Ok(())
}

#[test]
fn sigterm_ends_the_operator_within_its_limit() -> Result<()> {
    let world = World::new("crash-term")?;
    apply_all(&world, &json!({"extra": ["one", "two", "three"]}))?;
    let operator = world.start()?;
    let begun = || Ok(!world.labelled("configmaps")?.is_empty());
    until("the work has begun", SOON, begun)?;
    let start = Instant::now();
    ensure!(operator.terminate()?.success());
    let took = start.elapsed();
    ensure!(took < Duration::from_secs(8), "after {took:?}");
    // What had begun was ended, not cut off: each release is whole, or not begun.
    for widget in world.list(&world.widgets(), "")? {
        let claimed = widget["metadata"]["finalizers"].is_array();
        ensure!(claimed == widget["status"].is_object(), "{widget}");
    }
    let _operator = world.start()?;
    nothing_leaks(&world, &await_all_ready(&world)?)
}

#[test]
fn changes_made_while_no_operator_runs_are_corrected_by_the_next() -> Result<()> {
    let world = World::new("crash-away")?;
    let operator = world.start()?;
    for name in ["a", "b", "c"] {
        world.install(name, json!({"extra": ["one"]}))?;
    }
    operator.kill()?;
    world.kubectl.delete("configmap", "a-one")?;
    world.paint("a-main", "pink")?;
    world.begin_delete("b")?;
    world.edit("c", json!({"extra": []}))?;
    world.apply_widget("d", json!({}))?;
    let _operator = world.start()?;
    world.await_there("configmap", "a-one")?;
    world.await_color("a-main", "blue")?;
    world.await_deleted("b")?;
    world.absent("configmap", ["b-main", "b-one"])?;
    world.await_ready("c")?;
    world.absent("configmap", ["c-one"])?;
    world.await_ready("d").map(drop)
}
