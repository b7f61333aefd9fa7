#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod chart;
pub mod gostd;
pub mod handlebars;
pub mod helm;
mod limit;
pub mod render;
pub mod sprig;

pub use chart::Chart;
pub use render::{
    Capabilities, Engine, Error, HookManifest, Input, Kept, Limits, Lookup, LookupKey, Manifest, Random, ReleaseObject,
    Rendered,
};
