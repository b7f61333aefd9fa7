//! Replicas belong to an autoscaler as long as there is one, and to the chart again when it is gone.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::look::says;
use crate::world::{World, member_rule};

const TEMPLATE: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Release.Name }}', labels: {color: '{{ .Values.color }}'}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: '{{ .Release.Name }}'}}
  template:
    metadata: {labels: {app: '{{ .Release.Name }}'}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: app, image: 'example/app:1'}]}
{{- if .Values.autoscaler }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: '{{ .Release.Name }}'}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: '{{ .Release.Name }}'}
  minReplicas: 1
  maxReplicas: 9
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
{{- end }}
";

fn autoscaled(name: &str) -> Result<World> {
    let world = World::new(name)?;
    world.grant("scale", &[member_rule("autoscaling", "horizontalpodautoscalers")])?;
    let chart = world.write_chart("autoscaled", &[("web.yaml", TEMPLATE)])?;
    std::fs::write(
        chart.join("values.yaml"),
        "{autoscaler: false, replicas: 2, color: blue}\n",
    )?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    Ok(world)
}

fn replicas(world: &World) -> Result<Value> {
    Ok(world.expect("deployment", "a")?["spec"]["replicas"].clone())
}

fn force(world: &World, token: &str) -> Result<()> {
    world.annotate("a", json!({"chartwright.dev/force-at": token}))?;
    world.await_object(&world.widgets(), "a", "was forced", |widget| {
        widget["status"]["lastHandledForceAt"] == token
    })?;
    Ok(())
}

#[test]
fn replicas_are_the_charts_again_when_it_drops_its_autoscaler() -> Result<()> {
    let world = autoscaled("scale-chart")?;
    let operator = world.start()?;
    world.install("a", json!({"autoscaler": true}))?;
    world.kubectl.scale("kube-controller-manager", "a", 3)?;
    world.await_quiet(&operator)?;
    ensure!(replicas(&world)? == 3);
    world.update("a", json!({"autoscaler": false}))?;
    world.await_gone("hpa", "a")?;
    world.await_object("deployment", "a", "is scaled as the chart says", |deployment| {
        deployment["spec"]["replicas"] == 2
    })?;
    let told = world.await_event("a", "UpgradeSuccessful")?;
    says(
        &told,
        ["replicas set by the chart again: Deployment.apps scale-chart/a"],
    )?;
    world.await_ready("a")?;
    world.await_quiet(&operator)?;
    Ok(())
}

#[test]
fn replicas_are_left_to_an_autoscaler_that_somebody_else_made_until_it_is_gone() -> Result<()> {
    let world = autoscaled("scale-other")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.run(["autoscale", "deployment", "a", "--max=9", "--min=1", "--cpu=80%"])?;
    world.kubectl.scale("kube-controller-manager", "a", 4)?;
    world.await_quiet(&operator)?;
    world.update("a", json!({"color": "red"}))?;
    force(&world, "once")?;
    ensure!(replicas(&world)? == 4, "the autoscaler was overruled");
    world.kubectl.delete("hpa", "a")?;
    world.update("a", json!({"color": "green"}))?;
    ensure!(replicas(&world)? == 2);

    // One of another kind can't be seen, so that only a person can know that it is gone.
    world.kubectl.scale("keda-operator", "a", 5)?;
    world.await_quiet(&operator)?;
    world.update("a", json!({"color": "blue"}))?;
    ensure!(replicas(&world)? == 5, "an autoscaler was overruled");
    force(&world, "twice")?;
    world.await_object("deployment", "a", "is scaled as the chart says", |deployment| {
        deployment["spec"]["replicas"] == 2
    })?;
    let told = world.await_event("a", "ReplicasTakenBack")?;
    ensure!(told.contains("Deployment.apps scale-other/a"), "{told}");
    Ok(())
}
