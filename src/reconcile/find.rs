//! Where the members of a release are, when it goes: without chart, render, or trust in what a status says.

use std::collections::BTreeMap;

use super::Run;
use super::dispose::Candidate;
use super::release::Release;
use super::superset::Superset;
use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::plan::identity::{GroupKind, ObjectId};
use crate::plan::ownership::Owner;

impl Run<'_> {
    /// Everything that may be a member: what carries the label of the set, and what the record lists, though somebody
    /// took the label off. The watches have told where they are synced (our own writes reach their index at once);
    /// what they don't cover is listed, and all of it with `listed`.
    ///
    /// # Errors
    /// If something that may hold members does not answer: then nothing is known to be gone.
    pub(super) async fn find_members(
        &self,
        release: &Release,
        owner: &Owner,
        listed: bool,
    ) -> Result<Vec<(ObjectId, Candidate)>, Error> {
        let discovery = &self.context.discovery;
        let recorded = Superset::of_record(&release.record);
        let superset = Superset::of_resource(&self.written).union(recorded);
        let unserved = |snapshot: &Snapshot| superset.kinds.iter().any(|kind| snapshot.preferred(kind).is_none());
        if unserved(&discovery.snapshot()) {
            // A kind may have come since; one that is still unknown has no objects, unless its group does not answer.
            discovery.refresh().await?;
        }
        let snapshot = discovery.snapshot();
        let mut found: BTreeMap<ObjectId, Candidate> = BTreeMap::new();
        for kind in &superset.kinds {
            snapshot.served(kind)?;
        }
        let unwatched: Vec<(&GroupKind, &str)> = {
            let members = self.context.members();
            let recorded = release.record.entries.iter().map(|entry| entry.id.clone());
            let known = members.known(members.of_set(&owner.set).into_iter().chain(recorded));
            found.extend(known.into_iter().map(|(id, live)| (id, Candidate::Watched(live))));
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
                objects::list_set(&self.context.client, resource, namespace, &owner.set).await?
            {
                found.insert(ObjectId::new(kind.clone(), namespace, name), Candidate::Read(live));
            }
        }
        for entry in &release.record.entries {
            found.entry(entry.id.clone()).or_insert(Candidate::Unknown);
        }
        Ok(found.into_iter().collect())
    }
}
