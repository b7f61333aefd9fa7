//! CustomResourceDefinitions that a chart brings: how they are created and replaced.

pub mod install;
pub mod replace;
