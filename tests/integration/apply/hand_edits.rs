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
    // Fields that exclude nothing stay.
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

/// A Deployment whose former revisions have more in their pods.
fn deployment(image: &str, more: &Value) -> Value {
    let app = json!({"name": "app", "image": image, "env": more["env"]});
    let containers: Vec<&Value> = [&app, &more["sidecar"]]
        .into_iter()
        .filter(|one| !one.is_null())
        .collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}},
        },
    })
}

#[test]
fn a_rollout_that_kubectl_undoes_is_corrected_completely() -> Result<()> {
    let (world, operator) = world("undone")?;
    let more = json!({
        "env": [{"name": "FORMER", "value": "1"}],
        "sidecar": {"name": "side", "image": "example/side:1"},
    });
    let revision = |number: &'static str| {
        world.await_field(
            "deployment",
            "web",
            "/metadata/annotations/deployment.kubernetes.io~1revision",
            number,
        )
    };
    let is_corrected = |live: &Value| {
        let containers = &live["spec"]["template"]["spec"]["containers"];
        containers[1].is_null() && containers[0]["env"].is_null() && containers[0]["image"] == "example/app:2"
    };
    world.install("a", json!({"extraDeploy": [deployment("example/app:1", &more)]}))?;
    revision("1")?;
    world.update("a", json!({"extraDeploy": [deployment("example/app:2", &Value::Null)]}))?;
    let before = revision("2")?;
    world.kubectl.run(["rollout", "undo", "deployment/web"])?;
    let live = world.await_object("deployment", "web", "is corrected", is_corrected)?;
    ensure!(uid(&live) == uid(&before));
    let parts = ["containers[name=side] changed by kubectl", "image changed by kubectl"];
    world.await_event("a", "DriftCorrected", &parts)?;

    // Only a former sidecar comes back, while the operator is away, and an edit follows.
    world.update("a", json!({"extraDeploy": [deployment("example/app:2", &more)]}))?;
    world.update("a", json!({"extraDeploy": [deployment("example/app:2", &Value::Null)]}))?;
    world.await_quiet(&operator)?;
    operator.terminate()?;
    world.kubectl.run(["rollout", "undo", "deployment/web"])?;
    world.edit(
        "a",
        json!({"extraDeploy": [deployment("example/app:2", &Value::Null)], "color": "red"}),
    )?;
    let operator = world.start()?;
    world.await_object("deployment", "web", "is corrected after the start", is_corrected)?;

    // A restart is no change of the chart's fields.
    world.kubectl.run(["rollout", "restart", "deployment/web"])?;
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 1.5)?;
    let live = world.expect("deployment", "web")?;
    let restarted = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";
    ensure!(live.pointer(restarted).is_some(), "{live}");
    Ok(())
}
