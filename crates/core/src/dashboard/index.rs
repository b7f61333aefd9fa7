//! The rows of all releases, one for each custom resource.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::identity::GroupKind;
use crate::status::Reason;
use crate::status::conditions::{self, cut};
use crate::status::summary::ReleaseSummary;

/// The most releases that are kept. A row takes about 1 KiB.
pub const MOST_RELEASES: usize = 50_000;
/// The longest message of a row, in bytes. The view of one release has all of it.
const LONGEST_MESSAGE: usize = 240;

/// Reasons of a release that is on its way, not in trouble.
const UNDER_WAY: [Reason; 6] = [
    Reason::Progressing,
    Reason::HookRunning,
    Reason::PlanRunning,
    Reason::DependencyNotReady,
    Reason::RollingBack,
    Reason::Terminating,
];

/// How a release is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReleaseState {
    /// Only a change of an input helps.
    Stalled,
    /// It is not ready, and the operator tries again.
    Failing,
    Deleting,
    Progressing,
    /// No operator has worked on it, or not on its latest change.
    Unknown,
    Suspended,
    Ready,
}

impl ReleaseState {
    pub const ALL: [ReleaseState; 7] = [
        ReleaseState::Stalled,
        ReleaseState::Failing,
        ReleaseState::Deleting,
        ReleaseState::Progressing,
        ReleaseState::Unknown,
        ReleaseState::Suspended,
        ReleaseState::Ready,
    ];

    /// The state as the API of the dashboard writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            ReleaseState::Stalled => "stalled",
            ReleaseState::Failing => "failing",
            ReleaseState::Deleting => "deleting",
            ReleaseState::Progressing => "progressing",
            ReleaseState::Unknown => "unknown",
            ReleaseState::Suspended => "suspended",
            ReleaseState::Ready => "ready",
        }
    }

    /// Reads the state of a custom resource. `summary`: of the same one.
    pub fn of(object: &Value, summary: &ReleaseSummary) -> Self {
        let conditions = conditions::of(&object["status"]);
        let stalled = conditions::get(&conditions, "Stalled").is_some_and(|condition| condition.status == "True");
        match (summary.reason.as_str(), summary.ready.as_str()) {
            ("Deleting", _) => ReleaseState::Deleting,
            _ if summary.suspended => ReleaseState::Suspended,
            (_, "True") => ReleaseState::Ready,
            (_, "Unknown") => ReleaseState::Unknown,
            _ if stalled => ReleaseState::Stalled,
            (reason, _) if UNDER_WAY.iter().any(|known| known.as_str() == reason) => ReleaseState::Progressing,
            _ => ReleaseState::Failing,
        }
    }
}

/// Names a release: its kind, its namespace (empty for a cluster-scoped one) and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseKey {
    pub kind: GroupKind,
    pub namespace: String,
    pub name: String,
}

impl ReleaseKey {
    /// Reads the parameters `kind` (with its group), `namespace` and `name` of a request.
    ///
    /// # Errors
    /// A parameter is unknown or missing: the message names it.
    pub fn parse<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut key = ReleaseKey {
            kind: GroupKind::new("", ""),
            namespace: String::new(),
            name: String::new(),
        };
        for (name, text) in parameters {
            match name {
                "kind" => key.kind = GroupKind::parse(text),
                "namespace" => text.clone_into(&mut key.namespace),
                "name" => text.clone_into(&mut key.name),
                _ => return Err(format!("unknown parameter {name:?}")),
            }
        }
        match () {
            () if key.kind.kind.is_empty() => Err("the parameter \"kind\" is missing".to_owned()),
            () if key.name.is_empty() => Err("the parameter \"name\" is missing".to_owned()),
            () => Ok(key),
        }
    }
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRow {
    #[serde(flatten)]
    pub kind: GroupKind,
    pub state: ReleaseState,
    #[serde(flatten)]
    pub summary: ReleaseSummary,
}

impl ReleaseRow {
    /// Reads the row of a custom resource.
    pub fn of(kind: &GroupKind, object: &Value) -> Self {
        let mut summary = ReleaseSummary::of(object);
        let state = ReleaseState::of(object, &summary);
        summary.message = cut(&summary.message, LONGEST_MESSAGE);
        ReleaseRow {
            kind: kind.clone(),
            state,
            summary,
        }
    }

    pub fn key(&self) -> ReleaseKey {
        ReleaseKey {
            kind: self.kind.clone(),
            namespace: self.summary.namespace.clone(),
            name: self.summary.name.clone(),
        }
    }
}

/// The rows of all releases.
#[derive(Clone, Debug, Default)]
pub struct ReleaseIndex {
    rows: BTreeMap<ReleaseKey, ReleaseRow>,
    /// Rows that had no room.
    is_full: bool,
}

impl ReleaseIndex {
    /// Adds or replaces a row. True if that changes what is shown.
    pub fn put(&mut self, row: ReleaseRow) -> bool {
        let key = row.key();
        if self.rows.len() >= MOST_RELEASES && !self.rows.contains_key(&key) {
            return !std::mem::replace(&mut self.is_full, true);
        }
        let before = self.rows.get(&key);
        let is_changed = before != Some(&row);
        if is_changed {
            self.rows.insert(key, row);
        }
        is_changed
    }

    /// Removes a row. True if it was there.
    pub fn remove(&mut self, key: &ReleaseKey) -> bool {
        self.rows.remove(key).is_some()
    }

    /// Keeps the rows for which this is true. Returns how many were removed.
    pub fn retain(&mut self, is_kept: impl Fn(&ReleaseKey) -> bool) -> usize {
        let before = self.rows.len();
        self.rows.retain(|key, _| is_kept(key));
        before - self.rows.len()
    }

    pub fn get(&self, key: &ReleaseKey) -> Option<&ReleaseRow> {
        self.rows.get(key)
    }

    pub fn rows(&self) -> impl Iterator<Item = &ReleaseRow> {
        self.rows.values()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// True if there are more releases than [`MOST_RELEASES`].
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}
