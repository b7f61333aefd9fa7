//! The running operator.
//!
//! - [`manager`]: starts, leads and stops everything
//! - [`unit`]: one supervised task per entry of `watches.yaml`, with its custom resources ([`cache`]) and its fair [`queue`]
//! - [`watches`]: watch streams of members, of dependencies and of the kinds that the API server serves
//! - [`chart_crds`]: creates and replaces the CRDs of a chart's `crds/` folder
//! - [`leader`]: leader election among replicas
//! - [`usage_meter`]: counts what releases request

mod cache;
mod chart_crds;
pub mod leader;
pub mod manager;
mod queue;
mod unit;
mod usage_meter;
mod watches;

pub use manager::{ControllerOptions, LeaseOptions, run};
