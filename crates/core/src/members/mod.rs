//! The members that a chart asks for, and what is known of their fields.

pub mod autoscaling;
pub mod desired;
pub mod exclusive_fields;
pub mod immutable_fields;
pub mod policy;
pub mod rollout;
