//! The custom resources of one watch, and the in-memory state of their releases.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::reconcile::{CustomResource, Release, ResourceKey};
use crate::sync::lock;
use chartwright_core::prune::deletion::{End, HeldDeletion, end};

/// The cache of a unit.
#[derive(Default)]
pub struct Cache {
    resources: Mutex<HashMap<ResourceKey, Arc<CustomResource>>>,
    /// Boxed: a hash table has unused slots.
    releases: Mutex<HashMap<ResourceKey, Box<Release>>>,
    /// Invariant: locked before the other maps.
    ends: Mutex<Ends>,
    /// Custom resources that we wrote during a list, by listed namespace.
    lists: Mutex<HashMap<Option<String>, HashSet<ResourceKey>>>,
}

#[derive(Default)]
struct Ends {
    /// Releases with a running reconcile, which holds their state.
    running: HashSet<ResourceKey>,
    /// UIDs of custom resources whose release is completely removed. Watch events may still show our finalizer.
    let_go: HashMap<ResourceKey, String>,
    deleted: HashMap<ResourceKey, Vec<Deleted>>,
}

/// A deleted custom resource whose release is not handled yet.
pub struct Deleted {
    before: Arc<CustomResource>,
    /// The state in the deletion event; `None` if a list did not contain it.
    last_state: Option<CustomResource>,
    pub release: Release,
}

impl Cache {
    pub fn get(&self, key: &ResourceKey) -> Option<Arc<CustomResource>> {
        lock(&self.resources).get(key).cloned()
    }

    pub fn all(&self) -> Vec<Arc<CustomResource>> {
        lock(&self.resources).values().cloned().collect()
    }

    /// Stores a custom resource unless a newer one is known. True if it can start a reconcile.
    pub fn observe(&self, resource: CustomResource) -> bool {
        let is_running = lock(&self.ends).running.contains(&resource.key);
        Self::insert_newer(&mut lock(&self.resources), resource, is_running)
    }

    /// Notes that a list of one namespace, or of all, begins.
    pub fn list_starts(&self, namespace: Option<&str>) {
        lock(&self.lists).insert(namespace.map(str::to_owned), HashSet::new());
    }

    /// Stores a listed custom resource, as [`Cache::observe`]. A version that was known before the list began cannot be newer
    /// than the list, unless etcd was restored from a backup. Then the list is right.
    pub fn listed(&self, namespace: Option<&str>, resource: CustomResource) -> bool {
        let learned = lock(&self.lists)
            .get(&namespace.map(str::to_owned))
            .is_some_and(|learned| learned.contains(&resource.key));
        let is_running = lock(&self.ends).running.contains(&resource.key);
        let mut resources = lock(&self.resources);
        let is_older = |known: &Arc<CustomResource>| known.uid == resource.uid && known.version > resource.version;
        if !learned && resources.get(&resource.key).is_some_and(is_older) {
            tracing::warn!(
                resource = %resource.key,
                "the API server lists an older version than before: it was restored from a backup"
            );
            resources.insert(resource.key.clone(), Arc::new(resource));
            return true;
        }
        Self::insert_newer(&mut resources, resource, is_running)
    }

    pub fn list_ends(&self, namespace: Option<&str>) {
        lock(&self.lists).remove(&namespace.map(str::to_owned));
    }

    /// Stores the response to one of our own writes. False if, by its watch, the custom resource was deleted or replaced.
    pub fn learn(&self, written: CustomResource) -> bool {
        let mut resources = lock(&self.resources);
        let is_there = resources
            .get(&written.key)
            .is_some_and(|known| known.uid == written.uid);
        if is_there {
            for learned in lock(&self.lists).values_mut() {
                learned.insert(written.key.clone());
            }
            Self::insert_newer(&mut resources, written, true);
        }
        is_there
    }

