//! The operator while everything around it fails: kills between any two writes, a proxy that loses, delays and refuses
//! requests, and random histories on a model of the API server. `make torture` runs all of it, `cargo test` a bounded
//! part.

#[path = "../support/mod.rs"]
mod support;

// What the integration tests run an operator with; each user of it needs a part.
#[allow(dead_code)]
#[path = "../integration/former.rs"]
mod former;
#[allow(dead_code)]
#[path = "../integration/look.rs"]
mod look;
#[allow(dead_code)]
#[path = "../integration/operator.rs"]
mod operator;
#[allow(dead_code)]
#[path = "../integration/world.rs"]
mod world;

mod acto;
mod blind;
mod call;
mod claim;
mod endurance;
mod enumerated;
mod fault;
mod faults;
mod flavour;
mod history;
mod hostile;
mod kill;
mod lane;
mod model;
mod oracle;
mod outage;
mod place;
mod proxy;
mod race;
mod release;
mod report;
mod scenario;
mod sequences;
mod sieve;
mod watches;
