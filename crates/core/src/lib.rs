#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod access;
pub mod admission;
pub mod annotations;
pub mod apply;
pub mod crds;
pub mod dashboard;
pub mod diff;
pub mod digest;
pub mod drift;
pub mod grants;
pub mod health;
pub mod hooks;
pub mod identity;
pub mod index;
pub mod leader;
pub mod members;
pub mod operation;
pub mod plans;
pub mod prune;
pub mod record;
pub mod redact;
pub mod report;
pub mod retry;
pub mod rollout;
mod serde_helpers;
pub mod status;
pub mod takeover;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod usage;
pub mod values;

/// A pattern of the program's own. They are all valid, and tests use each of them.
fn pattern(text: &str) -> regex::Regex {
    #[allow(clippy::unwrap_used)]
    regex::Regex::new(text).unwrap()
}
