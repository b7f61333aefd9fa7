//! Owner references: which members carry one to their custom resource, and what a real garbage collector makes of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::fields::{PART_OF, is_marked, label, text, uid};
use crate::world::{COLLECTED, World, WorldSetup, annotated_map, config_map, member_rule};

/// The UIDs in the owner references of an object.
fn owners(object: &Value) -> Vec<&str> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.map(|owner| text(&owner["uid"])).collect()
}

fn revision(world: &World, name: &str) -> Result<Value> {
    Ok(world.live(name)?["status"]["release"]["revision"].clone())
}

fn keep(world: &World, name: &str) -> Result<()> {
    let policy = json!({"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}});
    world.patch("configmap", name, &policy)
}

#[test]
fn members_keep_other_owner_references() -> Result<()> {
    let world =
        World::new("owner-refs")?.watch_key("allow: {kinds: [PriorityClass.scheduling.k8s.io], namespaces: [\"*\"]}");
    world.kubectl.create_namespace("owner-refs-2")?;
    let operator = world.start()?;
    for name in ["parent", "second"] {
        world.run(["create", "configmap", name])?;
    }
    let reference = |name: &str| {
        let object = world.expect("configmap", name)?;
        Ok::<_, anyhow::Error>(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid(&object)}))
    };
    let (parent, second) = (reference("parent")?, reference("second")?);
    let mut own = config_map("a-own", Value::Null);
    own["metadata"]["ownerReferences"] = json!([parent]);
    let spec = json!({
        "extra": ["one"], "kept": true, "elsewhere": "owner-refs-2", "priorityClass": {"enabled": true},
        "extraDeploy": [own],
    });
    let widget = world.install("a", spec)?;
    let (ours, theirs) = (uid(&widget), parent["uid"].as_str().unwrap_or_default());
    let main = world.expect("configmap", "a-main")?;
    let kind = format!("{}/v1", world.group());
    let expected = json!({"apiVersion": kind, "kind": "Widget", "name": "a", "uid": ours, "blockOwnerDeletion": false});
    ensure!(main["metadata"]["ownerReferences"] == json!([expected]));
    ensure!(owners(&world.expect("configmap", "a-own")?) == [theirs, ours.as_str()]);
    let class = world.expect("priorityclass", "owner-refs-a")?;
    let elsewhere = world.kubectl.in_namespace("owner-refs-2");
    let elsewhere = elsewhere.get("configmap", "a-elsewhere")?.context("a-elsewhere")?;
    for other in [&class, &elsewhere, &world.expect("configmap", "a-kept")?] {
        ensure!(label(other, PART_OF).is_some() && owners(other).is_empty(), "{other}");
    }

    let await_owners = |name: &str, wanted: &[&str]| {
        world.await_object("configmap", name, "has its owners", |object| owners(object) == wanted)
    };
    // The reference of another owner survives each apply.
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": second}]);
    world.patch_by("json", "configmap", "a-main", &add)?;
    world.edit("a", json!({"color": "red"}))?;
    let both = |object: &Value| object["data"]["color"] == "red" && owners(object).len() == 2;
    world.await_object("configmap", "a-main", "red, with both owners", both)?;
    // Ours comes back.
    let none = json!([{"op": "remove", "path": "/metadata/ownerReferences"}]);
    world.patch_by("json", "configmap", "a-one", &none)?;
    await_owners("a-one", &[&ours])?;
    world.await_event("a", "DriftCorrected", &["metadata.ownerReferences"])?;
    // Kept objects have none.
    keep(&world, "a-one")?;
    await_owners("a-one", &[])?;

    // Without them nothing else changes: it is no upgrade.
    world.await_quiet(&operator)?;
    let before = revision(&world, "a")?;
    ensure!(operator.terminate()?.success());
    let world = world.watch_key("ownerReferences: false");
    world.write_watches()?;
    let operator = world.start()?;
    let second = second["uid"].as_str().unwrap_or_default();
    let await_owner = |name: &str, owner: &str| {
        world.await_object("configmap", name, "has one owner", |object| owners(object) == [owner])
    };
    await_owner("a-main", second)?;
    await_owner("a-own", theirs)?;
    world.await_quiet(&operator)?;
    ensure!(revision(&world, "a")? == before);
    world.delete("a")?;
    ensure!(!is_marked(&world.expect("configmap", "a-one")?), "it is kept");
    Ok(())
}

#[test]
fn all_members_of_a_cluster_scoped_custom_resource_refer_to_it() -> Result<()> {
    let world = World::with("owner-cluster", WorldSetup::CLUSTER_SCOPED)?.watch_key("targetNamespace: owner-cluster");
    let _operator = world.start()?;
    let widget = world.install("owner-cluster", json!({"priorityClass": {"enabled": true}}))?;
    let main = world.expect("configmap", "owner-cluster-main")?;
    for member in [main, world.expect("priorityclass", "owner-cluster-owner-cluster")?] {
        ensure!(owners(&member) == [uid(&widget)], "{member}");
    }
    world.delete("owner-cluster")
}

