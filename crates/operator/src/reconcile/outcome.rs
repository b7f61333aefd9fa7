//! How a reconcile ended, for the queue.

use std::time::Duration;

use crate::reconcile::custom_resource::CustomResource;
use crate::telemetry::metrics::ReconcileResult;

/// How a reconcile ended, for the queue.
#[derive(Debug)]
pub struct ReconcileOutcome {
    /// When to look again without being asked; `None`: only at the resync.
    pub again: Option<Duration>,
    /// The API server requested this wait. A wake-up that only checks progress waits as long.
    pub put_off: bool,
    /// The custom resource as our last write left it.
    pub written: Option<CustomResource>,
    /// Nothing of the release is left.
    pub finished: bool,
    /// A write did not find the custom resource.
    pub missing: bool,
    /// For logs and metrics.
    pub result: ReconcileResult,
}

impl ReconcileOutcome {
    /// Nothing was written, and nothing is looked at again without being asked.
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
