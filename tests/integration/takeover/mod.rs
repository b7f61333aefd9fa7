//! The first reconcile of releases that helm-operator or Helm created.

pub mod large_release;
pub mod releases;
mod unowned;
