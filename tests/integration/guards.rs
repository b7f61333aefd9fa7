//! What keeps a prune from happening: guards that hold it until somebody allows it, and knowledge that is not complete.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::look::{PART_OF, TRACKING, annotation, inventory, label, says, text, uid};
use crate::support::eventually;
use crate::world::{SOON, World, crd, member_rule, objects, served_changed};

const ALLOW: &str = "chartwright.dev/prune";

/// Allows an object, or a custom resource's whole release, to go.
fn allow(world: &World, kind: &str, name: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {ALLOW: "true"}}});
    world.patch(kind, name, &patch)
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": "none"},
    })
}

#[test]
fn namespaces_crds_and_claims_are_pruned_only_with_leave() -> Result<()> {
    let world = World::new("guard-kinds")?
        .watch_key("allow: {kinds: [Namespace, CustomResourceDefinition.apiextensions.k8s.io]}");
    world.grant(
        "guarded",
        &[
            member_rule("", "namespaces"),
            member_rule("", "persistentvolumeclaims"),
            member_rule("apiextensions.k8s.io", "customresourcedefinitions"),
        ],
    )?;
    let operator = world.start()?;
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "guard-kinds-2"}});
    let gauge = crd(&world.group(), "Gauge");
    served_changed();
    // A claim that no pod uses stays Pending for ever: the release is not Ready, and that is another matter.
    world.apply_widget(
        "a",
        json!({"extraDeploy": [space, gauge, claim("data")], "extra": ["one"]}),
    )?;
    world.await_condition("a", "Deployed", "True")?;
    let three = [
        ("persistentvolumeclaim", "data"),
        ("namespace", "guard-kinds-2"),
        ("crd", "gauges.guard-kinds.test"),
    ];
    eventually("all are there", SOON, || {
        let missing = three
            .iter()
            .find(|(kind, name)| !matches!(world.get(kind, name), Ok(Some(_))));
        ensure!(missing.is_none(), "{missing:?}");
        Ok(Some(()))
    })?;

    world.edit("a", json!({"extraDeploy": [], "extra": []}))?;
    let held = world.await_condition("a", "PruneHeld", "True")?;
    says(
        text(&held["message"]),
        &[
            "PersistentVolumeClaim guard-kinds/data",
            "Namespace guard-kinds-2",
            "gauges.guard-kinds.test",
            ALLOW,
        ],
    )?;
    let widget = world.await_ready("a")?;
    world.absent("configmap", ["a-one"])?;
    ensure!(inventory(&widget).len() == 4, "what is held stays listed: {widget}");

    // A hold outlives the process, and what is allowed is noticed at once, one by one.
    operator.kill()?;
    let _operator = world.start()?;
    allow(&world, "persistentvolumeclaim", "data")?;
    world.await_gone("persistentvolumeclaim", "data")?;
    eventually("the claim is no longer held", SOON, || {
        let held = world.await_condition("a", "PruneHeld", "True")?;
        Ok((!held["message"].to_string().contains("PersistentVolumeClaim")).then_some(()))
    })?;
    world.expect("namespace", "guard-kinds-2")?;
    served_changed();
    allow(&world, "crd", "gauges.guard-kinds.test")?;
    world.await_gone("crd", "gauges.guard-kinds.test")?;
    allow(&world, "namespace", "guard-kinds-2")?;
    world.await_gone("namespace", "guard-kinds-2")?;
    let widget = world.await_released("a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-main"], "{widget}");
    Ok(())
}

#[test]
fn a_hold_ends_when_the_object_is_rendered_again_and_deletion_does_not_ask() -> Result<()> {
    let world = World::new("guard-again")?;
    world.grant("guarded", &[member_rule("", "persistentvolumeclaims")])?;
    let _operator = world.start()?;
    let with_claim = json!({"extraDeploy": [claim("data")]});
    world.apply_widget("a", with_claim.clone())?;
    world.await_condition("a", "Deployed", "True")?;
    let before = uid(&world.expect("persistentvolumeclaim", "data")?);
    world.edit("a", json!({"extraDeploy": []}))?;
    world.await_condition("a", "PruneHeld", "True")?;
    world.edit("a", with_claim)?;
    world.await_released("a")?;
    ensure!(uid(&world.expect("persistentvolumeclaim", "data")?) == before);
    // Whoever deletes the whole release has said what they want, as with helm uninstall.
    world.edit("a", json!({"extraDeploy": []}))?;
    world.await_condition("a", "PruneHeld", "True")?;
    world.delete("a")?;
    world.await_gone("persistentvolumeclaim", "data")
}

