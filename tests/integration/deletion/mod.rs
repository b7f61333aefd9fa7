//! Deletion of releases.

pub mod owner_references;
pub mod policies;
pub mod removed_finalizer;
pub mod waves;
