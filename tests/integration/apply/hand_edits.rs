//! Hand edits after which the API server refuses the merge of the chart's object with the live one. They are corrected like any drift.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::{condition, ensure_contains, text, uid};
use crate::world::operator::Operator;
use crate::world::{World, config_map, member_rule, objects};

fn world(name: &str) -> Result<(World, Operator)> {
    let world = World::new(name)?;
    let kinds = [
        ("apps", "deployments"),
        ("", "services"),
        ("policy", "poddisruptionbudgets"),
        ("networking.k8s.io", "ingresses"),
    ];
    world.grant("workloads", &kinds.map(|(group, kind)| member_rule(group, kind)))?;
    let operator = world.start()?;
    Ok((world, operator))
}

/// Does one hand edit and waits until it is corrected.
fn follow(world: &World, kind: &str, edit: &Value) -> Result<()> {
    let name = text(&edit["edit"]);
    let before = world.expect(kind, name)?;
    let (at, gone) = (text(&edit["at"]), text(&edit["gone"]));
    let rendered = before.pointer(at).cloned();
    ensure!(rendered.is_some(), "{edit}: the chart does not render {at}");
    // Fields that exclude nothing belong to whoever set them.
    let label = json!({"metadata": {"labels": {"theirs": "1"}}}).to_string();
    let patch = |kind_of_patch, manager, patch| {
        world
            .kubectl
            .run(["patch", kind, name, kind_of_patch, manager, "-p", patch])
    };
    patch("--type=merge", "--field-manager=other", &label)?;
    match edit["kubectl"].as_array() {
        Some(words) => world.kubectl.run(words.iter().map(text))?,
        None => patch(
            "--type=json",
            "--field-manager=kubectl-edit",
            &edit["patch"].to_string(),
        )?,
    };
    let live = world.await_object(kind, name, &format!("is corrected after {edit}"), |live| {
        live.pointer(at) == rendered.as_ref() && live.pointer(gone).is_none()
    })?;
    ensure!(uid(&live) == uid(&before), "{edit}: recreated");
    ensure!(live["metadata"]["labels"]["theirs"] == "1", "{edit}: {live}");
    ensure!(
        live["spec"]["clusterIP"] == before["spec"]["clusterIP"],
        "{edit}: {live}"
    );
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "Stalled").is_null(), "{edit}: {widget}");
    Ok(())
}

#[test]
fn a_hand_edit_that_excludes_a_rendered_field_is_corrected() -> Result<()> {
    let (world, operator) = world("hand-edits")?;
    let cases = objects("hand_edits")?;
    let edits = || {
        let edits_of = |case: &'_ Value| case["edits"].as_array().cloned().unwrap_or_default();
        cases
            .iter()
            .flat_map(move |case| edits_of(case).into_iter().map(move |edit| (&case["object"], edit)))
    };
    let copies = edits().map(|(object, edit)| {
        let mut object = object.clone();
        object["metadata"]["name"] = edit["edit"].clone();
        object
    });
    world.install("a", json!({"extraDeploy": copies.collect::<Vec<_>>()}))?;
    for (object, edit) in edits() {
        follow(&world, &text(&object["kind"]).to_lowercase(), &edit)?;
    }
    world.await_event("a", "DriftCorrected", &["Deployment.apps", "kubectl-set"])?;
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 1.5)
}

#[test]
fn a_hand_edit_that_cannot_be_corrected_is_named_with_its_manager() -> Result<()> {
    let (world, _operator) = world("hand-edits-final")?;
    world.install(
        "a",
        json!({"extraDeploy": [config_map("settings", json!({"color": "blue"}))]}),
    )?;
    let edit = json!({"data": {"color": "red"}, "immutable": true}).to_string();
    world.kubectl.run([
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "--field-manager=kubectl-edit",
        "-p",
        &edit,
    ])?;
    let message = world.await_stalled("a", "Immutable", &["ConfigMap", "settings"])?;
    ensure_contains(&message, &["data can't be changed", "immutable (kubectl-edit)"])
}
