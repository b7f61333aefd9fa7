//! Metrics of the watches on the API server.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{LabelPairs, kind_alone};
use super::registration::{add, saturated};
use super::series::BoundedFamily;

/// What went wrong with watches so far.
#[derive(Debug)]
pub struct WatchErrors {
    failures: BoundedFamily<LabelPairs<1>, Counter>,
    unreadable_objects: BoundedFamily<LabelPairs<1>, Counter>,
}

/// How the watches are at present.
#[derive(Debug)]
pub struct WatchGauges {
    failing: BoundedFamily<LabelPairs<1>, Gauge>,
    /// Watches on the API server that are open or trying to be.
    pub open: Gauge,
}

impl WatchErrors {
    pub(super) fn new(registry: &mut Registry) -> Self {
        WatchErrors {
            failures: BoundedFamily::new(add(registry, "watch_failures", "Watches that broke or were refused")),
            unreadable_objects: BoundedFamily::new(add(
                registry,
                "unreadable_objects",
                "Objects that a list or watch showed and that were left out, since they can't be read",
            )),
        }
    }

    /// Counts a watch of this kind that broke or was refused.
    pub fn count_failure(&self, kind: &str) {
        self.failures.with(&kind_alone(kind), |count| _ = count.inc());
    }

    /// Counts an object of this kind that can't be read.
    pub fn count_unreadable(&self, kind: &str) {
        self.unreadable_objects.with(&kind_alone(kind), |count| _ = count.inc());
    }
}

impl WatchGauges {
    pub(super) fn new(registry: &mut Registry) -> Self {
        WatchGauges {
            failing: BoundedFamily::new(add(registry, "watches_failing", "Watches that do not work at present")),
            open: add(registry, "watches", "Watches on the API server"),
        }
    }

    /// Says how many watches of this kind do not work.
    pub fn set_failing(&self, kind: &str, count: usize) {
        let labels = kind_alone(kind);
        if count == 0 {
            self.failing.remove(&labels);
        } else {
            self.failing.with(&labels, |failing| _ = failing.set(saturated(count)));
        }
    }
}
