//! Keeps discovery up to date. Changes of CustomResourceDefinitions and APIServices change what can be rendered, applied and
//! watched.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_objects::{MetadataOnly, Whole};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::stream::{WatchItem, watch};
use crate::reconcile::Context;
use crate::sync::lock;
use chartwright_core::crds::live::{InstalledCrds, LiveCrd};
use chartwright_core::identity::GroupKind;

/// The waits before discovery is reread after a change, each from the one before. A new CRD is served some time after it is
/// established, and appears in discovery even later.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(150),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
];
/// Changes during these waits continue from this index: usually many come together.
const FURTHER: usize = 2;

/// How often discovery is read without permission to watch CRDs and APIServices.
const POLL: Duration = Duration::from_secs(30);

/// How often discovery is read while the server of a needed group does not answer, or the API server is not ready. A group
/// returns to discovery some time after the last change of its APIService.
const POLL_INCOMPLETE: Duration = Duration::from_secs(10);

const CRD: &str = "CustomResourceDefinition";
const API_SERVICE: &str = "APIService";

/// Changes that the watches report.
#[derive(Default)]
struct ServedChanges {
    /// The served kinds may have changed.
    changed: Notify,
    /// Kinds with a failing watch.
    blind: Mutex<HashSet<&'static str>>,
}

impl ServedChanges {
    fn set_failing(&self, kind: &'static str, fails: bool) {
        let mut blind = lock(&self.blind);
        if fails {
            blind.insert(kind)
        } else {
            blind.remove(kind)
        };
    }
}

/// Hashes of the relevant parts of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ObjectHashes {
    /// The served kinds.
    served: u64,
    /// The schemas that the API server validates with.
    schema: u64,
}

/// The API group in the name of a CustomResourceDefinition or an APIService: `<plural>.<group>`, `<version>.<group>`.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

/// Runs until `stop`.
pub async fn run(context: Arc<Context>, stop: CancellationToken) {
    let changes = Arc::new(ServedChanges::default());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(follow_crds(context.clone(), changes.clone()));
    tasks.spawn(follow_api_services(context.clone(), changes.clone()));
    let mut read = true;
    let discovery = &context.discovery;
    loop {
        let is_blind = !lock(&changes.blind).is_empty();
        tokio::select! {
            () = stop.cancelled() => break,
            () = changes.changed.notified() => {}
            () = discovery.group_missed() => continue,
            () = discovery.reread_requested() => {
                read = context.refresh_discovery().await;
                continue;
            }
            () = tokio::time::sleep(POLL_INCOMPLETE), if !read || discovery.has_missed_groups() => {
                read = context.refresh_discovery().await;
                continue;
            }
            () = tokio::time::sleep(POLL), if is_blind => {
                read = context.refresh_discovery().await;
                continue;
            }
        }
        let mut looks = LOOKS.as_slice();
        while let Some((wait, rest)) = looks.split_first() {
            looks = rest;
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(*wait) => {}
            }
            read = context.refresh_discovery().await;
            if changes.changed.notified().now_or_never().is_some() {
                looks = LOOKS.get(FURTHER..).unwrap_or_default();
            }
        }
    }
    tasks.shutdown().await;
}

/// Watches CustomResourceDefinitions, and publishes what is known of them, so that unchanged CRDs of a chart need no request.
async fn follow_crds(context: Arc<Context>, changes: Arc<ServedChanges>) {
    let group_kind = GroupKind::new("apiextensions.k8s.io", CRD);
    let snapshot = context.discovery.snapshot();
    let Some(resource) = snapshot.preferred(&group_kind) else {
        context.crds.send_replace(Some(Arc::default()));
        return;
    };
    let api = resource.api_in::<MetadataOnly>(&context.client, None);
    let installed: Mutex<HashMap<String, Arc<LiveCrd>>> = Mutex::default();
    let state = |object: &MetadataOnly| {
        let metadata = &object.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        lock(&installed).insert(name.clone(), Arc::new(LiveCrd::new(metadata)));
        let state = ObjectHashes {
            // A status change may mean that it is served now.
            served: hash((&metadata.uid, &metadata.resource_version)),
            schema: hash((&metadata.uid, metadata.generation)),
        };
        (name, state)
    };
    let publish = |names: HashSet<String>| {
        // A CRD from just before the start is in the first list, but perhaps not in discovery.
        let served = context.discovery.snapshot().definitions();
        if !names.is_subset(&served) {
            changes.changed.notify_one();
        }
        let mut installed = lock(&installed);
        let mut crds = InstalledCrds::default();
        // None are published while the watch fails.
        if !names.is_empty() {
            installed.retain(|name, _| names.contains(name));
            crds.by_name.clone_from(&installed);
            crds.is_watched = true;
        }
        drop(context.crds.send_replace(Some(Arc::new(crds))));
    };
    follow(&context, CRD, watch(api, None, true), state, publish, &changes).await;
}

