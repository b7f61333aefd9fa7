//! Metrics of objects: what the operator writes, and what other clients change.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::labels::{LabelPairs, kind_alone, lower_case};
use super::registration::add;
use super::series::BoundedFamily;

/// Writes, prunes, and drift of members.
#[derive(Debug)]
pub struct ObjectMetrics {
    writes: BoundedFamily<LabelPairs<2>, Counter>,
    /// Members deleted because the chart no longer has them.
    pub pruned: Counter,
    drift_corrected: BoundedFamily<LabelPairs<1>, Counter>,
    drift_detected: BoundedFamily<LabelPairs<1>, Counter>,
}

/// What a write did, the label `operation`.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum WriteOperation {
    /// A server-side apply of a member.
    Apply,
    /// A deletion of a member.
    Delete,
    /// Our labels taken off a member that stays behind.
    Release,
    /// A CR's status.
    Status,
    /// A CR's finalizer, labels and annotations.
    Metadata,
    /// An Event.
    Event,
}

impl ObjectMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        ObjectMetrics {
            writes: BoundedFamily::new(add(
                registry,
                "writes",
                "Writes sent to the API server by kind and operation",
            )),
            pruned: add(
                registry,
                "pruned",
                "Members deleted because their chart no longer has them",
            ),
            drift_corrected: BoundedFamily::new(add(
                registry,
                "drift_corrected",
                "Members corrected after another client changed or deleted them",
            )),
            drift_detected: BoundedFamily::new(add(
                registry,
                "drift_detected",
                "Drift of members that stays (drift: warn)",
            )),
        }
    }

    /// Counts a write of an object of this kind.
    pub fn wrote(&self, kind: &str, operation: WriteOperation) {
        let [kind] = kind_alone(kind);
        let labels = [kind, ("operation", lower_case(operation))];
        self.writes.with(&labels, |count| _ = count.inc());
    }

    /// Counts a corrected member of this kind.
    pub fn corrected_drift(&self, kind: &str) {
        self.drift_corrected.with(&kind_alone(kind), |count| _ = count.inc());
    }

    /// Counts drift of a member of this kind that stays.
    pub fn detected_drift(&self, kind: &str) {
        self.drift_detected.with(&kind_alone(kind), |count| _ = count.inc());
    }
}
