//! Objects, resource versions and what happened to them, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::CallTarget;
use super::fields::text;
use super::kinds::ServedKind;
#[cfg(feature = "stale-reads")]
use super::stale::Stale;

/// [`ServedKind::key`], namespace and name.
pub type ObjectKey = (&'static str, String, String);

/// One change of an object.
#[derive(Clone, Debug)]
pub struct StoreChange {
    pub version: u64,
    pub key: ObjectKey,
    /// `None`: it was created.
    pub before: Option<Arc<Value>>,
    /// `None`: it is gone.
    pub after: Option<Arc<Value>>,
}

/// Compares a live object with what a write makes of it.
pub type ImmutableFields = fn(kind: &ServedKind, live: &Value, written: &Value) -> Vec<String>;

/// The content of a server.
pub struct Store {
    /// What is served. Of several versions of a kind the first is preferred.
    pub kinds: Vec<ServedKind>,
    pub objects: BTreeMap<ObjectKey, Arc<Value>>,
    pub changes: Vec<StoreChange>,
    /// The version of the last change, for watches that wait.
    pub latest: watch::Sender<u64>,
    /// The time between the two steps of a DELETE, the read and the removal.
    pub deletions_take: Duration,
    /// The fields of an existing object that a write changes and must not, by their paths.
    pub immutable_fields: Option<ImmutableFields>,
    /// What is wrong with the answers to reads.
    #[cfg(feature = "stale-reads")]
    pub stale: Stale,
    /// The version of the last change.
    pub version: u64,
    begun: Instant,
}

impl Default for Store {
    fn default() -> Self {
        Store {
            kinds: Vec::new(),
            objects: BTreeMap::new(),
            changes: Vec::new(),
            latest: watch::Sender::new(1),
            deletions_take: Duration::ZERO,
            immutable_fields: None,
            #[cfg(feature = "stale-reads")]
            stale: Stale::default(),
            version: 1,
            begun: Instant::now(),
        }
    }
}

impl Store {
    /// An empty store of these kinds.
    pub fn with_kinds(kinds: &[ServedKind]) -> Self {
        Store {
            kinds: kinds.to_vec(),
            ..Store::default()
        }
    }

    /// The time in RFC 3339, to the second. It follows tokio's clock, which tests can pause and advance.
    pub fn now(&self) -> String {
        let start: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap_or_default();
        let elapsed = Duration::from_secs(self.begun.elapsed().as_secs());
        (start + elapsed).to_string()
    }

    /// The kind of a target, in the version that the target names.
    pub fn kind_of(&self, target: &CallTarget) -> Option<ServedKind> {
        let is_it = |kind: &&ServedKind| {
            kind.group == target.group && kind.plural == target.resource && kind.version == target.version
        };
        self.kinds.iter().find(is_it).copied()
    }

    /// The kind with this [`ServedKind::key`], in its preferred version.
    pub fn kind_by_key(&self, key: &str) -> Option<ServedKind> {
        self.kinds.iter().find(|kind| kind.key == key).copied()
    }

    /// Serves a kind, after the other versions of it. Does nothing if the kind is served in this version.
    pub fn serve(&mut self, kind: ServedKind) {
        let is_same = |known: &ServedKind| known.group == kind.group && known.kind == kind.kind;
        let other = self.kinds.iter().find(|known| is_same(known)).copied();
        if self
            .kinds
            .iter()
            .any(|known| is_same(known) && known.version == kind.version)
        {
            return;
        }
        // The versions of a kind have the same objects.
        let kind = other.map_or(kind, |other| ServedKind {
            version: kind.version,
            ..other
        });
        self.kinds.push(kind);
    }

    /// Creates an object with this UID.
    pub fn create_with_uid(&mut self, kind: &ServedKind, key: ObjectKey, object: Value, uid: &str) {
        let mut created = Value::clone(&*self.put(kind, key.clone(), object));
        created["metadata"]["uid"] = uid.into();
        let created = Arc::new(created);
        if let Some(change) = self.changes.last_mut() {
            change.after = Some(created.clone());
        }
        self.objects.insert(key, created);
    }

    /// Creates or replaces an object. Sets the resource version and the other metadata that the server owns.
    pub fn put(&mut self, kind: &ServedKind, key: ObjectKey, object: Value) -> Arc<Value> {
        let before = self.objects.get(&key).cloned();
        if before.as_deref() == Some(&object) {
            return before.unwrap_or_default();
        }
        let mut object = self.with_own_metadata(kind, &key, object);
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let metadata = &object["metadata"];
        let ends = !metadata["deletionTimestamp"].is_null()
            && metadata["finalizers"].as_array().is_none_or(|list| list.is_empty());
        let object = Arc::new(object);
        self.record(key, before, (!ends).then(|| object.clone()));
        object
    }

    /// What [`Store::put`] makes of an object, without writing it: the answer to a dry run.
    pub fn dry_run(&self, kind: &ServedKind, key: &ObjectKey, object: Value) -> Arc<Value> {
        Arc::new(self.with_own_metadata(kind, key, object))
    }

    /// The object with the metadata that the server owns, apart from the resource version.
    fn with_own_metadata(&self, kind: &ServedKind, key: &ObjectKey, mut object: Value) -> Value {
        let before = self.objects.get(key);
        let metadata = &mut object["metadata"];
        metadata["name"] = key.2.as_str().into();
        if kind.namespaced {
            metadata["namespace"] = key.1.as_str().into();
        }
        if before.is_none() {
            metadata["uid"] = format!("uid-{}", self.version + 1).into();
            metadata["creationTimestamp"] = self.now().into();
        }
        if kind.custom {
            let was = before.map_or(&Value::Null, |before| before);
            let generation = was["metadata"]["generation"].as_i64().unwrap_or(0);
            let dying = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
            let moved = was.is_null() || was["spec"] != object["spec"] || dying(was) != dying(&object);
            object["metadata"]["generation"] = (generation + i64::from(moved)).into();
        }
        object
    }

    /// Deletes an object, or begins to if it has finalizers.
    pub fn delete(&mut self, kind: &ServedKind, key: ObjectKey) -> Option<Arc<Value>> {
        let mut object = (**self.objects.get(&key)?).clone();
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = self.now().into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        Some(self.put(kind, key, object))
    }

    /// Removes an object, ignoring finalizers.
    pub fn remove(&mut self, key: ObjectKey) {
        if let Some(before) = self.objects.get(&key).cloned() {
            self.version += 1;
            self.record(key, Some(before), None);
        }
    }

    /// Records the change that made the current version.
    fn record(&mut self, key: ObjectKey, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        match &after {
            None => drop(self.objects.remove(&key)),
            Some(object) => drop(self.objects.insert(key.clone(), object.clone())),
        }
        let version = self.version;
        self.changes.push(StoreChange {
            version,
            key,
            before,
            after,
        });
        self.latest.send_replace(self.version);
    }

    /// Deletes objects whose owners are all gone, as the garbage collector does. True if there was one.
    pub fn collect_garbage(&mut self) -> bool {
        let there: BTreeSet<String> = self
            .objects
            .values()
            .map(|object| text(&object["metadata"]["uid"]).to_owned())
            .collect();
        let is_garbage = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let is_there = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| there.contains(uid));
            owners.is_some_and(|owners| !owners.is_empty() && !owners.iter().any(is_there))
                && object["metadata"]["deletionTimestamp"].is_null()
        };
        let garbage = self.objects.iter().filter(|(_, object)| is_garbage(object));
        let garbage: Vec<ObjectKey> = garbage.map(|(key, _)| key.clone()).collect();
        for key in &garbage {
            if let Some(kind) = self.kind_by_key(key.0) {
                self.delete(&kind, key.clone());
            }
        }
        !garbage.is_empty()
    }
}

