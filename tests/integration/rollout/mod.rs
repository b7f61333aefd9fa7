//! Waiting, retries, and what follows when a change fails or does not become healthy.

pub mod depends_on;
pub mod failures;
pub mod ready_when;
pub mod remediation;
pub mod retry;
pub mod rollback;
