//! A release that is rendered and ready to be applied.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::reconcile::render::memory_budget::MemoryShare;
use crate::reconcile::render::stored_values::GeneratedValues;
use chartwright_core::annotations::{ON_CREATE, ON_DELETE};
use chartwright_core::digest::Key;
use chartwright_core::hooks::Hook;
use chartwright_core::identity::ObjectId;
use chartwright_core::members::desired::{self, Desired, Identity};
use chartwright_core::plans;

/// A release, rendered and checked, ready to be applied.
pub struct PreparedRelease {
    pub identity: Identity,
    pub desired: Desired,
    /// Keyed digest of the hooks that operations run; empty without.
    pub(crate) hooks_digest: String,
    pub notes: Option<String>,
    pub warnings: Vec<String>,
    /// Digest of what this render depended on.
    pub inputs: String,
    /// The same by the answers to what the settled render asked of `.Capabilities`, to be compared with its digest: that
    /// other questions are asked is nobody's doing but his who edited the custom resource or the chart.
    pub(crate) since_settled: String,
    /// What was looked up, with the versions that it was rendered from.
    pub lookups: Vec<String>,
    /// The same with the versions that there are by now.
    pub(crate) seen: Vec<String>,
    /// Recorded members that stay as they were applied, though this render would have them otherwise or not at all; and
    /// what it would have otherwise or anew.
    pub(crate) stay: Vec<ObjectId>,
    pub(crate) held: Vec<String>,
    /// What it asked of `.Capabilities`.
    pub capabilities: Vec<String>,
    /// API groups that discovery could not read before this render.
    pub(crate) failed_groups: Vec<String>,
    /// The revision that this render is.
    pub revision: i64,
    /// The one that it is made of, if it goes back to one.
    pub(crate) rollback: Option<i64>,
    /// Its values, without the chart's own; and their digest, where a failure has consequences.
    pub(crate) values: Value,
    pub(crate) values_digest: String,
    /// Random results: what is stored, and what is to be.
    pub(crate) generated_values: GeneratedValues,
    /// The memory for the members, while there are any.
    pub(crate) _share: Option<Arc<Mutex<MemoryShare>>>,
    /// About the bytes that they take.
    pub(crate) size: u64,
}

impl PreparedRelease {
    /// True if it has results of chance, which are kept.
    pub fn is_random(&self) -> bool {
        self.generated_values.has_generated_values()
    }

    /// Has the render of an earlier revision, kept since, in the place of its own.
    pub(crate) fn replace(&mut self, desired: Desired, notes: Option<String>, to: i64, revision: i64, key: &Key) {
        self.hooks_digest = hooks_digest(&desired, key);
        self.desired = desired;
        self.notes = notes;
        self.rollback = Some(to);
        self.revision = revision;
        self.stay.clear();
        self.held.clear();
    }
}

/// The digest of the hooks that operations run, and of plans that are part of an operation.
pub(crate) fn hooks_digest(desired: &Desired, key: &Key) -> String {
    let parts: Vec<String> = [ON_CREATE, ON_DELETE]
        .iter()
        .flat_map(|mark| plans::marked(&desired.hooks, mark))
        .collect();
    let runs = |hook: &&Hook| hook.is_of_an_operation() || hook.is_step_of(&parts);
    desired::digest(key, desired.hooks.iter().filter(runs).map(|hook| &hook.member))
}
