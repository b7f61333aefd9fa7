//! Watches of what templates look up: metadata only, for the versions are enough to tell that a render may be old.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::core::ObjectMeta;

use super::shared::Shared;
use super::watching::{News, watch};
use crate::plan::members::Scope;

/// Watches one scope until it is aborted.
pub async fn scope_watch(shared: Arc<Shared>, scope: Scope) {
    let snapshot = shared.context.discovery.snapshot();
    let Some(resource) = snapshot
        .preferred(&scope.group_kind)
        .filter(|resource| resource.watchable)
    else {
        shared.context.looked_up().set_failing(&scope);
        return;
    };
    let api = shared
        .context
        .discovery
        .api::<PartialObjectMeta<DynamicObject>>(resource, scope.namespace.as_deref());
    let mut stream = std::pin::pin!(watch(api, None, true));
    let mut seen = HashSet::new();
    while let Some(news) = stream.next().await {
        let index = &shared.context;
        let sets = match news {
            News::ListStarts => {
                seen.clear();
                continue;
            }
            News::Listed(object) => {
                let (namespace, name, version) = facts(&object.metadata);
                seen.insert((namespace.to_owned(), name.to_owned()));
                index.looked_up().observe(&scope, namespace, name, version)
            }
            News::Changed(object) => {
                let (namespace, name, version) = facts(&object.metadata);
                index.looked_up().observe(&scope, namespace, name, version)
            }
            News::Deleted(object) => {
                let (namespace, name, _) = facts(&object.metadata);
                index.looked_up().remove(&scope, namespace, name)
            }
            News::ListEnds => {
                let sets = index.looked_up().listed(&scope, &seen);
                seen = HashSet::new();
                shared.synced.notify_waiters();
                sets
            }
            News::Failed { error, listing } => {
                index.metrics.watch_failed(&scope.group_kind.kind);
                tracing::warn!(
                    kind = %scope.group_kind, namespace = scope.namespace, %error,
                    "what templates look up cannot be watched: they are rendered at every look; trying again"
                );
                if listing {
                    index.looked_up().set_failing(&scope);
                    shared.synced.notify_waiters();
                }
                continue;
            }
        };
        shared.router.notify(&sets);
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
