//! The keys `deletionPolicy`, `collisions` and `onFailure`.

/// What becomes of a release's members when its custom resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum DeletionPolicy {
    /// They are deleted; the custom resource goes as soon as each of them is on its way, as after `helm uninstall`.
    #[default]
    Delete,
    /// They are deleted; the custom resource goes after the last of them.
    WaitForTermination,
    /// They stay, without our labels and annotations.
    Orphan,
}

impl DeletionPolicy {
    pub(crate) const NAMES: [(&str, Self); 3] = [
        ("Delete", Self::Delete),
        ("WaitForTermination", Self::WaitForTermination),
        ("Orphan", Self::Orphan),
    ];
}

/// What a release may take that is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum Collisions {
    /// Nothing: the object stays untouched, and the release says whose it is.
    #[default]
    Prevent,
    /// What a Helm release of the same name in the same namespace made.
    Adopt,
    /// Anything but another release's members.
    Force,
}

impl Collisions {
    pub(crate) const NAMES: [(&str, Self); 3] = [
        ("Prevent", Self::Prevent),
        ("Adopt", Self::Adopt),
        ("Force", Self::Force),
    ];
}

/// What becomes of an upgrade that failed, after its retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It is tried again, ever more seldom, until it succeeds or something else is asked for.
    #[default]
    Retry,
    /// The last revision that was healthy is applied again.
    Rollback,
    /// It is left as it is.
    Stall,
}

impl OnFailure {
    pub(crate) const NAMES: [(&str, Self); 3] = [
        ("retry", Self::Retry),
        ("rollback", Self::Rollback),
        ("stall", Self::Stall),
    ];
}
