//! Objects, resource versions and what happened to them, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::stale::Stale;
use crate::faults::call::CallTarget;
use crate::world::fields::uid;

/// A kind that the model serves.
#[derive(Clone, Copy, Debug)]
pub struct ServedKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    /// With a status subresource and a generation.
    pub custom: bool,
}

const fn kind(group: &'static str, kind: &'static str, plural: &'static str, namespaced: bool) -> ServedKind {
    ServedKind {
        group,
        version: "v1",
        kind,
        plural,
        namespaced,
        custom: false,
    }
}

/// The kind of the custom resources.
pub const WIDGET: ServedKind = ServedKind {
    custom: true,
    ..kind("torture.test", "Widget", "widgets", true)
};

/// Another one.
pub const GADGET: ServedKind = ServedKind {
    custom: true,
    ..kind("torture.test", "Gadget", "gadgets", true)
};

/// A kind of members that may be served in [`EARLY`], too.
pub const PART: ServedKind = kind("parts.test", "Part", "parts", true);
pub const EARLY: &str = "v1alpha1";

const CRD: &str = "CustomResourceDefinition";
const DEFINITION: ServedKind = kind("apiextensions.k8s.io", CRD, "customresourcedefinitions", false);
const HPA: &str = "HorizontalPodAutoscaler";
const SCALER: ServedKind = ServedKind {
    version: "v2",
    ..kind("autoscaling", HPA, "horizontalpodautoscalers", true)
};

/// Its objects end by themselves.
pub const JOB: ServedKind = kind("batch", "Job", "jobs", true);

/// Of elections; those of operators are no part of the model.
pub const LEASE: ServedKind = kind("coordination.k8s.io", "Lease", "leases", true);

