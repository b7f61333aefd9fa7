//! The key `rollout`: how a new chart reaches the releases of a watch.

use crate::reader::{Findings, MapFields};

/// Limits for the rollout of a new chart, or of a changed watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutLimits {
    /// Number of releases that are upgraded at the same time. At least 1.
    pub max_in_flight: usize,
    /// The rollout stops when this many releases have failed. At least 1.
    pub max_failed: usize,
}

impl Default for RolloutLimits {
    fn default() -> Self {
        RolloutLimits {
            max_in_flight: 10,
            max_failed: 3,
        }
    }
}

/// Reads the key `rollout`.
pub(crate) fn read(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> RolloutLimits {
    let mut limits = RolloutLimits::default();
    let known = ["maxInFlight", "maxFailed"];
    let Some(fields) = fields
        .get("rollout")
        .and_then(|node| MapFields::open(node, "`rollout`", &known, findings))
    else {
        return limits;
    };
    if let Some(count) = findings.read_count(&fields, "maxInFlight", 1) {
        limits.max_in_flight = count;
    }
    if let Some(count) = findings.read_count(&fields, "maxFailed", 1) {
        limits.max_failed = count;
    }
    limits
}
