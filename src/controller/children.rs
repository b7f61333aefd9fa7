//! Child watches: one for each kind and namespace scope that a release uses, selected by the operator's label. They keep
//! the index of live members and wake the release whose member changed.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use jiff::Timestamp;

use super::shared::Shared;
use super::watching::{News, TOLD, watch};
use crate::cluster::decoding::{MetadataOnly, Whole};
use crate::cluster::discovery::Resource;
use crate::cluster::objects;
use crate::plan::applyset;
use crate::plan::health::has_health;
use crate::plan::identity::ObjectId;
use crate::plan::members::{Live, Scope};

/// Watches one scope until it is aborted. `resource`: its kind, in the version that is watched.
pub async fn scope_watch(shared: Arc<Shared>, scope: Scope, resource: Option<Resource>) {
    let Some(resource) = &resource else { return };
    if !resource.watchable {
        let error = "the API server does not let this kind be watched".to_owned();
        shared.context.members().set_failing(&scope, error, Timestamp::now());
        return;
    }
    let labels = format!("{}={}", applyset::OPERATOR_LABEL, shared.context.operator);
    let namespace = scope.namespace.as_deref();
    if has_health(&scope.group_kind.group, &scope.group_kind.kind) {
        let api = resource.api_in::<Whole>(&shared.context.client, namespace);
        let stream = watch(api, Some(&labels), false)
            .map(|news| news.map(|object, id: &ObjectId| objects::live_with_health(id, &object), &scope));
        follow(&shared, &scope, stream).await;
    } else {
        let api = resource.api_in::<MetadataOnly>(&shared.context.client, namespace);
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
            let id = objects::id_of(&scope.group_kind, object.meta());
            let live = live(object, &id);
            (id, live)
        };
        match self {
            News::ListStarts => News::ListStarts,
            News::ListEnds => News::ListEnds,
            News::Listed(object) => News::Listed(member(object)),
            News::Changed(object) => News::Changed(member(object)),
            News::Deleted(object) => News::Deleted(member(object)),
            News::Unreadable(unreadable) => News::Unreadable(unreadable),
            News::Failed {
                error,
                listing,
                refused,
            } => News::Failed {
                error,
                listing,
                refused,
            },
            News::Steady => News::Steady,
        }
    }
}

/// Keeps the index up to date with one watch.
async fn follow(shared: &Shared, scope: &Scope, stream: impl Stream<Item = News<Member>>) {
    let mut stream = std::pin::pin!(stream);
    let mut seen: HashSet<ObjectId> = HashSet::new();
    // Whose members a list shows otherwise than they were known: each hears of all of them at once, at its end.
    let mut listed: HashSet<String> = HashSet::new();
    let mut synced = false;
    // It was refused after a list that was not: another list alone doesn't prove that it works again.
    let mut shaky = false;
    while let Some(news) = stream.next().await {
        let sets = match news {
            News::ListStarts => {
                seen.clear();
                shared.context.members().list_starts(scope);
                continue;
            }
            News::Listed((id, live)) => {
                seen.insert(id.clone());
                listed.extend(shared.context.members().listed(scope, &id, live));
                continue;
            }
            News::Changed((id, live)) => shared.context.members().observe(&id, live),
            News::Deleted((id, _)) => shared.context.members().remove(&id),
            News::ListEnds => {
                listed.extend(shared.context.members().retain(scope, &seen));
                seen = HashSet::new();
                let mut sets: Vec<String> = std::mem::take(&mut listed).into_iter().collect();
                if !shaky {
                    synced = true;
                    sets.extend(works(shared, scope));
                }
                sets
            }
            News::Unreadable(unreadable) => {
                // It is there, and nothing else is known of it.
                seen.insert(objects::id_of(&scope.group_kind, &unreadable.metadata));
                shared.context.metrics.unreadable(&scope.group_kind.kind);
                continue;
            }
            News::Steady => {
                shaky = false;
                match synced {
                    true => continue,
                    false => {
                        synced = true;
                        works(shared, scope)
                    }
                }
            }
            News::Failed {
                error,
                listing,
                refused,
            } => {
                shared.context.metrics.watch_failed(&scope.group_kind.kind);
                tracing::warn!(kind = %scope.group_kind, namespace = scope.namespace, %error, "watch failed; trying again");
                if refused.is_some() {
                    shaky = !listing;
                }
                synced &= refused.is_none() && !listing;
                if synced {
                    continue;
                }
                let mut members = shared.context.members();
                members.set_failing(scope, error, Timestamp::now());
                let sets = match refused.is_some_and(|refused| refused >= TOLD) {
                    true => members.tell_failing(scope),
                    false => Vec::new(),
                };
                drop(members);
                shared.count_failing(&scope.group_kind);
                sets
            }
        };
        shared.router.notify(&sets);
        // Of what nobody's release asks any more, nothing is remembered.
        if scope.group_kind.kind == "Job" {
            for set in sets.iter().filter(|set| !shared.router.knows(set)) {
                shared.context.members().take_finished(set);
            }
        }
    }
}

/// From now on what a scope does not show is gone. Returns the sets that must hear of it.
fn works(shared: &Shared, scope: &Scope) -> Vec<String> {
    let sets = shared.context.members().set_synced(scope);
    shared.count_failing(&scope.group_kind);
    shared.synced.notify_waiters();
    sets
}
