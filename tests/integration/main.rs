//! The operator on a real API server: one control plane for all tests, a namespace, a kind and an operator each. The
//! operator runs as a user with the rights that `config/rbac` gives it, never as admin.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

#[path = "../support/mod.rs"]
mod support;

mod admission;
mod apply;
mod cli;
mod controller;
mod crds;
mod deletion;
mod docs;
mod hooks;
mod leader;
mod observability;
mod pitfalls;
mod prune;
mod rollout;
mod security;
mod status;
mod systems;
mod takeover;
mod values;
mod watches;
mod world;
