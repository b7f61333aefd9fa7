//! Custom resources and objects at the API server's limits of depth and size affect no other release.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::inventory;
use crate::world::operator::METERED;
use crate::world::{SOON, World, annotated_map, config_map};

/// A mapping that nests so deep. (As text: serde_json reads 128 levels.)
fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

/// Applies an object whose mark is replaced by a deep value. (With kubectl: a test's thread has no stack for it.)
fn apply_deep(world: &World, object: &Value, levels: usize) -> Result<()> {
    let text = object.to_string().replace("\"DEEP\"", &nested(levels));
    let arguments = ["apply", "--server-side", "-f", "-"];
    world.kubectl.run_with_input(arguments, &text).map(drop)
}

/// The reason and message of a condition of a custom resource that is too large to read.
fn reason_and_message(world: &World, name: &str, condition: &str) -> Result<String> {
    let path = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")]['status','reason','message']}}");
    world.run(["get", &world.widgets(), name, "-o", &path])
}

fn await_message(world: &World, name: &str, condition: &str, text: &str) -> Result<()> {
    let waited = eventually(&format!("{name}: {condition} says {text}"), SOON, || {
        let found = reason_and_message(world, name, condition)?;
        ensure!(found.contains(text), "it says {found:?}");
        Ok(Some(()))
    });
    waited.with_context(|| world.describe_failure(""))
}

#[test]
fn deeply_nested_objects_are_read_and_delay_no_other_release() -> Result<()> {
    let world = World::new("bounds-deep")?.with_gadgets()?;
    let operator = world.start()?;
    let mut made = world.custom("Gadget", "made", json!({"deep": "DEEP"}));
    let main = json!({"color": "red", "note": "sibling-password-1", "extraDeploy": [world.custom("Gadget", "plain", json!({"size": 1}))]});
    world.install("a", main)?;
    let deep = json!({"color": "green", "deep": "DEEP", "extraDeploy": [made]});
    apply_deep(&world, &world.widget("deep", deep), 300)?;
    apply_deep(&world, &world.widget("deeper", json!({"deep": "DEEP"})), 5000)?;
    await_message(&world, "deep", "Ready", "True")?;
    let deeper = "nests 5001 levels deep; at most 1000 are read";
    await_message(&world, "deeper", "Stalled", deeper)?;
    ensure!(world.expect("configmap", "deep-main")?["data"]["color"] == "green");

    // One that anybody may make, with our label.
    made["metadata"] = json!({"name": "foreign", "labels": {"chartwright.dev/operator": world.name}});
    apply_deep(&world, &made, 2000)?;
    operator.terminate()?;
    let operator = world.start_and_settle()?;
    let gadgets = world.resource("Gadget");
    world.patch(&gadgets, "plain", &json!({"spec": {"size": 2}}))?;
    world.await_field(&gadgets, "plain", "/spec/size", 1)?;
    world.paint("deep-main", "x")?;
    world.await_color("deep-main", "green")?;
    world.update("a", json!({"color": "blue"}))?;

    world.run(["delete", &world.widgets(), "deep", "deeper"])?;
    world.absent("configmap", ["deep-main"])?;
    world.await_gone(&gadgets, "made")?;
    let log = operator.log();
    ensure!(!log.contains("recursion") && !log.contains("sibling-password"), "{log}");
    Ok(())
}

/// Applies a widget with as much in it as the API server takes, but for less than a hundred bytes.
fn apply_largest(world: &World, name: &str, spec: &Value) -> Result<usize> {
    for size in (1_560_000..1_573_000).rev().step_by(90) {
        let mut spec = spec.clone();
        spec["filler"] = "x".repeat(size).into();
        match world.apply_widget(name, spec) {
            Ok(()) => return Ok(size),
            Err(error) if error.to_string().contains("too large") => {}
            Err(error) => return Err(error),
        }
    }
    bail!("none was small enough")
}

#[test]
fn a_custom_resource_of_maximum_size_is_reported_and_can_be_deleted() -> Result<()> {
    let world = World::new("bounds-large")?;
    let operator = world.launch(&METERED)?;
    apply_largest(&world, "big", &json!({"color": "red"}))?;
    let text = ["request is too large", "make it smaller (it has about 157"];
    world.await_event("big", "Claim", &text)?;
    world.await_quiet(&operator)?;
    world.absent("configmap", ["big-main"])?;
    ensure!(operator.metric("chartwright_refused_writes_total{kind=\"Widget\"}")? >= 2.0);
    world.install("a", json!({}))?;
    world.delete("big")?;
    ensure!(operator.log().len() < 64 << 10, "{}", operator.log());
    Ok(())
}

#[test]
fn a_status_over_the_size_limit_is_reduced_and_other_statuses_are_complete() -> Result<()> {
    let world = World::new("bounds-status")?.granted("", "secrets")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.install("big", json!({}))?;
    let names: Vec<String> = (0..9).map(|n| format!("n{n}")).collect();
    apply_largest(&world, "big", &json!({"extra": names}))?;
    let big = world.await_ready("big")?;
    ensure!(big["status"]["inventory"].is_null(), "{}", big["status"]);
    ensure!(big["status"]["release"]["record"]["members"] == 10, "{}", big["status"]);
    ensure!(inventory(&world.update("a", json!({"color": "red"}))?).len() == 2);
    world.await_quiet(&operator)?;

    // What is in its Secret is as good.
    operator.terminate()?;
    let operator = world.start_and_settle()?;
    world.kubectl.delete("configmap", "big-n3")?;
    world.await_there("configmap", "big-n3")?;
    let patch =
        json!([{"op": "remove", "path": "/spec/filler"}, {"op": "replace", "path": "/spec/extra", "value": ["n1"]}]);
    world.patch_by("json", &world.widgets(), "big", &patch)?;
    let big = world.await_ready("big")?;
    ensure!(inventory(&big) == ["ConfigMap big-main", "ConfigMap big-n1"], "{big}");
    world.await_quiet(&operator)?;
    ensure!(world.labelled("configmaps")?.len() == 4);
    world.delete("big")
}

#[test]
fn long_names_reach_neither_the_api_server_nor_the_status() -> Result<()> {
    let world = World::new("bounds-names")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let long = "x".repeat(500_000);
    let hook = annotated_map(&long, "helm.sh/hook", "pre-install");
    for (name, object) in [("hooked", hook), ("named", config_map(&long, json!({})))] {
        world.apply_widget(name, json!({"extraDeploy": [object]}))?;
        let message = world.await_stalled(name, "ManifestInvalid", &["more than 253 bytes"])?;
        ensure!(message.len() < 400, "{}", message.len());
    }
    // No rights on Secrets: what one status can't hold is no other's business.
    world.update("a", json!({"color": "red"}))?;
    ensure!(operator.log().len() < 64 << 10);
    Ok(())
}
