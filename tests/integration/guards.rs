//! What keeps a prune from happening: guards that hold it until somebody allows it, and knowledge that is not complete.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::look::{PART_OF, TRACKING, annotation, condition, inventory, label, says, uid};
use crate::support::eventually;
use crate::world::{SOON, World, member_rule};

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

/// Waits until no prune is held any more.
fn await_released(world: &World, name: &str) -> Result<Value> {
    eventually("nothing is held", SOON, || {
        let widget = world.expect(&world.widgets(), name)?;
        let held = condition(&widget, "PruneHeld");
        ensure!(held.is_none(), "{held:?}");
        Ok(Some(widget))
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
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gauges.guard-kinds.test"},
        "spec": {
            "group": "guard-kinds.test", "scope": "Namespaced",
            "names": {"kind": "Gauge", "plural": "gauges", "singular": "gauge", "listKind": "GaugeList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    crate::world::served_changed();
    // A claim that no pod uses stays Pending for ever: the release is not Ready, and that is another matter.
    world.apply(&world.widget(
        "a",
        json!({"extraDeploy": [space, crd, claim("data")], "extra": ["one"]}),
    ))?;
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
    let message = held["message"].as_str().unwrap_or_default();
    for part in [
        "PersistentVolumeClaim guard-kinds/data",
        "Namespace guard-kinds-2",
        "gauges.guard-kinds.test",
        ALLOW,
    ] {
        ensure!(message.contains(part), "{part}: {message}");
    }
    let widget = world.await_ready("a")?;
    ensure!(world.get("configmap", "a-one")?.is_none(), "what needs no guard goes");
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
    ensure!(world.get("namespace", "guard-kinds-2")?.is_some());
    crate::world::served_changed();
    allow(&world, "crd", "gauges.guard-kinds.test")?;
    world.await_gone("crd", "gauges.guard-kinds.test")?;
    allow(&world, "namespace", "guard-kinds-2")?;
    world.await_gone("namespace", "guard-kinds-2")?;
    let widget = await_released(&world, "a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-main"], "{widget}");
    Ok(())
}

#[test]
fn a_hold_ends_when_the_object_is_rendered_again_and_deletion_does_not_ask() -> Result<()> {
    let world = World::new("guard-again")?;
    world.grant("guarded", &[member_rule("", "persistentvolumeclaims")])?;
    let _operator = world.start()?;
    let with_claim = json!({"extraDeploy": [claim("data")]});
    world.apply(&world.widget("a", with_claim.clone()))?;
    world.await_condition("a", "Deployed", "True")?;
    let before = uid(&world.expect("persistentvolumeclaim", "data")?);
    world.edit("a", json!({"extraDeploy": []}))?;
    world.await_condition("a", "PruneHeld", "True")?;
    world.edit("a", with_claim)?;
    await_released(&world, "a")?;
    ensure!(uid(&world.expect("persistentvolumeclaim", "data")?) == before);
    // Whoever deletes the whole release has said what they want, as with helm uninstall.
    world.edit("a", json!({"extraDeploy": []}))?;
    world.await_condition("a", "PruneHeld", "True")?;
    world.delete("a")?;
    world.await_gone("persistentvolumeclaim", "data")
}

#[test]
fn a_render_that_is_empty_by_mistake_costs_nothing_when_it_is_mended() -> Result<()> {
    let world = World::new("guard-empty")?;
    let map = "{{ if .Values.on }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-only'}\n{{ end }}\n";
    let chart = world.write_chart("switch", &[("map.yaml", map)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let operator = world.start()?;
    world.install("a", json!({"on": true}))?;
    let before = uid(&world.expect("configmap", "a-only")?);
    ensure!(operator.terminate()?.success());
    fs::write(chart.join("templates/map.yaml"), "{{/* nothing */}}")?;
    let operator = world.start()?;
    world.await_condition("a", "PruneHeld", "True")?;
    operator.kill()?;
    let operator = world.start_and_settle()?;
    ensure!(
        world.get("configmap", "a-only")?.is_some(),
        "held by a new process, too"
    );
    ensure!(operator.terminate()?.success());
    fs::write(chart.join("templates/map.yaml"), map)?;
    let _operator = world.start()?;
    await_released(&world, "a")?;
    ensure!(uid(&world.expect("configmap", "a-only")?) == before);
    Ok(())
}

#[test]
fn while_a_lookup_is_not_answered_nothing_is_pruned() -> Result<()> {
    let world = World::new("guard-lookup")?;
    let main = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-main'}\n";
    let maybe = "{{ if not (and .Values.ask (empty (lookup \"v1\" \"Secret\" .Release.Namespace \"x\"))) }}\n\
                 apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-maybe'}\n{{ end }}\n";
    let chart = world.write_chart("asking", &[("main.yaml", main), ("maybe.yaml", maybe)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let _operator = world.start()?;
    world.install("a", json!({"ask": false}))?;
    world.edit("a", json!({"ask": true}))?;
    let told = world.await_condition("a", "Ready", "False")?;
    ensure!(
        told["reason"] == "LookupFailed" && told["message"].as_str().is_some_and(|text| text.contains("forbidden")),
        "{told}"
    );
    std::thread::sleep(Duration::from_secs(2));
    ensure!(world.get("configmap", "a-maybe")?.is_some(), "pruned without an answer");
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
    fs::write(world.chart().join("templates/late.yaml"), "")?;
    world.update("a", json!({"extra": [], "color": "red"}))?;
    let ready = world.await_condition("a", "Ready", "True")?;
    let message = ready["message"].as_str().unwrap_or_default();
    says(message, ["changed on disk", "/chart"])?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    ensure!(world.get("configmap", "a-one")?.is_some(), "pruned by half a chart");
    // A deletion needs no chart.
    world.install("b", json!({}))?;
    world.delete("b")?;
    ensure!(operator.terminate()?.success());
    let _operator = world.start()?;
    world.await_gone("configmap", "a-one")?;
    Ok(())
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
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "outside"},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [],
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"},
        "spec": {"containers": [{"name": "app", "image": "example/app"}]},
    });
    let widget = world.install("a", json!({"extraDeploy": [service, slice, pod]}))?;
    let set = label(&widget, "applyset.kubernetes.io/id")
        .unwrap_or_default()
        .to_owned();
    // Our labels in a pod template: its ReplicaSet and its pods carry them.
    let labels = json!({"app": "web", PART_OF: set, "chartwright.dev/operator": world.name});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "app", "image": "example/app"}]},
            },
        },
    });
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
    ensure!(
        sets.iter().all(|set| annotation(set, TRACKING).is_some()),
        "Deployments hand their annotations on: {sets:?}"
    );
    let copied_pod = |pods: Vec<Value>| pods.into_iter().find(|pod| pod["metadata"]["name"] != "alone");
    let before = copied_pod(copies("pods", 2)?).context("the Deployment's pod")?;

    // Every kind stays in the set's annotations until this prune is over.
    let start = world.mark()?;
    world.edit("a", json!({"extraDeploy": [service, deployment], "color": "red"}))?;
    world.await_gone("endpointslice", "outside")?;
    world.await_gone("pod", "alone")?;
    eventually("the prune is over", SOON, || {
        let widget = world.expect(&world.widgets(), "a")?;
        ensure!(inventory(&widget) == ["ConfigMap a-main", "Deployment web", "Service a"]);
        Ok(Some(()))
    })?;
    ensure!(copies("endpointslices", 1).is_ok() && uid(&copies("pods", 1)?[0]) == uid(&before));
    std::thread::sleep(Duration::from_secs(1));
    let deleted: Vec<String> = world
        .requests(&operator, start)?
        .verb("delete")
        .iter()
        .map(|request| request.name.clone())
        .collect();
    ensure!(deleted.len() == 2, "{deleted:?}");

    // Nor when the release goes: their owners take them along.
    let start = world.mark()?;
    world.delete("a")?;
    let deletes = world.requests(&operator, start)?.verb("delete");
    ensure!(
        deletes
            .iter()
            .all(|request| ["configmaps", "deployments", "services"].contains(&request.resource.as_str())),
        "{deletes}"
    );
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
    let hold = |finalizers: Value| {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        world.patch("configmap", "a-main", &patch)
    };
    hold(json!(["test.example/hold"]))?;
    world.kubectl.begin_delete("configmap", "a-main")?;
    world.edit("a", json!({"extra": [], "color": "red"}))?;
    // It can be made anew only when it is gone.
    let waiting = world.await_condition("a", "Ready", "False")?;
    ensure!(waiting["reason"] == "Terminating", "{waiting}");
    std::thread::sleep(Duration::from_secs(1));
    ensure!(
        world.get("configmap", "a-one")?.is_some(),
        "pruned before all is applied"
    );
    hold(Value::Null)?;
    world.await_gone("configmap", "a-one")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    Ok(())
}