    /// `is_running`: a reconcile of it runs, so that a new status may be our own.
    fn insert_newer(
        resources: &mut HashMap<ResourceKey, Arc<CustomResource>>,
        mut resource: CustomResource,
        is_running: bool,
    ) -> bool {
        if let Some(known) = resources.get(&resource.key) {
            if known.uid == resource.uid {
                // The garbage collector removes this finalizer quickly.
                resource.cascade = resource.cascade.max(known.cascade);
            }
            if known.uid == resource.uid && known.version > resource.version {
                return false;
            }
            if known.triggers_as(&resource) {
                // Another client changed the status.
                let is_changed = !is_running && resource.has_foreign_status(known);
                resources.insert(resource.key.clone(), Arc::new(resource));
                return is_changed;
            }
        }
        resources.insert(resource.key.clone(), Arc::new(resource));
        true
    }

    /// Removes a deleted custom resource. `last_state`: the state in the deletion event. Returns the cached state, and whether its
    /// release needs work.
    pub fn note_deletion(
        &self,
        key: &ResourceKey,
        last_state: Option<CustomResource>,
    ) -> Option<(Arc<CustomResource>, bool)> {
        let mut ends = lock(&self.ends);
        let before = lock(&self.resources).remove(key)?;
        let release = lock(&self.releases).remove(key);
        if ends.let_go.remove(key).is_some_and(|uid| uid == before.uid) {
            return Some((before, ends.deleted.contains_key(key)));
        }
        let last_state = last_state.filter(|last_state| last_state.uid == before.uid);
        let deleted = Deleted {
            before: before.clone(),
            last_state,
            release: release.map(|release| *release).unwrap_or_default(),
        };
        // A running reconcile may add or remove the finalizer.
        let matters = ends.running.contains(key) || deleted.end() != End::Released;
        if matters {
            ends.deleted.entry(key.clone()).or_default().push(deleted);
        }
        // An earlier custom resource of this name may still be pending.
        Some((before, ends.deleted.contains_key(key)))
    }

    /// True if a deleted custom resource of this name is not handled yet.
    pub fn has_deleted(&self, key: &ResourceKey) -> bool {
        lock(&self.ends).deleted.contains_key(key)
    }

    /// Takes the deleted custom resources of a key. Not during a reconcile of it.
    pub fn take_deleted(&self, key: &ResourceKey) -> Vec<Deleted> {
        lock(&self.ends).deleted.remove(key).unwrap_or_default()
    }

    /// Puts one back for a retry.
    pub fn put_back(&self, key: &ResourceKey, deleted: Deleted) {
        lock(&self.ends).deleted.entry(key.clone()).or_default().push(deleted);
    }

    /// A custom resource is no longer ours. Returns what was known of it.
    pub fn remove(&self, key: &ResourceKey) -> Option<Arc<CustomResource>> {
        lock(&self.ends).let_go.remove(key);
        lock(&self.releases).remove(key);
        lock(&self.resources).remove(key)
    }

    /// The custom resources that a list did not contain.
    pub fn missing_from(&self, namespace: Option<&str>, seen: &HashSet<ResourceKey>) -> Vec<ResourceKey> {
        let resources = lock(&self.resources);
        let covered = resources
            .keys()
            .filter(|key| namespace.is_none_or(|namespace| key.namespace == namespace));
        covered.filter(|key| !seen.contains(key)).cloned().collect()
    }

    /// Takes the state of a release for a reconcile. A panic loses it; the status restores it.
    pub fn take_release(&self, key: &ResourceKey) -> Release {
        let mut ends = lock(&self.ends);
        ends.running.insert(key.clone());
        ends.let_go.remove(key);
        lock(&self.releases)
            .remove(key)
            .map(|release| *release)
            .unwrap_or_default()
    }

    /// True if the last reconcile completed. False during a reconcile, which may use older knowledge.
    pub fn is_complete(&self, key: &ResourceKey) -> bool {
        lock(&self.releases)
            .get(key)
            .is_some_and(|release| release.record.done_for.is_some() && !release.is_waiting())
    }

    /// True if its render used `lookup` or `.Capabilities`: a change of served kinds may change the render.
    pub fn reads_cluster(&self, key: &ResourceKey) -> bool {
        lock(&self.releases)
            .get(key)
            .is_some_and(|release| !release.record.lookups.is_empty() || !release.record.capabilities.is_empty())
    }

