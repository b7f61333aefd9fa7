//! The rules for a project: its watches file, definitions, samples and rights.

pub mod crd;
mod needs;
pub(super) mod privileges;
mod rights;
pub(crate) mod samples;
pub(super) mod watches;
