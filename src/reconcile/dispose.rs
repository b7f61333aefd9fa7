//! Carries out a verdict on one object: what a prune and a deletion have in common.

use super::Run;
use crate::cluster::discovery::Resource;
use crate::cluster::objects;
use crate::plan::identity::ObjectId;
use crate::plan::members::Live;
use crate::plan::ownership::Owner;
use crate::plan::prune::{Verdict, verdict};
use crate::telemetry::metrics::Operation;

/// What became of an object.
pub(super) enum Disposed {
    Deleted,
    /// It was being deleted already.
    Going,
    /// Ours no longer, or never: it stays.
    Left,
    /// A guard holds it back. Only a prune meets this.
    Held,
    Failed(String),
}

impl Run<'_> {
    /// `pruning` is false when the whole release goes.
    pub(super) async fn dispose(
        &self,
        resource: &Resource,
        id: &ObjectId,
        live: &Live,
        owner: &Owner,
        pruning: bool,
    ) -> Disposed {
        let discovery = &self.context.discovery;
        let kind = &id.group_kind.kind;
        match verdict(id, live, owner, pruning) {
            Verdict::Delete { uid } => match objects::delete(discovery, resource, id, &uid).await {
                Ok(true) => {
                    self.context.metrics.wrote(kind, Operation::Delete);
                    Disposed::Deleted
                }
                Ok(false) => Disposed::Failed(format!("{id}: it was replaced meanwhile")),
                Err(error) => Disposed::Failed(format!("{id}: {error}")),
            },
            Verdict::Release { uid } => match objects::release(discovery, resource, id, &uid).await {
                Ok(()) => {
                    self.context.metrics.wrote(kind, Operation::Release);
                    Disposed::Left
                }
                Err(error) => Disposed::Failed(format!("{id}: {error}")),
            },
            Verdict::Hold => Disposed::Held,
            Verdict::Going => Disposed::Going,
            Verdict::Leave(ownership) => {
                tracing::info!(object = %id, %ownership, "not deleted");
                Disposed::Left
            }
            Verdict::Controlled(by) => {
                tracing::info!(object = %id, %by, "not deleted: a controller owns it");
                Disposed::Left
            }
        }
    }
}
