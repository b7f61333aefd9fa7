//! What is there under the name of a member that the watches don't show.

use super::Run;
use crate::cluster::discovery::Resource;
use crate::cluster::error::Error;
use crate::cluster::objects::{self, Closely};
use crate::plan::identity::ObjectId;
use crate::plan::members::Scope;

impl Run<'_> {
    /// A metadata GET; or, when many look at the same kind in the same namespace, a share of a LIST. That shows what is
    /// not ours; what is ours the watch shows, as do our own writes.
    pub(super) async fn existing(&self, resource: &Resource, id: &ObjectId) -> Result<Option<Closely>, Error> {
        let discovery = &self.context.discovery;
        let shown = || self.context.members().is_synced(&id.group_kind, &id.namespace);
        if !shown() {
            return objects::look_closely(discovery, resource, id).await;
        }
        let place = Scope {
            group_kind: id.group_kind.clone(),
            namespace: (!id.namespace.is_empty()).then(|| id.namespace.clone()),
        };
        let list = || objects::names_of_others(discovery, resource, place.namespace.as_deref(), &self.context.operator);
        let look = self.context.looks.begin(&place, list).await;
        if look.is_free(&id.name) && shown() && self.context.members().get(id).is_none() {
            return Ok(None);
        }
        objects::look_closely(discovery, resource, id).await
    }
}
