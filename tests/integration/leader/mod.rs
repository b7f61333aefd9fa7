//! Leader election, of the operator and of workloads.

pub mod operators;
pub mod workloads;
