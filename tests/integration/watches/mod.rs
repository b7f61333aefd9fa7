//! `watches.yaml`, and the watches on the API server that come from it.

pub mod api_versions;
pub mod decorate;
pub mod file;
pub mod needed_kinds;
pub mod patches;
pub mod reload;
