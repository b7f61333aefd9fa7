//! Commands that create and update the files of a project.

pub(super) mod create;
pub(super) mod generate;
pub(super) mod init;
