//! Finds the release that the labels of an object name.

use futures::stream::{StreamExt as _, iter};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use chartwright_core::identity::ObjectId;
use chartwright_core::report::member::{is_marked, named_owner, release_selector};
use chartwright_operator::cluster::connection::bounded;
use chartwright_operator::cluster::discovery::Snapshot;
use chartwright_watches::names::is_built_in;

/// Kinds that are searched concurrently.
const AT_ONCE: usize = 8;

/// The release that the labels of an object name. `None`: the object is not marked, or the release was not found.
pub(super) async fn find_named_release(client: &Client, snapshot: &Snapshot, object: &Value) -> Option<ObjectId> {
    if !is_marked(object) {
        return None;
    }
    if let Some(mut owner) = named_owner(object) {
        let resource = snapshot.preferred(&owner.group_kind);
        if resource.is_some_and(|resource| !resource.namespaced) {
            owner.namespace.clear();
        }
        return Some(owner);
    }
    let selector = release_selector(object)?;
    let kinds = snapshot
        .kinds()
        .filter(|(kind, resource)| resource.watchable && !is_built_in(&kind.group));
    let searched = kinds.map(|(kind, resource)| {
        let api: Api<DynamicObject> = resource.api_in(client, None);
        let parameters = ListParams::default().labels(&selector).limit(1);
        async move {
            let listed = bounded(api.list_metadata(&parameters)).await.ok()?;
            let metadata = listed.items.into_iter().next()?.metadata;
            Some(ObjectId::new(
                kind.clone(),
                metadata.namespace.unwrap_or_default(),
                metadata.name?,
            ))
        }
    });
    let mut found: Vec<ObjectId> = iter(searched)
        .buffer_unordered(AT_ONCE)
        .filter_map(|found| async { found })
        .collect()
        .await;
    // Several carry a copied label: none of them is named.
    if found.len() == 1 { found.pop() } else { None }
}
