//! What is known of the stored record, and of what the API server refuses of the status.

/// How much of the status of one custom resource the API server refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusRefusal {
    #[default]
    Nothing,
    /// All that there is to say. What must be known of the release is in a Secret, and the least is written.
    Details,
    /// The shortest status as well. Events replace the conditions.
    Everything,
}

/// What is known to be stored in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedRecord {
    /// There is one.
    pub exists: bool,
    /// Of the record that is stored; empty if that isn't known.
    pub(crate) stamp: String,
}
