//! Chartwright turns Helm charts into Kubernetes operators: a generic controller reads `watches.yaml`, which binds
//! kinds of custom resources to charts, renders the chart with the custom resource's spec as values, applies the result
//! server-side, keeps it as the chart says, and prunes what the chart no longer contains.
//!
//! This package is the program, one file per command in [`cli`]. The crates below it, from top to bottom:
//! `chartwright-verify`, `chartwright-preview`, `chartwright-scaffold`, `chartwright-operator`, `chartwright-core`, `chartwright-watches`.

#![forbid(unsafe_code)]

pub mod cli;
