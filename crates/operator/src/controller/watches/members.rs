//! Member watches: one per kind and namespace scope that a release uses, selected by the operator's label. They maintain the
//! index of live members, and wake the release of a changed member.

use std::collections::HashSet;
use std::sync::Arc;

use api_objects::{MetadataOnly, Whole};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::core::ObjectMeta;

use super::scopes::{WatchPurpose, fail};
use super::stream::{WatchItem, watch};
use crate::cluster::discovery::Resource;
use crate::cluster::objects;
use crate::reconcile::Context;
use chartwright_core::health::has_health;
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::applyset;
use chartwright_core::index::live::Live;
use chartwright_core::index::members::Scope;

/// Watches one scope until aborted. `resource`: its kind, in the watched version.
pub async fn scope_watch(context: Arc<Context>, scope: Scope, resource: Option<Resource>) {
    let Some(resource) = &resource else { return };
    if !resource.watchable {
        let error = "the API server does not let this kind be watched".to_owned();
        context.members().set_failing(&scope, error, Timestamp::now());
        return;
    }
    let labels = format!("{}={}", applyset::OPERATOR_LABEL, context.settings.operator);
    let namespace = scope.namespace.as_deref();
    if has_health(&scope.group_kind.group, &scope.group_kind.kind) {
        let api = resource.api_in::<Whole>(&context.client, namespace);
        let stream = watch(api, Some(&labels), false);
        follow(&context, &scope, stream, objects::live_with_health).await;
    } else {
        let api = resource.api_in::<MetadataOnly>(&context.client, namespace);
        let stream = watch(api, Some(&labels), true);
        follow(&context, &scope, stream, |_, object| objects::live(&object.metadata)).await;
    }
}

/// Updates the index from one watch. `live` reduces an object for the index.
async fn follow<K: kube::Resource>(
    context: &Context,
    scope: &Scope,
    stream: impl Stream<Item = WatchItem<K>>,
    live: impl Fn(&ObjectId, &K) -> Live,
) {
    let id_of = |metadata: &ObjectMeta| objects::id_of(&scope.group_kind, metadata);
    let mut stream = std::pin::pin!(stream);
    let mut seen: HashSet<ObjectId> = HashSet::new();
    // Releases whose members differ in a list: each is notified once, at its end.
    let mut listed: HashSet<String> = HashSet::new();
    while let Some(news) = stream.next().await {
        let sets = match news {
            WatchItem::ListStarts => {
                seen.clear();
                context.members().list_starts(scope);
                continue;
            }
            WatchItem::Listed(object) => {
                let id = id_of(object.meta());
                let live = live(&id, &object);
                listed.extend(context.members().listed(scope, &id, live));
                seen.insert(id);
                continue;
            }
            WatchItem::Changed(object) => {
                let id = id_of(object.meta());
                let live = live(&id, &object);
                context.members().observe(&id, live)
            }
            WatchItem::Deleted(object) => context.members().remove(&id_of(object.meta())),
            WatchItem::ListEnds { proven } => {
                listed.extend(context.members().retain(scope, &seen));
                seen = HashSet::new();
                let mut sets: Vec<String> = std::mem::take(&mut listed).into_iter().collect();
                if proven {
                    sets.extend(works(context, scope));
                }
                sets
            }
            WatchItem::Unreadable(unreadable) => {
                // It exists; nothing else is known.
                seen.insert(id_of(&unreadable));
                context.metrics.watch_errors.count_unreadable(&scope.group_kind.kind);
                continue;
            }
            WatchItem::Steady => works(context, scope),
            WatchItem::Failed {
                error,
                listing,
                refused,
            } => {
                context.metrics.watch_errors.count_failure(&scope.group_kind.kind);
                tracing::warn!(kind = %scope.group_kind, namespace = scope.namespace, %error, "watch failed; trying again");
                if !listing && refused.is_none() {
                    continue;
                }
                fail(context, WatchPurpose::Members, scope, error, refused)
            }
        };
        context.notify(&sets);
        // Forget finished Jobs of unknown releases.
        if scope.group_kind.kind == "Job" {
            for set in sets.iter().filter(|set| !context.knows(set)) {
                context.members().take_finished(set);
            }
        }
    }
}

/// Marks a scope as synced: absent members are gone. Returns the ApplySets to notify.
fn works(context: &Context, scope: &Scope) -> Vec<String> {
    let sets = context.members().set_synced(scope);
    context.count_failing(&scope.group_kind);
    context.synced.notify_waiters();
    sets
}
