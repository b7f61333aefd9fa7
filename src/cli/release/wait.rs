//! What `rollback --wait` and `plan run --wait` share.

use std::time::Duration;

use chartwright_watches::duration;

/// Time between two reads of the status.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Parses `--timeout`, a Go duration.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}
