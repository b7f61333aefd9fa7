//! What bit well-known neighbours (Flux, kro, kubectl, helm-operator), each as a test.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::fields::{annotation, ensure_contains, inventory, is_marked, is_ready, text};
use crate::world::{PROMPT, SOON, World};

/// kubectl's `--prune` gives up when a kind of the set is gone, helm-operator's rollback loops.
#[test]
fn a_removed_crd_blocks_neither_prune_nor_later_steps() -> Result<()> {
    let world = World::new("trap-05")?.with_gadgets()?;
    let _operator = world.start()?;
    let gadget = world.custom("Gadget", "made", json!({}));
    let widget = world.install("a", json!({"extra": ["one"], "extraDeploy": [gadget]}))?;
    ensure!(inventory(&widget).contains(&"Gadget made".to_owned()), "{widget}");
    world.kubectl.delete("crd", &world.resource("Gadget"))?;
    world.update("a", json!({"extra": [], "extraDeploy": []}))?;
    // A watch that ends with its kind holds a prune up until that is known.
    let widget = world.await_object(&world.widgets(), "a", "lists what is left", |widget| {
        inventory(widget) == ["ConfigMap a-main"]
    })?;
    world.absent("configmap", ["a-one"])?;
    let kinds = annotation(&widget, "applyset.kubernetes.io/contains-group-kinds");
    ensure!(kinds == Some("ConfigMap"), "{kinds:?}");
    // It comes back under the same name, and is a kind like any other.
    world.install_crd("Gadget")?;
    let widget = world.update("a", json!({"extraDeploy": [gadget]}))?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "Gadget made"], "{widget}");
    world.delete("a")?;
    world.await_gone(&world.resource("Gadget"), "made")
}

/// kro waits for ever, in `Unknown`, where an expression refers to what isn't there. A failed evaluation is reported, and
/// health that others write badly keeps no release from being ready.
#[test]
fn a_failed_health_evaluation_is_reported_immediately_and_never_unknown() -> Result<()> {
    let world = World::new("trap-11")?.with_gadgets()?;
    let refers = "{{ if .Values.refer }}{{ .Values.no.such.thing }}{{ end }}\n";
    world.write_template("reference.yaml", refers)?;
    let _operator = world.start()?;
    let begun = Instant::now();
    world.apply_widget("a", json!({"refer": true}))?;
    world.await_stalled("a", "RenderFailed", &["templates/reference.yaml:1"])?;
    ensure!(begun.elapsed() < PROMPT, "reported after {:?}", begun.elapsed());

    let mut gadget = world.custom("Gadget", "made", json!({}));
    gadget["metadata"]["annotations"] = json!({"chartwright.dev/wave": "soon", "chartwright.dev/update": "Sometimes"});
    world.update("a", json!({"refer": false, "extraDeploy": [gadget]}))?;
    let events = world.events("a")?;
    for part in ["chartwright.dev/wave", "chartwright.dev/update"] {
        let is_it = |(reason, note): &&(String, String)| reason == "AnnotationInvalid" && note.contains(part);
        ensure!(events.iter().filter(is_it).count() == 1, "{part}: {events:?}");
    }
    // A controller that doesn't know, and one that writes nonsense.
    let gadgets = world.resource("Gadget");
    let status = |status: Value| world.kubectl.patch_status(&gadgets, "made", &json!({"status": status}));
    status(json!({"conditions": [{"type": "Ready", "status": "Unknown", "message": "no answer yet"}]}))?;
    let ready = world.await_condition("a", "Ready", "False")?;
    ensure_contains(text(&ready["message"]), &["no answer yet"])?;
    let soon = json!({"conditions": "soon", "observedGeneration": "many"});
    for nonsense in [soon, json!({"conditions": [{"type": "Ready", "status": 7}, null, 3]})] {
        status(json!({"conditions": [{"type": "Ready", "status": "False"}]}))?;
        world.await_condition("a", "Ready", "False")?;
        status(nonsense)?;
        world.await_ready("a")?;
    }
    Ok(())
}

/// kro: deleting the definition strands its instances.
#[test]
fn custom_resources_of_a_removed_watch_can_be_released() -> Result<()> {
    let world = World::new("trap-20")?;
    let operator = world.start()?;
    for name in ["a", "b", "c"] {
        world.install(name, json!({"extra": ["one"]}))?;
    }
    ensure!(operator.terminate()?.success());
    world.begin_delete("a")?;
    world.begin_delete("b")?;
    let group = world.group();
    let of_group = |more: &[&str]| {
        let (status, said) = world.chartwright(&[&["release-finalizers", "--group", &group], more].concat())?;
        ensure!(status.success(), "{said}");
        anyhow::Ok(said)
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
    ensure_contains(&said, &["Widget.trap-20.test trap-20/a, being deleted: freed"])?;
    ensure!(said.contains("applyset.kubernetes.io/part-of=applyset-"), "{said}");
    world.await_deleted("a")?;
    ensure!(world.labelled("configmaps")?.len() == 6);

    // Those in deletion, and their members have no owner any more.
    let said = of_group(&["--deleting", "--orphan"])?;
    ensure!(said.contains("trap-20/b, being deleted: freed"), "{said}");
    ensure!(!said.contains("trap-20/c"), "{said}");
    world.await_deleted("b")?;
    ensure!(!is_marked(&world.expect("configmap", "b-main")?) && !is_marked(&world.expect("configmap", "b-one")?));

    // One that lives keeps everything but its finalizer.
    let kept = |widget: &Value| {
        json!([
            widget["metadata"]["labels"],
            widget["metadata"]["annotations"],
            widget["status"]
        ])
    };
    let before = world.live("c")?;
    ensure_contains(&of_group(&[])?, &["An operator that still watches a custom resource"])?;
    let after = world.live("c")?;
    ensure!(after["metadata"]["finalizers"].is_null(), "{after}");
    ensure!(kept(&after) == kept(&before), "{after}");
    ensure!(of_group(&[])?.contains("No custom resource with the finalizer"));

    // What is wrong has its exit code.
    ensure!(world.chartwright(&["release-finalizers"])?.0.code() == Some(2));
    let (status, said) = world.chartwright(&["release-finalizers", "--kind=Gizmo", "--group", &group])?;
    ensure!(status.code() == Some(1) && said.contains("does not serve Gizmo"));

    // An operator that comes back takes its own over again.
    let _operator = world.start()?;
    world.update("c", json!({"color": "red"}))?;
    world.install("a", json!({}))?;
    world.delete("a")?;
    world.absent("configmap", ["a-main"])
}

/// Annotations hold 256 KiB: kinds are recorded there, not objects.
#[test]
fn the_annotations_of_a_large_release_stay_small() -> Result<()> {
    let world = World::new("trap-24")?;
    let _operator = world.start()?;
    let names: Vec<String> = (0..120).map(|n| format!("{}-{n}", "x".repeat(180))).collect();
    world.apply_widget("a", json!({"extra": names}))?;
    until("all are applied", 2 * SOON, || Ok(is_ready(&world.live("a")?)))?;
    let size = world.live("a")?["metadata"]["annotations"].to_string().len();
    ensure!(size < 1024, "{size} bytes of annotations for 121 members");
    world.delete("a")?;
    ensure!(world.labelled("configmaps")?.is_empty());
    Ok(())
}
