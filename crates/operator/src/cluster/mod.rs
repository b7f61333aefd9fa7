//! Requests to the API server. The caller decides; this module sends, limits and interprets each request.
//!
//! - [`connection`]: the client, its time limits, the write fence, throttling
//! - [`discovery`]: the kinds that the API server serves
//! - [`objects`]: members: read, apply, list, delete; `lookup`; takeover from Helm
//! - [`crds`]: the definitions of a chart's `crds/` folder
//! - [`custom_resource`]: metadata, status and finalizer of a custom resource
//! - [`workloads`]: pods, their logs and leaders, HorizontalPodAutoscalers
//! - [`release_facts`]: everything that a report shows of one release
//! - [`reviews`]: tokens of those who read the metrics
//! - [`storage`]: the Secrets and the ConfigMap in which the operator stores data
//! - [`events`]: Events about custom resources

pub mod connection;
pub mod crds;
pub mod custom_resource;
pub mod discovery;
pub mod error;
pub mod events;
pub mod objects;
pub mod release_facts;
pub mod reviews;
pub mod storage;
#[cfg(test)]
pub(crate) mod testing;
pub mod workloads;

pub use connection::{
    Connection, client, config_without_retries, connect, connect_with_discovery, open, open_with_discovery, with_fence,
    with_time_limits,
};
pub use discovery::{Discovery, Resource, Snapshot};
pub use error::{Error, Result};
