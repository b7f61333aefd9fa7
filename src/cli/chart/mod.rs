//! Commands that read charts: rendering, checks and unit tests.

pub(super) mod lint;
pub(super) mod render;
pub mod template;
pub(super) mod verify;
