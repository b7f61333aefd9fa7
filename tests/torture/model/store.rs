//! Objects, resource versions and what happened to them, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::call::Target;

/// A kind that the model serves.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    /// With a status subresource and a generation.
    pub custom: bool,
}

const fn kind(group: &'static str, kind: &'static str, plural: &'static str, namespaced: bool) -> Kind {
    Kind {
        group,
        version: "v1",
        kind,
        plural,
        namespaced,
        custom: false,
    }
}

/// The kind of the custom resources.
pub const WIDGET: Kind = Kind {
    custom: true,
    ..kind("torture.test", "Widget", "widgets", true)
};

pub const KINDS: [Kind; 8] = [
    kind("", "ConfigMap", "configmaps", true),
    kind("", "Secret", "secrets", true),
    kind("", "Namespace", "namespaces", false),
    kind("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
    kind("events.k8s.io", "Event", "events", true),
    kind(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
    kind("apiregistration.k8s.io", "APIService", "apiservices", false),
    WIDGET,
];

/// Plural (unique among [`KINDS`]), namespace and name.
pub type Key = (&'static str, String, String);

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub struct Change {
    pub version: u64,
    pub key: Key,
    /// `None`: it was created.
    pub before: Option<Arc<Value>>,
    /// `None`: it is gone.
    pub after: Option<Arc<Value>>,
}

/// Everything there is.
pub struct Store {
    pub objects: BTreeMap<Key, Arc<Value>>,
    pub changes: Vec<Change>,
    /// The version of the last change, for who waits.
    pub latest: watch::Sender<u64>,
    version: u64,
    begun: Instant,
}

impl Store {
    pub fn new() -> Self {
        Store {
            objects: BTreeMap::new(),
            changes: Vec::new(),
            latest: watch::Sender::new(1),
            version: 1,
            begun: Instant::now(),
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// The time in RFC 3339, to the second. It goes with tokio's clock, which tests can turn.
    pub fn now(&self) -> String {
        let start: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap_or_default();
        let elapsed = Duration::from_secs(self.begun.elapsed().as_secs());
        (start + elapsed).to_string()
    }

    pub fn kind_of(target: &Target) -> Option<&'static Kind> {
        static ALL: [Kind; KINDS.len()] = KINDS;
        ALL.iter()
            .find(|kind| kind.group == target.group && kind.version == target.version && kind.plural == target.resource)
    }

    /// Puts an object in the place of what was there, with a new resource version and what else the server adds.
    pub fn put(&mut self, kind: &Kind, key: Key, mut object: Value) -> Arc<Value> {
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
            let generation = before
                .as_ref()
                .map_or(0, |before| before["metadata"]["generation"].as_i64().unwrap_or(0));
            let dying = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
            let moved = before
                .as_ref()
                .is_none_or(|before| before["spec"] != object["spec"] || dying(before) != dying(&object));
            object["metadata"]["generation"] = (generation + i64::from(moved)).into();
        }
        let metadata = &object["metadata"];
        let ends = !metadata["deletionTimestamp"].is_null()
            && metadata["finalizers"].as_array().is_none_or(|list| list.is_empty());
        let object = Arc::new(object);
        match ends {
            true => drop(self.objects.remove(&key)),
            false => drop(self.objects.insert(key.clone(), object.clone())),
        }
        self.changes.push(Change {
            version: self.version,
            key,
            before,
            after: (!ends).then(|| object.clone()),
        });
        self.latest.send_replace(self.version);
        object
    }

    /// Deletes an object, or begins to if it has finalizers.
    pub fn delete(&mut self, kind: &Kind, key: Key) -> Option<Arc<Value>> {
        let mut object = (**self.objects.get(&key)?).clone();
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = self.now().into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        Some(self.put(kind, key, object))
    }
}

/// What discovery answers for the core group or for all others.
pub fn discovery(core: bool) -> Value {
    let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for kind in KINDS.iter().filter(|kind| kind.group.is_empty() == core) {
        let mut resource = json!({
            "resource": kind.plural, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        });
        if kind.custom {
            let response = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
            resource["subresources"] = json!([{"subresource": "status", "responseKind": response, "verbs": ["patch"]}]);
        }
        groups.entry(kind.group).or_default().push(resource);
    }
    let items = groups.into_iter().map(|(group, resources)| {
        json!({
            "metadata": {"name": if group.is_empty() { Value::Null } else { group.into() }},
            "versions": [{"version": "v1", "freshness": "Current", "resources": resources}],
        })
    });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items.collect::<Vec<_>>(),
    })
}