#[test]
fn a_release_with_ordered_deletion_has_no_owner_references() -> Result<()> {
    let world = World::new("owner-order")?;
    // The hooks of a deletion are stored.
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let _operator = world.start()?;
    for (name, other) in [
        ("a", annotated_map("a-later", "chartwright.dev/wave", "1")),
        ("b", annotated_map("b-last", "helm.sh/hook", "post-delete")),
        ("c", annotated_map("c-first", "helm.sh/hook", "pre-install")),
    ] {
        let widget = world.install(name, json!({"extraDeploy": [other]}))?;
        let main = world.expect("configmap", &format!("{name}-main"))?;
        let expected: &[String] = if name == "c" { &[uid(&widget)] } else { &[] };
        ensure!(owners(&main) == expected, "{main}");
    }
    Ok(())
}

/// Only the garbage collector can delete objects.
#[test]
fn members_of_a_removed_operator_are_garbage_collected() -> Result<()> {
    let world = World::new("owner-gone")?;
    let operator = world.start()?;
    let spec = json!({"extra": ["one"], "kept": true, "deployment": {"enabled": true}});
    world.install("a", spec)?;
    operator.kill()?;
    world.remove_finalizers(&world.widgets(), "a")?;
    world.delete("a")?;
    let left = || anyhow::Ok(world.labelled("configmaps")?.len() + world.labelled("deployments")?.len());
    until("its members are collected", COLLECTED, || Ok(left()? <= 1))?;
    world.expect("configmap", "a-kept").map(drop)
}

#[test]
fn kept_members_lose_their_owner_reference_before_the_custom_resource_is_deleted() -> Result<()> {
    let world = World::new("owner-cut")?;
    let _operator = world.start()?;
    for name in ["suspended", "orphaned", "kept"] {
        world.install(name, json!({"extra": ["one"]}))?;
    }
    world.suspend("suspended")?;
    // Before the operator hears of it, it has a reference and is to be kept.
    keep(&world, "kept-one")?;
    world.run(["delete", &world.widgets(), "kept", "suspended"])?;
    let widgets = world.widgets();
    world.run(["delete", &widgets, "orphaned", "--cascade=orphan", "--wait=false"])?;
    let are_gone = || Ok(world.list(&world.widgets(), "")?.is_empty());
    until("all are gone", COLLECTED, are_gone)?;
    // The collector would have taken them within moments.
    std::thread::sleep(Duration::from_secs(5));
    for name in "suspended-main suspended-one orphaned-main orphaned-one kept-one".split(' ') {
        let left = world.expect("configmap", name)?;
        let stays = owners(&left).is_empty() && left["metadata"]["deletionTimestamp"].is_null();
        ensure!(stays && is_marked(&left) == name.starts_with("suspended"), "{left}");
    }
    world.absent("configmap", ["kept-main"])?;
    // Suspended ones are members still: of the next one.
    let before = uid(&world.expect("configmap", "suspended-main")?);
    let widget = world.install("suspended", json!({"extra": ["one"]}))?;
    let after = world.expect("configmap", "suspended-main")?;
    ensure!(uid(&after) == before && owners(&after) == [uid(&widget)], "{after}");
    Ok(())
}

/// `kubectl delete --cascade=foreground`, as Argo CD deletes: the collector is as fast as it can.
#[test]
fn foreground_deletion_keeps_orphans_and_order() -> Result<()> {
    let world = World::new("owner-front")?;
    world.install_crd("Gadget")?;
    let (chart, keys) = (world.chart(), ["deletionPolicy: Orphan"]);
    world.write_watches_of(&[("Widget", &chart, &[]), ("Gadget", &chart, &keys)])?;
    let _operator = world.start()?;
    let later = annotated_map("a-later", "chartwright.dev/wave", "1");
    world.install("a", json!({"extraDeploy": [later]}))?;
    world.install("b", json!({"extra": ["one"]}))?;
    world.apply(&world.custom("Gadget", "g", json!({"extra": ["one"]})))?;
    world.await_condition_of(&world.resource("Gadget"), "g", "Ready", "True")?;
    world.hold("configmap", "a-later")?;
    let foreground = |resource: String, name: &str| {
        let arguments = ["delete", &resource, name, "--cascade=foreground", "--wait=false"];
        world.kubectl.run(arguments).map(drop)
    };
    foreground(world.widgets(), "a")?;
    foreground(world.widgets(), "b")?;
    foreground(world.resource("Gadget"), "g")?;
    world.await_gone_within(COLLECTED, &world.resource("Gadget"), "g")?;
    world.await_gone_within(COLLECTED, &world.widgets(), "b")?;
    world.absent("configmap", ["b-main", "b-one"])?;
    for name in ["g-main", "g-one"] {
        let orphan = world.expect("configmap", name)?;
        ensure!(!is_marked(&orphan) && owners(&orphan).is_empty(), "{orphan}");
    }
    let main = world.expect("configmap", "a-main")?;
    ensure!(main["metadata"]["deletionTimestamp"].is_null());
    world.remove_finalizers("configmap", "a-later")?;
    world.await_deleted("a")?;
    world.absent("configmap", ["a-main"])
}
