//! The result of a reconcile, as the status reports it.

use serde_json::Value;

use crate::reconcile::render::prepared::PreparedRelease;
use chartwright_core::status::{Changes, Phase};

/// The result that the status reports.
pub(crate) struct Conclusion {
    pub phase: Phase,
    pub changes: Changes,
    /// The render, if there was one.
    pub prepared: Option<PreparedRelease>,
}

impl From<Phase> for Conclusion {
    fn from(phase: Phase) -> Self {
        Conclusion {
            phase,
            changes: Changes::default(),
            prepared: None,
        }
    }
}

/// The next status.
pub(crate) struct NextStatus {
    pub status: Value,
    /// True if it differs from the present status.
    pub(crate) is_news: bool,
}
