//! Health, pods, elected leaders and the status template, from the live members.

pub(crate) mod health;
pub(crate) mod leader_pods;
pub(crate) mod live_members;
pub(crate) mod pods;
pub(crate) mod status_template;
pub(crate) mod warnings;
