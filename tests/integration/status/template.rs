//! The status template of a chart: what it computes from live members appears in the status, and nothing else suffers
//! from what is wrong with it.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::fields::{condition, ensure_contains, text};
use crate::world::{SOON, World, any_fields};

fn world(name: &str, template: &str) -> Result<World> {
    let world = World::new(name)?;
    write(&world, template)?;
    Ok(world)
}

fn write(world: &World, template: &str) -> Result<()> {
    Ok(fs::write(world.chart().join("status.yaml"), template)?)
}

fn await_status(world: &World, name: &str, field: &str, value: impl Into<Value>) -> Result<Value> {
    world.await_field(&world.widgets(), name, &format!("/status/{field}"), value)
}

const COLORS: &str = "\
state: {{ (index .Members.ConfigMap (printf \"%s-main\" .Release.Name)).data.state | default \"new\" }}
size: {{ .Values.size }}
conditions:
- type: Open
  status: {{ eq (index .Members.ConfigMap (printf \"%s-main\" .Release.Name)).data.state \"open\" }}
  reason: Asked
";

#[test]
fn fields_and_conditions_follow_the_members() -> Result<()> {
    let world = world(
        "template-fields",
        &COLORS.replace(".data.state \"open\"", ".data.color \"red\""),
    )?;
    let operator = world.start()?;
    world.install("a", json!({"color": "blue"}))?;
    let widget = await_status(&world, "a", "state", "new")?;
    ensure!(widget["status"]["size"] == 1, "{widget}");
    ensure!(condition(&widget, "Open")["status"] == "False", "{widget}");
    ensure!(condition(&widget, "StatusInvalid").is_null(), "{widget}");
    world.patch("configmap", "a-main", &json!({"data": {"state": "open"}}))?;
    await_status(&world, "a", "state", "open")?;
    world.edit("a", json!({"color": "red", "size": 2}))?;
    await_status(&world, "a", "size", 2)?;
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "Open")["status"] == "True", "{widget}");
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 1.5)?;
    // Nothing changed in between: nothing is read or written.
    let before = world.mark()?;
    let operator = world.restart(operator)?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, before)?;
    requests
        .filter(|request| request.resource == "configmaps" && request.verb == "get")
        .none()?;
    ensure!(world.live("a")?["status"]["state"] == "open");
    Ok(())
}

#[test]
fn a_status_template_can_use_pods_hooks_and_plans() -> Result<()> {
    let template = "nodes: {{- range .Pods }}\n- {{ .metadata.name }}\n{{- else }} []\n{{- end }}\n";
    let world = world("template-pods", template)?;
    let _operator = world.start()?;
    world.install("a", json!({"deployment": {"enabled": true, "replicas": 2}}))?;
    until("the status shows two nodes", SOON, || {
        let widget = world.live("a")?;
        let nodes = widget["status"]["nodes"].as_array().cloned().unwrap_or_default();
        Ok(nodes.len() == 2 && nodes.iter().all(|node| text(node).starts_with("a-")))
    })
}

#[test]
fn an_invalid_status_template_is_only_a_condition() -> Result<()> {
    let world = world(
        "template-wrong",
        "state: {{ .Values.color }}\nbad: {{ .Values.color.more }}\n",
    )?;
    let operator = world.start()?;
    let widget = world.install("a", json!({}))?;
    let invalid = world.await_condition("a", "StatusInvalid", "True")?;
    ensure_contains(text(&invalid["message"]), &["status.yaml:2"])?;
    ensure!(
        widget["status"]["state"].is_null() && condition(&widget, "Ready")["status"] == "True",
        "{widget}"
    );
    let mut operator = operator;
    for (template, why) in [
        ("inventory: []", "status.inventory is not the chart's to write"),
        (
            "conditions: [{type: Ready, status: 'True'}]",
            "the condition Ready is not the chart's to write",
        ),
        ("- a", "must print a map"),
        ("{{ fail \"not today\" }}", "not today"),
    ] {
        write(&world, template)?;
        operator = world.replace_and_settle(operator)?;
        until(&format!("the status says: {why}"), SOON, || {
            let invalid = condition(&world.live("a")?, "StatusInvalid");
            Ok(text(&invalid["message"]).contains(why))
        })?;
        world.await_ready("a")?;
    }
    write(&world, "state: fine\n")?;
    operator = world.replace_and_settle(operator)?;
    await_status(&world, "a", "state", "fine")?;
    ensure!(condition(&world.live("a")?, "StatusInvalid").is_null());
    // A chart without a template removes the fields that it computed.
    fs::remove_file(world.chart().join("status.yaml"))?;
    let _operator = world.replace_and_settle(operator)?;
    until("its fields are gone", SOON, || {
        Ok(world.live("a")?["status"]["state"].is_null())
    })
}

