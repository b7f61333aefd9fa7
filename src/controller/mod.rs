//! The operator at run time: one supervised [`unit`] per watch with a fair [`queue`], [`children`] watches that wake
//! the release whose member changed, [`api_watch`] for kinds that come and go, and a [`leader`] among replicas.

mod api_watch;
mod cache;
mod children;
mod crds;
pub mod leader;
pub mod manager;
mod queue;
mod router;
mod shared;
mod unit;
mod watching;

pub use manager::{Options, run};
