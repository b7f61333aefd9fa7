//! Charts on disk: folders, archives, `.helmignore`, and the role of each file.

pub(crate) mod archive;
pub(crate) mod directory;
pub(crate) mod files;
pub mod ignore;
