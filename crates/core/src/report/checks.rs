//! Problems of objects that their health does not show: Kubernetes calls them healthy, and still they do not work.

use serde_json::Value;

use super::facts::ReportFacts;
use super::live::{LiveObjects, list, text};
use super::reads::INGRESS_CLASS_ANNOTATION;
use crate::health::pods::selects;
use crate::identity::ObjectId;
use crate::status::summary::ReleaseSummary;

/// A problem of an object beyond its health.
pub(super) fn problem(id: &ObjectId, object: &Value, objects: &LiveObjects<'_>, facts: &ReportFacts) -> Option<String> {
    match (id.group_kind.group.as_str(), id.group_kind.kind.as_str()) {
        ("", "Service") => service(object, objects, facts),
        ("networking.k8s.io", "Ingress") => ingress(object, facts),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object),
        ("", "Pod") => unavailable_node(object, facts),
        ("", "PersistentVolumeClaim") => claim(object),
        ("apps", "Deployment") => paused(object),
        ("batch", "CronJob" | "Job") if object["spec"]["suspend"] == true => {
            Some("it is suspended (spec.suspend): it starts no pods".to_owned())
        }
        _ => None,
    }
}

/// A Service whose selector finds no ready pod. The EndpointSlices that it owns say so.
fn service(object: &Value, objects: &LiveObjects<'_>, facts: &ReportFacts) -> Option<String> {
    let selector = object
        .pointer("/spec/selector")?
        .as_object()
        .filter(|map| !map.is_empty())?;
    let owned = objects.owned_by(object).iter();
    let slices: Vec<&&Value> = owned.filter(|owned| owned["kind"] == "EndpointSlice").collect();
    // Without slices nothing is known: they may be unread.
    slices.first()?;
    let is_ready = |endpoint: &Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    let endpoints = || slices.iter().flat_map(|slice| list(slice, "/endpoints"));
    if endpoints().any(is_ready) {
        return None;
    }
    let pairs = selector
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let selector = pairs.collect::<Vec<_>>().join(",");
    let namespace = text(object, "/metadata/namespace");
    let neighbours = || {
        facts
            .objects
            .iter()
            .filter(|other| text(other, "/metadata/namespace") == namespace)
    };
    let fits = |labels: &Value| selects(&selector, &serde_json::from_value(labels.clone()).unwrap_or_default());
    let pods = neighbours().filter(|pod| pod["kind"] == "Pod" && fits(&pod["metadata"]["labels"]));
    let is_template = |workload: &Value| {
        let labels = &workload["spec"]["template"]["metadata"]["labels"];
        labels.is_object() && fits(labels)
    };
    match pods.count() {
        0 if neighbours().any(is_template) => Some(format!(
            "it has no endpoints: the workload with the labels {selector} of its selector has no pods"
        )),
        0 if endpoints().any(|endpoint| endpoint["targetRef"]["kind"] == "Pod") => Some(format!(
            "it has no ready endpoints: its selector {selector} matches pods of others, and none of them is ready"
        )),
        // Charts have Services for pods that may not exist here: those of a control plane, for example.
        0 if ReleaseSummary::of(&facts.resource).is_ready() => None,
        0 => Some(format!(
            "it has no endpoints: no pod of the release has the labels {selector} of its selector"
        )),
        count => Some(format!(
            "it has no ready endpoints: none of {count} pods with the labels {selector} is ready"
        )),
    }
}

fn ingress(object: &Value, facts: &ReportFacts) -> Option<String> {
    let classes = facts.ingress_classes.as_ref()?;
    // The controllers of the former annotation do not need an IngressClass.
    if object["metadata"]["annotations"][INGRESS_CLASS_ANNOTATION].is_string() {
        return None;
    }
    match text(object, "/spec/ingressClassName") {
        "" if classes.has_default => None,
        "" => Some(
            "it has no ingressClassName, and the cluster has no default IngressClass: no controller serves it"
                .to_owned(),
        ),
        class if classes.names.iter().any(|name| name == class) => None,
        class => Some(format!("there is no IngressClass {class}: no controller serves it")),
    }
}

/// An autoscaler that cannot read its metrics, or cannot scale.
fn autoscaler(object: &Value) -> Option<String> {
    let is_failed = |condition: &&Value| {
        let name = text(condition, "/type");
        // With 0 replicas the autoscaler is off on purpose.
        let is_off = text(condition, "/reason") == "ScalingDisabled";
        condition["status"] == "False" && ["ScalingActive", "AbleToScale"].contains(&name) && !is_off
    };
    let failed = list(object, "/status/conditions").find(is_failed)?;
    Some(format!(
        "it does not scale: {}: {}",
        text(failed, "/reason"),
        text(failed, "/message")
    ))
}

fn unavailable_node(object: &Value, facts: &ReportFacts) -> Option<String> {
    let node = text(object, "/spec/nodeName");
    let why = facts.unavailable_nodes.get(node)?;
    Some(format!("its node {node} {why}"))
}

fn claim(object: &Value) -> Option<String> {
    (text(object, "/status/phase") == "Lost").then(|| "its volume is gone".to_owned())
}

fn paused(object: &Value) -> Option<String> {
    let (wanted, updated) = (&object["spec"]["replicas"], &object["status"]["updatedReplicas"]);
    (object["spec"]["paused"] == true && wanted != updated)
        .then(|| "it is paused (spec.paused): its controller does not roll out the new pods".to_owned())
}
