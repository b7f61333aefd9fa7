//! How members are created, changed and kept as the chart says.

pub mod annotations;
pub mod autoscaler;
pub mod claims;
pub mod conflicts;
pub mod cost;
mod differences;
pub mod drift;
pub mod hand_edits;
mod immutable;
pub mod kept_objects;
pub mod lifecycle;
pub mod preconditions;
pub mod refused_values;
pub mod unions;
