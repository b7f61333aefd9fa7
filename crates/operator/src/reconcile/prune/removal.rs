//! Deletes members or removes our marks from them, for prunes and deletions.

use std::time::Duration;

use futures::StreamExt;

use crate::cluster::discovery::Resource;
use crate::cluster::error::Error;
use crate::cluster::objects::{self, DeleteOutcome};
use crate::reconcile::scope::ReleaseScope;
use crate::telemetry::metrics::WriteOperation;
use chartwright_core::apply::sequence::SequenceTurn;
use chartwright_core::identity::ObjectId;
use chartwright_core::index::live::Live;
use chartwright_core::prune::{PruneVerdict, Purpose, verdict};

/// How often one removal reads and deletes an object that other clients change in between.
const TRIES: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RemovalOutcome {
    Deleted,
    /// The object was already being deleted.
    Going,
    Absent,
    /// The object is not ours. It stays.
    Left,
    /// A guard holds the object. Only prunes have guards.
    Held,
    /// With the wait that the API server requested.
    Failed(String, Option<Duration>),
}

pub(crate) enum RemovalCandidate {
    /// Read from the API server for this removal.
    Read(Live),
    /// As its watch showed it last. This is enough to delete the object, because the API server compares the version.
    /// It is not enough to decide that the object stays.
    Watched(Live),
    Unknown,
}

impl RemovalCandidate {
    /// The wave in the object's annotation. `None` if the object is not read yet.
    pub(crate) fn wave(&self) -> Option<i32> {
        match self {
            RemovalCandidate::Read(live) | RemovalCandidate::Watched(live) => Some(live.marks.wave),
            RemovalCandidate::Unknown => None,
        }
    }

    /// True if a hook created the object.
    pub(crate) fn is_of_hook(&self) -> bool {
        match self {
            RemovalCandidate::Read(live) | RemovalCandidate::Watched(live) => live.marks.is_of_hook,
            RemovalCandidate::Unknown => false,
        }
    }
}

/// The results of a removal, up to the first turn that has to wait.
#[derive(Default)]
#[must_use = "objects that could not be deleted must stay in the record"]
pub(crate) struct RemovalResult {
    pub deleted: Vec<ObjectId>,
    /// Deleted now or earlier; finalizers may still block them.
    pub open: Vec<ObjectId>,
    /// Absent, or no longer ours.
    pub left: Vec<ObjectId>,
    pub held: Vec<ObjectId>,
    pub failures: Vec<String>,
    /// The longest wait that the API server requested.
    pub retry_after: Option<Duration>,
    /// The next turn waits until these are gone.
    pub awaited: Option<Vec<ObjectId>>,
}

impl RemovalResult {
    fn note(&mut self, id: ObjectId, outcome: RemovalOutcome) {
        match outcome {
            RemovalOutcome::Deleted => {
                self.deleted.push(id.clone());
                self.open.push(id);
            }
            RemovalOutcome::Going => self.open.push(id),
            RemovalOutcome::Absent | RemovalOutcome::Left => self.left.push(id),
            RemovalOutcome::Held => self.held.push(id),
            RemovalOutcome::Failed(message, requested) => {
                self.failures.push(message);
                self.retry_after = self.retry_after.max(requested);
            }
        }
    }
}

/// How many objects of one release are deleted concurrently. The requests start in order.
const CONCURRENCY: usize = 8;

/// Deletes members, or removes our marks from them.
pub(crate) struct MemberRemover<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> MemberRemover<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        MemberRemover { scope }
    }
}

