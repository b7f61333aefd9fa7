//! The release of Helm or helm-operator that a custom resource takes over.

use std::collections::HashMap;

use serde_json::Value;

use chartwright_core::identity::ObjectId;
use chartwright_core::takeover::Former;

/// A release of another operator, while it is taken over.
pub(crate) struct FormerRelease {
    pub(crate) former: Former,
    /// Where Helm stored the release.
    pub(crate) namespace: String,
    /// Name and UID of each release Secret.
    pub(crate) secrets: Vec<(String, String)>,
    /// What the former owner sent last.
    pub(crate) manifests: HashMap<ObjectId, Value>,
    /// Objects of the Helm release that the chart doesn't render: they stay Helm's.
    pub(crate) left: Vec<String>,
    /// Everything is applied and pruned: what remains of the former owner can go.
    pub(crate) settled: bool,
}
