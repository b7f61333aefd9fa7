//! What the units, the child watches and the discovery of one process share.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::router::Router;
use crate::reconcile::Context;

/// Shared by every task of the operator.
pub struct Shared {
    pub context: Arc<Context>,
    pub router: Router,
    /// Counts the changes of what the API server serves.
    pub served: watch::Sender<u64>,
    /// Told whenever a child watch has its first complete list.
    pub synced: Notify,
}

// === impl Shared ===

impl Shared {
    pub fn new(context: Arc<Context>) -> Self {
        Shared {
            context,
            router: Router::default(),
            served: watch::channel(0).0,
            synced: Notify::new(),
        }
    }

    /// Reads discovery anew and tells everyone if it changed.
    pub async fn refresh_discovery(&self) {
        match self.context.discovery.refresh().await {
            Ok(true) => self.served.send_modify(|count| *count += 1),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the API server's discovery could not be read"),
        }
    }
}
