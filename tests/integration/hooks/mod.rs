//! Helm's hooks, and plans.

pub mod deletions;
pub mod generated_names;
pub mod on_create;
pub mod operations;
pub mod plans;
pub mod runs;
pub mod stored;
