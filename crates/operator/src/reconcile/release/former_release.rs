//! The release of Helm or helm-operator that a custom resource takes over.

use std::collections::HashMap;

use serde_json::Value;

use chartwright_core::identity::ObjectId;
use chartwright_core::takeover::Former;

/// The former release during a takeover.
pub(crate) struct FormerRelease {
    pub(crate) former: Former,
    /// Where Helm stored the release.
    pub(crate) namespace: String,
    /// Name and UID of each release Secret.
    pub(crate) secrets: Vec<(String, String)>,
    /// The objects that the former owner sent last.
    pub(crate) manifests: HashMap<ObjectId, Value>,
    /// Objects of the Helm release that the chart doesn't render: they stay Helm's.
    pub(crate) left: Vec<String>,
    /// True if everything is applied and pruned, so that the remains of the former owner can be removed.
    pub(crate) settled: bool,
}