/// The objects at one time, and the version then.
pub type Backup = (BTreeMap<ObjectKey, Arc<Value>>, u64);

impl Store {
    /// Copies the objects and the version.
    pub fn backup(&self) -> Backup {
        (self.objects.clone(), self.version)
    }

    /// Goes back to a backup with its version, as a restored etcd does.
    pub fn restore(&mut self, backup: Backup) {
        (self.objects, self.version) = backup;
        self.changes.clear();
    }
}

/// Aggregated discovery of the core group, or of all others.
pub fn discovery(store: &Store, core: bool) -> Value {
    let mut groups: BTreeMap<&str, Vec<&ServedKind>> = BTreeMap::new();
    for kind in store.kinds.iter().filter(|kind| kind.group.is_empty() == core) {
        groups.entry(kind.group).or_default().push(kind);
    }
    let items = groups.into_iter().map(|(group, kinds)| {
        let mut versions: Vec<&str> = Vec::new();
        for kind in &kinds {
            if !versions.contains(&kind.version) {
                versions.push(kind.version);
            }
        }
        let versions = versions.into_iter().map(|version| {
            let served = kinds.iter().filter(|kind| kind.version == version);
            let resources: Vec<Value> = served.map(|kind| resource(kind)).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        });
        json!({
            "metadata": {"name": if group.is_empty() { Value::Null } else { group.into() }},
            "versions": versions.collect::<Vec<_>>(),
        })
    });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items.collect::<Vec<_>>(),
    })
}

fn resource(kind: &ServedKind) -> Value {
    let response = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let mut resource = json!({
        "resource": kind.plural, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": response,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    if kind.custom {
        resource["subresources"] = json!([{"subresource": "status", "responseKind": response, "verbs": ["patch"]}]);
    }
    resource
}
