//! The operator in the test process, on the model of the API server and on a virtual clock.

pub mod announced;
pub mod broken_watches;
pub mod each_property;
pub mod endurance;
pub mod every_phase;
pub mod every_request;
pub mod finalizer;
pub mod history;
pub mod hostile;
pub mod invariants;
pub mod late_reads;
pub mod place;
pub mod random;
