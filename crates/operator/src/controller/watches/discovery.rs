//! Keeps discovery up to date: CustomResourceDefinitions and APIServices that come or go change what can be rendered,
//! applied and watched.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_objects::{MetadataOnly, Whole};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::stream::{News, watch};
use crate::reconcile::{Context, lock};
use chartwright_core::identity::GroupKind;

/// A new CRD is served some time after it is established, and discovery follows later still; each wait counts from the
/// one before.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(150),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
];
/// Of these, those that follow on a change that comes while we look: many come at a time, as a rule.
const FURTHER: usize = 2;

/// How often discovery is read without the right to watch what changes it.
const POLL: Duration = Duration::from_secs(30);

/// How often it is read while the API server of a group that somebody needs does not answer: discovery has that group
/// again some time after its APIService has changed for the last time. And while the API server itself is not ready.
const POLL_INCOMPLETE: Duration = Duration::from_secs(10);

const CRD: &str = "CustomResourceDefinition";
const API_SERVICE: &str = "APIService";

/// What the watches tell.
#[derive(Default)]
struct Told {
    /// What is served may have changed.
    changed: Notify,
    /// The kinds whose watch does not work.
    blind: Mutex<HashSet<&'static str>>,
}

impl Told {
    fn turned(&self, kind: &'static str, fails: bool) {
        let mut blind = lock(&self.blind);
        match fails {
            true => blind.insert(kind),
            false => blind.remove(kind),
        };
    }
}

/// What matters of an object; each number changes when something does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// What is served.
    served: u64,
    /// By which schemas the API server judges.
    schema: u64,
}

/// The group that a CustomResourceDefinition or an APIService is of, by its name: `<plural>.<group>`, `<version>.<group>`.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

/// Runs until told to stop.
pub async fn run(context: Arc<Context>, stop: CancellationToken) {
    let told = Arc::new(Told::default());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(follow_crds(context.clone(), told.clone()));
    tasks.spawn(follow_api_services(context.clone(), told.clone()));
    let mut read = true;
    let discovery = &context.discovery;
    loop {
        let is_blind = !lock(&told.blind).is_empty();
        tokio::select! {
            () = stop.cancelled() => break,
            () = told.changed.notified() => {}
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
            if told.changed.notified().now_or_never().is_some() {
                looks = LOOKS.get(FURTHER..).unwrap_or_default();
            }
        }
    }
    tasks.shutdown().await;
}

/// Watches CustomResourceDefinitions, and knows which there are: a chart's `crds/` need not be sent to find that out.
async fn follow_crds(context: Arc<Context>, told: Arc<Told>) {
    let group_kind = GroupKind::new("apiextensions.k8s.io", CRD);
    let snapshot = context.discovery.snapshot();
    let Some(resource) = snapshot.preferred(&group_kind) else {
        context.crds.send_replace(Some(HashSet::new()));
        return;
    };
    let api = resource.api_in::<MetadataOnly>(&context.client, None);
    let state = |object: &MetadataOnly| {
        let metadata = &object.metadata;
        let state = State {
            // Also a change of its status may mean that it is served.
            served: hash((&metadata.uid, &metadata.resource_version)),
            schema: hash((&metadata.uid, metadata.generation)),
        };
        (metadata.name.clone().unwrap_or_default(), state)
    };
    let publish = |names: HashSet<String>| {
        // One that was created just before the process started is in the first list, and perhaps not in discovery yet.
        let served = context.discovery.snapshot().definitions();
        if !names.is_subset(&served) {
            told.changed.notify_one();
        }
        drop(context.crds.send_replace(Some(names)));
    };
    follow(&context, CRD, watch(api, None, true), state, publish, &told).await;
}

async fn follow_api_services(context: Arc<Context>, told: Arc<Told>) {
    let group_kind = GroupKind::new("apiregistration.k8s.io", API_SERVICE);
    let snapshot = context.discovery.snapshot();
    let Some(resource) = snapshot.preferred(&group_kind) else {
        return;
    };
    let api = resource.api_in::<Whole>(&context.client, None);
    // Its status is written again and again while its server does not answer, each time with other words.
    let stream = watch(api, None, false);
    follow(&context, API_SERVICE, stream, availability, |_| (), &told).await;
}

/// The name of an APIService, and what changes when its kinds come or go.
fn availability(object: &Whole) -> (String, State) {
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
    // Its server has the schemas; it may be another one from then on.
    (name, State { served, schema: served })
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Tells of what changes that matters. `state`: the name of an object, and its state; `publish` hears which there are,
/// as far as that is known.
async fn follow<K>(
    context: &Context,
    kind: &'static str,
    stream: impl Stream<Item = News<K>>,
    state: impl Fn(&K) -> (String, State),
    publish: impl Fn(HashSet<String>),
    told: &Told,
) {
    let mut stream = std::pin::pin!(stream);
    let mut known: HashMap<String, State> = HashMap::new();
    let mut seen = HashSet::new();
    let (mut listed, mut failing) = (false, false);
    let mut last_error = String::new();
    while let Some(news) = stream.next().await {
        let changed = match &news {
            News::ListStarts => {
                seen.clear();
                false
            }
            News::Steady | News::Unreadable(_) => false,
            News::Listed(object) | News::Changed(object) => {
                let (name, state) = state(object);
                if matches!(news, News::Listed(_)) {
                    seen.insert(name.clone());
                }
                let before = known.insert(name.clone(), state);
                // A first list that comes late may tell of what changed before it.
                if (listed || failing) && before.is_none_or(|before| before.schema != state.schema) {
                    context.schemas.changed(group_of(&name));
                }
                // The first list is what discovery has read already, as a rule.
                listed && before != Some(state)
            }
            News::Deleted(object) => known.remove(&state(object).0).is_some(),
            News::ListEnds { .. } => {
                let before = known.len();
                known.retain(|name, _| seen.contains(name));
                let changed = known.len() != before;
                let first = !std::mem::replace(&mut listed, true);
                changed && !first
            }
            News::Failed { error, .. } => {
                context.metrics.watch_failed(kind);
                // An operator without the right to watch is refused again and again.
                if *error != last_error {
                    tracing::warn!(kind, %error, "watch failed: discovery is read every {POLL:?} meanwhile");
                    last_error.clone_from(error);
                }
                false
            }
        };
        let fails = matches!(news, News::Failed { .. });
        let shows = matches!(news, News::ListEnds { .. } | News::Changed(_) | News::Deleted(_));
        let works = shows || matches!(news, News::Steady);
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
            told.turned(kind, fails);
        }
        // There may have been changes that nobody saw.
        if changed || turned {
            told.changed.notify_one();
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
