//! Watches of what releases depend on: metadata only, for the versions are enough to tell that a render may be old.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use kube::core::ObjectMeta;

use super::shared::Shared;
use super::watching::{News, TOLD, watch};
use crate::cluster::decoding::MetadataOnly;
use crate::cluster::discovery::Resource;
use crate::plan::members::Scope;

/// Watches one scope until it is aborted. `resource`: its kind, in the version that is watched.
pub async fn scope_watch(shared: Arc<Shared>, scope: Scope, resource: Option<Resource>) {
    let Some(resource) = resource.filter(|resource| resource.watchable) else {
        shared.context.dependencies().set_failing(&scope, false);
        return;
    };
    let api = resource.api_in::<MetadataOnly>(&shared.context.client, scope.namespace.as_deref());
    let mut stream = std::pin::pin!(watch(api, None, true));
    let mut seen = HashSet::new();
    // It was refused after a list that was not: another list alone doesn't prove that it works again.
    let mut shaky = false;
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
                index.dependencies().observe(&scope, namespace, name, version)
            }
            News::Changed(object) => {
                let (namespace, name, version) = facts(&object.metadata);
                index.dependencies().observe(&scope, namespace, name, version)
            }
            News::Deleted(object) => {
                let (namespace, name, _) = facts(&object.metadata);
                index.dependencies().remove(&scope, namespace, name)
            }
            News::ListEnds => {
                let sets = match shaky {
                    true => index.dependencies().retain(&scope, &seen),
                    false => index.dependencies().listed(&scope, &seen),
                };
                // It may take the place of others.
                index.wanted.notify_one();
                seen = HashSet::new();
                shared.count_failing(&scope.group_kind);
                shared.synced.notify_waiters();
                sets
            }
            News::Unreadable(unreadable) => {
                let (namespace, name, version) = facts(&unreadable.metadata);
                seen.insert((namespace.to_owned(), name.to_owned()));
                index.metrics.unreadable(&scope.group_kind.kind);
                index.dependencies().observe(&scope, namespace, name, version)
            }
            News::Steady if !shaky => continue,
            News::Steady => {
                shaky = false;
                let sets = index.dependencies().trust(&scope);
                index.wanted.notify_one();
                shared.count_failing(&scope.group_kind);
                sets
            }
            News::Failed {
                error,
                listing,
                refused,
            } => {
                index.metrics.watch_failed(&scope.group_kind.kind);
                tracing::warn!(
                    kind = %scope.group_kind, namespace = scope.namespace, %error,
                    "what templates look up cannot be watched: they are rendered at every look; trying again"
                );
                if refused.is_some() {
                    shaky = !listing;
                }
                if !listing && refused.is_none() {
                    continue;
                }
                let mut dependencies = index.dependencies();
                if dependencies.set_refused(&scope, error, Timestamp::now()) {
                    index.wanted.notify_one();
                }
                let sets = match refused.is_some_and(|refused| refused >= TOLD) {
                    true => dependencies.tell_failing(&scope),
                    false => Vec::new(),
                };
                drop(dependencies);
                shared.count_failing(&scope.group_kind);
                shared.synced.notify_waiters();
                sets
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
