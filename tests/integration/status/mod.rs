//! What the operator reports and records: status, Events, record, usage.

pub mod crd_schema;
pub mod foreign_writes;
pub mod notes_and_events;
pub mod record;
pub mod size_limits;
pub mod template;
pub mod usage;
