//! Operator processes: start, end, scope, and outages of the API server.

pub mod api_server_outage;
mod label_selector;
pub mod restart;
pub mod scope;
pub mod two_operators;