    /// Stores the state after a reconcile, or attaches it to the deleted custom resource with this UID. `release`: `None` if
    /// it is completely removed. `written`: the custom resource after the last write.
    pub fn put_release(&self, key: &ResourceKey, uid: &str, release: Option<Release>, written: Option<CustomResource>) {
        let mut ends = lock(&self.ends);
        ends.running.remove(key);
        let waiting = ends.deleted.get_mut(key);
        let deleted =
            waiting.and_then(|waiting| Some((waiting.iter().position(|deleted| deleted.before.uid == uid)?, waiting)));
        match (deleted, release) {
            (Some((place, waiting)), None) => drop(waiting.remove(place)),
            (Some((place, waiting)), Some(release)) => {
                if let Some(deleted) = waiting.get_mut(place) {
                    deleted.release = release;
                    if let Some(written) = written.filter(|written| written.version > deleted.before.version) {
                        deleted.before = Arc::new(written);
                    }
                }
            }
            (None, _) if lock(&self.resources).get(key).is_none_or(|known| known.uid != uid) => {}
            (None, Some(release)) => {
                lock(&self.releases).insert(key.clone(), Box::new(release));
            }
            (None, None) => {
                ends.let_go.insert(key.clone(), uid.to_owned());
            }
        }
    }
}

impl Deleted {
    /// The last known state of the custom resource.
    pub fn resource(&self) -> &CustomResource {
        self.last_state.as_ref().unwrap_or(&self.before)
    }

    /// How it ended.
    pub fn end(&self) -> End {
        let held = |resource: &CustomResource| HeldDeletion {
            held: resource.has_finalizer(),
            deleting: resource.deleting,
        };
        // Members of a decorator without a finalizer belong to the garbage collector.
        let has_members = !self.release.record.entries.is_empty() && self.before.decorator.is_none();
        end(held(&self.before), self.last_state.as_ref().map(held), has_members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chartwright_core::prune::deletion::Cascade;
    use serde_json::json;

    fn resource(version: u64, size: i64) -> CustomResource {
        of("u", version, size, json!({}))
    }

    /// With more in its metadata.
    fn of(uid: &str, version: u64, size: i64, mut metadata: serde_json::Value) -> CustomResource {
        metadata["name"] = "a".into();
        metadata["namespace"] = "b".into();
        metadata["uid"] = uid.into();
        metadata["resourceVersion"] = version.to_string().into();
        let object = json!({"metadata": metadata, "spec": {"size": size}});
        serde_json::from_value::<kube::api::DynamicObject>(object)
            .unwrap()
            .into()
    }

    const OURS: &str = "chartwright.dev/release";

    fn held(uid: &str, version: u64) -> CustomResource {
        of(uid, version, 1, json!({"finalizers": [OURS]}))
    }

    fn deleted(uid: &str, version: u64, finalizers: &[&str]) -> CustomResource {
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers});
        of(uid, version, 1, metadata)
    }

    #[test]
    fn how_a_deletion_was_asked_for_is_remembered() {
        let cache = Cache::default();
        cache.observe(resource(1, 1));
        cache.observe(deleted("u", 2, &[OURS, "orphan"]));
        cache.observe(deleted("u", 3, &[OURS]));
        let key = resource(1, 1).key;
        assert_eq!(cache.get(&key).unwrap().cascade, Cascade::Orphan);
        cache.observe(deleted("another", 4, &[OURS]));
        assert_eq!(cache.get(&key).unwrap().cascade, Cascade::Background);
    }

    #[test]
    fn what_a_write_answers_brings_nobody_back() {
        let cache = Cache::default();
        let key = resource(1, 1).key;
        cache.observe(resource(1, 1));
        assert!(cache.learn(resource(2, 1)));
        assert_eq!(cache.get(&key).unwrap().version, 2);
        cache.remove(&key);
        assert!(!cache.learn(resource(3, 1)));
        assert!(cache.get(&key).is_none(), "it is gone");
        cache.observe(held("another", 5));
        assert!(!cache.learn(resource(4, 1)));
        assert_eq!(cache.get(&key).unwrap().uid, "another", "of the same name");
    }

