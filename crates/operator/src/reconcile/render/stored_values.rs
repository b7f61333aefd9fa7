//! Random results of a release, as stored and as the next render needs them.

use chartwright_core::values::recovery::Pin;
use helm_template::render::Kept;

/// What the Secret holds; nothing if there is none.
#[derive(Clone, Default)]
pub(crate) struct StoredValues {
    pub(crate) kept: Kept,
    pub(crate) pins: Vec<Pin>,
    pub(crate) version: Option<String>,
    /// The request for these results.
    pub(crate) made_for: Option<String>,
    /// As [`KEY`].
    pub(crate) key: [u8; 32],
}

/// What is remembered of chance.
#[derive(Clone, Default)]
pub(crate) struct GeneratedValues {
    pub(crate) stored: StoredValues,
    pub(crate) was_read: bool,
    /// A release that has members, or may have: what they hold must not change without need.
    pub(crate) exists: bool,
    /// What the render needs.
    pub(crate) kept: Kept,
    pub(crate) pins: Vec<Pin>,
    pub(crate) renewal: Option<jiff::Timestamp>,
    pub(crate) regenerated: Option<String>,
}
