//! An API server that goes away and comes back.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::look::versions;
use crate::support::eventually;
use crate::world::{SOON, Setup, World, member_rule};

#[test]
fn an_api_server_that_goes_away_and_comes_back_costs_nothing_but_time() -> Result<()> {
    let world = World::with(
        "absence",
        Setup {
            alone: true,
            ..Setup::default()
        },
    )?;
    world.install_crd("Gadget")?;
    world.grant("gadgets", &[member_rule(&world.group(), "gadgets")])?;
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
    eventually("the API server answers", SOON, || {
        Ok(world
            .kubectl
            .run(["delete", &world.widgets(), "c", "--wait=false"])
            .ok())
    })?;
    world.await_gone(&world.widgets(), "c")?;
    ensure!(
        world.get(&world.resource("Gadget"), "made")?.is_none(),
        "a member was forgotten"
    );
    let mut after = before;
    after.retain(|name, _| !name.contains("c-main"));
    ensure!(
        versions(&world.labelled("configmaps")?) == after,
        "unchanged members were written"
    );
    ensure!(!operator.log().contains("no longer serve"), "{}", operator.log());

    world.edit("a", json!({"extra": [], "color": "red"}))?;
    world.await_gone("configmap", "a-one")?;
    world.await_ready("a")?;
    world.kubectl.run(["delete", "configmap", "b-two"])?;
    world.await_object("configmap", "b-two", "is made anew", |_| true)?;
    Ok(())
}
