//! How long a release waits between failed attempts.

use std::time::Duration;

/// The shortest wait.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_secs(300);

/// The wait after so many failures in a row, at least 1: it doubles, with jitter so that many releases do not retry together. `uid`: of the
/// custom resource.
pub fn wait(uid: &str, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    let doubled = SHORTEST.saturating_mul(1 << doublings).min(LONGEST);
    jitter(doubled, uid, failures)
}

/// Between 80 and 120 percent of a duration, the same for the same release and count.
pub fn jitter(duration: Duration, uid: &str, count: u32) -> Duration {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    (uid, count).hash(&mut hash);
    let percent = 80 + hash.finish() % 41;
    duration.mul_f64(percent as f64 / 100.0)
}
