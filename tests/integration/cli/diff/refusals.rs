//! What is refused, and what is recreated.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Differ, announced, difference, ensure_announced};
use crate::world::World;
use crate::world::fields::ensure_contains;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: '{{ .Release.Name }}-fixed'\n  annotations: {ANNOTATION}\n\
                   immutable: true\ndata: {a: {{ .Values.color }}}\n";

fn refusals(release: &Value) -> String {
    release["refusals"].to_string()
}

#[test]
fn an_immutable_field_recreates_the_member_or_is_refused() -> Result<()> {
    let world = World::new("diff-immutable")?;
    let template = |annotation: &str| world.write_template("fixed.yaml", &MAP.replace("ANNOTATION", annotation));
    template("chartwright.dev/update: Recreate")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let differ = Differ::new(&world)?;
    let release = differ.release("a", &["--set", "color=red"], 1)?;
    ensure_announced(&release, &["changed ConfigMap a-main", "recreated ConfigMap a-fixed"])?;
    ensure_contains(&difference(&release, "a-fixed")?, &["-  a: blue\n+  a: red\n"])?;
    ensure!(release["refusals"] == json!([]), "{release:#}");
    // A chart without the policy.
    let before = world.expect("configmap", "a-fixed")?;
    let chart = world.write_chart(
        "widget",
        &[(
            "fixed.yaml",
            &MAP.replace("ANNOTATION", "chartwright.dev/update: InPlace"),
        )],
    )?;
    let release = differ.release("a", &["--set", "color=red", "--chart", &chart.display().to_string()], 2)?;
    ensure_contains(&refusals(&release), &["a-fixed", "data"])?;
    let after = world.expect("configmap", "a-fixed")?;
    ensure!(before["metadata"]["uid"] == after["metadata"]["uid"]);
    Ok(())
}

#[test]
fn refusals_have_the_words_of_chart_schema_and_api_server() -> Result<()> {
    let world = World::new("diff-refused")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let differ = Differ::new(&world)?;
    let release = differ.release("a", &["--set", "fail=choose a color first"], 2)?;
    ensure_contains(&refusals(&release), &["RenderFailed", "choose a color first"])?;
    // A wrong object, and one of another owner.
    let wrong = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-wrong"}, "data": {"a": "1"}, "colour": 1}]);
    let file = world.dir.path().join("cr.json");
    fs::write(
        &file,
        world
            .widget("a", json!({"extraDeploy": wrong, "color": "red"}))
            .to_string(),
    )?;
    let file = file.display().to_string();
    let release = differ.json(&["-f", &file, "-o", "json"], 2)?;
    ensure_contains(&refusals(&release), &["a-wrong", "colour"])?;
    ensure!(announced(&release) == ["changed ConfigMap a-main"], "{release:#}");
    world.apply(&crate::world::config_map("a-two", json!({"of": "another owner"})))?;
    let release = differ.release("a", &["--set", "extra={two}"], 2)?;
    ensure_contains(&refusals(&release), &["Collision", "a-two"])?;
    // What the author of a custom resource may not create.
    let role = json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "mine"}, "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}]);
    fs::write(&file, world.widget("a", json!({"extraDeploy": role})).to_string())?;
    let release = differ.json(&["-f", &file, "-o", "json"], 2)?;
    ensure_contains(&refusals(&release), &["Refused", "Role.rbac.authorization.k8s.io"])
}

#[test]
fn a_new_release_that_cannot_be_rendered_is_refused() -> Result<()> {
    let world = World::new("diff-new-refused")?;
    let differ = Differ::new(&world)?;
    let file = world.dir.path().join("cr.json");
    fs::write(
        &file,
        world.widget("new", json!({"fail": "choose a color first"})).to_string(),
    )?;
    world.write_watches()?;
    let release = differ.json(&["-f", &file.display().to_string(), "-o", "json"], 2)?;
    ensure_contains(&refusals(&release), &["RenderFailed", "choose a color first"])?;
    ensure_announced(&release, &[])?;
    // A chart that lacks a dependency.
    let about = fs::read_to_string(world.chart().join("Chart.yaml"))?;
    let lacking =
        format!("{about}dependencies: [{{name: lacking, version: 1.0.0, repository: 'https://example.com'}}]\n");
    fs::write(world.chart().join("Chart.yaml"), lacking)?;
    let printed = differ.run(&["-f", &file.display().to_string()])?.expect(2)?;
    ensure_contains(&printed.out, &["diff-new-refused/new", "failed: ", "lacking"])
}

#[test]
fn a_custom_resource_that_its_schema_refuses_is_refused() -> Result<()> {
    let world = World::with("diff-schema", crate::world::WorldSetup::NO_CRD)?;
    let mut definition = crate::world::crd(&world.group(), "Widget");
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    *schema = json!({"type": "object", "properties": {"color": {"type": "string", "enum": ["blue", "red"], "default": "red"}}});
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    world.serve(&definition)?;
    world.write_watches()?;
    let file = world.dir.path().join("cr.json");
    let differ = Differ::new(&world)?;
    let mut widget = world.widget("a", json!({"color": "pink"}));
    fs::write(&file, widget.to_string())?;
    let file = file.display().to_string();
    let release = differ.json(&["-f", &file, "-o", "json"], 2)?;
    ensure_contains(
        &refusals(&release),
        &["CustomResourceInvalid", "Unsupported value: \\\"pink\\\""],
    )?;
    let printed = differ.run(&["-f", &file])?.expect(2)?;
    ensure_contains(&printed.out, &["diff-schema/a  chart widget 1.2.3\n"])?;
    // The default of the schema counts.
    widget["spec"] = json!({});
    fs::write(&file, widget.to_string())?;
    let printed = differ.run(&["-f", &file])?.expect(1)?;
    ensure_contains(&printed.out, &["+  color: red"])
}

#[test]
fn a_suspended_release_is_left_alone() -> Result<()> {
    let world = World::new("diff-suspended")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    world.suspend("a")?;
    let release = Differ::new(&world)?.release("a", &["--set", "color=red"], 0)?;
    ensure_announced(&release, &[])?;
    ensure_contains(&release["notes"].to_string(), &["is suspended"])
}
