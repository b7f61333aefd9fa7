//! What the status of a kind does not keep.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// What the status of a kind loses, once that was seen: its schema drops unknown fields, or it has none. That the API
/// server refuses the status of one custom resource, for its size or for what it says, is no business of the others
/// ([`StatusRefusal`]).
#[derive(Debug, Default)]
pub struct LossyStatus {
    pub(crate) record: AtomicBool,
    pub(crate) conditions: AtomicBool,
    /// The schema refuses what it doesn't know.
    pub(crate) refuses: AtomicBool,
    pub(crate) is_reported: AtomicBool,
}

impl LossyStatus {
    /// True if it is noticed for the first time.
    pub(crate) fn notice(&self, record: bool, conditions: bool) -> bool {
        self.record.fetch_or(record, Relaxed);
        self.conditions.fetch_or(conditions, Relaxed);
        !self.is_reported.swap(true, Relaxed)
    }
}
