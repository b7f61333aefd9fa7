//! What a CustomResourceDefinition's schema makes of custom resources, and what becomes of releases when it goes.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::uid;
use crate::world::{SOON, World, any_fields};

/// Gives the kind other schemas. The API server takes a moment to mind them.
fn change_schema(world: &World, spec: &Value, status: &Value) -> Result<()> {
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]);
    world.patch_by("json", "crd", &world.widgets(), &patch)?;
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}

fn delete_crd(world: &World) -> Result<()> {
    world.kubectl.begin_delete("crd", &world.widgets())
}

fn secrets(world: &World) -> Result<usize> {
    let key = format!("{}-hmac-key", world.name);
    let is_another = |secret: &&Value| secret["metadata"]["name"] != key.as_str();
    Ok(world.list("secrets", "")?.iter().filter(is_another).count())
}

/// The API server then refuses every write on what was made before: status, finalizer and all.
#[test]
fn a_custom_resource_invalid_under_a_newer_schema_is_reported_and_affects_no_other() -> Result<()> {
    let world = World::new("schema-spec")?;
    let operator = world.start()?;
    world.install("a", json!({"color": "red", "extra": ["one"]}))?;
    world.install("b", json!({"color": "red", "needed": "x"}))?;
    let mut strict = any_fields();
    strict["required"] = json!(["needed"]);
    strict["properties"] = json!({"needed": {"type": "string"}});
    strict["x-kubernetes-validations"] = json!([{"rule": "self.needed == 'x'"}]);
    change_schema(&world, &strict, &any_fields())?;
    ensure!(world.edit("a", json!({"color": "blue"})).is_err());

    world.kubectl.delete("configmap", "a-main")?;
    world.await_there("configmap", "a-main")?;
    world.await_event("a", "StatusUnwritten", &["needed", "doesn't fit the schema"])?;
    world.update("b", json!({"color": "green"}))?;
    ensure!(secrets(&world)? == 0, "the status of the others keeps their records");

    world.begin_delete("a")?;
    world.await_event("a", "DeleteFailed", &["finalizer", "spec.needed"])?;
    world.absent("configmap", ["a-main"])?;
    world.expect("configmap", "b-main")?;
    change_schema(&world, &any_fields(), &any_fields())?;
    world.await_gone_within(2 * SOON, &world.widgets(), "a")?;
    ensure!(!operator.log().contains("are kept in Secrets"), "{}", operator.log());
    Ok(())
}

#[test]
fn a_record_that_the_status_schema_refuses_is_stored_in_a_secret() -> Result<()> {
    let world = World::new("schema-status")?.granted("", "secrets")?;
    let mut status = any_fields();
    status["properties"] = json!({"conditions": {"type": "array", "maxItems": 1, "items": any_fields()}});
    change_schema(&world, &any_fields(), &status)?;
    let operator = world.start()?;
    world.apply_widget("a", json!({"extra": ["one"]}))?;
    world.await_event("a", "Ready", &["2 members are ready"])?;
    world.await_quiet(&operator)?;
    ensure!(secrets(&world)? == 1);
    let operator = world.replace_and_settle(operator)?;
    world.edit("a", json!({"extra": []}))?;
    world.await_gone("configmap", "a-one")?;
    world.await_quiet(&operator)?;
    world.delete("a")?;
    ensure!(secrets(&world)? == 0 && world.labelled("configmaps")?.is_empty());
    Ok(())
}

#[test]
fn a_removed_crd_deletes_its_releases_and_can_be_reinstalled() -> Result<()> {
    // With references, the garbage collector would finally delete the objects that are adopted or reported here.
    let world = World::new("schema-gone")?.watch_key("ownerReferences: false");
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    delete_crd(&world)?;
    world.await_gone("crd", &world.widgets())?;
    ensure!(world.labelled("configmaps")?.is_empty());
    operator.await_log("no longer serves")?;
    world.install_crd("Widget")?;
    world.install("a", json!({"extra": ["two"]}))?;
    let main = world.expect("configmap", "a-main")?;
    let two = world.expect("configmap", "a-two")?;

    // While no operator runs, and with force: the custom resources go, and nothing of theirs.
    operator.kill()?;
    delete_crd(&world)?;
    world.remove_finalizers(&world.widgets(), "a")?;
    world.await_gone("crd", &world.widgets())?;
    let operator = world.start()?;
    operator.await_log("waiting for its CustomResourceDefinition")?;
    world.install_crd("Widget")?;
    world.install("a", json!({"extra": ["three"], "color": "red"}))?;
    ensure!(uid(&world.expect("configmap", "a-main")?) == uid(&main), "recreated");
    let message = world.await_event("a", "Leftover", &["ConfigMap schema-gone/a-two"])?;
    ensure!(!message.contains("a-main"), "{message}");
    ensure!(world.expect("configmap", "a-two")? == two);
    world.delete("a")?;
    let left: Vec<String> = world.labelled("configmaps")?.iter().map(uid).collect();
    ensure!(left == [uid(&two)], "{left:?}");
    Ok(())
}

/// A create drops nulls that a schema doesn't take; server-side apply refuses them.
#[test]
fn nulls_that_the_schema_of_a_member_refuses_are_left_out() -> Result<()> {
    let world = World::new("schema-nulls")?.with_gadgets()?;
    let mut spec = any_fields();
    spec["properties"] = json!({"parts": any_fields()});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": any_fields()}});
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]);
    let gadgets = format!("gadgets.{}", world.group());
    world.patch_by("json", "crd", &gadgets, &patch)?;
    std::thread::sleep(Duration::from_secs(3));
    let operator = world.start()?;
    let gadget = |size: u32| world.custom("Gadget", "made", json!({"parts": null, "size": size}));
    world.install("a", json!({"extraDeploy": [gadget(1)]}))?;
    let made = |size: u32| {
        let made = world.expect(&gadgets, "made")?;
        ensure!(made["spec"] == json!({"size": size}), "{made}");
        Ok::<_, anyhow::Error>(made)
    };
    let first = made(1)?;
    world.await_quiet(&operator)?;
    world.update("a", json!({"extraDeploy": [gadget(2)]}))?;
    ensure!(uid(&made(2)?) == uid(&first), "recreated");
    // A field that isn't sent was not removed by another client.
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 3.0)
}
