//! The rules for a project: its watches file, definitions, samples and rights.

pub mod crd;
mod crd_checks;
mod needs;
pub(super) mod privileges;
mod rights;
mod sample_checks;
pub(crate) mod samples;
mod watch_values;
mod watched;
pub(super) mod watches;
