//! The watches of a running operator: members, dependencies, and the kinds that the API server serves.

pub mod dependencies;
pub mod discovery;
pub mod members;
pub mod scopes;
pub mod stream;
