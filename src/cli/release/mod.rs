//! Commands that read and change releases in a cluster.

pub(super) mod history;
pub(super) mod leftovers;
pub(super) mod plan;
pub(super) mod release_finalizers;
pub(super) mod rollout;
mod table;
mod target;
pub(super) mod usage;
mod wait;
