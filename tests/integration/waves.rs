//! Waves go in the reverse order, each when the one above it is gone.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::{SOON, World};

const TEMPLATE: &str = "{{ range $wave, $name := dict \"0\" \"low\" \"5\" \"high\" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-{{ $name }}
  annotations: {chartwright.dev/wave: {{ $wave | quote }}}
{{ end }}
";

/// A release whose higher wave somebody holds back while its custom resource is deleted.
fn held(name: &str, keys: &[&str]) -> Result<()> {
    let world = World::new(name)?;
    let chart = world.write_chart("waves", &[("maps.yaml", TEMPLATE)])?;
    let keys: Vec<&str> = keys.iter().copied().chain(["maxConcurrentReconciles: 1"]).collect();
    world.write_watches_of(&[("Widget", &chart, &keys)])?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let hold = |finalizers: Value| {
        world
            .kubectl
            .patch("configmap", "a-high", &json!({"metadata": {"finalizers": finalizers}}))
    };
    hold(json!(["example.com/busy"]))?;
    world.kubectl.run(["delete", &world.widgets(), "a", "--wait=false"])?;
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
