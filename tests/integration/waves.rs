//! Waves go in the reverse order, each when the one above it is gone.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::look::inventory;
use crate::support::eventually;
use crate::world::{SOON, World};

const TEMPLATE: &str = "{{ if not .Values.none }}{{ range $wave, $name := dict \"0\" \"low\" \"5\" \"high\" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-{{ $name }}
  annotations: {chartwright.dev/wave: {{ $wave | quote }}}
{{ end }}{{ end }}
";

/// A release whose higher wave somebody holds back while its custom resource is deleted.
fn held(name: &str, keys: &[&str]) -> Result<()> {
    let world = World::new(name)?;
    let chart = world.write_chart("waves", &[("maps.yaml", TEMPLATE)])?;
    let keys: Vec<&str> = keys.iter().copied().chain(["maxConcurrentReconciles: 1"]).collect();
    world.write_watches_of(&[("Widget", &chart, &keys)])?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let hold = |finalizers: Value| world.patch("configmap", "a-high", &json!({"metadata": {"finalizers": finalizers}}));
    hold(json!(["example.com/busy"]))?;
    world.kubectl.begin_delete(&world.widgets(), "a")?;
    let told = eventually("the status says what is waited for", SOON, || {
        let ready = world.await_condition("a", "Ready", "False")?;
        ensure!(ready["reason"] == "Uninstalling", "{ready}");
        Ok(Some(ready["message"].to_string()))
    })?;
    ensure!(told.contains("a-high") && !told.contains("a-low"), "{told}");
    // The only worker has time for others.
    world.install("b", json!({}))?;
    let low = world.expect("configmap", "a-low")?;
    ensure!(low["metadata"]["deletionTimestamp"].is_null(), "too early: {low}");
    hold(Value::Null)?;
    world.await_gone(&world.widgets(), "a")?;
    ensure!(world.get("configmap", "a-low")?.is_none() && world.get("configmap", "a-high")?.is_none());
    Ok(())
}

#[test]
fn a_wave_goes_when_the_one_above_it_is_gone() -> Result<()> {
    held("waves-delete", &[])
}

#[test]
fn a_wave_goes_when_the_one_above_it_is_gone_if_the_end_is_waited_for_too() -> Result<()> {
    held("waves-wait", &["deletionPolicy: WaitForTermination"])
}

#[test]
fn what_is_pruned_goes_by_waves_as_well() -> Result<()> {
    let world = World::new("waves-prune")?;
    let chart = world.write_chart("waves", &[("maps.yaml", TEMPLATE)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let _operator = world.start()?;
    let widget = world.install("a", json!({}))?;
    let rows = widget["status"]["inventory"].as_array().cloned().unwrap_or_default();
    let waves: Vec<_> = rows
        .iter()
        .map(|row| (row["name"].clone(), row["wave"].clone()))
        .collect();
    ensure!(waves == [(json!("a-low"), json!(0)), (json!("a-high"), json!(5))]);
    let hold = |finalizers: Value| world.patch("configmap", "a-high", &json!({"metadata": {"finalizers": finalizers}}));
    hold(json!(["example.com/busy"]))?;
    world.edit("a", json!({"none": true}))?;
    eventually("the status says what is waited for", SOON, || {
        let ready = world.await_condition("a", "Ready", "True")?;
        let message = ready["message"].as_str().unwrap_or_default();
        ensure!(message.contains("a-high") && !message.contains("a-low"), "{ready}");
        Ok(Some(()))
    })?;
    let low = world.expect("configmap", "a-low")?;
    ensure!(low["metadata"]["deletionTimestamp"].is_null(), "too early: {low}");
    hold(Value::Null)?;
    world.await_gone("configmap", "a-low")?;
    eventually("nothing is left to be done", SOON, || {
        let widget = world.expect(&world.widgets(), "a")?;
        ensure!(inventory(&widget).is_empty(), "{widget}");
        ensure!(!widget["status"]["release"]["inputs"].is_null(), "{widget}");
        Ok(Some(()))
    })
}
