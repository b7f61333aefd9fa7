#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod announce;
mod edit;
mod events;
mod index;
mod overlay;
mod run;
mod server;

pub use announce::chart_change;
pub use edit::{EditError, Edited, check_edit, merge};
pub use run::{PreviewCluster, PreviewError, preview};
pub use server::WriteRefused;
