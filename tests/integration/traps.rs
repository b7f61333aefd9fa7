//! What bit well-known neighbours (Flux, kro, kubectl, helm-operator), each as a test.

use std::fs;
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::look::{annotation, inventory, is_marked, says, text, uid};
use crate::world::{PROMPT, World, member_rule, served_changed};

/// kubectl's `--prune` gives up when a kind of the set is gone, helm-operator's rollback loops.
#[test]
fn trap_05_a_crd_that_is_gone_stops_neither_a_prune_nor_what_comes_after() -> Result<()> {
    let world = World::new("trap-05")?;
    world.install_crd("Gadget")?;
    world.grant("gadgets", &[member_rule(&world.group(), "gadgets")])?;
    let _operator = world.start()?;
    let gadget = world.custom("Gadget", "made", json!({}));
    let widget = world.install("a", json!({"extra": ["one"], "extraDeploy": [gadget]}))?;
    ensure!(inventory(&widget).contains(&"Gadget made".to_owned()), "{widget}");
    served_changed();
    world.kubectl.delete("crd", &world.resource("Gadget"))?;
    world.update("a", json!({"extra": [], "extraDeploy": []}))?;
    // A watch that ends with its kind holds a prune up until that is known.
    let widget = world.await_object(&world.widgets(), "a", "lists what is left", |widget| {
        inventory(widget) == ["ConfigMap a-main"]
    })?;
    ensure!(world.get("configmap", "a-one")?.is_none());
    let kinds = annotation(&widget, "applyset.kubernetes.io/contains-group-kinds");
    ensure!(kinds == Some("ConfigMap"), "{kinds:?}");
    // It comes back under the same name, and is a kind like any other.
    world.install_crd("Gadget")?;
    let widget = world.update("a", json!({"extraDeploy": [gadget]}))?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "Gadget made"], "{widget}");
    world.delete("a")?;
    world.await_gone(&world.resource("Gadget"), "made")
}

/// Services hand their labels on to EndpointSlices, Deployments their annotations to ReplicaSets.
#[test]
fn trap_06_labels_that_an_owner_copies_to_its_children_make_no_members() -> Result<()> {
    let world = World::new("trap-06")?;
    world.grant(
        "more",
        &[
            member_rule("", "services"),
            member_rule("discovery.k8s.io", "endpointslices"),
            member_rule("apps", "replicasets"),
        ],
    )?;
    let _operator = world.start()?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "mine"},
        "addressType": "IPv4", "endpoints": [], "ports": [],
    });
    let spec = json!({"deployment": {"enabled": true}, "extraDeploy": [service, slice]});
    let widget = world.install("a", spec)?;
    let members = ["ConfigMap a-main", "Deployment a", "EndpointSlice mine", "Service a"];
    ensure!(inventory(&widget) == members, "{widget}");
    let children = world.list("endpointslices,replicasets", "")?;
    let copies: Vec<Value> = children
        .into_iter()
        .filter(|child| child["metadata"]["ownerReferences"][0]["controller"] == true)
        .collect();
    ensure!(
        copies.len() == 2 && copies.iter().all(is_marked),
        "nothing was copied: {copies:?}"
    );
    let widget = world.update("a", json!({"extraDeploy": [service]}))?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "Deployment a", "Service a"]);
    for copy in copies {
        let kind = copy["kind"].as_str().unwrap_or_default().to_lowercase();
        let now = world.expect(&kind, copy["metadata"]["name"].as_str().unwrap_or_default())?;
        ensure!(
            uid(&now) == uid(&copy) && now["metadata"]["deletionTimestamp"].is_null(),
            "{now}"
        );
    }
    Ok(())
}

