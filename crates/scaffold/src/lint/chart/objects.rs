//! Rendered workloads and hooks: images, probes, limits, disruption budgets, time-outs.

use serde_json::Value;

use super::examine::{Examined, ExaminedObject};
use crate::lint::report::LintReport;
use crate::lint::rules;
use helm_template::render::HookEvent;

pub(in crate::lint) fn check(examined: &Examined, report: &mut LintReport) {
    for seen in examined.objects.iter().filter(|seen| examined.is_own(&seen.source)) {
        if let Some(pod) = pod_of(seen) {
            check_pod(examined, seen, pod, report);
        }
        check_budget(examined, seen, report);
        check_timeout(examined, seen, report);
    }
}

/// The spec of the pods that an object makes.
fn pod_of(seen: &ExaminedObject) -> Option<&Value> {
    let path = match (seen.group_kind.group.as_str(), seen.kind()) {
        ("", "Pod") => "/spec",
        ("batch", "CronJob") => "/spec/jobTemplate/spec/template/spec",
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job") => "/spec/template/spec",
        _ => return None,
    };
    seen.object.pointer(path)
}

fn containers<'v>(pod: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    pod[field].as_array().into_iter().flatten()
}

fn check_pod(examined: &Examined, seen: &ExaminedObject, pod: &Value, report: &mut LintReport) {
    let is_served = matches!(seen.kind(), "Deployment" | "StatefulSet" | "DaemonSet");
    let what = |container: &Value| {
        let name = container["name"].as_str().unwrap_or_default();
        (
            name.to_owned(),
            format!("{} {}: container {name}", seen.kind(), shown(seen)),
        )
    };
    let images = ["initContainers", "containers"].into_iter();
    for (field, container) in images.flat_map(|field| containers(pod, field).map(move |container| (field, container))) {
        let (name, what) = what(container);
        if let Some(problem) = image_problem(container["image"].as_str().unwrap_or_default()) {
            let named = format!("name: {name}");
            let (file, at) = examined.place(&seen.source, seen.kind(), &[&format!("{field}:"), &named, "image:"]);
            report.add(rules::IMAGE_TAG, file, at, format!("{what} has {problem}"));
        }
    }
    for container in containers(pod, "containers") {
        let (name, what) = what(container);
        let named = format!("name: {name}");
        let (file, at) = examined.place(&seen.source, seen.kind(), &["containers:", &named]);
        let has_ports = container["ports"].as_array().is_some_and(|ports| !ports.is_empty());
        if is_served && has_ports && container["readinessProbe"].is_null() {
            report.add(
                rules::MISSING_PROBE,
                file.as_str(),
                at,
                format!("{what} serves ports and has no readinessProbe"),
            );
        }
        let missing: Vec<&str> = ["requests", "limits"]
            .into_iter()
            .zip(["resources.requests", "resources.limits.memory"])
            .filter(|(field, _)| {
                let resources = &container["resources"][field];
                match *field {
                    "limits" => resources["memory"].is_null(),
                    _ => resources.as_object().is_none_or(serde_json::Map::is_empty),
                }
            })
            .map(|(_, shown)| shown)
            .collect();
        // Hooks are short, and run in no-one's way.
        if !missing.is_empty() && seen.events.is_none() {
            let message = format!("{what} has no {}", missing.join(" and no "));
            report.add(rules::MISSING_LIMITS, file, at, message);
        }
    }
}

/// What is wrong with how an image is called.
fn image_problem(image: &str) -> Option<String> {
    let last = image.rsplit('/').next().unwrap_or_default();
    if image.is_empty() {
        return Some("no image".to_owned());
    }
    if image.contains('@') {
        return None;
    }
    match last.split_once(':') {
        None | Some((_, "")) => Some(format!("the image {image:?} without tag or digest")),
        Some((_, "latest")) => Some(format!("the image {image:?}, whose tag says nothing of its version")),
        Some(_) => None,
    }
}

fn shown(seen: &ExaminedObject) -> String {
    seen.name().replace("release-name", "RELEASE")
}

/// Reports a workload with several replicas that no PodDisruptionBudget selects, with any values.
fn check_budget(examined: &Examined, seen: &ExaminedObject, report: &mut LintReport) {
    let is_replicated = matches!(seen.kind(), "Deployment" | "StatefulSet") && seen.group_kind.group == "apps";
    let replicas = seen.object["spec"]["replicas"].as_u64().unwrap_or(1);
    if !is_replicated || replicas < 2 {
        return;
    }
    let labels = &seen.object["spec"]["template"]["metadata"]["labels"];
    let has_budget = examined
        .objects
        .iter()
        .filter(|other| other.kind() == "PodDisruptionBudget" && other.namespace() == seen.namespace())
        .any(|budget| selects(&budget.object["spec"]["selector"], labels));
    if !has_budget {
        let (file, at) = examined.place(&seen.source, seen.kind(), &[]);
        let message = format!(
            "{} {} has {replicas} replicas and no PodDisruptionBudget",
            seen.kind(),
            shown(seen)
        );
        report.add(rules::MISSING_PDB, file, at, message);
    }
}

/// Whether a selector may select these labels. Expressions are taken to.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object();
    wanted.into_iter().flatten().all(|(key, value)| labels[key] == *value)
}

fn check_timeout(examined: &Examined, seen: &ExaminedObject, report: &mut LintReport) {
    let Some(events) = &seen.events else { return };
    let runs_by_itself = events.iter().any(|event| *event != HookEvent::Test);
    let has_timeout = !seen.object["spec"]["activeDeadlineSeconds"].is_null()
        || seen.object["metadata"]["annotations"]["chartwright.dev/timeout"].is_string();
    if seen.kind() == "Job" && runs_by_itself && !has_timeout {
        let (file, at) = examined.place(&seen.source, "Job", &[]);
        let names: Vec<&str> = events.iter().map(|event| event.name()).collect();
        let message = format!("Job {} ({}) has no time-out", shown(seen), names.join(", "));
        report.add(rules::HOOK_TIMEOUT, file, at, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_versions() {
        for image in ["nginx", "localhost:5000/nginx", "nginx:", "nginx:latest", ""] {
            assert!(image_problem(image).is_some(), "{image}");
        }
        for image in [
            "nginx:1.27",
            "localhost:5000/nginx:1",
            "nginx@sha256:abc",
            "nginx:latest@sha256:abc",
        ] {
            assert!(image_problem(image).is_none(), "{image}");
        }
    }
}
