//! Faults of requests and of watches.

pub use fake_apiserver::call;
pub mod fault;
pub mod watches;
