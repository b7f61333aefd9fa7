//! Reads fields of objects.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::Value;

/// The labels by which the operator finds members.
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
pub const OPERATOR: &str = "chartwright.dev/operator";
/// The annotation that proves that an object is a member.
pub const TRACKING: &str = "chartwright.dev/tracking-id";
/// The annotation with the run of a hook.
pub const HOOK_RUN: &str = "chartwright.dev/hook-run";

/// A condition of an object; `null` if absent.
pub fn condition(object: &Value, kind: &str) -> Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == kind)
        .cloned()
        .unwrap_or_default()
}

/// Whether a custom resource is ready at its generation.
pub fn is_ready(object: &Value) -> bool {
    let ready = condition(object, "Ready");
    ready["status"] == "True" && ready["observedGeneration"] == object["metadata"]["generation"]
}

/// The inventory of a custom resource, as `Kind name`, sorted.
pub fn inventory(resource: &Value) -> Vec<String> {
    let rows = resource["status"]["inventory"].as_array().into_iter().flatten();
    let row = |row: &Value| format!("{} {}", text(&row["kind"]), text(&row["name"]));
    let mut rows: Vec<String> = rows.map(row).collect();
    rows.sort();
    rows
}

/// A string value; empty if it is no string.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Checks that a text contains all parts.
pub fn ensure_contains(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(*part), "no {part:?} in: {text}");
    }
    Ok(())
}

pub fn uid(object: &Value) -> String {
    text(&object["metadata"]["uid"]).to_owned()
}

pub fn label<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["labels"][key].as_str()
}

pub fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["annotations"][key].as_str()
}

/// Whether an object has a label or the annotation of members.
pub fn is_marked(object: &Value) -> bool {
    label(object, PART_OF).is_some() || label(object, OPERATOR).is_some() || annotation(object, TRACKING).is_some()
}

/// UIDs and resource versions by kind and name. They stay equal if nothing is written.
pub fn versions(objects: &[Value]) -> BTreeMap<String, String> {
    let version = |object: &Value| {
        let metadata = &object["metadata"];
        let name = format!("{} {}", object["kind"], metadata["name"]);
        (name, format!("{} {}", metadata["uid"], metadata["resourceVersion"]))
    };
    objects.iter().map(version).collect()
}

/// Formats an object for a message.
pub fn describe(object: Option<&Value>) -> String {
    let Some(object) = object else {
        return "not there".to_owned();
    };
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object.to_string()
}
