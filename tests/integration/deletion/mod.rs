//! Deletion of releases.

pub mod lost_finalizer;
pub mod owner_references;
pub mod policies;
pub mod waves;
