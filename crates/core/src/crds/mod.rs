//! CustomResourceDefinitions of a chart's `crds/` folder: which definition may replace the live one.
//!
//! - [`chart`]: what a chart brings, its digest and its versions
//! - [`live`]: what the metadata of a live definition shows
//! - [`decide`]: the step that a definition needs
//! - [`compare`]: the differences of two definitions, each safe or unsafe

pub mod chart;
pub mod compare;
pub mod decide;
pub mod live;

#[cfg(test)]
mod tests;

/// The field manager of definitions that replace others. Never change it.
pub const CRD_MANAGER: &str = "chartwright-crds";
