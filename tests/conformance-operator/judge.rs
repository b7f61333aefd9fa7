//! Whether what the operator says of a release is true.

use std::path::Path;

use anyhow::{Context, Result};
use chartwright::plan::conditions::{self, Condition};
use chartwright::plan::health::{self, Status};
use chartwright::plan::identity::GroupKind;
use jiff::Timestamp;
use serde_json::Value;

use crate::charts::{self, Values};
use crate::support::Kubectl;

/// What one step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be; in words.
    Good(String),
    /// Not Ready, for a reason of the chart's own; the message.
    NotReady(String, String),
    Wrong(String),
    /// There was nothing to do.
    Skipped,
}

/// A release, and what it should be of.
pub struct Release<'a> {
    /// In the namespace of the release.
    pub kubectl: &'a Kubectl,
    pub namespace: &'a str,
    /// The API server's version.
    pub kubernetes: &'a str,
    pub chart: &'a Path,
    pub values: &'a Values,
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

impl Release<'_> {
    /// Judges the status of a custom resource. `good`: what to say of one that is Ready.
    pub fn judge(&self, resource: &Value, good: String) -> Result<Outcome> {
        let Some(Condition {
            status,
            reason,
            message,
            ..
        }) = ready(resource)
        else {
            return Ok(Outcome::Wrong("nothing is said of it".to_owned()));
        };
        let unwell = self.unwell(resource)?;
        if status == "True" {
            return Ok(match unwell.is_empty() {
                true => Outcome::Good(good),
                false => Outcome::Wrong(format!("Ready, but {}", unwell.join("; "))),
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
            Some(_) => Outcome::NotReady(reason, message),
            None => Outcome::Wrong(format!("{reason}, and nothing else shows why: {message}")),
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

    /// Why kubectl can't apply the same manifests, if it can't.
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
    pub fn unwell(&self, resource: &Value) -> Result<Vec<String>> {
        let mut unwell = Vec::new();
        for row in resource["status"]["inventory"].as_array().into_iter().flatten() {
            let text = |name: &str| row[name].as_str().unwrap_or_default();
            let (kind, name) = (GroupKind::new(text("group"), text("kind")), text("name"));
            let kubectl = self.kubectl.in_namespace(text("namespace"));
            let typed = format!("{}.{}", kind.kind, kind.group);
            let object = kubectl.get(&typed, name).with_context(|| format!("{typed} {name}"))?;
            let Some(object) = object else {
                unwell.push(format!("{} {name} is not there", kind.kind));
                continue;
            };
            let health = health::health(&kind, &object, Timestamp::now());
            if health.status != Status::Current {
                unwell.push(format!("{} {name}: {}", kind.kind, health.message));
            }
        }
        Ok(unwell)
    }

    /// Whether the chart renders something else with other values; `None` where it does so with the same values, too.
    pub fn renders_otherwise(&self, values: &Values) -> Option<bool> {
        let render = |values: &Values| charts::template(self.chart, values, self.namespace, self.kubernetes).stdout;
        let first = render(self.values);
        let is_stable = (0..2).all(|_| render(self.values) == first);
        is_stable.then(|| render(values) != first)
    }
}
