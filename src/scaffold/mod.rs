//! Makes what an operator needs beside its chart: the project, the kind's CustomResourceDefinition, its rights, a bundle. YAML
//! is written from data, never pasted together.

pub mod api;
pub mod bundle;
pub mod crd;
pub mod fetch;
pub mod layout;
pub mod lint;
pub mod names;
pub mod project;
pub mod rights;
pub mod tree;
pub mod verify;
