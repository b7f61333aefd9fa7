//! The operator while everything around it fails: kills between any two writes, a proxy that loses, delays and refuses
//! requests, and random histories on a model of the API server. `make torture` runs all of it, `cargo test` a bounded
//! part.

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