/// kro waits for ever, in `Unknown`, where an expression refers to what isn't there. What can't be evaluated is told, and
/// health that others write badly keeps no release from being ready.
#[test]
fn trap_11_what_cannot_be_evaluated_is_told_at_once_and_never_unknown() -> Result<()> {
    let world = World::new("trap-11")?;
    world.install_crd("Gadget")?;
    world.grant("gadgets", &[member_rule(&world.group(), "gadgets")])?;
    fs::write(
        world.chart().join("templates/reference.yaml"),
        "{{ if .Values.refer }}{{ .Values.no.such.thing }}{{ end }}\n",
    )?;
    let _operator = world.start()?;
    let begun = Instant::now();
    world.apply(&world.widget("a", json!({"refer": true})))?;
    let message = world.await_stalled("a", "RenderFailed")?;
    ensure!(message.contains("templates/reference.yaml:1"), "{message}");
    ensure!(begun.elapsed() < PROMPT, "told after {:?}", begun.elapsed());

    let mut gadget = world.custom("Gadget", "made", json!({}));
    gadget["metadata"]["annotations"] = json!({"chartwright.dev/wave": "soon", "chartwright.dev/update": "Sometimes"});
    world.update("a", json!({"refer": false, "extraDeploy": [gadget]}))?;
    let told = world.events("a")?;
    for part in ["chartwright.dev/wave", "chartwright.dev/update"] {
        let found = told
            .iter()
            .filter(|(reason, note)| reason == "AnnotationInvalid" && note.contains(part));
        ensure!(found.count() == 1, "{part}: {told:?}");
    }
    // A controller that doesn't know, and one that writes nonsense.
    let status = |status: Value| {
        let resource = world.resource("Gadget");
        world
            .kubectl
            .patch_status(&resource, "made", &json!({"status": status}))
            .map(drop)
    };
    status(json!({"conditions": [{"type": "Ready", "status": "Unknown", "message": "can't tell"}]}))?;
    let ready = world.await_condition("a", "Ready", "False")?;
    says(text(&ready["message"]), ["can't tell"])?;
    for nonsense in [
        json!({"conditions": "soon", "observedGeneration": "many"}),
        json!({"conditions": [{"type": "Ready", "status": 7}, null, 3]}),
    ] {
        status(json!({"conditions": [{"type": "Ready", "status": "False"}]}))?;
        world.await_condition("a", "Ready", "False")?;
        status(nonsense)?;
        world.await_ready("a")?;
    }
    Ok(())
}

/// Two custom resources whose charts render the same cluster-scoped name.
#[test]
fn trap_13_of_two_releases_with_one_cluster_scoped_name_the_second_is_refused() -> Result<()> {
    let world = World::new("trap-13")?.watch_key("allow: {kinds: [PriorityClass.scheduling.k8s.io]}");
    let _operator = world.start()?;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "trap-13"}, "value": 5,
    });
    world.install("a", json!({"extraDeploy": [class]}))?;
    let mut other = class.clone();
    other["value"] = 6.into();
    world.apply(&world.widget("b", json!({"extraDeploy": [other]})))?;
    let message = world.await_stalled("b", "Collision")?;
    ensure!(message.contains("PriorityClass.scheduling.k8s.io trap-13"), "{message}");
    ensure!(world.expect("priorityclass", "trap-13")?["value"] == 5);
    // Neither does its end take what is the other's.
    world.delete("b")?;
    ensure!(world.get("priorityclass", "trap-13")?.is_some());
    world.delete("a")?;
    world.await_gone("priorityclass", "trap-13")
}

/// The command, as an admin runs it.
fn release_finalizers(world: &World, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command.arg("release-finalizers").args(arguments);
    Ok(command.env("KUBECONFIG", world.control_plane.kubeconfig()).output()?)
}

