//! What the operator waits for, and when it tries again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::facts::{LONGEST_TEXT, ReportFacts};
use super::live::{list, text};
use super::member;
use super::tree::HookNode;
use crate::hooks::RunPhase;
use crate::retry;
use crate::status::conditions::{self, Condition, cut};
use crate::status::summary::ReleaseSummary;

/// What the operator does next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextStep {
    /// What it waits for, in words.
    pub message: String,
    /// The time of the next attempt, in RFC 3339, if there is one. Each change starts one sooner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl NextStep {
    pub(super) fn of(
        facts: &ReportFacts,
        summary: &ReleaseSummary,
        all: &[Condition],
        hooks: &[HookNode],
        now: Timestamp,
    ) -> Self {
        let is_true = |kind: &str| conditions::get(all, kind).is_some_and(|condition| condition.status == "True");
        let failures = facts.resource["status"]["failures"].as_u64().unwrap_or_default();
        let failures = u32::try_from(failures).unwrap_or(u32::MAX);
        let is_stalled = is_true("Stalled");
        let message = if summary.reason == "NotHandled" && member::is_marked(&facts.resource) {
            "the operator handles releases with all their members".to_owned()
        } else if summary.reason == "NotHandled" {
            "an operator that watches this kind and namespace".to_owned()
        } else if summary.reason == "NewGeneration" {
            "the operator has not handled the last change of the custom resource".to_owned()
        } else if summary.suspended {
            "the operator changes nothing until the release is resumed".to_owned()
        } else if is_stalled {
            "the operator waits for a change of the custom resource, its values, the chart, the watch or what the chart looks up".to_owned()
        } else if summary.is_ready() {
            "the operator watches the members and corrects drift".to_owned()
        } else if failures > 0 {
            format!(
                "the operator tries again at growing intervals, at most every 5m, and at each change ({failures} failed)"
            )
        } else {
            format!(
                "the operator waits for {}, and continues at each change",
                awaited(summary, hooks)
            )
        };
        let retries = failures > 0 && !summary.suspended && !is_stalled && !summary.is_ready();
        NextStep {
            message: cut(&message, LONGEST_TEXT),
            at: retries
                .then(|| attempt(facts, failures, now))
                .flatten()
                .map(|at| at.to_string()),
        }
    }
}

/// What a release waits for that has not failed.
fn awaited(summary: &ReleaseSummary, hooks: &[HookNode]) -> String {
    let running = hooks.iter().find(|hook| hook.run.phase == RunPhase::Running);
    match (summary.reason.as_str(), running) {
        ("HookRunning", Some(hook)) => {
            let object = &hook.run.object;
            format!("the end of the hook {} {}", object.group_kind.kind, object.name)
        }
        ("HookRunning", None) => "the end of a hook".to_owned(),
        ("DependencyNotReady", _) => "the release that it depends on".to_owned(),
        ("PlanRunning", _) => "the end of a plan".to_owned(),
        ("KindUnknown", _) => "the kind to be installed".to_owned(),
        ("Uninstalling" | "Terminating" | "Deleting", _) => "the end of a deletion".to_owned(),
        ("WatchFailed", _) => "the watch of a kind to work again".to_owned(),
        ("RollingBack", _) => "the end of the rollback".to_owned(),
        _ => "the members to be healthy".to_owned(),
    }
}

/// The time of the next attempt, by the last write of the status and the number of failures. A time that is over is not returned.
fn attempt(facts: &ReportFacts, failures: u32, now: Timestamp) -> Option<Timestamp> {
    let is_ours = |entry: &&Value| text(entry, "/manager") == facts.status_manager;
    let times = list(&facts.resource, "/metadata/managedFields").filter(is_ours);
    let last = times
        .filter_map(|entry| text(entry, "/time").parse::<Timestamp>().ok())
        .max()?;
    let wait: Duration = retry::wait(text(&facts.resource, "/metadata/uid"), failures);
    let at = last.checked_add(SignedDuration::try_from(wait).ok()?).ok()?;
    // With one more second, since a time of managedFields has none of its fractions.
    let at = Timestamp::from_second(at.as_second().checked_add(1)?).ok()?;
    (at > now).then_some(at)
}
