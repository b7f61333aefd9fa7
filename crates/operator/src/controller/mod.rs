//! The operator at run time: one supervised [`unit`] per watch with a fair [`queue`], watches of members
//! ([`children`]) and of what else releases depend on ([`dependencies`]) that wake the releases concerned, [`api_watch`]
//! for kinds that come and go, a [`leader`] among replicas, and [`usage`], which meters what releases request.

mod api_watch;
mod cache;
mod children;
mod crds;
mod dependencies;
pub mod leader;
pub mod manager;
mod queue;
mod scopes;
mod unit;
mod usage;
mod watching;

pub use manager::{LeaseOptions, Options, run};
