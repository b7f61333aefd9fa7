//! The members that a chart renders, and the rules for their fields.

pub mod autoscaling;
pub mod desired;
pub mod foreign_fields;
pub mod immutable_fields;
pub mod owner;
pub mod patches;
pub mod policy;
pub mod rollout;
