//! What a reconcile found, as the status says it.

use serde_json::Value;

use crate::reconcile::render::prepared::PreparedRelease;
use chartwright_core::status::{Changes, Phase};

/// What the status is to report.
pub(crate) struct Conclusion {
    pub phase: Phase,
    pub changes: Changes,
    /// If it was rendered.
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

/// A status that is to be written.
pub(crate) struct NextStatus {
    pub status: Value,
    /// It says something else than the one that is there.
    pub(crate) is_news: bool,
}
