//! One release, as the dashboard shows it: the report, and what only the page has room for.

use jiff::Timestamp;
use serde::Serialize;

use super::index::ReleaseState;
use super::timeline::{WorkSpan, timeline};
use crate::record::Record;
use crate::record::history::Revision;
use crate::report::{ReleaseReport, ReportFacts};
use crate::status::conditions::{self, cut};

/// The longest notes, in bytes.
const LONGEST_NOTES: usize = 8 << 10;
/// The longest text elsewhere, in bytes.
const LONGEST_TEXT: usize = 2048;
/// Conditions that are about drift.
const DRIFT: [&str; 2] = ["DriftContested", "Drifted"];

/// A release with everything that its views show, effective values apart.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseDetail {
    pub state: ReleaseState,
    #[serde(flatten)]
    pub report: ReleaseReport,
    pub timeline: Vec<WorkSpan>,
    /// The newest first.
    pub history: Vec<RevisionRow>,
    pub plans: Vec<PlanRow>,
    pub drift: Vec<DriftRow>,
    /// What the chart's NOTES.txt renders to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Failed attempts since the last change.
    pub failures: u64,
}

/// A revision and its state: `deployed`, `superseded` and so on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionRow {
    #[serde(flatten)]
    pub revision: Revision,
    pub status: &'static str,
}

/// A plan of the chart, and when it runs next.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanRow {
    pub name: String,
    pub schedule: String,
    pub time_zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    pub phase: String,
    /// Why it cannot run, or why its last run failed.
    pub message: String,
}

/// What other field managers changed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftRow {
    pub reason: String,
    pub message: String,
    pub since: String,
}

impl ReleaseDetail {
    /// Builds the detail. `now`: for the health of pods that cannot be scheduled.
    pub fn of(facts: &ReportFacts, now: Timestamp) -> Self {
        let report = ReleaseReport::of(facts, now);
        let status = &facts.resource["status"];
        let record = Record::from_status(status, None).into_record();
        let all = conditions::of(status);
        let drift = DRIFT.iter().filter_map(|kind| conditions::get(&all, kind));
        let drift = drift
            .filter(|condition| condition.status == "True")
            .map(|condition| DriftRow {
                reason: cut(&condition.reason, LONGEST_TEXT),
                message: cut(&condition.message, LONGEST_TEXT),
                since: condition.last_transition_time.to_string(),
            });
        let history = record.history.iter().rev().map(|revision| RevisionRow {
            status: revision.state(record.revision),
            revision: revision.clone(),
        });
        let plans = record.plans.plans.iter().map(|plan| PlanRow {
            name: plan.name.clone(),
            schedule: plan.schedule.clone(),
            time_zone: plan.time_zone.clone(),
            next: plan.next,
            phase: plan.phase.clone(),
            message: cut(
                if plan.invalid.is_empty() {
                    &plan.message
                } else {
                    &plan.invalid
                },
                LONGEST_TEXT,
            ),
        });
        ReleaseDetail {
            state: ReleaseState::of(&facts.resource, &report.summary),
            timeline: timeline(&record),
            history: history.collect(),
            plans: plans.collect(),
            drift: drift.collect(),
            notes: cut(status["notes"].as_str().unwrap_or_default(), LONGEST_NOTES),
            failures: status["failures"].as_u64().unwrap_or_default(),
            report,
        }
    }
}
