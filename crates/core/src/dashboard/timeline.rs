//! When hooks and plans ran and revisions were applied, the newest first.

use jiff::Timestamp;
use serde::Serialize;

use crate::hooks::HookRun;
use crate::plans::{By, Plan};
use crate::record::Record;
use crate::status::conditions::cut;

/// The most spans of a time line.
const MOST_SPANS: usize = 100;
/// The longest text of a span, in bytes.
const LONGEST_TEXT: usize = 1024;

/// What a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    Revision,
    Hook,
    Plan,
}

/// Work on a release, from its start to its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpan {
    pub lane: Lane,
    pub title: String,
    /// The object, the chart, or who requested it.
    pub subject: String,
    /// `Waiting`, `Running`, `Succeeded`, `Failed` or `GivenUp`.
    pub phase: String,
    /// `None`: it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The time line of a record.
pub fn timeline(record: &Record) -> Vec<WorkSpan> {
    let mut spans: Vec<WorkSpan> = Vec::new();
    for revision in record.history.iter() {
        let failed = !revision.failed.is_empty();
        spans.push(WorkSpan {
            lane: Lane::Revision,
            title: format!("revision {}", revision.revision),
            subject: format!("{} {}", revision.chart, revision.version),
            phase: if failed { "Failed" } else { "Succeeded" }.to_owned(),
            started: revision.deployed,
            ended: revision.deployed,
            message: revision.failed.clone(),
        });
    }
    spans.extend(record.hooks.runs.iter().map(|run| of_run(Lane::Hook, run)));
    record.plans.plans.iter().for_each(|plan| add_plan(plan, &mut spans));
    for waiting in &record.plans.work.queue {
        spans.push(WorkSpan {
            lane: Lane::Plan,
            title: waiting.plan.clone(),
            subject: by(waiting.by).to_owned(),
            phase: "Waiting".to_owned(),
            started: None,
            ended: None,
            message: String::new(),
        });
    }
    let steps = record.plans.work.steps.runs.iter();
    spans.extend(steps.map(|run| of_run(Lane::Plan, run)));
    // What waits comes first, then the newest.
    spans.sort_by(|one, other| {
        let waits = one.started.is_some().cmp(&other.started.is_some());
        waits
            .then(other.started.cmp(&one.started))
            .then(one.lane.cmp(&other.lane))
    });
    spans.truncate(MOST_SPANS);
    for span in &mut spans {
        for text in [&mut span.title, &mut span.subject, &mut span.message] {
            *text = cut(text, LONGEST_TEXT);
        }
    }
    spans
}

/// The run of a hook, or of a step of a plan.
fn of_run(lane: Lane, run: &HookRun) -> WorkSpan {
    WorkSpan {
        lane,
        title: run.event.clone(),
        subject: format!("{} {}", run.object.group_kind.kind, run.object.name),
        phase: run.phase.as_str().to_owned(),
        started: Some(run.started),
        ended: run.ended,
        message: run.message.clone(),
    }
}

fn add_plan(plan: &Plan, spans: &mut Vec<WorkSpan>) {
    let span = |subject: &str, phase: &str, started, ended, message: &str| WorkSpan {
        lane: Lane::Plan,
        title: plan.name.clone(),
        subject: subject.to_owned(),
        phase: phase.to_owned(),
        started,
        ended,
        message: message.to_owned(),
    };
    for (place, past) in plan.runs.iter().enumerate() {
        // The message of the plan is about its last run.
        let is_last = place == 0 && plan.phase != "Running";
        let message = if is_last { plan.message.as_str() } else { "" };
        spans.push(span(
            by(past.by),
            &past.phase,
            Some(past.started),
            Some(past.ended),
            message,
        ));
    }
    if plan.phase == "Running" || plan.runs.is_empty() && plan.started.is_some() {
        spans.push(span("", &plan.phase, plan.started, plan.ended, &plan.message));
    }
}

/// Who requested a run.
fn by(by: By) -> &'static str {
    match by {
        By::Request => "on request",
        By::Schedule => "on schedule",
        By::Change => "after a change",
        By::Remediation => "by remediation",
        By::Create => "before the installation",
        By::Delete => "before the deletion",
    }
}
