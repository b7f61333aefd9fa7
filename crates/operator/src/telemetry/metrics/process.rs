//! Metrics of this process.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::registration::{add, add_bytes};

/// The limits, defects and role of this process.
#[derive(Debug)]
pub struct ProcessMetrics {
    /// Bytes that the process may take; 0 without a limit.
    pub memory_limit: Gauge,
    /// Panics that were caught, each in one reconcile or render.
    pub panics: Counter,
    /// Members whose custom resource was not there when this process began to work.
    pub leftovers: Gauge,
    /// 1 while this process leads (always, without leader election), else 0.
    pub leader: Gauge,
}

impl ProcessMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        ProcessMetrics {
            memory_limit: add_bytes(registry, "memory_limit", "What the process may take; 0 without a limit"),
            panics: add(registry, "panics", "Panics caught in reconciles and renders"),
            leftovers: add(
                registry,
                "leftovers",
                "Members whose custom resource was not there when this process began to work",
            ),
            leader: add(registry, "leader", "1 while this process leads"),
        }
    }
}
