//! Child watches: one for each kind and namespace scope that a release uses, selected by the operator's label. They keep
//! the index of live members and wake the release whose member changed.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::core::ObjectMeta;

use super::shared::Shared;
use super::watching::{News, watch};
use crate::cluster::objects;
use crate::plan::applyset;
use crate::plan::health::has_health;
use crate::plan::identity::ObjectId;
use crate::plan::members::{Live, Scope};

/// Watches one scope until it is aborted.
pub async fn scope_watch(shared: Arc<Shared>, scope: Scope) {
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
