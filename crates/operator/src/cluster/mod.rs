//! The API server: I/O only. Whoever calls decides; here is how each request is made, bounded and understood.

pub mod autoscalers;
pub mod connect;
mod core_events;
pub mod custom_resource;
pub mod discovery;
pub mod elect;
pub mod error;
pub mod events;
pub mod fence;
pub mod keys;
pub mod lookup;
pub mod objects;
pub mod offline;
pub mod path;
pub mod pods;
pub mod secrets;
pub mod silence;
pub mod takeover;
#[cfg(test)]
pub mod testing;
pub mod throttle;
pub mod usage;

pub use connect::{answering, client, config_without_retries, connect, fenced};
pub use discovery::{Discovery, Resource, Snapshot};
pub use error::{Error, Result};
