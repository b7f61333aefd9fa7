//! The deletion: record and label discovery, reverse order, finalizer off. No chart, no values, no template is touched,
//! so nothing that is wrong with those can keep a custom resource from going.

use std::collections::BTreeMap;

use super::dispose::Disposed;
use super::preflight::list;
use super::release::Release;
use super::superset::Superset;
use super::{Outcome, RECHECK, Run};
use crate::cluster::custom_resource::remove_finalizer;
use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::plan::annotations;
use crate::plan::desired::Stage;
use crate::plan::identity::ObjectId;
use crate::plan::members::Live;
use crate::plan::ownership::Owner;
use crate::plan::status::{Phase, Reason};
use crate::telemetry::metrics::{Operation, ReconcileResult};

/// While members go that must be gone first; their watches usually tell sooner.
const POLL: std::time::Duration = std::time::Duration::from_secs(5);

/// What is left of a release after a round of deletes.
#[derive(Default)]
struct Left {
    /// Deleted, and not gone yet.
    going: Vec<String>,
    failures: Vec<String>,
}

impl Run<'_> {
    pub(super) async fn delete(&mut self, release: &mut Release) -> Outcome {
        if !self.written.has_finalizer() {
            return Outcome {
                again: None,
                written: None,
                finished: true,
                result: ReconcileResult::Success,
            };
        }
        let suspended = annotations::is_suspended(&self.written.annotations);
        if !suspended {
            match self.delete_members(release).await {
                Ok(left) if !left.failures.is_empty() => {
                    let phase = Phase::Failed {
                        reason: Reason::DeleteFailed,
                        message: list(left.failures),
                    };
                    return self.report(release, phase, None).await;
                }
                Ok(left) if !left.going.is_empty() && annotations::waits_for_uninstall(&self.written.annotations) => {
                    let mut outcome = self.report(release, waiting(left.going), None).await;
                    outcome.again = Some(POLL);
                    return outcome;
                }
                Ok(_) => {}
                Err(error) => {
                    let phase = Phase::Failed {
                        reason: Reason::DeleteFailed,
                        message: error.to_string(),
                    };
                    return self.report(release, phase, None).await;
                }
            }
        }
        if let Err(phase) = self.forget_kept().await {
            return self.report(release, phase, None).await;
        }
        let target = self.written.target(&self.unit.resource);
        match remove_finalizer(&self.context.discovery, &target, &self.written.finalizers).await {
            Ok(()) => {
                self.context.metrics.wrote("CustomResource", Operation::Metadata);
                let about = self.written.reference(&self.unit.resource);
                let note = match suspended {
                    true => "suspended: its objects are left as they are",
                    false => "its objects are deleted",
                };
                tracing::info!(kind = %self.unit.group_kind, resource = %self.written.key, "uninstalled: {note}");
                self.context
                    .events
                    .normal(&about, "UninstallSuccessful", "Delete", note)
                    .await;
                Outcome {
                    again: None,
                    written: None,
                    finished: true,
                    result: ReconcileResult::Success,
                }
            }
            Err(error) => {
                tracing::info!(resource = %self.written.key, %error, "the finalizer could not be removed yet");
                Outcome {
                    again: Some(release.back_off().min(RECHECK)),
                    written: None,
                    finished: false,
                    result: ReconcileResult::Error,
                }
            }
        }
    }

    async fn delete_members(&self, release: &Release) -> Result<Left, Error> {
        let owner = self.written.owner(&self.unit.group_kind);
        let mut candidates = self.find_members(release, &owner).await?;
        // Backwards: webhooks first, then the objects last made, then namespaces and CRDs.
        candidates.sort_by_key(|(order, _, _)| std::cmp::Reverse(*order));
        let mut left = Left::default();
        for (_, id, live) in candidates {
            self.delete_one(&id, live, &owner, &mut left).await;
        }
        Ok(left)
    }

    /// What the labels find, wherever the custom resource says that members may be, and what the record lists, though
    /// somebody took its label off. Each with its place in the order of the last apply.
    async fn find_members(
        &self,
        release: &Release,
        owner: &Owner,
    ) -> Result<Vec<((u8, usize), ObjectId, Live)>, Error> {
        let discovery = &self.context.discovery;
        let recorded = Superset::of_objects(release.record.entries.iter().map(|entry| &entry.id));
        let superset = Superset::of_resource(&self.written).union(recorded);
        if superset
            .kinds
            .iter()
            .any(|kind| discovery.snapshot().preferred(kind).is_none())
        {
            // A kind may have come since; one that is still unknown while discovery is complete has no objects.
            discovery.refresh().await?;
        }
        let snapshot = discovery.snapshot();
        let position = |id: &ObjectId| {
            let index = release.record.entries.iter().position(|entry| entry.id == *id);
            (Stage::of(&id.group_kind) as u8, index.unwrap_or(usize::MAX))
        };
        let mut found: BTreeMap<ObjectId, Live> = BTreeMap::new();
        for kind in &superset.kinds {
            let Some(resource) = snapshot.preferred(kind) else {
                if !snapshot.is_complete() {
                    let message = format!(
                        "{kind} is not served, and these API groups do not answer: {}",
                        snapshot.failed.join(", ")
                    );
                    return Err(Error::Unavailable(message));
                }
                continue;
            };
            let scopes: Vec<Option<&str>> = match resource.namespaced {
                true => superset.namespaces.iter().map(|name| Some(name.as_str())).collect(),
                false => vec![None],
            };
            for scope in scopes {
                for (namespace, name, live) in objects::list_set(discovery, resource, scope, &owner.set).await? {
                    found.insert(ObjectId::new(kind.clone(), namespace, name), live);
                }
            }
        }
        for entry in &release.record.entries {
            if found.contains_key(&entry.id) {
                continue;
            }
            let Some(resource) = snapshot.preferred(&entry.id.group_kind) else {
                continue;
            };
            if let Some(live) = objects::look(discovery, resource, &entry.id).await? {
                found.insert(entry.id.clone(), live);
            }
        }
        Ok(found.into_iter().map(|(id, live)| (position(&id), id, live)).collect())
    }

    async fn delete_one(&self, id: &ObjectId, live: Live, owner: &Owner, left: &mut Left) {
        let snapshot = self.context.discovery.snapshot();
        let Some(resource) = snapshot.preferred(&id.group_kind) else {
            return;
        };
        match self.dispose(resource, id, &live, owner, false).await {
            Disposed::Deleted | Disposed::Going => left.going.push(id.to_string()),
            Disposed::Left | Disposed::Held => {}
            Disposed::Failed(message) => left.failures.push(message),
        }
    }
}

fn waiting(going: Vec<String>) -> Phase {
    Phase::Waiting {
        reason: Reason::Terminating,
        message: format!("waiting until all members are gone: {}", list(going)),
        changes: Default::default(),
        gap: None,
        held: None,
    }
}
