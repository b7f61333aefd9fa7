//! Remembers which status fields the API server drops for a kind.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The parts of the status that the API server drops for a kind, because its schema drops unknown fields or has no
/// status. A refused status of a single custom resource is a [`StatusRefusal`] and does not affect other custom
/// resources.
#[derive(Debug, Default)]
pub struct LossyStatus {
    pub(crate) record: AtomicBool,
    pub(crate) conditions: AtomicBool,
    /// The schema refuses unknown fields.
    pub(crate) refuses: AtomicBool,
    pub(crate) is_reported: AtomicBool,
}

impl LossyStatus {
    /// Records dropped parts. Returns true the first time.
    pub(crate) fn notice(&self, record: bool, conditions: bool) -> bool {
        self.record.fetch_or(record, Relaxed);
        self.conditions.fetch_or(conditions, Relaxed);
        !self.is_reported.swap(true, Relaxed)
    }
}
