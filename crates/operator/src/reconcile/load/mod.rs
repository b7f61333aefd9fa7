//! What a reconcile starts from: its inputs, dependencies, requests, and what the last attempt found.

pub(crate) mod dependencies;
pub(crate) mod input_digest;
pub(crate) mod job_ttls;
pub(crate) mod member_watches;
pub(crate) mod release_dependencies;
