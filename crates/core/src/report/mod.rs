//! Everything that is known of one release, for people and programs: one model for `explain`, `tree` and the page.
//!
//! [`Facts`] is what was read from the cluster, [`ReleaseReport`] what it means. Each text in both comes from a client of the API server:
//! it is not trusted, may contain control characters, and is cut to [`LONGEST_TEXT`].

mod cause;
mod checks;
mod live;
pub mod member;
mod next;
mod origin;
pub mod reads;
mod remedy;
mod rollout;
mod tree;
mod trouble;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use cause::Cause;
pub use live::id_of;
pub use next::NextStep;
pub use tree::{HookNode, Node, NodeHealth, Wave};

use crate::identity::{GroupKind, ObjectId};
use crate::record::Record;
use crate::rollout::ReleaseRollout;
use crate::status::conditions::{self, Condition};
use crate::status::summary::ReleaseSummary;

/// The longest text of a report, in bytes.
const LONGEST_TEXT: usize = 2048;
/// The field managers of the operator are this one, and others that begin with it and a hyphen.
const OWN_MANAGER: &str = "chartwright";
/// The conditions that a person should know besides `Ready`. All are there only while they are true.
const NOTABLE: [&str; 6] = [
    "Stalled",
    "Drifted",
    "PruneHeld",
    "Suspended",
    "PlanFailed",
    "StatusInvalid",
];

/// What was read from the cluster about a release.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The kind of the custom resource.
    pub kind: GroupKind,
    /// The custom resource.
    pub resource: Value,
    /// The field manager of the operator's status.
    pub status_manager: String,
    /// Members that are not in the inventory of the status, because the status has not room for all.
    pub unlisted: Vec<ObjectId>,
    /// Live members, hooks, and the objects that they own, in any order.
    pub objects: Vec<Value>,
    /// Events about any of them, or about the custom resource.
    pub events: Vec<Value>,
    /// Nodes that are not ready or do not exist, with the reason.
    pub lost_nodes: BTreeMap<String, String>,
    /// `None`: not needed, or they could not be read.
    pub ingress_classes: Option<IngressClasses>,
    /// The template of each member, if the chart was rendered for the report.
    pub templates: BTreeMap<ObjectId, String>,
    /// What could not be read, and why.
    pub unread: Vec<Unread>,
    /// The release that the labels of `resource` name, if it is marked as a member.
    pub named_release: Option<ObjectId>,
}

impl Facts {
    /// The facts of a custom resource of this kind, without anything about its members.
    pub fn new(kind: GroupKind, resource: Value) -> Self {
        Facts {
            kind,
            resource,
            status_manager: String::new(),
            unlisted: Vec::new(),
            objects: Vec::new(),
            events: Vec::new(),
            lost_nodes: BTreeMap::new(),
            ingress_classes: None,
            templates: BTreeMap::new(),
            unread: Vec::new(),
            named_release: None,
        }
    }
}

/// The IngressClasses of the cluster.
#[derive(Clone, Debug, Default)]
pub struct IngressClasses {
    pub names: Vec<String>,
    /// True if one of them is the default.
    pub has_default: bool,
}

/// A kind that was not read in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    #[serde(flatten)]
    pub kind: GroupKind,
    /// Empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Why it was not read.
    pub message: String,
}

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
    pub fn of(facts: &Facts, now: Timestamp) -> Self {
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

/// When a condition got its status. `None` if that is not known.
fn since(condition: &Condition) -> Option<String> {
    let time = condition.last_transition_time;
    (time > Timestamp::UNIX_EPOCH).then(|| time.to_string())
}

/// When a client other than the operator changed the custom resource last, apart from its status. `None` if that is not known.
fn changed(resource: &Value) -> Option<String> {
    let is_other = |entry: &&Value| {
        let manager = live::text(entry, "/manager");
        let is_own = manager == OWN_MANAGER || manager.starts_with(&format!("{OWN_MANAGER}-"));
        !is_own && live::text(entry, "/subresource") != "status"
    };
    let entries = live::list(resource, "/metadata/managedFields").filter(is_other);
    let times = entries.filter_map(|entry| live::text(entry, "/time").parse::<Timestamp>().ok());
    times.max().map(|time| time.to_string())
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
