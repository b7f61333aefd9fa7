//! Child watches: one for each kind and namespace scope that a release uses, selected by the operator's label. They keep
//! the index of live members and wake the release whose member changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::core::ObjectMeta;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::watching::{News, watch};
use crate::cluster::objects;
use crate::plan::applyset;
use crate::plan::health::has_health;
use crate::plan::identity::ObjectId;
use crate::plan::members::{Live, Scope};

/// A watch that panics at once again must not spin.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Starts a watch for every scope that is wanted, and ends those of kinds that are no longer served. Runs until told to
/// stop.
pub async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    let mut running: HashMap<Scope, AbortHandle> = HashMap::new();
    let mut served = shared.context.discovery.subscribe();
    loop {
        end_unserved(&shared, &mut running);
        let wanted: Vec<Scope> = shared.context.members().wanted().cloned().collect();
        for scope in wanted {
            running
                .entry(scope)
                .or_insert_with_key(|scope| tasks.spawn(scope_watch(shared.clone(), scope.clone())));
        }
        shared
            .context
            .metrics
            .watches
            .set(i64::try_from(running.len()).unwrap_or(i64::MAX));
        tokio::select! {
            () = stop.cancelled() => break,
            () = shared.context.wanted.notified() => {}
            changed = served.changed() => if changed.is_err() { break },
            Some(Err(panic)) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                // An aborted watch was ended on purpose and is no longer listed; one that panicked begins anew.
                running.retain(|scope, task| {
                    let panicked = task.id() == panic.id();
                    if panicked {
                        tracing::error!(kind = %scope.group_kind, %panic, "a watch panicked; it starts anew");
                        shared.context.members().set_failing(scope, "it panicked".to_owned());
                    }
                    !panicked
                });
                tokio::time::sleep(AFTER_PANIC).await;
            }
        }
    }
    tasks.shutdown().await;
}

/// A kind that is gone from a complete discovery has no objects: its watch would fail for ever.
fn end_unserved(shared: &Shared, running: &mut HashMap<Scope, AbortHandle>) {
    let snapshot = shared.context.discovery.snapshot();
    if !snapshot.is_complete() {
        return;
    }
    running.retain(|scope, task| {
        if snapshot.preferred(&scope.group_kind).is_some() {
            return true;
        }
        task.abort();
        let sets = shared.context.members().forget(scope);
        tracing::info!(kind = %scope.group_kind, "no longer served: its watch ends");
        shared.router.notify(&sets);
        false
    });
}

async fn scope_watch(shared: Arc<Shared>, scope: Scope) {
    let snapshot = shared.context.discovery.snapshot();
    let Some(resource) = snapshot.preferred(&scope.group_kind) else {
        return;
    };
    if !resource.watchable {
        let error = "the API server does not let this kind be watched".to_owned();
        shared.context.members().set_failing(&scope, error);
        return;
    }
    let labels = format!("{}={}", applyset::OPERATOR_LABEL, shared.context.operator);
    let namespace = scope.namespace.as_deref();
    if has_health(&scope.group_kind.group, &scope.group_kind.kind) {
        let api = shared.context.discovery.api::<DynamicObject>(resource, namespace);
        let stream = watch(api, Some(&labels), false)
            .map(|news| news.map(|object, id: &ObjectId| objects::live_with_health(id, object), &scope));
        follow(&shared, &scope, stream).await;
    } else {
        let api = shared
            .context
            .discovery
            .api::<PartialObjectMeta<DynamicObject>>(resource, namespace);
        let stream = watch(api, Some(&labels), true)
            .map(|news| news.map(|object, _: &ObjectId| objects::live(&object.metadata), &scope));
        follow(&shared, &scope, stream).await;
    }
}

type Member = (ObjectId, Live);

impl<K: kube::Resource> News<K> {
    /// Reduces an object to what the index keeps, at once: the whole object is never held.
    fn map(self, live: impl Fn(K, &ObjectId) -> Live, scope: &Scope) -> News<Member> {
        let member = |object: K| {
            let id = id_of(object.meta(), scope);
            let live = live(object, &id);
            (id, live)
        };
        match self {
            News::ListStarts => News::ListStarts,
            News::ListEnds => News::ListEnds,
            News::Listed(object) => News::Listed(member(object)),
            News::Changed(object) => News::Changed(member(object)),
            News::Deleted(object) => News::Deleted(member(object)),
            News::Failed { error, listing } => News::Failed { error, listing },
        }
    }
}

fn id_of(metadata: &ObjectMeta, scope: &Scope) -> ObjectId {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectId::new(
        scope.group_kind.clone(),
        text(&metadata.namespace),
        text(&metadata.name),
    )
}

/// Keeps the index up to date with one watch.
async fn follow(shared: &Shared, scope: &Scope, stream: impl Stream<Item = News<Member>>) {
    let mut stream = std::pin::pin!(stream);
    let mut seen: HashSet<ObjectId> = HashSet::new();
    let mut synced = false;
    while let Some(news) = stream.next().await {
        let sets = match news {
            News::ListStarts => {
                seen.clear();
                continue;
            }
            News::Listed((id, live)) => {
                seen.insert(id.clone());
                shared.context.members().observe(&id, live)
            }
            News::Changed((id, live)) => shared.context.members().observe(&id, live),
            News::Deleted((id, _)) => shared.context.members().remove(&id),
            News::ListEnds => {
                synced = true;
                let mut members = shared.context.members();
                let sets = members.retain(scope, &seen);
                members.set_synced(scope);
                drop(members);
                seen = HashSet::new();
                shared.synced.notify_waiters();
                sets
            }
            News::Failed { error, listing } => {
                shared.context.metrics.watch_failed(&scope.group_kind.kind);
                tracing::warn!(kind = %scope.group_kind, namespace = scope.namespace, %error, "watch failed; trying again");
                if listing || !synced {
                    shared.context.members().set_failing(scope, error);
                }
                continue;
            }
        };
        shared.router.notify(&sets);
    }
}
