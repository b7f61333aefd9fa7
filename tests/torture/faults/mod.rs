//! Faults of requests and of watches.

pub mod call;
pub mod fault;
pub mod watches;