#[test]
fn while_a_lookup_is_not_answered_nothing_is_pruned() -> Result<()> {
    let world = World::of_chart("guard-lookup", "asking")?;
    let _operator = world.start()?;
    world.install("a", json!({"ask": false}))?;
    world.edit("a", json!({"ask": true}))?;
    world.await_unready("a", "LookupFailed", &["forbidden"])?;
    std::thread::sleep(Duration::from_secs(2));
    world.expect("configmap", "a-maybe")?;
    // The answer is that there is none.
    world.grant("secrets", &[member_rule("", "secrets")])?;
    world.await_gone("configmap", "a-maybe")?;
    world.await_ready("a")?;
    Ok(())
}

#[test]
fn while_the_chart_on_disk_is_not_the_one_that_was_read_nothing_is_pruned() -> Result<()> {
    let world = World::new("guard-copied")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.write_template("late.yaml", "")?;
    world.update("a", json!({"extra": [], "color": "red"}))?;
    let ready = world.await_condition("a", "Ready", "True")?;
    says(text(&ready["message"]), &["changed on disk", "/chart"])?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    world.expect("configmap", "a-one")?;
    // A deletion needs no chart.
    world.install("b", json!({}))?;
    world.delete("b")?;
    ensure!(operator.terminate()?.success());
    let _operator = world.start()?;
    world.await_gone("configmap", "a-one")
}

#[test]
fn what_controllers_copy_our_labels_to_is_no_candidate() -> Result<()> {
    let world = World::new("guard-copies")?;
    world.grant(
        "copies",
        &[
            member_rule("", "services"),
            member_rule("", "pods"),
            member_rule("apps", "replicasets"),
            member_rule("discovery.k8s.io", "endpointslices"),
        ],
    )?;
    let operator = world.start()?;
    let [service, slice, pod, mut deployment] = objects("copies")?.try_into().ok().context("four")?;
    let widget = world.install("a", json!({"extraDeploy": [service, slice, pod]}))?;
    let set = label(&widget, "applyset.kubernetes.io/id")
        .unwrap_or_default()
        .to_owned();
    // Our labels in a pod template: its ReplicaSet and its pods carry them.
    deployment["spec"]["template"]["metadata"]["labels"] =
        json!({"app": "web", PART_OF: set, "chartwright.dev/operator": world.name});
    world.install("a", json!({"extraDeploy": [service, slice, pod, deployment]}))?;
    let selector = format!("{PART_OF}={set}");
    let copies = |kinds: &str, marks: usize| {
        eventually(&format!("{kinds} carry our label"), SOON, || {
            let found = world.list(kinds, &selector)?;
            ensure!(found.len() == marks, "{} of {marks}: {found:?}", found.len());
            Ok(Some(found))
        })
    };
    copies("endpointslices", 2)?;
    copies("pods", 2)?;
    let sets = copies("replicasets", 1)?;
    ensure!(sets.iter().all(|set| annotation(set, TRACKING).is_some()), "{sets:?}");
    let copied_pod = |pods: Vec<Value>| pods.into_iter().find(|pod| pod["metadata"]["name"] != "alone");
    let before = copied_pod(copies("pods", 2)?).context("the Deployment's pod")?;

    // Every kind stays in the set's annotations until this prune is over.
    let start = world.mark()?;
    world.edit("a", json!({"extraDeploy": [service, deployment], "color": "red"}))?;
    world.await_gone("endpointslice", "outside")?;
    world.await_gone("pod", "alone")?;
    world.await_object(&world.widgets(), "a", "lists no more", |widget| {
        inventory(widget) == ["ConfigMap a-main", "Deployment web", "Service a"]
    })?;
    ensure!(copies("endpointslices", 1).is_ok() && uid(&copies("pods", 1)?[0]) == uid(&before));
    std::thread::sleep(Duration::from_secs(1));
    let deleted = world.requests(&operator, start)?.verb("delete");
    ensure!(deleted.len() == 2, "{deleted}");

    // Nor when the release goes: their owners take them along.
    let start = world.mark()?;
    world.delete("a")?;
    let deletes = world.requests(&operator, start)?.verb("delete");
    let ours = ["configmaps", "deployments", "services"];
    let others = deletes.filter(|request| !ours.contains(&request.resource.as_str()));
    ensure!(others.is_empty(), "{others}");
    eventually("the collector has taken the copies", SOON, || {
        let left = world.list("pods,replicasets,endpointslices", &selector)?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(Some(()))
    })
}

#[test]
fn while_a_member_is_on_its_way_out_nothing_is_pruned() -> Result<()> {
    let world = World::new("guard-awaited")?;
    let _operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.hold("configmap", "a-main")?;
    world.kubectl.begin_delete("configmap", "a-main")?;
    world.edit("a", json!({"extra": [], "color": "red"}))?;
    // It can be made anew only when it is gone.
    world.await_unready("a", "Terminating", &[])?;
    std::thread::sleep(Duration::from_secs(1));
    world.expect("configmap", "a-one")?;
    world.let_go("configmap", "a-main")?;
    world.await_gone("configmap", "a-one")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    Ok(())
}
