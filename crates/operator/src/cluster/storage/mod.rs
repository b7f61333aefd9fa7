//! The Secrets and the ConfigMap in which the operator stores its data.

pub mod keys;
pub mod secrets;
pub mod usage;
