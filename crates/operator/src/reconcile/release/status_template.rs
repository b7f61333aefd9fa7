//! Remembers the last result of the chart's status template.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use chartwright_core::status::template::Computed;

/// A template is evaluated at most [`EVALUATIONS`] times in [`PERIOD`].
pub(crate) const EVALUATIONS: usize = 10;

pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// A refused result is sent again after this, because the schema may have changed.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(300);

/// The last result of the template of a release.
#[derive(Debug, Default)]
pub struct StatusTemplate {
    /// Digest of its inputs.
    pub(crate) seen: String,
    pub(crate) computed: Option<Computed>,
    pub(crate) invalid: Option<String>,
    /// The last result that the API server refused.
    pub(crate) refused: Option<RefusedResult>,
    /// The times of recent evaluations.
    pub(crate) recent: VecDeque<Instant>,
}

/// A result of the template that the API server refused.
#[derive(Debug)]
pub(crate) struct RefusedResult {
    computed: Computed,
    /// What is reported in its place: other fields, and the last accepted values of the refused ones.
    accepted: Computed,
    why: String,
    pub(crate) since: Instant,
}

impl StatusTemplate {
    pub(crate) fn computed_status(&self) -> Option<(&Computed, &str)> {
        Some((self.computed.as_ref()?, self.seen.as_str()))
    }

    /// Records that the API server refused a status with these fields. Fields that the error names keep their value of the
    /// previous status; all fields if it names none. Returns false if there are none, so that they are not the cause.
    pub(crate) fn refuse(&mut self, error: &str, named: &[String], previous: &Value) -> bool {
        let Some(computed) = self.computed.take_if(|computed| !computed.fields.is_empty()) else {
            return false;
        };
        let is_refused = |field: &String| named.is_empty() || named.contains(field);
        let fields = computed.fields.iter().filter_map(|(field, value)| {
            let value = if is_refused(field) {
                // The previous value may be the refused one.
                previous.get(field).filter(|previous| *previous != value)?
            } else {
                value
            };
            Some((field.clone(), value.clone()))
        });
        let accepted = Computed {
            fields: fields.collect(),
            ..computed.without_fields()
        };
        self.invalid = Some(refused(error));
        self.computed = Some(accepted.clone());
        let computed = match self.refused.take() {
            // The values of the previous status are refused as well.
            Some(known) if known.accepted == computed => known.computed,
            _ => computed,
        };
        self.refused = Some(RefusedResult {
            computed,
            accepted,
            why: error.to_owned(),
            since: Instant::now(),
        });
        true
    }

    /// Records the result of an evaluation. `is_ready`: false suppresses errors, because objects may not exist yet.
    pub(crate) fn record_result(&mut self, made: Result<Computed, String>, is_ready: bool) {
        let known = self
            .refused
            .as_ref()
            .filter(|known| known.since.elapsed() < REFUSED_FOR);
        match made {
            Ok(computed) => {
                let same = known.filter(|known| known.computed == computed);
                self.invalid = same.map(|known| refused(&known.why));
                self.computed = Some(same.map_or(computed, |known| known.accepted.clone()));
            }
            Err(why) if is_ready => self.invalid = Some(why),
            Err(why) => tracing::debug!(why, "the status template failed; the release isn't ready yet"),
        }
    }

    /// Returns how long the next evaluation has to wait. `None` if it can run now.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.recent.retain(|time| now.duration_since(*time) < PERIOD);
        let first = *self.recent.front().filter(|_| self.recent.len() >= EVALUATIONS)?;
        Some(PERIOD.saturating_sub(now.duration_since(first)))
    }
}

pub(crate) fn refused(why: &str) -> String {
    format!("the API server refuses a status with the fields that it prints: {why}")
}