pub static KINDS: [ServedKind; 26] = [
    WIDGET,
    GADGET,
    PART,
    kind("", "ConfigMap", "configmaps", true),
    kind("", "Secret", "secrets", true),
    kind("", "Namespace", "namespaces", false),
    kind("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
    kind("events.k8s.io", "Event", "events", true),
    DEFINITION,
    kind("apiregistration.k8s.io", "APIService", "apiservices", false),
    // What charts have besides. Nobody looks after these here: no pod ever runs.
    kind("", "Service", "services", true),
    kind("", "ServiceAccount", "serviceaccounts", true),
    kind("", "Pod", "pods", true),
    JOB,
    kind("apps", "Deployment", "deployments", true),
    kind("apps", "StatefulSet", "statefulsets", true),
    SCALER,
    LEASE,
    kind("monitoring.coreos.com", "PrometheusRule", "prometheusrules", true),
    kind("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", true),
    kind("networking.k8s.io", "Ingress", "ingresses", true),
    kind("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    kind("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    kind("rbac.authorization.k8s.io", "Role", "roles", true),
    kind("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
];

/// Plural (unique among [`KINDS`]), namespace and name.
pub type ObjectKey = (&'static str, String, String);

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub struct StoreChange {
    pub version: u64,
    pub key: ObjectKey,
    /// `None`: it was created.
    pub before: Option<Arc<Value>>,
    /// `None`: it is gone.
    pub after: Option<Arc<Value>>,
}

/// Everything there is.
pub struct Store {
    pub objects: BTreeMap<ObjectKey, Arc<Value>>,
    pub changes: Vec<StoreChange>,
    /// The version of the last change, for who waits.
    pub latest: watch::Sender<u64>,
    /// Between what a DELETE reads and what it deletes; nothing: both at once.
    pub deletions_take: Duration,
    /// What is wrong with what is read.
    pub stale: Stale,
    /// [`PART`] is served in [`EARLY`] as well, which the server prefers.
    pub has_early: bool,
    /// Of the last change.
    pub version: u64,
    begun: Instant,
}

impl Default for Store {
    fn default() -> Self {
        Store {
            objects: BTreeMap::new(),
            changes: Vec::new(),
            latest: watch::Sender::new(1),
            deletions_take: Duration::ZERO,
            stale: Stale::default(),
            has_early: false,
            version: 1,
            begun: Instant::now(),
        }
    }
}

impl Store {
    /// The time in RFC 3339, to the second. It goes with tokio's clock, which tests can turn.
    pub fn now(&self) -> String {
        let start: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap_or_default();
        let elapsed = Duration::from_secs(self.begun.elapsed().as_secs());
        (start + elapsed).to_string()
    }

    /// The kind of a target, in the version that it asks for.
    pub fn kind_of(&self, target: &CallTarget) -> Option<ServedKind> {
        let named = |kind: &&ServedKind| kind.group == target.group && kind.plural == target.resource;
        let kind = *KINDS.iter().find(named)?;
        let mut versions = self.versions(&kind).into_iter();
        let version = versions.find(|version| *version == target.version)?;
        Some(ServedKind { version, ..kind })
    }

    fn versions(&self, kind: &ServedKind) -> Vec<&'static str> {
        let early = self.has_early && kind.plural == PART.plural;
        early.then_some(EARLY).into_iter().chain([kind.version]).collect()
    }

    /// [`EARLY`] is not served any more; that something changed shows in a CustomResourceDefinition.
    pub fn end_early(&mut self) {
        self.has_early = false;
        let name = format!("{}.{}", PART.plural, PART.group);
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": DEFINITION.kind, "metadata": {"name": name},
            "spec": {"storedVersions": [PART.version]},
        });
        self.put(&DEFINITION, (DEFINITION.plural, String::new(), name), definition);
    }

    /// Puts an object in the place of what was there, with a new resource version and what else the server adds.
    pub fn put(&mut self, kind: &ServedKind, key: ObjectKey, mut object: Value) -> Arc<Value> {
        let before = self.objects.get(&key).cloned();
        if before.as_deref() == Some(&object) {
            return before.unwrap_or_default();
        }
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = key.2.as_str().into();
        if kind.namespaced {
            metadata["namespace"] = key.1.as_str().into();
        }
        metadata["resourceVersion"] = self.version.to_string().into();
        if before.is_none() {
            metadata["uid"] = format!("uid-{}", self.version).into();
            metadata["creationTimestamp"] = self.now().into();
        }
        if kind.custom {
            let was = before.as_deref().unwrap_or(&Value::Null);
            let generation = was["metadata"]["generation"].as_i64().unwrap_or(0);
            let dying = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
            let moved = was.is_null() || was["spec"] != object["spec"] || dying(was) != dying(&object);
            object["metadata"]["generation"] = (generation + i64::from(moved)).into();
        }
        let metadata = &object["metadata"];
        let ends = !metadata["deletionTimestamp"].is_null()
            && metadata["finalizers"].as_array().is_none_or(|list| list.is_empty());
        let object = Arc::new(object);
        self.record(key, before, (!ends).then(|| object.clone()));
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

    /// What the current version is of.
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

    /// Jobs end as a label of their pods says: well (`ends`), in failure (`fails`), or not at all.
    pub fn end_jobs(&mut self) {
        let is_open = |object: &Value| object["status"].is_null();
        let jobs = self
            .objects
            .iter()
            .filter(|(key, job)| key.0 == JOB.plural && is_open(job));
        let jobs: Vec<_> = jobs.map(|(key, job)| (key.clone(), (**job).clone())).collect();
        for (key, mut job) in jobs {
            let end = match job["spec"]["template"]["metadata"]["labels"]["outcome"].as_str() {
                Some("ends") => "Complete",
                Some("fails") => "Failed",
                _ => continue,
            };
            job["status"] = json!({"conditions": [{"type": end, "status": "True", "message": "as it is told"}]});
            self.put(&JOB, key, job);
        }
    }

    /// Deletes what has owners of which none is there, as the garbage collector does. True if there was something.
    pub fn collect_garbage(&mut self) -> bool {
        let there: BTreeSet<String> = self.objects.values().map(|object| uid(object)).collect();
        let is_garbage = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let is_there = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| there.contains(uid));
            owners.is_some_and(|owners| !owners.is_empty() && !owners.iter().any(is_there))
                && object["metadata"]["deletionTimestamp"].is_null()
        };
        let garbage = self.objects.iter().filter(|(_, object)| is_garbage(object));
        let garbage: Vec<ObjectKey> = garbage.map(|(key, _)| key.clone()).collect();
        for key in &garbage {
            if let Some(kind) = KINDS.iter().find(|kind| kind.plural == key.0) {
                self.delete(kind, key.clone());
            }
        }
        !garbage.is_empty()
    }
}

/// What there was at a time, and its version.
pub type Backup = (BTreeMap<ObjectKey, Arc<Value>>, u64);

impl Store {
    pub fn backup(&self) -> Backup {
        (self.objects.clone(), self.version)
    }

    /// Goes back in time, as etcd does that is restored from a backup: versions and all.
    pub fn restore(&mut self, backup: Backup) {
        (self.objects, self.version) = backup;
        self.changes.clear();
    }
}

/// What discovery answers for the core group or for all others.
pub fn discovery(store: &Store, core: bool) -> Value {
    let mut groups: BTreeMap<&str, Vec<&ServedKind>> = BTreeMap::new();
    for kind in KINDS.iter().filter(|kind| kind.group.is_empty() == core) {
        groups.entry(kind.group).or_default().push(kind);
    }
    let items = groups.into_iter().map(|(group, kinds)| {
        let mut versions: Vec<&str> = kinds.iter().flat_map(|kind| store.versions(kind)).collect();
        versions.dedup();
        let versions = versions.into_iter().map(|version| {
            let served = kinds.iter().filter(|kind| store.versions(kind).contains(&version));
            let resources: Vec<Value> = served.map(|kind| resource(kind, version)).collect();
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

fn resource(kind: &ServedKind, version: &str) -> Value {
    let response = json!({"group": kind.group, "version": version, "kind": kind.kind});
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
