//! CustomResourceDefinitions: which definition may replace another one.
//!
//! - [`compare`]: the differences of two definitions, each safe or unsafe

pub mod compare;
