//! `collisions: AdoptUnowned`: objects that existed before their release and that no one owns.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::{annotation, is_marked, uid};
use crate::world::operator::Operator;
use crate::world::{World, config_map};

const ADOPTED: &str = "chartwright.dev/adopted";

fn world(name: &str) -> Result<(World, Operator)> {
    let world = World::new(name)?.watch_key("collisions: AdoptUnowned");
    world.write_watches()?;
    let operator = world.start()?;
    Ok((world, operator))
}

/// Creates a ConfigMap as a person does.
fn create(world: &World, name: &str, metadata: &Value) -> Result<String> {
    let mut object = config_map(name, json!({"color": "old", "mine": "1"}));
    for (field, value) in metadata.as_object().into_iter().flatten() {
        object["metadata"][field] = value.clone();
    }
    world
        .kubectl
        .run_with_input(["create", "-f", "-"], &object.to_string())?;
    Ok(uid(&world.expect("configmap", name)?))
}

fn values(names: &[&str]) -> Value {
    let objects: Vec<Value> = names
        .iter()
        .map(|name| config_map(name, json!({"color": "new"})))
        .collect();
    json!({"extraDeploy": objects})
}

#[test]
fn an_object_that_no_one_owns_is_taken_and_left_behind() -> Result<()> {
    let (world, operator) = world("adopt-unowned")?;
    let ids = ["first", "second", "third"].map(|name| create(&world, name, &json!({})));
    let start = world.mark()?;
    world.install("a", values(&["first", "second", "third"]))?;
    let texts = [
        "ConfigMap adopt-unowned/first",
        "ConfigMap adopt-unowned/third",
        "chartwright.dev/adopted: delete",
    ];
    world.await_event("a", "ObjectsAdopted", &texts)?;
    for (name, id) in ["first", "second", "third"].into_iter().zip(ids) {
        let live = world.expect("configmap", name)?;
        ensure!(uid(&live) == id? && is_marked(&live), "{live}");
        ensure!(live["data"] == json!({"color": "new", "mine": "1"}), "{live}");
        ensure!(annotation(&live, ADOPTED) == Some("keep"), "{live}");
        ensure!(live["metadata"]["ownerReferences"].is_null(), "{live}");
    }
    let inventory = world.live("a")?["status"]["inventory"].clone();
    let adopted = inventory
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry["adopted"] == true);
    ensure!(adopted.count() == 3, "{inventory}");
    world.await_quiet(&operator)?;
    // A creation, which is refused, the mark, and one apply: never with an owner reference, by which it would go with the custom resource.
    let requests = world.all_requests(&operator, start)?;
    requests.name("first").writes().are("3 patch configmaps")?;
    world.ensure_no_requests(&operator, 1.5)?;

    // Dropped by the chart: one stays without our marks, one goes.
    world.run([
        "annotate",
        "configmap",
        "second",
        &format!("{ADOPTED}=delete"),
        "--overwrite",
    ])?;
    world.await_quiet(&operator)?;
    ensure!(annotation(&world.expect("configmap", "second")?, ADOPTED) == Some("delete"));
    world.update("a", values(&["third"]))?;
    world.await_gone("configmap", "second")?;
    let left = world.await_object("configmap", "first", "is left behind", |live| !is_marked(live))?;
    ensure!(left["data"]["mine"] == "1", "{left}");
    // It is taken up again, and stays when the custom resource goes.
    world.update("a", values(&["first", "third"]))?;
    ensure!(is_marked(&world.expect("configmap", "first")?));
    world.delete("a")?;
    for name in ["first", "third"] {
        world.await_object("configmap", name, "is left behind", |live| !is_marked(live))?;
    }
    world.absent("configmap", ["second", "a-main"])
}

#[test]
fn an_object_of_a_controller_or_of_helm_is_not_adopted() -> Result<()> {
    let (world, _operator) = world("adopt-owned")?;
    let parent = create(&world, "parent", &json!({}))?;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent, "controller": true}]);
    create(&world, "controlled", &json!({"ownerReferences": owner}))?;
    let helm = json!({"meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": "adopt-owned"});
    create(&world, "helm", &json!({"annotations": helm}))?;
    world.apply_widget("a", values(&["controlled"]))?;
    world.await_stalled("a", "Collision", &["controlled by ConfigMap/parent"])?;
    world.apply_widget("b", values(&["helm"]))?;
    world.await_stalled("b", "Collision", &["Helm release adopt-owned/a"])?;
    for name in ["controlled", "helm"] {
        let live = world.expect("configmap", name)?;
        ensure!(!is_marked(&live) && annotation(&live, ADOPTED).is_none(), "{live}");
    }
    Ok(())
}
