//! Whether what the operator says of a release is true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use chartwright_core::health::{self, HealthStatus};
use chartwright_core::identity::applyset::DIGEST_ANNOTATION;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::status::conditions::{self, Condition};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::charts::{self, TrialValues};
use crate::support::Kubectl;

/// What one step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialOutcome {
    /// As it should be; in words.
    Good(String),
    /// Not Ready, for a reason of the chart's own; the message.
    NotReady(String, String),
    Wrong(String),
    /// There was nothing to do.
    Skipped,
}

/// A release, and what it should be of.
pub struct TrialRelease<'a> {
    /// In the namespace of the release.
    pub kubectl: &'a Kubectl,
    pub namespace: &'a str,
    /// The API server's version.
    pub kubernetes: &'a str,
    pub chart: &'a Path,
    pub values: &'a TrialValues,
}

/// The condition `Ready` of a custom resource, if it is of its current generation.
pub fn ready(resource: &Value) -> Option<Condition> {
    let all = conditions::of(&resource["status"]);
    let ready = conditions::get(&all, "Ready")?.clone();
    let is_current = ready.observed_generation == resource["metadata"]["generation"].as_i64();
    is_current.then_some(ready)
}

/// Whether nothing is tried until something changes.
pub fn is_stalled(resource: &Value) -> bool {
    let all = conditions::of(&resource["status"]);
    conditions::get(&all, "Stalled").is_some_and(|stalled| stalled.status == "True")
}

impl TrialRelease<'_> {
    /// Judges the status of a custom resource. `good`: what to say of one that is Ready.
    pub fn judge(&self, resource: &Value, good: String) -> Result<TrialOutcome> {
        let Some(Condition {
            status,
            reason,
            message,
            ..
        }) = ready(resource)
        else {
            return Ok(TrialOutcome::Wrong("nothing is said of it".to_owned()));
        };
        let unwell = self.unwell(resource)?;
        if status == "True" {
            return Ok(if unwell.is_empty() {
                TrialOutcome::Good(good)
            } else {
                TrialOutcome::Wrong(format!("Ready, but {}", unwell.join("; ")))
            });
        }
        let objection = match reason.as_str() {
            "ChartInvalid" | "ValuesInvalid" | "RenderFailed" => self.template().err(),
            "ManifestInvalid" | "KindUnknown" | "ObjectInvalid" | "Forbidden" | "Denied" | "Immutable"
            | "ApplyFailed" | "HookFailed" => self.refused()?,
            "Progressing" | "MemberFailed" | "Terminating" => unwell.first().cloned(),
            _ => None,
        };
        Ok(match objection {
            Some(_) => TrialOutcome::NotReady(reason, message),
            None => TrialOutcome::Wrong(format!("{reason}, and nothing else shows why: {message}")),
        })
    }

    /// What `chartwright template` prints for it, or says.
    fn template(&self) -> Result<String, String> {
        let rendered = charts::template(self.chart, self.values, self.namespace, self.kubernetes);
        match rendered.code {
            0 => Ok(String::from_utf8_lossy(&rendered.stdout).into_owned()),
            _ => Err(rendered.error.unwrap_or_default()),
        }
    }

    /// Why kubectl can't apply the same manifests, if it can't: on the client's side, as Helm did for years. What only
    /// server-side apply refuses must be handled by the operator.
    fn refused(&self) -> Result<Option<String>> {
        let manifests = match self.template() {
            Ok(manifests) => manifests,
            Err(error) => return Ok(Some(error)),
        };
        let apply = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "-f",
            "-",
        ];
        let applied = self.kubectl.run_with_input(apply, &manifests);
        Ok(applied.err().map(|error| format!("{error:#}")))
    }

    /// The members that aren't well, each with what it is.
    fn unwell(&self, resource: &Value) -> Result<Vec<String>> {
        let unwell = |(id, object): (ObjectId, Option<Value>)| {
            let Some(object) = object else {
                return Some(format!("{id} is not there"));
            };
            let health = health::health(&id.group_kind, &object, Timestamp::now());
            (health.status != HealthStatus::Current).then(|| format!("{id}: {}", health.message))
        };
        Ok(self.members(resource)?.into_iter().filter_map(unwell).collect())
    }

    /// The members that the status lists, as they are.
    pub fn members(&self, resource: &Value) -> Result<BTreeMap<ObjectId, Option<Value>>> {
        let mut members = BTreeMap::new();
        for row in resource["status"]["inventory"].as_array().into_iter().flatten() {
            let text = |name: &str| row[name].as_str().unwrap_or_default();
            let (group, kind, namespace, name) = (text("group"), text("kind"), text("namespace"), text("name"));
            let kubectl = self.kubectl.in_namespace(namespace);
            let object = kubectl.get(&format!("{kind}.{group}"), name);
            let id = ObjectId::new(GroupKind::new(group, kind), namespace, name);
            let object = object.with_context(|| id.to_string())?;
            members.insert(id, object);
        }
        Ok(members)
    }

    /// Whether the chart renders something else with other values; `None` where it does so with the same values, too.
    pub fn renders_otherwise(&self, values: &TrialValues) -> Option<bool> {
        let render =
            |values: &TrialValues| charts::template(self.chart, values, self.namespace, self.kubernetes).stdout;
        let first = render(self.values);
        let is_stable = (0..2).all(|_| render(self.values) == first);
        is_stable.then(|| render(values) != first)
    }
}

/// Where two states of an object differ, but for what every write changes: JSON pointers.
pub fn changes(before: &Value, after: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    compare("", before, after, &mut changes);
    let incidental = |pointer: &str| {
        [
            "/status",
            "/metadata/managedFields",
            "/metadata/resourceVersion",
            "/metadata/generation",
        ]
        .iter()
        .any(|incidental| pointer.starts_with(incidental))
            || pointer.ends_with(DIGEST_ANNOTATION)
    };
    changes.retain(|pointer| !incidental(pointer));
    changes
}

fn compare(at: &str, before: &Value, after: &Value, changes: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let all: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in all {
                let value = |of: &Map<String, Value>| of.get(key).cloned().unwrap_or_default();
                compare(&format!("{at}/{key}"), &value(before), &value(after), changes);
            }
        }
        _ if before == after => {}
        _ => changes.push(at.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_every_write_changes_do_not_count() {
        let before =
            json!({"metadata": {"name": "a", "resourceVersion": "1", "annotations": {"b": "1"}}, "data": {"c": "1"}});
        let mut after = before.clone();
        after["metadata"]["resourceVersion"] = "2".into();
        after["metadata"]["annotations"][DIGEST_ANNOTATION] = "x".into();
        after["status"] = json!({"ready": true});
        assert_eq!(changes(&before, &after), [""; 0]);
        after["data"]["c"] = "2".into();
        after["metadata"]["annotations"]["d"] = "3".into();
        assert_eq!(changes(&before, &after), ["/data/c", "/metadata/annotations/d"]);
    }
}
