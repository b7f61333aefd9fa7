//! Chartwright turns Helm charts into Kubernetes operators.

#![forbid(unsafe_code)]

pub mod telemetry;
pub mod watches;
pub mod yaml;
