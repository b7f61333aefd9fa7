//! Carries out a verdict on one object: what a prune and a deletion have in common.

use futures::StreamExt;

use crate::cluster::discovery::Resource;
use crate::cluster::objects::{self, DeleteOutcome};
use crate::reconcile::scope::ReleaseScope;
use crate::telemetry::metrics::Operation;
use chartwright_core::apply::sequence::Turn;
use chartwright_core::identity::ObjectId;
use chartwright_core::index::members::Live;
use chartwright_core::prune::{Purpose, Verdict, verdict};

/// An object that changes between every look and the delete that follows is left for the next reconcile after so many.
const TRIES: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RemovalOutcome {
    Deleted,
    /// It was being deleted already.
    Going,
    Absent,
    /// Ours no longer, or never: it stays.
    Left,
    /// A guard holds it back. Only a prune meets this.
    Held,
    Failed(String),
}

pub(crate) enum RemovalCandidate {
    /// Read for this very purpose.
    Read(Live),
    /// As its watch showed it last. This is enough to delete it, because the API server compares the version. It is not
    /// enough to decide that it stays.
    Watched(Live),
    Unknown,
}

impl RemovalCandidate {
    /// The wave that the object says it is of; `None` if it wasn't looked at.
    pub(crate) fn wave(&self) -> Option<i32> {
        match self {
            RemovalCandidate::Read(live) | RemovalCandidate::Watched(live) => Some(live.wave),
            RemovalCandidate::Unknown => None,
        }
    }

    /// True if a hook made it.
    pub(crate) fn is_of_hook(&self) -> bool {
        match self {
            RemovalCandidate::Read(live) | RemovalCandidate::Watched(live) => live.is_of_hook,
            RemovalCandidate::Unknown => false,
        }
    }
}

/// What became of all objects of a removal, or of those before one that has to wait.
#[derive(Default)]
#[must_use = "what could not be deleted must stay in the record"]
pub(crate) struct RemovalResult {
    pub deleted: Vec<ObjectId>,
    /// Deleted now or before, and perhaps not gone yet.
    pub open: Vec<ObjectId>,
    /// Absent, or no longer ours.
    pub left: Vec<ObjectId>,
    pub held: Vec<ObjectId>,
    pub failures: Vec<String>,
    /// Others have to wait until these are gone.
    pub awaited: Option<Vec<ObjectId>>,
}

impl RemovalResult {
    fn note(&mut self, id: ObjectId, disposed: RemovalOutcome) {
        match disposed {
            RemovalOutcome::Deleted => {
                self.deleted.push(id.clone());
                self.open.push(id);
            }
            RemovalOutcome::Going => self.open.push(id),
            RemovalOutcome::Absent | RemovalOutcome::Left => self.left.push(id),
            RemovalOutcome::Held => self.held.push(id),
            RemovalOutcome::Failed(message) => self.failures.push(message),
        }
    }
}

/// Objects of one release that are disposed of at the same time. They begin in order.
const AT_ONCE: usize = 8;

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
    /// Carries out a removal, as far as nothing has to be waited for. A deletion goes no further than the turn in which
    /// something failed; a prune no further than the next wait.
    pub(crate) async fn remove(
        &self,
        turns: Vec<Turn<(ObjectId, RemovalCandidate)>>,
        purpose: Purpose,
    ) -> RemovalResult {
        let mut removed = RemovalResult::default();
        // How much there was of what is open, and of failures, before the last turn.
        let (mut open, mut failures) = (0, 0);
        for turn in turns {
            match turn {
                Turn::Members(items) => {
                    (open, failures) = (removed.open.len(), removed.failures.len());
                    for (id, disposed) in self.dispose_all(items, purpose).await {
                        removed.note(id, disposed);
                    }
                    if !matches!(purpose, Purpose::Prune | Purpose::Rollback) && !removed.failures.is_empty() {
                        break;
                    }
                }
                Turn::Wait if removed.open.len() > open || removed.failures.len() > failures => {
                    removed.awaited = Some(removed.open[open..].to_vec());
                    break;
                }
                Turn::Wait => {}
            }
        }
        removed
    }

    /// Answers in the order of the candidates.
    async fn dispose_all(
        &self,
        candidates: Vec<(ObjectId, RemovalCandidate)>,
        purpose: Purpose,
    ) -> Vec<(ObjectId, RemovalOutcome)> {
        let snapshot = &self.scope.context.discovery.snapshot();
        let all = candidates.into_iter().map(|(id, candidate)| async move {
            let disposed = match snapshot.served(&id.group_kind) {
                Ok(Some(resource)) => self.dispose(resource, &id, candidate, purpose).await,
                // Its kind is gone, and all objects with it.
                Ok(None) => RemovalOutcome::Absent,
                Err(unknown) => RemovalOutcome::Failed(format!("{id}: {unknown}")),
            };
            (id, disposed)
        });
        futures::stream::iter(all).buffered(AT_ONCE).collect().await
    }

    async fn dispose(
        &self,
        resource: &Resource,
        id: &ObjectId,
        candidate: RemovalCandidate,
        purpose: Purpose,
    ) -> RemovalOutcome {
        let client = &self.scope.context.client;
        let kind = &id.group_kind.kind;
        let failed = |error: &dyn std::fmt::Display| RemovalOutcome::Failed(format!("{id}: {error}"));
        // Only the complete object shows whether claims are deleted with it.
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
                Verdict::Delete => {
                    let request = objects::delete(client, resource, id, &live).await;
                    (request, Operation::Delete, RemovalOutcome::Deleted)
                }
                Verdict::Release => {
                    let request = objects::release_member(client, resource, id, &live).await;
                    (request, Operation::Release, RemovalOutcome::Left)
                }
                Verdict::Disown => {
                    let request = objects::remove_owner_reference(client, resource, id, &live).await;
                    (request, Operation::Metadata, RemovalOutcome::Left)
                }
                Verdict::Going => return RemovalOutcome::Going,
                _ if !was_read => continue,
                Verdict::Hold => return RemovalOutcome::Held,
                Verdict::Stay => return RemovalOutcome::Left,
                verdict @ (Verdict::Leave(_) | Verdict::Controlled(_)) => {
                    tracing::info!(object = %id, ?verdict, "not deleted");
                    return RemovalOutcome::Left;
                }
            };
            match request {
                Ok(DeleteOutcome::Accepted) => {
                    self.scope.context.metrics.wrote(kind, operation);
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
        failed(&"it changes all the time")
    }
}
