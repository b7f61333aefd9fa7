//! Makes what an operator needs beside its chart: the project, the kind's CustomResourceDefinition, its rights, a bundle. YAML
//! is written from data, never pasted together.

#![forbid(unsafe_code)]

pub mod api;
pub mod argocd;
pub mod bundle;
pub mod chart;
pub mod crd;
pub mod fetch;
pub mod layout;
pub mod lint;
mod lists;
pub mod names;
pub mod printable;
pub mod progress;
pub mod project;
pub mod rights;
pub mod survey;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tree;

#[cfg(test)]
mod tests;

use serde_json::Value;

/// The text at a JSON pointer; empty where there is none.
fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