impl MemberRemover<'_> {
    /// Removes the objects turn by turn until a turn has to wait. A deletion also stops after a turn with a failure.
    pub(crate) async fn remove(
        &self,
        turns: Vec<SequenceTurn<(ObjectId, RemovalCandidate)>>,
        purpose: Purpose,
    ) -> RemovalResult {
        let mut removed = RemovalResult::default();
        // The numbers of open objects and of failures before the last turn.
        let (mut open, mut failures) = (0, 0);
        for turn in turns {
            match turn {
                SequenceTurn::Members(items) => {
                    (open, failures) = (removed.open.len(), removed.failures.len());
                    for (id, outcome) in self.delete_or_release_all(items, purpose).await {
                        removed.note(id, outcome);
                    }
                    if !matches!(purpose, Purpose::Prune | Purpose::Rollback) && !removed.failures.is_empty() {
                        break;
                    }
                }
                SequenceTurn::Wait if removed.open.len() > open || removed.failures.len() > failures => {
                    removed.awaited = Some(removed.open[open..].to_vec());
                    break;
                }
                SequenceTurn::Wait => {}
            }
        }
        removed
    }

    /// Returns the outcomes in the order of the candidates.
    async fn delete_or_release_all(
        &self,
        candidates: Vec<(ObjectId, RemovalCandidate)>,
        purpose: Purpose,
    ) -> Vec<(ObjectId, RemovalOutcome)> {
        let snapshot = &self.scope.context.discovery.snapshot();
        let all = candidates.into_iter().map(|(id, candidate)| async move {
            let outcome = match snapshot.served(&id.group_kind) {
                Ok(Some(resource)) => self.delete_or_release(resource, &id, candidate, purpose).await,
                // The kind is not installed, so no object of it exists.
                Ok(None) => RemovalOutcome::Absent,
                Err(unknown) => RemovalOutcome::Failed(format!("{id}: {unknown}"), unknown.retry_after()),
            };
            (id, outcome)
        });
        futures::stream::iter(all).buffered(CONCURRENCY).collect().await
    }

    /// Deletes one object, or removes our marks from it.
    async fn delete_or_release(
        &self,
        resource: &Resource,
        id: &ObjectId,
        candidate: RemovalCandidate,
        purpose: Purpose,
    ) -> RemovalOutcome {
        let client = &self.scope.client;
        let kind = &id.group_kind.kind;
        let failed = |error: &Error| RemovalOutcome::Failed(format!("{id}: {error}"), error.retry_after());
        // Only the complete object shows whether PersistentVolumeClaims are deleted with it.
        let is_read_whole = matches!(purpose, Purpose::Prune | Purpose::Rollback) && kind == "StatefulSet";
        let mut candidate = candidate;
        for _ in 0..TRIES {
            let (live, was_read) = match candidate {
                _ if is_read_whole => match objects::read(client, resource, id).await {
                    Ok(Some((live, _))) => (live, true),
                    Ok(None) => return RemovalOutcome::Absent,
                    Err(error) => return failed(&error),
                },
                RemovalCandidate::Read(live) => (live, true),
                RemovalCandidate::Watched(live) => (live, false),
                RemovalCandidate::Unknown => match objects::read_live(client, resource, id).await {
                    Ok(Some(live)) => (live, true),
                    Ok(None) => return RemovalOutcome::Absent,
                    Err(error) => return failed(&error),
                },
            };
            candidate = RemovalCandidate::Unknown;
            let (request, operation, done) = match verdict(id, &live, &self.scope.owner, purpose) {
                PruneVerdict::Delete => {
                    let request = objects::delete(client, resource, id, &live).await;
                    (request, WriteOperation::Delete, RemovalOutcome::Deleted)
                }
                PruneVerdict::Release => {
                    let kept_from = Some(self.scope.owner.set.as_str()).filter(|_| purpose != Purpose::Orphan);
                    let request = objects::release_member(client, resource, id, &live, kept_from).await;
                    (request, WriteOperation::Release, RemovalOutcome::Left)
                }
                PruneVerdict::Disown => {
                    let request = objects::remove_owner_reference(client, resource, id, &live).await;
                    (request, WriteOperation::Metadata, RemovalOutcome::Left)
                }
                PruneVerdict::Going => return RemovalOutcome::Going,
                _ if !was_read => continue,
                PruneVerdict::Hold => return RemovalOutcome::Held,
                PruneVerdict::Stay => return RemovalOutcome::Left,
                verdict @ (PruneVerdict::Leave(_) | PruneVerdict::Controlled(_)) => {
                    tracing::info!(object = %id, ?verdict, "not deleted");
                    if matches!(purpose, Purpose::Prune | Purpose::Rollback) {
                        return RemovalOutcome::Left;
                    }
                    // The garbage collector would delete it with the custom resource.
                    match objects::remove_reference_to(client, resource, id, &self.scope.owner.uid).await {
                        Ok(DeleteOutcome::Changed) => continue,
                        Ok(_) => return RemovalOutcome::Left,
                        Err(error) => return failed(&error),
                    }
                }
            };
            match request {
                Ok(DeleteOutcome::Accepted) => {
                    self.scope.context.metrics.objects.wrote(kind, operation);
                    if done == RemovalOutcome::Deleted {
                        self.scope.context.members().is_going(id, &live.uid);
                    }
                    return done;
                }
                Ok(DeleteOutcome::Absent) => return RemovalOutcome::Absent,
                Ok(DeleteOutcome::Changed) => {}
                Err(error) => return failed(&error),
            }
        }
        let message = format!("{id}: other clients changed it during each attempt to delete it");
        RemovalOutcome::Failed(message, None)
    }
}
