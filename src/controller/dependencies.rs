//! Watches of what releases depend on: metadata only, for the versions are enough to tell that a render may be old.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt;
use kube::core::ObjectMeta;

use super::scopes::{Purpose, fail};
use super::watching::{News, watch};
use crate::cluster::decoding::MetadataOnly;
use crate::cluster::discovery::Resource;
use crate::plan::members::Scope;
use crate::reconcile::Context;

/// Watches one scope until it is aborted. `resource`: its kind, in the version that is watched.
pub async fn scope_watch(context: Arc<Context>, scope: Scope, resource: Option<Resource>) {
    let Some(resource) = resource.filter(|resource| resource.watchable) else {
        context.dependencies().set_failing(&scope, false);
        return;
    };
    let api = resource.api_in::<MetadataOnly>(&context.client, scope.namespace.as_deref());
    let mut stream = std::pin::pin!(watch(api, None, true));
    let mut seen = HashSet::new();
    let list = |metadata: &ObjectMeta, seen: &mut HashSet<_>| {
        let (namespace, name, version) = facts(metadata);
        seen.insert((namespace.to_owned(), name.to_owned()));
        context.dependencies().observe(&scope, namespace, name, version)
    };
    while let Some(news) = stream.next().await {
        let sets = match news {
            News::ListStarts => {
                seen.clear();
                continue;
            }
            News::Listed(object) => list(&object.metadata, &mut seen),
            News::Changed(object) => {
                let (namespace, name, version) = facts(&object.metadata);
                context.dependencies().observe(&scope, namespace, name, version)
            }
            News::Deleted(object) => {
                let (namespace, name, _) = facts(&object.metadata);
                context.dependencies().remove(&scope, namespace, name)
            }
            News::ListEnds { proven } => {
                let sets = match proven {
                    true => context.dependencies().listed(&scope, &seen),
                    false => context.dependencies().retain(&scope, &seen),
                };
                // It may take the place of others.
                context.wanted.notify_one();
                seen = HashSet::new();
                context.count_failing(&scope.group_kind);
                context.synced.notify_waiters();
                sets
            }
            News::Unreadable(unreadable) => {
                context.metrics.unreadable(&scope.group_kind.kind);
                list(&unreadable, &mut seen)
            }
            News::Steady => {
                let sets = context.dependencies().trust(&scope);
                context.wanted.notify_one();
                context.count_failing(&scope.group_kind);
                sets
            }
            News::Failed {
                error,
                listing,
                refused,
            } => {
                context.metrics.watch_failed(&scope.group_kind.kind);
                tracing::warn!(
                    kind = %scope.group_kind, namespace = scope.namespace, %error,
                    "what templates look up cannot be watched: they are rendered at every look; trying again"
                );
                if !listing && refused.is_none() {
                    continue;
                }
                fail(&context, Purpose::Dependencies, &scope, error, refused)
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
