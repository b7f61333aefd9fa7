//! Dependency watches: metadata only, since a new resourceVersion shows that a render may be old. Pods are read completely if
//! a watch elects leaders.

use std::collections::HashSet;
use std::sync::Arc;

use api_objects::{MetadataOnly, Whole};
use futures::{Stream, StreamExt};
use kube::core::ObjectMeta;

use super::scopes::{WatchPurpose, fail};
use super::stream::{WatchItem, watch};
use crate::cluster::discovery::Resource;
use crate::cluster::workloads::elect;
use crate::reconcile::Context;
use chartwright_core::index::members::Scope;
use chartwright_core::leader::Pod;

/// Watches one scope until aborted. `resource`: its kind, in the watched version.
pub async fn scope_watch(context: Arc<Context>, scope: Scope, resource: Option<Resource>) {
    let Some(resource) = resource.filter(|resource| resource.watchable) else {
        context.dependencies().set_failing(&scope, false);
        return;
    };
    let namespace = scope.namespace.as_deref();
    let labels = context.pod_index().labels.clone();
    if scope.group_kind == elect::pod_kind() && !labels.is_empty() {
        context.pod_index().begin(&scope);
        let api = resource.api_in::<Whole>(&context.client, namespace);
        let pod = |object: &Whole| Some(elect::read_pod(object, &labels));
        follow(&context, &scope, watch(api, None, false), pod).await;
    } else {
        let api = resource.api_in::<MetadataOnly>(&context.client, namespace);
        follow(&context, &scope, watch(api, None, true), |_| None).await;
    }
}

/// Updates the index from one watch. `pod` extracts what an election needs.
async fn follow<K: kube::Resource>(
    context: &Context,
    scope: &Scope,
    stream: impl Stream<Item = WatchItem<K>>,
    pod: impl Fn(&K) -> Option<Pod>,
) {
    let mut stream = std::pin::pin!(stream);
    let mut seen = HashSet::new();
    let observe = |metadata: &ObjectMeta, pod: Option<Pod>| {
        let (namespace, name, version) = facts(metadata);
        let mut sets = context.dependencies().observe(scope, namespace, name, version);
        sets.extend(
            pod.into_iter()
                .flat_map(|pod| context.pod_index().observe(scope, namespace, &pod)),
        );
        sets
    };
    let list = |metadata: &ObjectMeta, pod: Option<Pod>, seen: &mut HashSet<_>| {
        let (namespace, name, _) = facts(metadata);
        seen.insert((namespace.to_owned(), name.to_owned()));
        observe(metadata, pod)
    };
    while let Some(news) = stream.next().await {
        let sets = match news {
            WatchItem::ListStarts => {
                seen.clear();
                continue;
            }
            WatchItem::Listed(object) => list(object.meta(), pod(&object), &mut seen),
            WatchItem::Changed(object) => observe(object.meta(), pod(&object)),
            WatchItem::Deleted(object) => {
                let (namespace, name, _) = facts(object.meta());
                let mut sets = context.dependencies().remove(scope, namespace, name);
                sets.extend(context.pod_index().remove(scope, namespace, name));
                sets
            }
            WatchItem::ListEnds { proven } => {
                let mut sets = if proven {
                    context.dependencies().listed(scope, &seen)
                } else {
                    context.dependencies().retain(scope, &seen)
                };
                sets.extend(context.pod_index().listed(scope, &seen, proven));
                // It may replace other watches.
                context.wanted.notify_one();
                seen = HashSet::new();
                context.count_failing(&scope.group_kind);
                context.synced.notify_waiters();
                sets
            }
            WatchItem::Unreadable(unreadable) => {
                context.metrics.watch_errors.count_unreadable(&scope.group_kind.kind);
                list(&unreadable, None, &mut seen)
            }
            WatchItem::Steady => {
                let mut sets = context.dependencies().trust(scope);
                sets.extend(context.pod_index().trust(scope));
                context.wanted.notify_one();
                context.count_failing(&scope.group_kind);
                sets
            }
            WatchItem::Failed {
                error,
                listing,
                refused,
            } => {
                context.metrics.watch_errors.count_failure(&scope.group_kind.kind);
                tracing::warn!(
                    kind = %scope.group_kind, namespace = scope.namespace, %error,
                    "what templates look up cannot be watched: they are rendered at every look; trying again"
                );
                if !listing && refused.is_none() {
                    continue;
                }
                context.pod_index().doubt(scope);
                fail(context, WatchPurpose::Dependencies, scope, error, refused)
            }
        };
        context.notify(&sets);
    }
}

/// Namespace, name and resource version.
fn facts(metadata: &ObjectMeta) -> (&str, &str, &str) {
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
        metadata.resource_version.as_deref().unwrap_or_default(),
    )
}
