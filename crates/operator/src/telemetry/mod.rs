//! Logs, metrics, traces and probes of the operator, and the two HTTP servers for them.
//!
//! Invariant: uses no other module of this crate, so that every other one may log and count.

use std::error::Error;

pub mod logging;
pub mod metrics;
pub mod probes;
pub mod redact;
pub mod server;
pub mod traces;
mod zap;

/// The program's version from `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The git commit of the build, if the build sets it: `CHARTWRIGHT_COMMIT=$(git rev-parse HEAD) cargo build`.
pub const COMMIT: Option<&str> = option_env!("CHARTWRIGHT_COMMIT");

/// A limit that a test lowers by an environment variable. Only debug builds read it.
#[cfg(debug_assertions)]
pub fn test_limit(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A limit that a test lowers: none in a release build.
#[cfg(not(debug_assertions))]
pub fn test_limit(_: &str) -> Option<u64> {
    None
}

/// Formats an error with its causes in one line: `can't write: disk full`. Causes that are already in the text are not
/// repeated.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("can't write")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn errors_bring_their_causes() {
        let error = Outer(std::io::Error::other("disk full"));
        assert_eq!(chain(&error), "can't write: disk full");
        assert_eq!(chain(&std::io::Error::other("disk full")), "disk full");
    }
}
