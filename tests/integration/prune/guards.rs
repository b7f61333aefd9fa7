//! What blocks a prune: guards that hold it until it is allowed, and incomplete knowledge.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{eventually, until};
use crate::world::fields::{PART_OF, TRACKING, annotation, ensure_contains, inventory, label, text, uid};
use crate::world::{COLLECTED, SOON, World, crd, objects};

const ALLOW: &str = "chartwright.dev/prune";

/// Allows an object, or a custom resource's whole release, to go.
fn allow(world: &World, kind: &str, name: &str) -> Result<()> {
    world.patch(kind, name, &json!({"metadata": {"annotations": {ALLOW: "true"}}}))
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": "none"},
    })
}

#[test]
fn namespaces_crds_and_claims_are_pruned_only_if_allowed() -> Result<()> {
    let world = World::new("guard-kinds")?
        .watch_key("allow: {kinds: [Namespace, CustomResourceDefinition.apiextensions.k8s.io]}");
    let world = world.granted("", "namespaces")?.granted("", "persistentvolumeclaims")?;
    let world = world.granted("apiextensions.k8s.io", "customresourcedefinitions")?;
    let operator = world.start()?;
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "guard-kinds-2"}});
    let gauge = crd(&world.group(), "Gauge");
    // A claim that no pod uses stays Pending for ever: the release is not Ready, and that is another matter.
    let spec = json!({"extraDeploy": [space, gauge, claim("data")], "extra": ["one"]});
    world.apply_widget("a", spec)?;
    world.await_condition("a", "Deployed", "True")?;
    world.await_there("persistentvolumeclaim", "data")?;
    world.await_there("namespace", "guard-kinds-2")?;
    world.await_there("crd", "gauges.guard-kinds.test")?;

    world.edit("a", json!({"extraDeploy": [], "extra": []}))?;
    let held = world.await_condition("a", "PruneHeld", "True")?;
    let message = text(&held["message"]);
    ensure_contains(message, &["PersistentVolumeClaim guard-kinds/data", ALLOW])?;
    ensure_contains(message, &["Namespace guard-kinds-2", "gauges.guard-kinds.test"])?;
    let widget = world.await_ready("a")?;
    world.absent("configmap", ["a-one"])?;
    ensure!(inventory(&widget).len() == 4, "what is held stays listed: {widget}");

    // A hold outlives the process, and each permission is noticed immediately.
    let _operator = world.replace(operator)?;
    allow(&world, "persistentvolumeclaim", "data")?;
    world.await_gone("persistentvolumeclaim", "data")?;
    let held = || {
        world
            .await_condition("a", "PruneHeld", "True")
            .map(|held| held.to_string())
    };
    until("the claim is no longer held", SOON, || {
        Ok(!held()?.contains("PersistentVolumeClaim"))
    })?;
    world.expect("namespace", "guard-kinds-2")?;
    allow(&world, "crd", "gauges.guard-kinds.test")?;
    world.await_gone("crd", "gauges.guard-kinds.test")?;
    allow(&world, "namespace", "guard-kinds-2")?;
    world.await_gone("namespace", "guard-kinds-2")?;
    let widget = world.await_released("a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-main"], "{widget}");
    Ok(())
}

/// A StatefulSet of one pod with a claim of its own.
fn database(name: &str, when_deleted: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "serviceName": name, "selector": {"matchLabels": {"app": name}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example/main"}]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim("data")["spec"]}],
        },
    })
}

#[test]
fn a_statefulset_that_deletes_its_claims_is_pruned_only_if_allowed() -> Result<()> {
    let world = World::new("guard-claims")?.granted("apps", "statefulsets")?;
    let operator = world.start()?;
    let databases = json!({"extraDeploy": [database("takes", "Delete"), database("leaves", "Retain")]});
    world.apply_widget("a", databases)?;
    world.await_condition("a", "Deployed", "True")?;
    for name in ["data-takes-0", "data-leaves-0"] {
        world.await_there("persistentvolumeclaim", name)?;
    }
    world.edit("a", json!({"extraDeploy": []}))?;
    let held = world.await_condition("a", "PruneHeld", "True")?;
    ensure_contains(text(&held["message"]), &["StatefulSet.apps guard-claims/takes", ALLOW])?;
    world.await_gone("statefulset", "leaves")?;
    let _operator = world.replace_and_settle(operator)?;
    for (kind, name) in [("statefulset", "takes"), ("persistentvolumeclaim", "data-takes-0")] {
        let data = world.expect(kind, name)?;
        ensure!(data["metadata"]["deletionTimestamp"].is_null(), "{data}");
    }
    allow(&world, "statefulset", "takes")?;
    world.await_gone("statefulset", "takes")?;
    world.expect("persistentvolumeclaim", "data-leaves-0")?;
    world.await_released("a").map(drop)
}

#[test]
fn a_held_prune_ends_when_the_object_is_rendered_again_and_deletion_ignores_guards() -> Result<()> {
    let world = World::new("guard-again")?.granted("", "persistentvolumeclaims")?;
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
    // Deleting the release is an explicit request, as with helm uninstall.
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
    let world = world.granted("", "secrets")?;
    world.await_gone("configmap", "a-maybe")?;
    world.await_ready("a").map(drop)
}

#[test]
fn while_the_chart_on_disk_differs_from_the_loaded_one_nothing_is_pruned() -> Result<()> {
    let world = World::new("guard-copied")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.write_template("late.yaml", "")?;
    world.update("a", json!({"extra": [], "color": "red"}))?;
    let ready = world.await_condition("a", "Ready", "True")?;
    ensure_contains(text(&ready["message"]), &["changed on disk", "/chart"])?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    world.expect("configmap", "a-one")?;
    // A deletion needs no chart.
    world.install("b", json!({}))?;
    world.delete("b")?;
    let _operator = world.restart(operator)?;
    world.await_gone("configmap", "a-one")
}

#[test]
fn objects_with_copied_labels_are_no_prune_candidates() -> Result<()> {
    let world = World::new("guard-copies")?
        .granted("", "services")?
        .granted("", "pods")?;
    let world = world
        .granted("apps", "replicasets")?
        .granted("discovery.k8s.io", "endpointslices")?;
    let operator = world.start()?;
    let [service, slice, pod, mut deployment] = objects("copies")?.try_into().ok().context("four")?;
    let widget = world.install("a", json!({"extraDeploy": [service, slice, pod]}))?;
    let set = label(&widget, "applyset.kubernetes.io/id").unwrap_or_default();
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
    deletes
        .filter(|request| !ours.contains(&request.resource.as_str()))
        .none()?;
    until("the collector has taken the copies", COLLECTED, || {
        Ok(world.list("pods,replicasets,endpointslices", &selector)?.is_empty())
    })
}

#[test]
fn while_a_member_is_being_deleted_nothing_is_pruned() -> Result<()> {
    let world = World::new("guard-awaited")?;
    let _operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.hold("configmap", "a-main")?;
    world.kubectl.begin_delete("configmap", "a-main")?;
    world.edit("a", json!({"extra": [], "color": "red"}))?;
    // It can be recreated only when it is gone.
    world.await_unready("a", "Terminating", &[])?;
    std::thread::sleep(Duration::from_secs(1));
    world.expect("configmap", "a-one")?;
    world.remove_finalizers("configmap", "a-main")?;
    world.await_gone("configmap", "a-one")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    Ok(())
}
