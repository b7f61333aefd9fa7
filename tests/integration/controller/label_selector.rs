//! `--watch-label-selector`: operators that share the custom resources by a label.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::world::World;
use crate::world::operator::{Launch, UNELECTED};

fn apply(world: &World, name: &str, shard: &str) -> Result<()> {
    let mut widget = world.widget(name, json!({}));
    widget["metadata"]["labels"] = json!({"shard": shard});
    world.apply(&widget)
}

#[test]
fn operators_share_the_custom_resources_by_a_label() -> Result<()> {
    let world = World::new("label-selector")?;
    let launch = |arguments: &'static [&'static str], replica| Launch {
        arguments,
        replica,
        metrics: true,
        ..UNELECTED
    };
    let first = launch(&["--leader-elect=false", "--watch-label-selector=shard in (a, b)"], 1);
    let first = world.launch(&first)?;
    apply(&world, "one", "a")?;
    apply(&world, "two", "b")?;
    apply(&world, "other", "c")?;
    world.await_ready("one")?;
    world.await_ready("two")?;
    world.await_quiet(&first)?;
    ensure!(
        world.live("other")?["status"]["conditions"].is_null(),
        "of another operator"
    );

    let second = launch(&["--leader-elect=false", "--watch-label-selector=shard=c"], 2);
    let second = world.launch(&second)?;
    world.await_ready("other")?;
    // The members of the others are no leftovers.
    ensure!(second.metric("chartwright_leftovers")? == 0.0);
    ensure!(
        !second.log().contains("objects of custom resources that are not there"),
        "{}",
        second.log()
    );

    // One moves to the other operator, and nothing of it is deleted or written.
    let before = world.expect("configmap", "two-main")?;
    apply(&world, "two", "c")?;
    world.await_quiet(&first)?;
    world.await_quiet(&second)?;
    let after = world.expect("configmap", "two-main")?;
    ensure!(
        after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"],
        "{after}"
    );
    drop(first);
    world.update("two", json!({"color": "green"}))?;
    world.await_color("two-main", "green")?;
    // One that no operator has stays as it is.
    apply(&world, "two", "none")?;
    world.await_quiet(&second)?;
    world.begin_delete("two")?;
    world.await_quiet(&second)?;
    world.expect("configmap", "two-main")?;
    apply(&world, "two", "c")?;
    world.await_gone("configmap", "two-main")
}

#[test]
fn a_wrong_selector_is_refused_at_the_start() -> Result<()> {
    let world = World::new("label-selector-wrong")?;
    world.write_watches()?;
    let (status, output) = world.chartwright(&["run", "--watch-label-selector=shard in a"])?;
    ensure!(
        status.code() == Some(2) && output.contains("no requirement of a label selector"),
        "{output}"
    );
    Ok(())
}
