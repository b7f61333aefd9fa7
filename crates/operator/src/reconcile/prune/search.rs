//! Finds all members of a release, also those that no record names.

use std::collections::BTreeMap;

use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::reconcile::claim::member_scopes::MemberScopes;
use crate::reconcile::prune::removal::RemovalCandidate;
use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::identity::{GroupKind, ObjectId};

/// Finds all members of a release by record, labels and annotations.
pub(crate) struct MemberSearch<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> MemberSearch<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        MemberSearch { scope }
    }
}

impl MemberSearch<'_> {
    /// Finds everything that may be a member: objects with the label of the ApplySet, and objects in the record, also
    /// if another client removed their label. Complete watches answer from the index, which has our own writes
    /// immediately. Other scopes are listed, and all scopes with `listed`. Stops if a scope cannot be listed: then
    /// nothing is known to be gone.
    pub(crate) async fn find_members(
        &self,
        release: &Release,
        listed: bool,
    ) -> Result<Vec<(ObjectId, RemovalCandidate)>, Error> {
        let discovery = &self.scope.context.discovery;
        let recorded = MemberScopes::from_record(&release.record);
        let superset = MemberScopes::from_resource(&self.scope.written).union(recorded);
        let unserved = |snapshot: &Snapshot| superset.kinds.iter().any(|kind| snapshot.preferred(kind).is_none());
        if unserved(&discovery.snapshot()) {
            // A kind may have come since; one that is still unknown has no objects, unless its group does not answer.
            discovery.refresh().await?;
        }
        let snapshot = discovery.snapshot();
        let mut found: BTreeMap<ObjectId, RemovalCandidate> = BTreeMap::new();
        for kind in &superset.kinds {
            snapshot.served(kind)?;
        }
        let unwatched: Vec<(&GroupKind, &str)> = {
            let members = self.scope.context.members();
            let recorded = release.record.entries.iter().map(|entry| entry.id.clone());
            let known = members.known(members.of_set(&self.scope.owner.set).into_iter().chain(recorded));
            found.extend(
                known
                    .into_iter()
                    .map(|(id, live)| (id, RemovalCandidate::Watched(live))),
            );
            let places = superset.places(&snapshot);
            places
                .filter(|(kind, namespace)| listed || !members.is_synced(kind, namespace))
                .collect()
        };
        for (kind, namespace) in unwatched {
            let namespace = (!namespace.is_empty()).then_some(namespace);
            let Some(resource) = snapshot.preferred(kind) else {
                continue;
            };
            for (namespace, name, live) in
                // As the watches, which are the operator's.
                objects::list_applyset(&self.scope.context.client, resource, namespace, &self.scope.owner.set)
                        .await?
            {
                found.insert(
                    ObjectId::new(kind.clone(), namespace, name),
                    RemovalCandidate::Read(live),
                );
            }
        }
        for entry in &release.record.entries {
            found.entry(entry.id.clone()).or_insert(RemovalCandidate::Unknown);
        }
        Ok(found.into_iter().collect())
    }
}