fn said_by(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// kro: deleting the definition strands its instances.
#[test]
fn trap_20_custom_resources_whose_watch_is_gone_can_be_freed() -> Result<()> {
    let world = World::new("trap-20")?;
    let operator = world.start()?;
    for name in ["a", "b", "c"] {
        world.install(name, json!({"extra": ["one"]}))?;
    }
    ensure!(operator.terminate()?.success());
    world.kubectl.begin_delete(&world.widgets(), "a")?;
    world.kubectl.begin_delete(&world.widgets(), "b")?;
    let group = world.group();
    let of_group = |more: &[&str]| {
        let arguments = [&["--group", &group], more].concat();
        let output = release_finalizers(&world, &arguments)?;
        ensure!(output.status.success(), "{}", said_by(&output));
        anyhow::Ok(said_by(&output))
    };

    // Said, not done.
    let said = of_group(&["--dry-run"])?;
    ensure!(said.matches("would be freed (dry run)").count() == 3, "{said}");
    ensure!(said.matches("being deleted: ").count() == 2, "{said}");
    let said = of_group(&["--dry-run", "--orphan", "--name=a", "--kind=Widget"])?;
    ensure!(said.contains("ConfigMap trap-20/a-one: would lose its marks"), "{said}");
    ensure!(world.list(&world.widgets(), "")?.len() == 3);
    ensure!(world.labelled("configmaps")?.len() == 6);

    // One, by all that names it; its members stay as they are.
    let said = of_group(&["--kind", "Widget", "-n", "trap-20", "--name", "a"])?;
    says(&said, ["Widget.trap-20.test trap-20/a, being deleted: freed"])?;
    ensure!(said.contains("applyset.kubernetes.io/part-of=applyset-"), "{said}");
    world.await_gone(&world.widgets(), "a")?;
    ensure!(world.labelled("configmaps")?.len() == 6);

    // Those in deletion, and their members are nobody's any more.
    let said = of_group(&["--deleting", "--orphan"])?;
    ensure!(
        said.contains("trap-20/b, being deleted: freed") && !said.contains("trap-20/c"),
        "{said}"
    );
    world.await_gone(&world.widgets(), "b")?;
    ensure!(!is_marked(&world.expect("configmap", "b-main")?) && !is_marked(&world.expect("configmap", "b-one")?));

    // One that lives keeps everything but its finalizer.
    let before = world.expect(&world.widgets(), "c")?;
    let said = of_group(&[])?;
    ensure!(said.contains("from any operator that still watches them"), "{said}");
    let after = world.expect(&world.widgets(), "c")?;
    ensure!(after["metadata"]["finalizers"].is_null(), "{after}");
    ensure!(after["metadata"]["labels"] == before["metadata"]["labels"]);
    ensure!(after["metadata"]["annotations"] == before["metadata"]["annotations"]);
    ensure!(after["status"] == before["status"]);
    ensure!(of_group(&[])?.contains("No custom resource with the finalizer"));

    // What is wrong has its exit code.
    ensure!(release_finalizers(&world, &[])?.status.code() == Some(2));
    let unknown = release_finalizers(&world, &["--kind=Gizmo", "--group", &group])?;
    ensure!(unknown.status.code() == Some(1) && said_by(&unknown).contains("does not serve Gizmo"));

    // An operator that comes back takes its own over again.
    let _operator = world.start()?;
    world.update("c", json!({"color": "red"}))?;
    world.install("a", json!({}))?;
    world.delete("a")?;
    ensure!(world.get("configmap", "a-main")?.is_none());
    Ok(())
}

/// Annotations hold 256 KiB: kinds are recorded there, not objects.
#[test]
fn trap_24_the_annotations_of_a_large_release_stay_small() -> Result<()> {
    let world = World::new("trap-24")?;
    let _operator = world.start()?;
    let names: Vec<String> = (0..120).map(|n| format!("{}-{n}", "x".repeat(180))).collect();
    world.apply(&world.widget("a", json!({"extra": names})))?;
    crate::support::eventually("all are applied", std::time::Duration::from_secs(60), || {
        let widget = world.expect(&world.widgets(), "a")?;
        let ready = crate::look::condition(&widget, "Ready").is_some_and(|ready| ready["status"] == "True");
        Ok(ready.then_some(()))
    })?;
    let widget = world.expect(&world.widgets(), "a")?;
    let size = widget["metadata"]["annotations"].to_string().len();
    ensure!(size < 1024, "{size} bytes of annotations for 121 members");
    world.delete("a")?;
    ensure!(world.labelled("configmaps")?.is_empty());
    Ok(())
}
