//! The keys `deletionFallback`, `deletionPolicy`, `collisions`, `crds` and `onFailure`.

/// What happens to the members of a release when its custom resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum DeletionPolicy {
    /// They are deleted. The custom resource is removed as soon as each deletion is accepted, as with `helm uninstall`.
    #[default]
    Delete,
    /// They are deleted. The custom resource is removed after the last member is gone.
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

/// What happens to a deletion for which the ServiceAccount of a release lacks rights, or is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionFallback {
    /// It waits for the account.
    #[default]
    Wait,
    /// After the timeout it goes on with the rights of the operator.
    Operator,
}

impl DeletionFallback {
    pub(crate) const NAMES: [(&str, Self); 2] = [("wait", Self::Wait), ("operator", Self::Operator)];
}

/// Which existing objects a release may take over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub enum Collisions {
    /// None. The object stays unchanged, and the status of the release names its owner.
    #[default]
    Prevent,
    /// Objects of the Helm release with the same name and namespace.
    Adopt,
    /// Objects that no controller and no Helm release owns. They are left behind, unless an annotation says otherwise.
    AdoptUnowned,
    /// All objects except members of another release.
    Force,
}

impl Collisions {
    pub(crate) const NAMES: [(&str, Self); 4] = [
        ("Prevent", Self::Prevent),
        ("Adopt", Self::Adopt),
        ("AdoptUnowned", Self::AdoptUnowned),
        ("Force", Self::Force),
    ];
}

/// What happens to the CustomResourceDefinitions of a chart's `crds/` folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrdPolicy {
    /// A missing one is created when the operator starts.
    #[default]
    Create,
    /// As `Create`, and a definition of the chart replaces the live one if the change is safe.
    CreateReplace,
    /// Nothing.
    Skip,
}

impl CrdPolicy {
    pub(crate) const NAMES: [(&str, Self); 3] = [
        ("Create", Self::Create),
        ("CreateReplace", Self::CreateReplace),
        ("Skip", Self::Skip),
    ];
}

/// What happens to a failed upgrade after its retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It is retried with backoff until it succeeds or an input changes.
    #[default]
    Retry,
    /// The last healthy revision is applied again.
    Rollback,
    /// It stays failed.
    Stall,
}

impl OnFailure {
    pub(crate) const NAMES: [(&str, Self); 3] = [
        ("retry", Self::Retry),
        ("rollback", Self::Rollback),
        ("stall", Self::Stall),
    ];
}
