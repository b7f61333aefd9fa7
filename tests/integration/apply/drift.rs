//! What others do to members: our part comes back, theirs stays.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::{OPERATOR, PART_OF, TRACKING, annotation, is_marked, label, uid};
use crate::world::{IMAGE, World, config_map};

/// No timer of the operator may be what puts things right: [`crate::world::PROMPT`] is shorter than any of them.
#[test]
fn a_deleted_or_changed_member_is_restored() -> Result<()> {
    let world = World::new("drift-back")?;
    let _operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    let before = uid(&world.expect("configmap", "a-main")?);
    world.kubectl.delete("configmap", "a-main")?;
    world.await_object("configmap", "a-main", "is recreated", |main| {
        uid(main) != before && main["data"]["color"] == "blue"
    })?;
    world.await_event("a", "DriftCorrected", &["a-main", "deleted"])?;

    world.paint("a-main", "pink")?;
    world.await_color("a-main", "blue")?;
    world.patch("configmap", "a-main", &json!({"data": {"color": null}}))?;
    world.await_color("a-main", "blue")?;
    // By another server-side applier, who takes the fields over.
    let green = config_map("a-main", json!({"color": "green"}));
    world.kubectl.take_over("rival", &green.to_string())?;
    world.await_color("a-main", "blue")?;
    world.await_ready("a").map(drop)
}

#[test]
fn removed_labels_and_annotations_of_members_are_restored() -> Result<()> {
    let world = World::new("drift-marks")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let main = world.expect("configmap", "a-main")?;
    let whole = |object: &Value| {
        label(object, PART_OF) == label(&main, PART_OF)
            && label(object, OPERATOR) == label(&main, OPERATOR)
            && annotation(object, TRACKING) == annotation(&main, TRACKING)
            && label(object, "app.kubernetes.io/instance") == Some("a")
    };
    ensure!(whole(&main) && is_marked(&main));
    let (set, operator, tracking) = (json!({PART_OF: null}), json!({OPERATOR: null}), json!({TRACKING: null}));
    for metadata in [
        json!({"labels": set}),
        json!({"labels": operator}),
        json!({"annotations": tracking}),
        json!({"labels": {"app.kubernetes.io/instance": "b"}}),
        json!({"labels": {PART_OF: null, OPERATOR: null}, "annotations": tracking}),
        json!({"labels": null, "annotations": null}),
    ] {
        world.patch("configmap", "a-main", &json!({"metadata": metadata}))?;
        let what = format!("is marked again after {metadata}");
        let object = world.await_object("configmap", "a-main", &what, whole)?;
        ensure!(uid(&object) == uid(&main), "it was replaced");
    }
    Ok(())
}

#[test]
fn foreign_fields_survive_and_are_no_drift() -> Result<()> {
    let world = World::new("drift-foreign")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.await_quiet(&operator)?;

    let start = world.mark()?;
    let foreign = json!({"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}, "data": {"key": "z"}});
    world.patch("configmap", "a-main", &foreign)?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    world.requests(&operator, start)?.none()?;

    let survives = |main: &Value| {
        label(main, "team") == Some("x") && annotation(main, "note") == Some("y") && main["data"]["key"] == "z"
    };
    world.update("a", json!({"color": "red"}))?;
    let main = world.expect("configmap", "a-main")?;
    ensure!(survives(&main), "after an update: {main}");
    ensure!(main["data"]["color"] == "red", "after an update: {main}");
    world.paint("a-main", "pink")?;
    let main = world.await_color("a-main", "red")?;
    ensure!(survives(&main), "after a correction: {main}");
    Ok(())
}

#[test]
fn cluster_scoped_members_and_those_of_other_namespaces_are_watched_too() -> Result<()> {
    let world = World::new("drift-far")?
        .watch_key("allow: {kinds: [PriorityClass.scheduling.k8s.io], namespaces: [drift-far-2]}");
    let elsewhere = world.kubectl.create_namespace("drift-far-2")?;
    let _operator = world.start()?;
    let spec = json!({"priorityClass": {"enabled": true}, "elsewhere": "drift-far-2"});
    world.install("a", spec)?;

    let class = world.expect("priorityclass", "drift-far-a")?;
    let await_class = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        world
            .await_object("priorityclass", "drift-far-a", what, holds)
            .map(drop)
    };
    let unmarked = json!({"metadata": {"labels": {PART_OF: null, OPERATOR: null}}});
    world.patch("priorityclass", "drift-far-a", &unmarked)?;
    await_class("is marked again", &|class| label(class, PART_OF).is_some())?;
    world.kubectl.delete("priorityclass", "drift-far-a")?;
    await_class("is recreated", &|again| uid(again) != uid(&class))?;

    elsewhere.patch("configmap", "a-elsewhere", &json!({"data": {"from": "nowhere"}}))?;
    world.await_object("namespace", "drift-far-2", "has its member as it was", |_| {
        matches!(elsewhere.get("configmap", "a-elsewhere"), Ok(Some(object)) if object["data"]["from"] == "drift-far")
    }).map(drop)
}

#[test]
fn a_deployment_scaled_or_edited_by_hand_is_corrected() -> Result<()> {
    let world = World::new("drift-scale")?;
    let _operator = world.start()?;
    world.install("a", json!({"deployment": {"enabled": true, "replicas": 2}}))?;
    world.run(["scale", "deployment", "a", "--replicas=4"])?;
    world.await_field("deployment", "a", "/spec/replicas", 2)?;
    world.run(["set", "image", "deployment/a", "app=example/other:1"])?;
    let deployment = world.await_field("deployment", "a", IMAGE, "example/app:7")?;
    let fields = deployment["metadata"]["managedFields"].as_array();
    let fields = fields.context("no managedFields")?;
    let is_ours = |entry: &Value| entry["manager"] == "chartwright" && entry["operation"] == "Apply";
    ensure!(fields.iter().any(is_ours), "{fields:?}");
    world.await_ready("a").map(drop)
}

#[test]
fn a_watch_can_correct_drift_only_at_the_next_resync() -> Result<()> {
    let world = World::new("drift-later")?.watch_key("watchDependentResources: false");
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    world.kubectl.delete("configmap", "a-main")?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    world.absent("configmap", ["a-main"])?;
    world.annotate("a", json!({"look": "now"}))?;
    world.await_there("configmap", "a-main").map(drop)
}
