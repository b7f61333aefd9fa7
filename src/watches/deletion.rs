//! The key `deletionPolicy`.

/// What becomes of a release's members when its custom resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// They are deleted; the custom resource goes as soon as each of them is on its way, as after `helm uninstall`.
    #[default]
    Delete,
    /// They are deleted; the custom resource goes after the last of them.
    WaitForTermination,
    /// They stay, without our labels and annotations.
    Orphan,
}

// === impl DeletionPolicy ===

impl DeletionPolicy {
    pub(super) const NAMES: [&str; 3] = ["Delete", "WaitForTermination", "Orphan"];

    /// Reads one of the names.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "Delete" => Some(DeletionPolicy::Delete),
            "WaitForTermination" => Some(DeletionPolicy::WaitForTermination),
            "Orphan" => Some(DeletionPolicy::Orphan),
            _ => None,
        }
    }
}
