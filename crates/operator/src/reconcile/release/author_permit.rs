//! What the author of a custom resource was permitted to create.

use std::collections::BTreeMap;

use chartwright_core::grants::Own;
use chartwright_core::identity::ObjectId;

/// What the author of a custom resource was permitted to create.
#[derive(Debug, Default)]
pub(crate) struct AuthorPermit {
    /// Stands for the objects, the chart and the watch; empty before.
    pub(crate) digest: String,
    /// How much of those that carry rights or reach, and that `allow` doesn't name, the chart creates by default.
    pub(crate) own: BTreeMap<ObjectId, Own>,
}
