//! The dashboard: a page that shows all releases and each one of them. Read-only: it answers GET and nothing else.
//!
//! `chartwright run --dashboard` serves it beside the metrics, `chartwright dashboard` on localhost. Both use the same routes. What they show
//! comes from a [`DashboardSource`]. Page and script hold no data, so everyone may load them. Each request for data is authorized.
//!
//! - [`routes`]: the paths, headers and checks
//! - [`listing`]: the rows of all releases, which the source keeps current
//! - [`reads`]: bounds what the views of single releases cost the API server
//! - [`stream`]: changes as server-sent events
//!
//! A further view is a method of [`DashboardSource`], a route in [`routes`] and an entry of `VIEWS` in `assets/release.js`.

mod listing;
mod reads;
mod routes;
mod stream;

use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use futures::future::BoxFuture;
use serde_json::Value;

pub use self::listing::Board;
pub use self::routes::{PATH, routes};
use crate::telemetry::server::Review;
use chartwright_core::dashboard::ReleaseKey;

/// Where the dashboard gets its data from.
pub trait DashboardSource: Send + Sync + 'static {
    /// The rows of all releases. Called for each request: a source may begin to read the cluster at the first one.
    fn board(&self) -> Arc<Board>;

    /// Reads one release: a [`chartwright_core::dashboard::ReleaseDetail`] as JSON. `None`: it no longer exists.
    ///
    /// # Errors
    /// Why it cannot be read, for people.
    fn release(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Option<Value>, String>>;

    /// Reads the effective values of one release and their sources, without secret ones: a list of
    /// [`chartwright_core::values::origins::ValueOrigin`] as JSON.
    ///
    /// # Errors
    /// Why they are unknown, for people.
    fn values(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Value, String>>;

    /// Previews what the next reconcile of one release would do, without secret values: a [`chartwright_core::diff::ReleaseDiff`] as JSON.
    ///
    /// # Errors
    /// Why it is unknown, for people.
    fn changes(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Value, String>>;
}

/// Who may read the data.
pub enum DashboardAccess {
    /// Users that the API server allows it.
    Review(Review),
    /// Users on this machine that have this random token. Requests for another host than localhost are refused, so that a web site whose
    /// name resolves to this machine gets nothing.
    Localhost(String),
}

impl DashboardAccess {
    /// Access with a new random token, which is also returned.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn localhost() -> Result<(Self, String), getrandom::Error> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes)?;
        let token = BASE64URL_NOPAD.encode(&bytes);
        Ok((DashboardAccess::Localhost(token.clone()), token))
    }
}

#[cfg(test)]
mod tests;
