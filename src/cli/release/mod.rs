//! Commands that read and change releases in a cluster.

pub(super) mod diff;
pub(super) mod explain;
pub(super) mod get;
pub(super) mod history;
pub(in crate::cli) mod kinds;
pub(super) mod leftovers;
pub(in crate::cli) mod operator_keys;
pub(super) mod plan;
pub(super) mod release_finalizers;
pub(in crate::cli) mod release_list;
pub(super) mod request;
pub(super) mod rollout;
mod table;
mod target;
pub(super) mod usage;
pub(super) mod values;
mod wait;
