//! The objects that templates see: `.Values`, `.Chart`, `.Release`, `.Files`, `.Capabilities`.

pub mod capabilities;
pub(crate) mod capabilities_used;
pub mod data;
pub(crate) mod files;
pub(crate) mod glob;
