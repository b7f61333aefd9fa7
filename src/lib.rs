//! Chartwright turns Helm charts into Kubernetes operators: a generic controller reads `watches.yaml`, which binds
//! kinds of custom resources to charts, renders the chart with the custom resource's spec as values, applies the result
//! server-side, keeps it as the chart says, and prunes what the chart no longer contains.
//!
//! The modules are floors, from top to bottom; each uses only those below it:
//!
//! - [`cli`]: one file per command
//! - [`scaffold`]: what an operator needs beside its chart, generated
//! - [`controller`]: the operator at run time: units, queues, watches, leader election
//! - [`reconcile`]: one reconcile, a file per step
//! - [`cluster`]: the API server; I/O only
//! - [`plan`]: decisions without I/O
//! - [`watches`]: `watches.yaml`, read strictly
//! - [`telemetry`]: logs, metrics, probes

#![forbid(unsafe_code)]

pub mod cli;
pub mod cluster;
pub mod controller;
pub mod plan;
pub mod reconcile;
pub mod scaffold;
pub mod telemetry;
pub mod watches;