#[test]
fn a_status_that_the_schema_refuses_is_written_without_the_template_fields() -> Result<()> {
    let world = world("template-schema", "state: {{ .Values.color }}\n")?;
    let mut status = any_fields();
    status["properties"] = json!({"state": {"type": "string", "enum": ["red"]}});
    world.install_crd_with("Widget", Some(status))?;
    let operator = world.start()?;
    let widget = world.install("a", json!({"color": "blue"}))?;
    let invalid = world.await_condition("a", "StatusInvalid", "True")?;
    ensure_contains(text(&invalid["message"]), &["the API server refuses", "state"])?;
    ensure!(!widget["status"]["inventory"].is_null(), "{widget}");
    world.await_quiet(&operator)?;
    world.edit("a", json!({"color": "red"}))?;
    let widget = await_status(&world, "a", "state", "red")?;
    ensure!(condition(&widget, "StatusInvalid").is_null(), "{widget}");
    Ok(())
}

#[test]
fn a_refused_field_keeps_its_last_value_and_the_others_follow() -> Result<()> {
    let world = world(
        "template-field",
        "state: {{ .Values.color }}\nsize: {{ .Values.size }}\n",
    )?;
    let mut status = any_fields();
    status["properties"] = json!({"state": {"type": "string", "enum": ["red"]}});
    world.install_crd_with("Widget", Some(status))?;
    let operator = world.start()?;
    world.install("a", json!({"color": "red", "size": 1}))?;
    await_status(&world, "a", "state", "red")?;
    world.edit("a", json!({"color": "blue", "size": 3}))?;
    let invalid = world.await_condition("a", "StatusInvalid", "True")?;
    ensure_contains(text(&invalid["message"]), &["the API server refuses", "state"])?;
    let widget = await_status(&world, "a", "size", 3)?;
    ensure!(widget["status"]["state"] == "red", "{widget}");
    // Nothing changes at the next evaluation.
    world.await_quiet(&operator)?;
    world.patch("configmap", "a-main", &json!({"data": {"more": "x"}}))?;
    world.await_quiet(&operator)?;
    let widget = world.live("a")?;
    ensure!(
        widget["status"]["state"] == "red" && widget["status"]["size"] == 3,
        "{widget}"
    );
    world.edit("a", json!({"color": "red", "size": 4}))?;
    await_status(&world, "a", "size", 4)?;
    world.await_ready("a")?;
    ensure!(condition(&world.live("a")?, "StatusInvalid").is_null());
    Ok(())
}

#[test]
fn a_status_template_reveals_no_secret() -> Result<()> {
    let template = "shown: {{ .Values.secret.password }}\nkeys: {{ index .Members.Secret (printf \"%s-secret\" .Release.Name) | toJson | quote }}\n";
    let world = world("template-secret", template)?.granted("", "secrets")?;
    let operator = world.start()?;
    let spec = json!({"secret": {"enabled": true, "password": "hunter2hunter2"}});
    world.install("a", spec)?;
    let is_clean = || -> Result<bool> {
        let widget = world.live("a")?;
        let status = widget["status"].to_string();
        ensure!(!status.contains("hunter2") && !status.contains("aHVudGVy"), "{status}");
        Ok(!widget["status"]["shown"].is_null())
    };
    until("the status has no password", SOON, is_clean)?;
    let _operator = world.restart(operator)?;
    world.annotate("a", json!({"chartwright.dev/requested-at": "1"}))?;
    await_status(&world, "a", "lastHandledReconcileAt", "1")?;
    is_clean().map(drop)
}
