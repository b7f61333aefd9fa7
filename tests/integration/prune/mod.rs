//! Orphans: when they are deleted, and what prevents it.

pub mod complete_knowledge;
pub mod guards;
