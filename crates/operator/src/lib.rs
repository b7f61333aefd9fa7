//! The operator as a library: it watches custom resources and reconciles each one with the chart of its watch.
//!
//! - [`controller`]: watch streams, caches, the work queue, leader election
//! - [`reconcile`]: one reconcile, a folder or file per stage
//! - [`cluster`]: requests to the API server; contains no policy
//! - [`telemetry`]: logs, metrics and probes
//! - [`dashboard`]: the page with all releases, read-only
//! - [`admission`]: the webhook that previews changes of custom resources

#![forbid(unsafe_code)]

pub mod admission;
pub mod cluster;
pub mod controller;
pub mod dashboard;
pub mod reconcile;
mod sync;
pub mod telemetry;

/// Stack of a thread that renders or reads custom resources, in bytes: they drop values that nest a thousand levels. Unused stack takes no
/// memory.
pub const STACK_BYTES: usize = 8 << 20;
