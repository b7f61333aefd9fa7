//! How a reconcile ended, for the queue.

use std::time::Duration;

use crate::reconcile::custom_resource::CustomResource;
use crate::telemetry::metrics::ReconcileResult;

/// How a reconcile ended, for the queue.
#[derive(Debug)]
pub struct ReconcileOutcome {
    /// When the next reconcile is due without an event. `None`: only at the resync.
    pub again: Option<Duration>,
    /// The API server requested this wait. A wake-up that only checks progress waits as long.
    pub put_off: bool,
    /// The custom resource as our last write left it.
    pub written: Option<CustomResource>,
    /// The release is completely deleted.
    pub finished: bool,
    /// A write did not find the custom resource.
    pub missing: bool,
    /// For logs and metrics.
    pub result: ReconcileResult,
}

impl ReconcileOutcome {
    /// Returns an outcome without a write and without a scheduled reconcile.
    pub(crate) fn of(result: ReconcileResult) -> Self {
        ReconcileOutcome {
            again: None,
            put_off: false,
            written: None,
            finished: false,
            missing: false,
            result,
        }
    }

    pub(crate) fn again(wait: Duration, result: ReconcileResult) -> Self {
        ReconcileOutcome {
            again: Some(wait),
            ..ReconcileOutcome::of(result)
        }
    }
}
