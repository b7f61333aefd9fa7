//! Commands about the program itself: its version, completion scripts and manual pages.

pub(super) mod complete;
pub(super) mod completion;
pub(super) mod man;
#[cfg(test)]
mod markdown;
pub(super) mod version;