async fn follow_api_services(context: Arc<Context>, changes: Arc<ServedChanges>) {
    let group_kind = GroupKind::new("apiregistration.k8s.io", API_SERVICE);
    let snapshot = context.discovery.snapshot();
    let Some(resource) = snapshot.preferred(&group_kind) else {
        return;
    };
    let api = resource.api_in::<Whole>(&context.client, None);
    // While its server does not answer, its status changes often, with different messages.
    let stream = watch(api, None, false);
    follow(&context, API_SERVICE, stream, availability, |_| (), &changes).await;
}

/// The name of an APIService, and its [`ObjectHashes`].
fn availability(object: &Whole) -> (String, ObjectHashes) {
    let data = object.outline();
    let conditions = data.pointer("/status/conditions").and_then(|list| list.as_array());
    let available = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Available")
        .map(|condition| condition["status"].to_string());
    let spec = data.get("spec").map(ToString::to_string);
    let name = object.metadata.name.clone().unwrap_or_default();
    let served = hash((&object.metadata.uid, spec, available));
    // The server of the group has the schemas, and may be replaced.
    (name, ObjectHashes { served, schema: served })
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Reports relevant changes. `state` returns name and state of an object; `publish` receives the known names.
async fn follow<K>(
    context: &Context,
    kind: &'static str,
    stream: impl Stream<Item = WatchItem<K>>,
    state: impl Fn(&K) -> (String, ObjectHashes),
    publish: impl Fn(HashSet<String>),
    changes: &ServedChanges,
) {
    let mut stream = std::pin::pin!(stream);
    let mut known: HashMap<String, ObjectHashes> = HashMap::new();
    let mut seen = HashSet::new();
    let (mut listed, mut failing) = (false, false);
    let mut last_error = String::new();
    while let Some(news) = stream.next().await {
        let changed = match &news {
            WatchItem::ListStarts => {
                seen.clear();
                false
            }
            WatchItem::Steady | WatchItem::Unreadable(_) => false,
            WatchItem::Listed(object) | WatchItem::Changed(object) => {
                let (name, state) = state(object);
                if matches!(news, WatchItem::Listed(_)) {
                    seen.insert(name.clone());
                }
                let before = known.insert(name.clone(), state);
                // A late first list may contain earlier changes.
                if (listed || failing) && before.is_none_or(|before| before.schema != state.schema) {
                    context.schemas.changed(group_of(&name));
                }
                // Discovery usually contains the first list already.
                listed && before != Some(state)
            }
            WatchItem::Deleted(object) => known.remove(&state(object).0).is_some(),
            WatchItem::ListEnds { .. } => {
                let before = known.len();
                known.retain(|name, _| seen.contains(name));
                let changed = known.len() != before;
                let first = !std::mem::replace(&mut listed, true);
                changed && !first
            }
            WatchItem::Failed { error, .. } => {
                context.metrics.watch_errors.count_failure(kind);
                // Without permission to watch, this repeats: log each error once.
                if *error != last_error {
                    tracing::warn!(kind, %error, "watch failed: discovery is read every {POLL:?} until it works");
                    last_error.clone_from(error);
                }
                false
            }
        };
        let fails = matches!(news, WatchItem::Failed { .. });
        let shows = matches!(
            news,
            WatchItem::ListEnds { .. } | WatchItem::Changed(_) | WatchItem::Deleted(_)
        );
        let works = shows || matches!(news, WatchItem::Steady);
        if fails || shows {
            let names = known.keys().filter(|_| shows);
            publish(names.cloned().collect());
        }
        let turned = if failing { works } else { fails };
        if turned {
            failing = fails;
            if works {
                last_error.clear();
            }
            changes.set_failing(kind, fails);
        }
        // Changes may have been missed.
        if changed || turned {
            changes.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_tell_the_group() {
        let groups = ["gadgets.retry.test", "v1.retry.test", "v1."].map(group_of);
        assert_eq!(groups, ["retry.test", "retry.test", ""]);
    }

    #[test]
    fn what_an_api_service_says_of_its_failure_is_no_news() {
        let service = |status: &str, message: &str, port: u16| {
            let object = json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": "v1.a.test", "uid": "u"}, "spec": {"service": {"port": port}},
                "status": {"conditions": [{"type": "Available", "status": status, "message": message}]},
            });
            availability(&serde_json::from_value(object).unwrap())
        };
        let down = service("False", "dial tcp: no route", 443);
        assert_eq!(down, service("False", "dial tcp: i/o timeout", 443));
        assert_ne!(down, service("True", "", 443));
        assert_ne!(down, service("False", "dial tcp: no route", 444));
    }
}
