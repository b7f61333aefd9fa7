//! Retries of a release: how long to wait after failures.

use std::time::Duration;

use crate::cluster::connection::throttle::spread;
use chartwright_core::retry;
pub(crate) use chartwright_core::retry::jitter;

/// The failures of a release in a row.
#[derive(Debug, Default)]
pub struct Backoff {
    /// Of the custom resource: releases that fail together don't come back together.
    pub(crate) uid: String,
    /// Failed attempts since something changed.
    pub failures: u32,
    /// Attempts in a row to write the status that failed.
    pub unwritten: u32,
    /// Reconciles in a row that ended because the API server throttled requests, and that the status did not report.
    pub throttled: u32,
}

impl Backoff {
    /// How long to wait after one more failure: doubling, with jitter so that many releases don't retry as one.
    /// `requested`: the wait that the API server requested.
    pub fn failed(&mut self, requested: Option<Duration>) -> Duration {
        let wait = wait(&self.uid, &mut self.failures);
        wait.max(self.spread(requested))
    }

    /// How long to wait after one more failure to write the status. `retry_after`: the wait that the API server
    /// requested.
    pub fn failed_to_write(&mut self, retry_after: Option<Duration>) -> Duration {
        wait(&self.uid, &mut self.unwritten).max(self.spread(retry_after))
    }

    /// A requested wait, spread so that releases do not retry together.
    pub(crate) fn spread(&self, after: Option<Duration>) -> Duration {
        spread(after.unwrap_or_default(), (&self.uid, self.failures))
    }
}

/// Counts a failure.
pub(crate) fn wait(uid: &str, failures: &mut u32) -> Duration {
    *failures = failures.saturating_add(1);
    retry::wait(uid, *failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chartwright_core::retry::{LONGEST, SHORTEST};

    #[test]
    fn retries_slow_down_and_are_bounded() {
        let mut backoff = Backoff {
            uid: "u".into(),
            ..Backoff::default()
        };
        let waits: Vec<_> = (0..12).map(|_| backoff.failed(None)).collect();
        assert!(waits[0] >= SHORTEST.mul_f64(0.8) && waits[0] <= SHORTEST.mul_f64(1.2));
        assert!(waits[4] > waits[0] * 4);
        assert!(waits.iter().all(|wait| *wait <= LONGEST.mul_f64(1.2)));
        assert_eq!(backoff.failures, 12, "counted, for the status");
        let requested = Duration::from_secs(900);
        backoff.failures = 0;
        let wait = backoff.failed(Some(requested));
        assert!(
            (requested..=requested * 3 / 2).contains(&wait),
            "the server knows better: {wait:?}"
        );
        backoff.failures = 0;
        backoff.uid = "another".into();
        assert_ne!(backoff.failed(Some(requested)), wait, "they don't come back as one");
    }
}
