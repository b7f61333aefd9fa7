//! A model of the API server in memory: as much of it as the operator's promises rest on.

mod conformity;
mod deletion;
pub mod fields;
pub mod server;
pub mod stale;
pub mod store;

pub use server::Model;
