//! Owner references: which members carry one to their custom resource, and what a real garbage collector makes of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::look::{PART_OF, is_marked, label, uid};
use crate::support::eventually;
use crate::world::{SOON, Setup, World, annotated_map, member_rule};

/// The garbage collector learns of a new kind every 30 s.
const COLLECTED: Duration = Duration::from_secs(75);

/// The UIDs in the owner references of an object.
fn owners(object: &Value) -> Vec<&str> {
    let references = object["metadata"]["ownerReferences"].as_array();
    references
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
        .collect()
}

fn revision(world: &World, name: &str) -> Result<Value> {
    Ok(world.expect(&world.widgets(), name)?["status"]["release"]["revision"].clone())
}

fn annotate(world: &World, kind: &str, name: &str, key: &str, value: Value) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    world.patch(kind, name, &patch)
}

#[test]
fn members_refer_to_their_custom_resource_beside_other_owners() -> Result<()> {
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
    let own = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-own", "ownerReferences": [parent]},
    });
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
    let elsewhere = world
        .kubectl
        .in_namespace("owner-refs-2")
        .get("configmap", "a-elsewhere")?;
    let kept = world.expect("configmap", "a-kept")?;
    for other in [&class, &elsewhere.context("a-elsewhere")?, &kept] {
        ensure!(label(other, PART_OF).is_some() && owners(other).is_empty(), "{other}");
    }

    // Another's reference survives, whatever is applied.
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": second}]).to_string();
    world.run(["patch", "configmap", "a-main", "--type=json", "-p", &add])?;
    world.edit("a", json!({"color": "red"}))?;
    let both = |object: &Value| object["data"]["color"] == "red" && owners(object).len() == 2;
    world.await_object("configmap", "a-main", "red, with both owners", both)?;
    // Ours comes back.
    let none = json!([{"op": "remove", "path": "/metadata/ownerReferences"}]).to_string();
    world.run(["patch", "configmap", "a-one", "--type=json", "-p", &none])?;
    world.await_object("configmap", "a-one", "its owner is back", |object| {
        owners(object) == [ours.as_str()]
    })?;
    world.await_event("a", "DriftCorrected", &["metadata.ownerReferences"])?;
    // What somebody wants to be kept has none.
    annotate(&world, "configmap", "a-one", "helm.sh/resource-policy", "keep".into())?;
    world.await_object("configmap", "a-one", "without an owner", |object| {
        owners(object).is_empty()
    })?;

    // Without them nothing else changes: it is no upgrade.
    world.await_quiet(&operator)?;
    let before = revision(&world, "a")?;
    ensure!(operator.terminate()?.success());
    let world = world.watch_key("ownerReferences: false");
    world.write_watches()?;
    let operator = world.start()?;
    let second = second["uid"].as_str().unwrap_or_default();
    world.await_object("configmap", "a-main", "only the other owner", |object| {
        owners(object) == [second]
    })?;
    world.await_object("configmap", "a-own", "only the chart's owner", |object| {
        owners(object) == [theirs]
    })?;
    world.await_quiet(&operator)?;
    ensure!(revision(&world, "a")? == before);
    world.delete("a")?;
    ensure!(!is_marked(&world.expect("configmap", "a-one")?), "it is kept");
    Ok(())
}

#[test]
fn all_members_of_a_cluster_scoped_custom_resource_refer_to_it() -> Result<()> {
    let world = World::with("owner-cluster", Setup::CLUSTER_SCOPED)?.watch_key("targetNamespace: owner-cluster");
    let _operator = world.start()?;
    let widget = world.install("owner-cluster", json!({"priorityClass": {"enabled": true}}))?;
    for (kind, name) in [
        ("configmap", "owner-cluster-main"),
        ("priorityclass", "owner-cluster-owner-cluster"),
    ] {
        let member = world.expect(kind, name)?;
        ensure!(owners(&member) == [uid(&widget)], "{member}");
    }
    world.delete("owner-cluster")
}

#[test]
fn a_release_that_goes_in_an_order_has_no_owner_references() -> Result<()> {
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

/// Nobody but the garbage collector is there to delete anything.
#[test]
fn what_an_operator_that_is_gone_leaves_behind_is_collected() -> Result<()> {
    let world = World::new("owner-gone")?;
    let operator = world.start()?;
    world.install(
        "a",
        json!({"extra": ["one"], "kept": true, "deployment": {"enabled": true}}),
    )?;
    operator.kill()?;
    world.let_go(&world.widgets(), "a")?;
    world.delete("a")?;
    eventually("its members are collected", COLLECTED, || {
        let left = [world.labelled("configmaps")?, world.labelled("deployments")?].concat();
        ensure!(left.len() <= 1, "{left:?}");
        Ok(Some(()))
    })?;
    world.expect("configmap", "a-kept")?;
    Ok(())
}

#[test]
fn what_stays_is_cut_off_before_its_custom_resource_goes() -> Result<()> {
    let world = World::new("owner-cut")?;
    let _operator = world.start()?;
    for name in ["suspended", "orphaned", "kept"] {
        world.install(name, json!({"extra": ["one"]}))?;
    }
    annotate(
        &world,
        &world.widgets(),
        "suspended",
        "chartwright.dev/suspend",
        "true".into(),
    )?;
    world.await_condition("suspended", "Suspended", "True")?;
    // Before the operator hears of it, it has a reference and is to be kept.
    annotate(
        &world,
        "configmap",
        "kept-one",
        "helm.sh/resource-policy",
        "keep".into(),
    )?;
    world.run(["delete", &world.widgets(), "kept", "suspended"])?;
    world.run([
        "delete",
        &world.widgets(),
        "orphaned",
        "--cascade=orphan",
        "--wait=false",
    ])?;
    eventually("all are gone", COLLECTED, || {
        ensure!(world.list(&world.widgets(), "")?.is_empty());
        Ok(Some(()))
    })?;
    // The collector would have taken them within moments.
    std::thread::sleep(Duration::from_secs(5));
    for name in [
        "suspended-main",
        "suspended-one",
        "orphaned-main",
        "orphaned-one",
        "kept-one",
    ] {
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
fn the_foreground_takes_neither_orphans_nor_what_has_an_order() -> Result<()> {
    let world = World::new("owner-front")?;
    world.install_crd("Gadget")?;
    world.write_watches_of(&[
        ("Widget", &world.chart(), &[]),
        ("Gadget", &world.chart(), &["deletionPolicy: Orphan"]),
    ])?;
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
    let is_gone = |resource: &str, name: &str| Ok(world.get(resource, name)?.is_none().then_some(()));
    eventually("g is gone", COLLECTED, || is_gone(&world.resource("Gadget"), "g"))?;
    eventually("b is gone", COLLECTED, || is_gone(&world.widgets(), "b"))?;
    world.absent("configmap", ["b-main", "b-one"])?;
    for name in ["g-main", "g-one"] {
        let orphan = world.expect("configmap", name)?;
        ensure!(!is_marked(&orphan) && owners(&orphan).is_empty(), "{orphan}");
    }
    let main = world.expect("configmap", "a-main")?;
    ensure!(main["metadata"]["deletionTimestamp"].is_null());
    world.let_go("configmap", "a-later")?;
    eventually("a is gone", SOON, || is_gone(&world.widgets(), "a"))?;
    world.absent("configmap", ["a-main"])
}
