//! Lists and dictionaries.

pub(crate) mod dict;
pub(crate) mod list;
pub(crate) mod merge;
