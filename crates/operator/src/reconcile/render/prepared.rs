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

/// A rendered and checked release, ready to be applied.
pub struct PreparedRelease {
    /// `.Release.Name`
    pub release_name: String,
    pub identity: Identity,
    pub desired: Desired,
    /// Keyed digest of the hooks that operations run. Empty without hooks.
    pub(crate) hooks_digest: String,
    pub notes: Option<String>,
    pub warnings: Vec<String>,
    pub inputs: RenderInputs,
    /// Recorded members that stay as they were applied, although this render differs or lacks them.
    pub(crate) stay: Vec<ObjectId>,
    /// Members that this render would change or add, and that are held.
    pub(crate) held: Vec<String>,
    /// The revision of this render.
    pub revision: i64,
    /// The revision that it returns to, if it is a rollback.
    pub(crate) rollback: Option<i64>,
    /// Random results: the stored ones and those to store.
    pub(crate) generated_values: GeneratedValues,
    /// The memory of the members, while they exist.
    pub(crate) _share: Option<Arc<Mutex<MemoryShare>>>,
    /// Approximate bytes of the members.
    pub(crate) size: u64,
}

/// The inputs of a render.
#[derive(Default)]
pub struct RenderInputs {
    /// Digest of everything that the render depended on.
    pub digest: String,
    /// The same digest with the answers to the `.Capabilities` queries of the settled render, to compare with its
    /// digest: other queries after an edit of the custom resource or the chart are expected.
    pub(crate) since_settled: String,
    /// Lookups with the versions that were rendered.
    pub lookups: Vec<String>,
    /// Lookups with their present versions.
    pub(crate) seen: Vec<String>,
    /// Queries of `.Capabilities`.
    pub capabilities: Vec<String>,
    /// API groups that discovery could not read before this render.
    pub(crate) failed_groups: Vec<String>,
    /// The values without the chart's own.
    pub(crate) values: Value,
    /// Digest of the values. Empty unless the watch's `onFailure` reacts to failed upgrades.
    pub(crate) values_digest: String,
}

impl PreparedRelease {
    /// True if the render has random results, which must be stored.
    pub fn is_random(&self) -> bool {
        self.generated_values.has_generated_values()
    }

    /// Replaces the render by the stored render of an earlier revision.
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
