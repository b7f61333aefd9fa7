//! What the units, the child watches and the discovery of one process share.

use std::sync::Arc;

use tokio::sync::Notify;

use super::router::Router;
use crate::reconcile::Context;

/// Shared by every task of the operator.
pub struct Shared {
    pub context: Arc<Context>,
    pub router: Router,
    /// Told whenever a child watch has its first complete list.
    pub synced: Notify,
}

// === impl Shared ===

impl Shared {
    pub fn new(context: Arc<Context>) -> Self {
        Shared {
            context,
            router: Router::default(),
            synced: Notify::new(),
        }
    }

    /// Reads discovery anew, or says why it can't.
    pub async fn refresh_discovery(&self) -> bool {
        let read = self.context.discovery.refresh().await;
        if let Err(error) = &read {
            tracing::warn!(%error, "the API server's discovery could not be read");
        }
        read.is_ok()
    }
}
