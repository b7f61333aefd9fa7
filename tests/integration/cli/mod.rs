//! Commands that need an API server or a chart repository.

pub mod argocd;
pub mod bundle;
mod dashboard;
pub mod diff;
pub mod explain;
pub mod fetch;
pub mod generated_crd;
pub mod releases;
pub mod render;
pub mod scaffold;
pub mod verify;
