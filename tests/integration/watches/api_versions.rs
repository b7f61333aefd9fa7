//! What goes away while the operator runs: a version of a member's API.

use anyhow::Result;
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::{SOON, World, crd, member_rule};

/// A CRD `Gadget` that has been there as v1alpha1 and becomes v1.
fn serve_gadgets(world: &World, alpha: bool, stable: bool) -> Result<()> {
    let mut crd = crd(&world.group(), "Gadget");
    let mut version = crd["spec"]["versions"][0].take();
    version["served"] = stable.into();
    let mut former = version.clone();
    former["name"] = "v1alpha1".into();
    former["served"] = alpha.into();
    former["storage"] = false.into();
    crd["spec"]["versions"] = json!([version, former]);
    world.control_plane.kubectl().apply(&crd.to_string())?;
    Ok(())
}

#[test]
fn a_kind_is_watched_in_another_version_when_its_version_is_removed() -> Result<()> {
    let world = World::of_chart("gone-version", "moving")?;
    let group = world.group();
    world.grant("gadgets", &[member_rule(&group, "gadgets")])?;
    serve_gadgets(&world, true, false)?;
    let gadgets = world.resource("Gadget");
    let await_served = |version: &str, name: &str, spec: Value| {
        let object = json!({
            "apiVersion": format!("{group}/{version}"), "kind": "Gadget", "metadata": {"name": name}, "spec": spec,
        });
        eventually(&format!("{version} is served"), SOON, || Ok(world.apply(&object).ok()))
    };
    await_served("v1alpha1", "source", json!({"text": "one"}))?;
    let operator = world.start()?;
    world.install("a", json!({"version": "v1alpha1", "group": group}))?;
    let await_copy = |text: &str| world.await_field("configmap", "a-copy", "/data/of", text);
    await_copy("one")?;

    serve_gadgets(&world, true, true)?;
    await_served("v1", "other", json!({}))?;
    world.update("a", json!({"version": "v1"}))?;
    serve_gadgets(&world, false, true)?;
    operator.await_log("this version is no longer served")?;
    world.patch(&gadgets, "a", &json!({"spec": {"size": 9}}))?;
    world.await_field(&gadgets, "a", "/spec/size", 1)?;
    world.patch(&gadgets, "source", &json!({"spec": {"text": "two"}}))?;
    await_copy("two")?;
    for status in ["False", "True"] {
        let conditions = json!([{"type": "Ready", "status": status, "reason": "Said", "message": "so"}]);
        world.patch(&gadgets, "a", &json!({"status": {"conditions": conditions}}))?;
        world.await_condition("a", "Ready", status)?;
    }
    world.kubectl.delete(&gadgets, "a")?;
    world.await_there(&gadgets, "a")?;
    world.update("a", json!({"more": true}))?;
    world.expect(&gadgets, "source")?;
    world.expect(&gadgets, "other").map(drop)
}
