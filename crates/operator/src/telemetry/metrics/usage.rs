//! Metrics of what releases request.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{LabelPairs, group_and_kind};
use super::registration::add;

/// What releases request over time, and failures to count it.
#[derive(Debug)]
pub struct UsageMetrics {
    /// CPU, memory and storage.
    totals: [Family<LabelPairs<2>, Counter<f64, AtomicU64>>; 3],
    /// Attempts to take a sample of what is requested, or to write what was counted, that failed.
    pub failures: Counter,
}

/// Names and help texts of what releases request.
const USAGE: [(&str, &str); 3] = [
    (
        "usage_cpu_core_seconds",
        "CPU requested by the pods of releases, over time",
    ),
    (
        "usage_memory_byte_seconds",
        "Memory requested by the pods of releases, over time",
    ),
    (
        "usage_storage_byte_seconds",
        "Storage requested by the claims of releases, over time",
    ),
];

impl UsageMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        UsageMetrics {
            totals: USAGE.map(|(name, help)| add(registry, name, help)),
            failures: add(
                registry,
                "usage_failures",
                "Attempts to see what releases request, or to write down what was counted, that failed",
            ),
        }
    }

    /// Says what was counted for a kind since its counters were begun: core-seconds, and byte-seconds of memory and storage.
    pub fn set_totals(&self, group: &str, kind: &str, counted: [f64; 3]) {
        for (family, counted) in self.totals.iter().zip(counted) {
            let counter = family.get_or_create(&group_and_kind(group, kind));
            counter.inc_by((counted - counter.get()).max(0.0));
        }
    }
}
