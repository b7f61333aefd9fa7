//! The running operator.
//!
//! - [`manager`]: starts, leads and stops everything
//! - [`unit`]: one supervised task per entry of `watches.yaml`, with its custom resources ([`cache`]) and its fair [`queue`]
//! - [`watches`]: watch streams of members, of dependencies and of the kinds that the API server serves
//! - [`units`]: the units that run, which a change of `watches.yaml` or a chart restarts
//! - [`reload`]: reads `watches.yaml` and charts again when they change
//! - [`rollout`]: the rollout of a new chart to the releases of a watch
//! - [`chart_crds`]: creates and replaces the CRDs of a chart's `crds/` folder
//! - [`leader`]: leader election among replicas
//! - [`usage_meter`]: counts what releases request

mod cache;
mod chart_crds;
pub mod leader;
pub mod manager;
mod queue;
mod reload;
mod rollout;
mod unit;
mod units;
mod usage_meter;
mod watches;

pub use chart_crds::{apply_once as apply_chart_crds, names as chart_crd_names};
pub(crate) use reload::Configuration;
pub use reload::WatchDefaults;
pub(crate) use unit::Blueprint;

pub use manager::{ControllerOptions, LeaseOptions, run};
