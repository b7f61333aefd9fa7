//! The keys of an entry of `watches.yaml`: a file for each key with a shape of its own.

pub(crate) mod decorate;
pub(crate) mod depends;
pub(crate) mod differences;
pub(crate) mod elect;
mod env;
pub(crate) mod health;
pub(crate) mod overrides;
pub(crate) mod patches;
pub(crate) mod policies;
pub(crate) mod remediation;
pub(crate) mod rollout;
pub(crate) mod selector;
pub(crate) mod sources;
