//! Everything that is announced about a release, as commands and the webhook show it.

use serde::Serialize;

use crate::identity::{GroupKind, ObjectId};

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "camelCase")]
pub enum ChangeOperation {
    Created,
    Changed,
    /// Deleted and created again.
    Recreated,
    /// Deleted.
    Pruned,
    /// It stays, and is no longer a member.
    Released,
}

/// One object that is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    #[serde(flatten)]
    pub object: ObjectId,
    pub operation: ChangeOperation,
    /// A unified difference without file head. Empty: only the operator's own marks change.
    pub diff: String,
    /// Running pods are replaced.
    pub restarts: bool,
    /// The API server could not check the write, because something of the same run does not exist yet: the object is shown as rendered.
    pub is_rendered_only: bool,
}

/// Hooks of one event, or the steps of one plan, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookRuns {
    /// `pre-upgrade`; the name of the plan.
    pub name: String,
    pub objects: Vec<ObjectId>,
}

/// A write that the API server or the operator refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// `None`: it is about the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectId>,
    pub reason: String,
    pub message: String,
}

/// The chart that the release has, and the one that it would have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartChange {
    pub name: String,
    /// Empty before the first apply.
    pub from: String,
    pub to: String,
}

/// Everything that the next reconcile would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseDiff {
    #[serde(flatten)]
    pub group_kind: GroupKind,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub chart: ChartChange,
    pub summary: Summary,
    pub changes: Vec<ObjectChange>,
    pub hooks: Vec<HookRuns>,
    pub plans: Vec<HookRuns>,
    /// Why members stay that the chart no longer renders.
    pub held: Vec<String>,
    pub refusals: Vec<Refusal>,
    /// Reason and message of the condition `Stalled` that the release would have: only another change can help. `None`: it would not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
    /// What the release waits for, and what the operator would warn about.
    pub notes: Vec<String>,
}

/// Counts, and the workloads whose pods restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub created: usize,
    pub changed: usize,
    pub recreated: usize,
    pub pruned: usize,
    pub released: usize,
    pub held: usize,
    pub hooks: usize,
    pub plans: usize,
    pub refused: usize,
    pub restarts: Vec<ObjectId>,
}

/// The result of one or many releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffVerdict {
    /// Nothing would be written.
    #[default]
    Unchanged,
    /// Something would be written.
    Changed,
    /// Something would be refused.
    Refused,
}

impl ChangeOperation {
    pub const ALL: [ChangeOperation; 5] = [
        ChangeOperation::Created,
        ChangeOperation::Changed,
        ChangeOperation::Recreated,
        ChangeOperation::Pruned,
        ChangeOperation::Released,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ChangeOperation::Created => "created",
            ChangeOperation::Changed => "changed",
            ChangeOperation::Recreated => "recreated",
            ChangeOperation::Pruned => "pruned",
            ChangeOperation::Released => "released",
        }
    }
}

impl ReleaseDiff {
    pub fn verdict(&self) -> DiffVerdict {
        if !self.refusals.is_empty() {
            DiffVerdict::Refused
        } else if self.changes.is_empty() && self.hooks.is_empty() && self.plans.is_empty() {
            DiffVerdict::Unchanged
        } else {
            DiffVerdict::Changed
        }
    }

    /// `Memcached.cache.example.com shop/web`.
    pub fn title(&self) -> String {
        ObjectId::new(self.group_kind.clone(), self.namespace.as_str(), self.name.as_str()).to_string()
    }
}

impl Summary {
    /// The count of an operation.
    pub fn count(&self, operation: ChangeOperation) -> usize {
        match operation {
            ChangeOperation::Created => self.created,
            ChangeOperation::Changed => self.changed,
            ChangeOperation::Recreated => self.recreated,
            ChangeOperation::Pruned => self.pruned,
            ChangeOperation::Released => self.released,
        }
    }
}

/// Counts what is announced.
pub fn summarize(diff: &ReleaseDiff) -> Summary {
    let count = |operation| {
        diff.changes
            .iter()
            .filter(|change| change.operation == operation)
            .count()
    };
    let objects = |runs: &[HookRuns]| runs.iter().map(|run| run.objects.len()).sum();
    let restarts = diff.changes.iter().filter(|change| change.restarts);
    Summary {
        created: count(ChangeOperation::Created),
        changed: count(ChangeOperation::Changed),
        recreated: count(ChangeOperation::Recreated),
        pruned: count(ChangeOperation::Pruned),
        released: count(ChangeOperation::Released),
        held: diff.held.len(),
        hooks: objects(&diff.hooks),
        plans: diff.plans.len(),
        refused: diff.refusals.len(),
        restarts: restarts.map(|change| change.object.clone()).collect(),
    }
}
