//! The operator dies at any moment, and the next one finishes what it began.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::look::inventory;
use crate::operator::Operator;
use crate::support::eventually;
use crate::world::{SOON, World};

const COUNT: usize = 20;

fn names() -> Vec<String> {
    (0..COUNT).map(|number| format!("w{number:02}")).collect()
}

fn apply_all(world: &World, spec: &Value) -> Result<()> {
    let items: Vec<Value> = names().iter().map(|name| world.widget(name, spec.clone())).collect();
    world.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// Waits until all are ready at their generation; gives them.
fn await_all_ready(world: &World) -> Result<Vec<Value>> {
    eventually("all widgets are ready", SOON, || {
        let widgets = world.kubectl.list(&world.widgets(), "")?;
        let ready = |widget: &&Value| {
            crate::look::condition(widget, "Ready").is_some_and(|ready| {
                ready["status"] == "True" && ready["observedGeneration"] == widget["metadata"]["generation"]
            })
        };
        let count = widgets.iter().filter(ready).count();
        ensure!(count == COUNT, "{count} are");
        Ok(Some(widgets))
    })
}

/// Every object with the operator's label is in the inventory of a widget, and the other way round.
fn nothing_leaks(world: &World, widgets: &[Value]) -> Result<()> {
    let listed: BTreeSet<String> = widgets.iter().flat_map(inventory).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let live = world.labelled("configmaps,deployments")?;
    let live: BTreeSet<String> = live
        .iter()
        .map(|object| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"])))
        .collect();
    ensure!(
        live == listed,
        "only live: {:?}; only listed: {:?}",
        &live - &listed,
        &listed - &live
    );
    Ok(())
}

/// Kills the operator when at least `count` of its objects are as `counts` wants them.
fn kill_when(world: &World, operator: Operator, count: usize, counts: impl Fn(&Value) -> bool) -> Result<()> {
    eventually("the work is half done", SOON, || {
        let done = world
            .labelled("configmaps")?
            .iter()
            .filter(|object| counts(object))
            .count();
        Ok((done >= count).then_some(()))
    })?;
    operator.kill()
}

#[test]
fn a_kill_in_the_middle_of_installs_updates_and_deletions_loses_nothing() -> Result<()> {
    let world = World::new("crash-kill")?.watch_key("maxConcurrentReconciles: 2");
    let spec = |color: &str, extra: Value| json!({"color": color, "extra": extra});
    let start = world.mark()?;
    apply_all(&world, &spec("blue", json!(["one", "two", "three"])))?;
    kill_when(&world, world.start()?, 10, |_| true)?;
    let begun = world.labelled("configmaps")?.len();
    ensure!(begun < COUNT * 4, "it was not in the middle: {begun}");

    let operator = world.start()?;
    nothing_leaks(&world, &await_all_ready(&world)?)?;
    let requests = world.all_requests(&operator, start)?.resource("configmaps");
    ensure!(
        requests.clone().verb("delete").is_empty(),
        "{}",
        requests.verb("delete")
    );
    let mut creates: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests.filter(|request| request.status == 201) {
        *creates.entry(request.name).or_default() += 1;
    }
    // The answers to the two requests of the moment of death reached nobody, and the log calls them failed.
    ensure!(
        creates.len() + 2 >= COUNT * 4 && creates.values().all(|count| *count == 1),
        "{creates:?}"
    );

    apply_all(&world, &spec("red", json!(["one"])))?;
    kill_when(&world, operator, 8, |object| object["data"]["color"] == "red")?;
    let operator = world.start()?;
    nothing_leaks(&world, &await_all_ready(&world)?)?;
    ensure!(world.labelled("configmaps")?.len() == COUNT * 2);

    world
        .kubectl
        .run(["delete", &world.widgets(), "--all", "--wait=false"])?;
    eventually("some are deleted", SOON, || {
        Ok((world.labelled("configmaps")?.len() < COUNT * 2).then_some(()))
    })?;
    operator.kill()?;
    let _operator = world.start()?;
    eventually("all is gone", SOON, || {
        let left = world.kubectl.list(&world.widgets(), "")?.len();
        ensure!(left == 0, "{left} are left");
        Ok(Some(()))
    })?;
    nothing_leaks(&world, &[])
}

#[test]
fn what_a_killed_operator_had_begun_goes_with_custom_resources_that_are_deleted_meanwhile() -> Result<()> {
    let world = World::new("crash-gone")?.watch_key("maxConcurrentReconciles: 4");
    apply_all(
        &world,
        &json!({"extra": ["one", "two", "three", "four", "five", "six"]}),
    )?;
    kill_when(&world, world.start()?, 15, |_| true)?;
    world
        .kubectl
        .run(["delete", &world.widgets(), "--all", "--wait=false"])?;
    let _operator = world.start()?;
    eventually("all widgets are gone", SOON, || {
        Ok(world.kubectl.list(&world.widgets(), "")?.is_empty().then_some(()))
    })?;
    nothing_leaks(&world, &[])
}

#[test]
fn sigterm_ends_in_time_whatever_is_going_on() -> Result<()> {
    let world = World::new("crash-term")?;
    apply_all(&world, &json!({"extra": ["one", "two", "three"]}))?;
    let operator = world.start()?;
    eventually("the work has begun", SOON, || {
        Ok((!world.labelled("configmaps")?.is_empty()).then_some(()))
    })?;
    let asked = Instant::now();
    let status = operator.terminate()?;
    ensure!(
        status.success() && asked.elapsed() < Duration::from_secs(8),
        "{status} after {:?}",
        asked.elapsed()
    );
    // What had begun was ended, not cut off: each release is whole, or not begun.
    for widget in world.kubectl.list(&world.widgets(), "")? {
        let claimed = widget["metadata"]["finalizers"].is_array();
        ensure!(claimed == widget["status"].is_object(), "{widget}");
    }
    let _operator = world.start()?;
    nothing_leaks(&world, &await_all_ready(&world)?)
}

#[test]
fn what_changes_while_no_operator_runs_is_put_right_by_the_next() -> Result<()> {
    let world = World::new("crash-away")?;
    let operator = world.start()?;
    for name in ["a", "b", "c"] {
        world.install(name, json!({"extra": ["one"]}))?;
    }
    operator.kill()?;
    world.kubectl.run(["delete", "configmap", "a-one"])?;
    world
        .kubectl
        .patch("configmap", "a-main", &json!({"data": {"color": "pink"}}))?;
    world.kubectl.run(["delete", &world.widgets(), "b", "--wait=false"])?;
    world.edit("c", json!({"extra": []}))?;
    world.apply(&world.widget("d", json!({})))?;
    let _operator = world.start()?;
    world.await_object("configmap", "a-one", "is back", |_| true)?;
    world.await_object("configmap", "a-main", "is blue", |main| main["data"]["color"] == "blue")?;
    world.await_gone(&world.widgets(), "b")?;
    ensure!(world.get("configmap", "b-main")?.is_none() && world.get("configmap", "b-one")?.is_none());
    world.await_ready("c")?;
    ensure!(world.get("configmap", "c-one")?.is_none());
    world.await_ready("d")?;
    Ok(())
}
