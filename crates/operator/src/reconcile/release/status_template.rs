//! Remembers the last result of the chart's status template.

use std::collections::VecDeque;
use std::time::Duration;

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
    /// The last refused result, with reason and time.
    pub(crate) refused: Option<(Computed, String, Instant)>,
    /// The times of recent evaluations.
    pub(crate) recent: VecDeque<Instant>,
}

impl StatusTemplate {
    pub(crate) fn computed_status(&self) -> Option<(&Computed, &str)> {
        Some((self.computed.as_ref()?, self.seen.as_str()))
    }

    /// Records that the API server refused a status with these fields. Returns false if there are none, so that they
    /// are not the cause.
    pub(crate) fn refuse(&mut self, error: &str) -> bool {
        let Some(computed) = self.computed.take_if(|computed| !computed.fields.is_empty()) else {
            return false;
        };
        self.invalid = Some(refused(error));
        // Leave out all fields, because any of them may be the refused one.
        self.computed = Some(computed.without_fields());
        self.refused = Some((computed, error.to_owned(), Instant::now()));
        true
    }

    /// Records the result of an evaluation. `is_ready`: false suppresses errors, because objects may not exist yet.
    pub(crate) fn record_result(&mut self, made: Result<Computed, String>, is_ready: bool) {
        let known = self
            .refused
            .as_ref()
            .filter(|(_, _, since)| since.elapsed() < REFUSED_FOR);
        match made {
            Ok(computed) => {
                let same = known.filter(|(refused, ..)| *refused == computed);
                self.invalid = same.map(|(_, why, _)| refused(why));
                self.computed = Some(match same {
                    Some(_) => computed.without_fields(),
                    None => computed,
                });
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
