//! Random results of a release, as stored and as the next render needs them.

use chartwright_core::values::recovery::Pin;
use helm_template::render::Kept;

/// The content of the Secret. Empty without a Secret.
#[derive(Clone, Default)]
pub(crate) struct StoredValues {
    pub(crate) kept: Kept,
    pub(crate) pins: Vec<Pin>,
    pub(crate) version: Option<String>,
    /// The `regenerate` request that created these results.
    pub(crate) made_for: Option<String>,
    /// As [`KEY`].
    pub(crate) key: [u8; 32],
}

/// The random results that a render uses.
#[derive(Clone, Default)]
pub(crate) struct GeneratedValues {
    pub(crate) stored: StoredValues,
    pub(crate) was_read: bool,
    /// True if the release may have members, whose random results must not change without a request.
    pub(crate) exists: bool,
    /// The results for the render.
    pub(crate) kept: Kept,
    pub(crate) pins: Vec<Pin>,
    pub(crate) renewal: Option<jiff::Timestamp>,
    pub(crate) regenerated: Option<String>,
}
