//! Bugs that well-known neighbours (Flux, kro, kubectl, helm-operator) have had, each as a test.

pub mod apply;
pub mod lifecycle;
