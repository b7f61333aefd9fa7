//! Remembers the stored record, and which statuses the API server refuses.

/// How much of the status of one custom resource the API server refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusRefusal {
    #[default]
    Nothing,
    /// The complete status. A Secret holds the record, and the status is as short as possible.
    Details,
    /// The shortest status, too. Events replace the conditions.
    Everything,
}

/// The record in the Secret, as last read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedRecord {
    /// True if the Secret exists.
    pub exists: bool,
    /// The stamp of the stored record. Empty if unknown.
    pub(crate) stamp: String,
}
