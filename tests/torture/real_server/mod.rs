//! Operator processes behind a proxy, in front of a real API server.

pub mod any_request;
pub mod kill;
pub mod outage;
pub mod process;
pub mod proxy;
pub mod race;
pub mod release;
pub mod scenario;
pub mod variant;
