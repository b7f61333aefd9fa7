//! What the units, the child watches and the discovery of one process share.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::router::Router;
use crate::plan::identity::GroupKind;
use crate::reconcile::Context;

/// Shared by every task of the operator.
pub struct Shared {
    pub context: Arc<Context>,
    pub router: Router,
    /// Told whenever a child watch has its first complete list.
    pub synced: Notify,
    /// The names of the CustomResourceDefinitions that are there, as far as that is known; `None` before anybody has
    /// tried to list them.
    pub crds: watch::Sender<Option<HashSet<String>>>,
}

// === impl Shared ===

impl Shared {
    pub fn new(context: Arc<Context>) -> Self {
        Shared {
            context,
            router: Router::default(),
            synced: Notify::new(),
            crds: watch::Sender::default(),
        }
    }

    /// Says how many watches of a kind do not work at present.
    pub fn count_failing(&self, group_kind: &GroupKind) {
        let kind = &group_kind.kind;
        let members = self.context.members().count_failing(kind);
        let dependencies = self.context.dependencies().count_failing(kind);
        self.context.metrics.set_watches_failing(kind, members + dependencies);
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
