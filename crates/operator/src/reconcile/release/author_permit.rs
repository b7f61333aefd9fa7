//! Remembers what the author of a custom resource may create.

use std::collections::BTreeMap;

use chartwright_core::grants::Own;
use chartwright_core::identity::ObjectId;

/// The last permit of the author of a custom resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthorPermit {
    /// Digest of the objects, the chart and the watch. Empty before the first check.
    pub(crate) digest: String,
    /// How much of those that carry rights or reach, and that `allow` doesn't name, the chart creates by default.
    pub(crate) own: BTreeMap<ObjectId, Own>,
}
