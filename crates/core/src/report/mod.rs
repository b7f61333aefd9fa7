//! Everything that is known of one release, for people and programs: one model for `explain`, `tree` and the page.
//!
//! [`ReportFacts`] is what was read from the cluster, [`ReleaseReport`] what it means. Each text in both comes from a client of the API server:
//! it is not trusted, may contain control characters, and is cut to [`LONGEST_TEXT`].

mod cause;
mod checks;
mod facts;
mod live;
pub mod member;
mod next;
mod origin;
pub mod reads;
mod remedy;
mod rollout;
mod times;
mod tree;
mod trouble;

use jiff::Timestamp;
use serde::Serialize;

pub use cause::Cause;
pub use facts::{IngressClasses, ReportFacts, Unread};
pub use live::id_of;
pub use next::NextStep;
pub use tree::{HookNode, NodeHealth, ObjectNode, Wave};

use crate::identity::GroupKind;
use crate::record::Record;
use crate::report::facts::LONGEST_TEXT;
use crate::report::times::{changed, since};
use crate::rollout::ReleaseRollout;
use crate::status::conditions::{self, Condition};
use crate::status::summary::ReleaseSummary;

/// The conditions that a person should know besides `Ready`. All are there only while they are true.
const NOTABLE: [&str; 6] = [
    "Stalled",
    "Drifted",
    "PruneHeld",
    "Suspended",
    "PlanFailed",
    "StatusInvalid",
];

/// Everything that is known of one release.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReport {
    /// Of the custom resource.
    #[serde(flatten)]
    pub kind: GroupKind,
    #[serde(flatten)]
    pub summary: ReleaseSummary,
    /// When `Ready` got its status, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What is wrong, the most important first. Empty: nothing is.
    pub causes: Vec<Cause>,
    /// What the operator does next.
    pub next: NextStep,
    /// Abnormal conditions.
    pub conditions: Vec<Condition>,
    /// Members by wave, with what they own.
    pub waves: Vec<Wave>,
    /// The last run of each hook.
    pub hooks: Vec<HookNode>,
    /// Its part in the rollout of a new chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<ReleaseRollout>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

impl ReleaseReport {
    /// Builds the report. `now` decides about pods that cannot be scheduled, and about the next attempt.
    pub fn of(facts: &ReportFacts, now: Timestamp) -> Self {
        let status = &facts.resource["status"];
        let record = Record::from_status(status, None).into_record();
        let all = conditions::of(status);
        let ready = conditions::get(&all, "Ready");
        let forest = tree::Forest::of(&record, facts, now);
        let summary = ReleaseSummary::of(&facts.resource);
        let next = NextStep::of(facts, &summary, &all, &forest.hooks, now);
        let causes = cause::causes(facts, &summary, &all, &forest);
        ReleaseReport {
            kind: facts.kind.clone(),
            since: match summary.reason.as_str() {
                "NewGeneration" => changed(&facts.resource),
                _ => ready.and_then(since),
            },
            causes,
            next,
            conditions: all.into_iter().filter_map(notable).collect(),
            waves: forest.waves,
            hooks: forest.hooks,
            rollout: record.rollout,
            unread: facts.unread.clone(),
            summary,
        }
    }
}

/// An abnormal condition of the operator, with its message cut.
fn notable(condition: Condition) -> Option<Condition> {
    let is_notable = condition.status == "True" && NOTABLE.contains(&condition.kind.as_str());
    is_notable.then(|| Condition {
        message: conditions::cut(&condition.message, LONGEST_TEXT),
        ..condition
    })
}

#[cfg(test)]
mod tests;