    #[test]
    fn a_list_of_what_was_restored_is_believed() {
        let cache = Cache::default();
        cache.observe(resource(50, 2));
        let key = resource(1, 1).key;
        cache.list_starts(None);
        assert!(cache.listed(None, resource(30, 1)), "news, though its version is lower");
        cache.list_ends(None);
        assert_eq!(cache.get(&key).unwrap().version, 30);
        assert!(cache.observe(resource(31, 3)), "and from then on");

        // A write while the list is read is newer than the list.
        cache.list_starts(None);
        assert!(cache.learn(resource(33, 3)));
        assert!(!cache.listed(None, resource(32, 3)));
        cache.list_ends(None);
        assert_eq!(cache.get(&key).unwrap().version, 33);
    }

    #[test]
    fn old_news_and_our_own_writes_start_nothing() {
        let cache = Cache::default();
        assert!(cache.observe(resource(5, 1)));
        assert!(!cache.observe(resource(6, 1)), "as after a status write");
        assert!(!cache.observe(resource(4, 9)), "older than what is known");
        assert!(cache.observe(resource(7, 2)));
        let key = resource(1, 1).key;
        assert_eq!(cache.missing_from(Some("other"), &HashSet::new()), []);
        assert_eq!(cache.missing_from(None, &HashSet::new()), std::slice::from_ref(&key));
        assert!(cache.remove(&key).is_some() && cache.get(&key).is_none());
        cache.put_release(&key, "u", Some(Release::default()), None);
        assert!(
            lock(&cache.releases).is_empty(),
            "it does not outlive its custom resource"
        );
    }

    #[test]
    fn what_a_running_reconcile_learns_of_a_lost_custom_resource_is_kept() {
        let key = resource(1, 1).key;
        // Deleted in the middle of its first reconcile. Only the response to the write shows its claim.
        let cache = Cache::default();
        cache.observe(resource(1, 1));
        let mut release = cache.take_release(&key);
        release.record.revision = 7;
        assert!(cache.note_deletion(&key, None).unwrap().1);
        cache.observe(held("successor", 4));
        cache.put_release(&key, "u", Some(release), Some(held("u", 2)));
        let gone = cache.take_deleted(&key);
        assert_eq!((gone.len(), gone[0].end()), (1, End::Vanished));
        assert_eq!((gone[0].release.record.revision, gone[0].resource().version), (7, 2));
        assert_eq!(cache.get(&key).unwrap().uid, "successor");
        assert_eq!(cache.take_release(&key).record.revision, 0, "not its predecessor's");

        // Its watch reports the deletion before the reconcile that removed the finalizer ends.
        let cache = Cache::default();
        cache.observe(held("u", 1));
        drop(cache.take_release(&key));
        assert!(cache.note_deletion(&key, Some(deleted("u", 3, &[OURS]))).unwrap().1);
        cache.put_release(&key, "u", None, None);
        assert!(cache.take_deleted(&key).is_empty());

        // Another client wrote to it just before, and its watch is late.
        let cache = Cache::default();
        cache.observe(held("u", 1));
        drop(cache.take_release(&key));
        cache.put_release(&key, "u", None, None);
        cache.observe(deleted("u", 3, &[OURS]));
        assert!(!cache.note_deletion(&key, Some(deleted("u", 4, &[]))).unwrap().1);
        assert!(cache.take_deleted(&key).is_empty() && lock(&cache.ends).let_go.is_empty());

        // A successor is deleted before its predecessor is handled.
        let cache = Cache::default();
        cache.observe(held("u", 1));
        assert!(cache.note_deletion(&key, Some(held("u", 2))).unwrap().1);
        cache.observe(of("successor", 3, 1, json!({})));
        assert!(cache.note_deletion(&key, None).unwrap().1);
        assert_eq!(cache.take_deleted(&key).len(), 1);

        // Nothing was ever made for it.
        let cache = Cache::default();
        cache.observe(resource(1, 1));
        assert!(!cache.note_deletion(&key, Some(resource(2, 1))).unwrap().1);
        assert!(cache.note_deletion(&key, None).is_none());
    }
}
