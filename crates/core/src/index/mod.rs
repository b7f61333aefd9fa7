//! Indexes of live objects: the members of releases, and the objects that releases depend on.

pub mod dependencies;
pub mod live;
pub mod members;
pub mod watch_refs;
