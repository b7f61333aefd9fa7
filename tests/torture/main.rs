//! The operator while everything around it fails: kills between any two writes, a proxy that loses, delays and refuses
//! requests, and random histories on a model of the API server. `make torture` runs all of it, `cargo test` a bounded
//! part.

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

// Shared with the integration tests; the torture tests do not use all of it.
#[allow(dead_code, unused_imports)]
#[path = "../integration/world/mod.rs"]
mod world;

mod faults;
mod histories;
mod model;
mod real_server;
mod report;
