//! The custom resources of one watch, and what is remembered of their releases.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::reconcile::{CustomResource, Key, Release, lock};

/// Both maps of a unit.
#[derive(Default)]
pub struct Cache {
    resources: Mutex<HashMap<Key, Arc<CustomResource>>>,
    /// Boxed: a table has places to spare.
    releases: Mutex<HashMap<Key, Box<Release>>>,
}

// === impl Cache ===

impl Cache {
    pub fn get(&self, key: &Key) -> Option<Arc<CustomResource>> {
        lock(&self.resources).get(key).cloned()
    }

    pub fn all(&self) -> Vec<Arc<CustomResource>> {
        lock(&self.resources).values().cloned().collect()
    }

    /// Takes in a state of a custom resource, unless a newer one is known. True if it can start a reconcile.
    pub fn observe(&self, resource: CustomResource) -> bool {
        Self::take_in(&mut lock(&self.resources), resource)
    }

    /// Takes in what one of our own writes answered. False if the custom resource went meanwhile: what its watch told
    /// last is that it is gone, or that another one of the same name came in its place.
    pub fn learn(&self, written: CustomResource) -> bool {
        let mut resources = lock(&self.resources);
        let is_there = resources
            .get(&written.key)
            .is_some_and(|known| known.uid == written.uid);
        if is_there {
            Self::take_in(&mut resources, written);
        }
        is_there
    }

    fn take_in(resources: &mut HashMap<Key, Arc<CustomResource>>, mut resource: CustomResource) -> bool {
        if let Some(known) = resources.get(&resource.key) {
            if known.uid == resource.uid {
                // The garbage collector takes this off again within moments.
                resource.cascade = resource.cascade.max(known.cascade);
            }
            if known.uid == resource.uid && known.version > resource.version {
                return false;
            }
            if known.trigger() == resource.trigger() {
                resources.insert(resource.key.clone(), Arc::new(resource));
                return false;
            }
        }
        resources.insert(resource.key.clone(), Arc::new(resource));
        true
    }

    /// A custom resource is gone, or no longer ours. Returns what was known of it.
    pub fn remove(&self, key: &Key) -> Option<Arc<CustomResource>> {
        lock(&self.releases).remove(key);
        lock(&self.resources).remove(key)
    }

    /// The custom resources that a list did not contain.
    pub fn missing_from(&self, namespace: Option<&str>, seen: &HashSet<Key>) -> Vec<Key> {
        let resources = lock(&self.resources);
        let covered = resources
            .keys()
            .filter(|key| namespace.is_none_or(|namespace| key.namespace == namespace));
        covered.filter(|key| !seen.contains(key)).cloned().collect()
    }

    /// Takes the memory of a release out for a reconcile; a panic loses it, and the status brings it back.
    pub fn take_release(&self, key: &Key) -> Release {
        lock(&self.releases)
            .remove(key)
            .map(|release| *release)
            .unwrap_or_default()
    }

    /// True if the last reconcile left nothing to be done. One that is under way may have seen what was before.
    pub fn is_complete(&self, key: &Key) -> bool {
        lock(&self.releases)
            .get(key)
            .is_some_and(|release| !release.record.inputs.is_empty())
    }

    /// True if its render looked something up: a kind that comes or goes may change what it found.
    pub fn looks_up(&self, key: &Key) -> bool {
        lock(&self.releases)
            .get(key)
            .is_some_and(|release| !release.record.lookups.is_empty())
    }

    /// Puts it back, unless the custom resource went meanwhile.
    pub fn put_release(&self, key: &Key, release: Release) {
        if lock(&self.resources).contains_key(key) {
            lock(&self.releases).insert(key.clone(), Box::new(release));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::deletion::Cascade;
    use serde_json::json;

    fn resource(version: u64, size: i64) -> CustomResource {
        with(json!({"uid": "u", "resourceVersion": version.to_string()}), size)
    }

    fn with(mut metadata: serde_json::Value, size: i64) -> CustomResource {
        metadata["name"] = "a".into();
        metadata["namespace"] = "b".into();
        let object = json!({"metadata": metadata, "spec": {"size": size}});
        serde_json::from_value::<kube::api::DynamicObject>(object)
            .unwrap()
            .into()
    }

    #[test]
    fn how_a_deletion_was_asked_for_is_remembered() {
        let cache = Cache::default();
        let deleted = |uid: &str, version: u64, finalizers: serde_json::Value| {
            with(
                json!({"uid": uid, "resourceVersion": version.to_string(), "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}),
                1,
            )
        };
        let ours = "chartwright.dev/release";
        cache.observe(resource(1, 1));
        cache.observe(deleted("u", 2, json!([ours, "orphan"])));
        cache.observe(deleted("u", 3, json!([ours])));
        let key = resource(1, 1).key;
        assert_eq!(cache.get(&key).unwrap().cascade, Cascade::Orphan);
        cache.observe(deleted("another", 4, json!([ours])));
        assert_eq!(cache.get(&key).unwrap().cascade, Cascade::Background);
    }

    #[test]
    fn what_a_write_answers_brings_nobody_back() {
        let cache = Cache::default();
        let of = |uid: &str, version: u64| with(json!({"uid": uid, "resourceVersion": version.to_string()}), 1);
        let key = resource(1, 1).key;
        cache.observe(of("one", 1));
        assert!(cache.learn(of("one", 2)));
        assert_eq!(cache.get(&key).unwrap().version, 2);
        cache.remove(&key);
        assert!(!cache.learn(of("one", 3)));
        assert!(cache.get(&key).is_none(), "it is gone");
        cache.observe(of("another", 5));
        assert!(!cache.learn(of("one", 4)));
        assert_eq!(cache.get(&key).unwrap().uid, "another", "of the same name");
    }

    #[test]
    fn old_news_and_our_own_writes_start_nothing() {
        let cache = Cache::default();
        assert!(cache.observe(resource(5, 1)));
        assert!(
            !cache.observe(resource(6, 1)),
            "only the version moved, as after a status write"
        );
        assert!(!cache.observe(resource(4, 9)), "older than what is known");
        assert!(cache.observe(resource(7, 2)));
        let key = Key {
            namespace: "b".into(),
            name: "a".into(),
        };
        assert_eq!(cache.missing_from(Some("other"), &HashSet::new()), []);
        assert_eq!(cache.missing_from(None, &HashSet::new()), std::slice::from_ref(&key));
        assert!(cache.remove(&key).is_some() && cache.get(&key).is_none());
        cache.put_release(&key, Release::default());
        assert!(
            lock(&cache.releases).is_empty(),
            "a release does not outlive its custom resource"
        );
    }
}
