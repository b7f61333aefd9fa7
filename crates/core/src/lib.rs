//! Decisions without I/O: from what is desired, recorded and live to what is to be done. Everything here is a function
//! of its arguments, tested without a cluster.

#![forbid(unsafe_code)]

pub mod annotations;
pub mod apply;
pub mod applyset;
pub mod conditions;
pub mod contest;
pub mod decorate;
pub mod deletion;
pub mod dependencies;
pub mod depends;
pub mod desired;
pub mod digest;
pub mod drift;
pub mod elect;
pub mod electorate;
pub mod fingerprint;
pub mod gates;
pub mod grants;
pub mod health;
pub mod history;
pub mod hooks;
pub mod identity;
pub mod immutable;
pub mod intent;
pub mod lost_results;
mod managed_fields;
pub mod members;
pub mod missing_rights;
pub mod needs;
pub mod ownership;
pub mod plans;
pub mod policy;
pub mod prune;
pub mod reads;
pub mod record;
pub mod redact;
pub mod references;
pub mod remediation;
pub mod request;
pub mod reserved;
pub mod rollout;
pub mod scale;
pub mod schema_errors;
pub mod sequence;
pub mod shown;
pub mod status;
pub mod status_template;
pub mod takeover;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod unions;
pub mod usage;

/// A pattern of the program's own. They are all valid, and tests use each of them.
fn pattern(text: &str) -> regex::Regex {
    #[allow(clippy::unwrap_used)]
    regex::Regex::new(text).unwrap()
}
