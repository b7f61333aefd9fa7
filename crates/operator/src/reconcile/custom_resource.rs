//! A custom resource as the operator keeps it: what decisions read, and spec and status as raw bytes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use api_objects::{CustomObject, Unreadable};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::cluster::custom_resource::{STATUS_MANAGER, WriteTarget};
use crate::cluster::discovery::Resource;
use chartwright_core::annotations;
use chartwright_core::digest::Keyring;
use chartwright_core::identity::applyset::{self, FINALIZER};
use chartwright_core::identity::ownership::Owner;
use chartwright_core::identity::{GroupKind, decorator, owner_references};
use chartwright_core::prune::deletion::Cascade;
use chartwright_core::record::signature::RecordSeal;
use chartwright_core::status::conditions::{self, Condition};
use chartwright_core::takeover::is_former_finalizer;

/// kubectl's copy of the whole manifest: large, possibly secret, and of no use here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Namespace (empty for a cluster-scoped one) and name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ResourceKey {
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug)]
pub struct CustomResource {
    pub key: ResourceKey,
    pub uid: String,
    /// The resource version as a number, to find the newer of two states. 0 if it is no number.
    pub version: u64,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
    /// When its deletion was requested.
    pub deleted_at: Option<jiff::Timestamp>,
    /// How the deletion was requested, if that was seen.
    pub cascade: Cascade,
    /// Creation time: the clock of templates, so that `now` does not differ between two renders.
    pub created: jiff::Timestamp,
    spec: Option<Arc<[u8]>>,
    status: Option<Arc<[u8]>>,
    /// Digest of what other field managers wrote into the status. `None` if the operator owns nothing of the status.
    foreign_status: Option<u64>,
    /// The decorator whose release is attached to this object. `None` for a custom resource of our own.
    pub decorator: Option<Arc<str>>,
}

impl ResourceKey {
    pub fn of(metadata: &ObjectMeta) -> Self {
        ResourceKey {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

impl From<DynamicObject> for CustomResource {
    fn from(mut object: DynamicObject) -> Self {
        let mut raw = |field: &str| {
            let value = object.data.get_mut(field).map(Value::take)?;
            serde_json::to_vec(&value).ok().map(Arc::from)
        };
        let (spec, status) = (raw("spec"), raw("status"));
        CustomResource::new(object.metadata, spec, status)
    }
}

impl From<CustomObject> for CustomResource {
    fn from(object: CustomObject) -> Self {
        CustomResource::new(object.metadata, object.spec, object.status)
    }
}

/// Digest of the entries of other field managers for the status. `None` without an entry of our own: the status was wiped.
fn foreign_status(managed: &[ManagedFieldsEntry]) -> Option<u64> {
    let of_status = managed
        .iter()
        .filter(|entry| entry.subresource.as_deref() == Some("status"));
    let (own, foreign): (Vec<_>, Vec<_>) =
        of_status.partition(|entry| entry.manager.as_deref() == Some(STATUS_MANAGER));
    if own.is_empty() {
        return None;
    }
    let mut hash = DefaultHasher::new();
    for entry in foreign {
        (&entry.manager, &entry.operation).hash(&mut hash);
        entry.time.as_ref().map(|time| time.0.as_nanosecond()).hash(&mut hash);
    }
    Some(hash.finish())
}

impl CustomResource {
    fn new(metadata: ObjectMeta, spec: Option<Arc<[u8]>>, status: Option<Arc<[u8]>>) -> Self {
        let key = ResourceKey::of(&metadata);
        let deleting = metadata.deletion_timestamp.is_some();
        let finalizers = metadata.finalizers.unwrap_or_default();
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.remove(LAST_APPLIED);
        let foreign_status = foreign_status(metadata.managed_fields.as_deref().unwrap_or_default());
        CustomResource {
            key,
            uid: metadata.uid.unwrap_or_default(),
            version: metadata
                .resource_version
                .and_then(|version| version.parse().ok())
                .unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations,
            cascade: if deleting {
                Cascade::of(&finalizers)
            } else {
                Cascade::default()
            },
            finalizers,
            deleting,
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            created: metadata.creation_timestamp.map(|time| time.0).unwrap_or_default(),
            spec,
            status,
            foreign_status,
            decorator: None,
        }
    }

    /// The same object as a decorator sees it. Its status belongs to another owner and contains nothing about the
    /// release.
    pub fn decorated_by(self, decorator: Option<Arc<str>>) -> Self {
        match decorator {
            None => self,
            decorator => CustomResource {
                decorator,
                status: None,
                ..self
            },
        }
    }

    /// The spec as it was sent; an absent one is empty.
    pub fn spec_bytes(&self) -> &[u8] {
        self.spec.as_deref().unwrap_or(b"{}")
    }

    /// The spec; an absent or null one is an empty mapping, since a chart has defaults for everything.
    ///
    /// # Errors
    /// If it nests too deep.
    pub fn spec(&self) -> Result<Value, Unreadable> {
        Ok(match api_objects::deep(self.spec_bytes())? {
            Value::Null => json!({}),
            value => value,
        })
    }

    /// About how many bytes the API server keeps of it: what is kept here, without `managedFields`.
    pub fn size(&self) -> usize {
        let texts =
            |map: &BTreeMap<String, String>| -> usize { map.iter().map(|(key, value)| key.len() + value.len()).sum() };
        self.spec_bytes().len()
            + self.status.as_deref().map_or(0, <[u8]>::len)
            + texts(&self.labels)
            + texts(&self.annotations)
    }

    /// True if another field manager changed the status since `earlier`. A write of another operator of this name does not count.
    pub fn has_foreign_status(&self, earlier: &CustomResource) -> bool {
        self.status != earlier.status && self.foreign_status != earlier.foreign_status
    }

    /// Parses the status, at each call.
    pub fn status(&self) -> Value {
        let bytes = self.status.as_deref();
        bytes
            .and_then(|bytes| api_objects::deep(bytes).ok())
            .unwrap_or_default()
    }

    /// The failed attempts for the present generation, as the status counts them.
    pub fn failures(&self, status: &Value) -> u32 {
        let failures = status.get("failures").and_then(Value::as_u64).unwrap_or_default();
        match self.ready(status) {
            Some(_) => u32::try_from(failures).unwrap_or(u32::MAX),
            None => 0,
        }
    }

    /// True if the status reports the present generation as not ready.
    pub fn is_unready(&self, status: &Value) -> bool {
        self.ready(status).is_some_and(|ready| ready.status == "False")
    }

    fn ready(&self, status: &Value) -> Option<Condition> {
        let conditions = conditions::of(status);
        let ready = conditions::get(&conditions, "Ready")?;
        (ready.observed_generation == Some(self.generation)).then(|| ready.clone())
    }

    /// The finalizer that holds it for this release.
    pub fn finalizer(&self) -> String {
        match &self.decorator {
            None => FINALIZER.to_owned(),
            Some(name) => decorator::finalizer(name),
        }
    }

    pub fn has_finalizer(&self) -> bool {
        self.finalizers.contains(&self.finalizer())
    }

    /// True if it says that it has a release. A decorator doesn't always need the finalizer.
    pub fn is_claimed(&self) -> bool {
        match &self.decorator {
            None => self.has_finalizer(),
            Some(name) => self.annotations.contains_key(&decorator::kinds(name)),
        }
    }

    /// The same, or that it is held for one.
    pub fn is_marked(&self) -> bool {
        self.is_claimed() || self.has_finalizer()
    }

    /// The annotations with the kinds and the namespaces of its members.
    pub fn member_scope_annotations(&self) -> (String, String) {
        match &self.decorator {
            None => (
                applyset::KINDS_ANNOTATION.to_owned(),
                applyset::NAMESPACES_ANNOTATION.to_owned(),
            ),
            Some(name) => (decorator::kinds(name), decorator::namespaces(name)),
        }
    }

    /// The annotation that says where its random results are.
    pub fn kept_annotation(&self) -> String {
        match &self.decorator {
            None => annotations::KEPT.to_owned(),
            Some(name) => decorator::kept(name),
        }
    }

    /// Checks and signs the record in its status.
    pub fn record_seal<'a>(&'a self, keys: &'a Keyring, group_kind: &'a GroupKind) -> RecordSeal<'a> {
        RecordSeal {
            keys,
            key: keys.current(),
            group_kind,
            namespace: &self.key.namespace,
            name: &self.key.name,
            uid: &self.uid,
        }
    }

    /// What the names of its Secrets end with.
    pub fn secret_id(&self) -> String {
        match &self.decorator {
            None => self.uid.clone(),
            Some(name) => format!("{}-{name}", self.uid),
        }
    }

    /// The owner of the Secrets with record and random results, where no operator may be there to delete them.
    pub fn secrets_owner(&self, resource: &Resource) -> Option<OwnerReference> {
        self.decorator.as_ref().map(|_| self.owner_reference(resource))
    }

    /// Changes with everything that can start a reconcile: not with the status, which we write ourselves.
    pub fn trigger(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        self.triggers().hash(&mut hash);
        hash.finish()
    }

    /// True if nothing differs that can start a reconcile.
    pub fn triggers_as(&self, other: &CustomResource) -> bool {
        self.triggers() == other.triggers()
    }

    fn triggers(&self) -> impl Hash + PartialEq {
        let metadata = (&self.uid, &self.labels, &self.annotations, &self.finalizers);
        (metadata, self.deleting, &self.spec)
    }

    /// As [`CustomResource::trigger`], of what others want: without what the operator itself puts on a custom resource.
    pub fn author_digest(&self) -> u64 {
        let own = [
            annotations::KEPT,
            annotations::TAKEOVER,
            applyset::TOOLING_ANNOTATION,
            applyset::KINDS_ANNOTATION,
            applyset::NAMESPACES_ANNOTATION,
        ];
        let mut hash = DefaultHasher::new();
        (&self.uid, self.deleting, &self.spec).hash(&mut hash);
        let is_own = |key: &str| own.contains(&key) || decorator::is_mark(key);
        let is_own_label = |key: &str| key == applyset::ID_LABEL || decorator::is_mark(key);
        for label in self.labels.iter().filter(|(key, _)| !is_own_label(key)) {
            label.hash(&mut hash);
        }
        for annotation in self.annotations.iter().filter(|(key, _)| !is_own(key)) {
            annotation.hash(&mut hash);
        }
        for finalizer in &self.finalizers {
            if finalizer != FINALIZER && !is_former_finalizer(finalizer) && !decorator::is_mark(finalizer) {
                finalizer.hash(&mut hash);
            }
        }
        hash.finish()
    }

    pub fn owner(&self, group_kind: &GroupKind) -> Owner {
        Owner {
            uid: match &self.decorator {
                None => self.uid.clone(),
                Some(name) => decorator::owner_uid(&self.uid, name),
            },
            set: self.applyset_id(group_kind),
        }
    }

    /// The release that made this custom resource itself, by its label and its tracking annotation.
    pub fn parent(&self, group_kind: &GroupKind) -> Option<Owner> {
        let tracking = applyset::parse_tracking_id(self.annotations.get(applyset::TRACKING_ANNOTATION)?)?;
        let itself = tracking.group_kind == *group_kind
            && tracking.namespace == self.key.namespace
            && tracking.name == self.key.name;
        let set = self.labels.get(applyset::PART_OF_LABEL).filter(|_| itself)?;
        Some(Owner {
            uid: tracking.owner_uid,
            set: set.clone(),
        })
    }

    pub fn applyset_id(&self, group_kind: &GroupKind) -> String {
        let GroupKind { group, kind } = group_kind;
        let group = match &self.decorator {
            None => group.clone(),
            Some(name) => format!("{group}/{name}"),
        };
        applyset::id(&self.key.name, &self.key.namespace, kind, &group)
    }

    pub fn target(&self, resource: &Resource) -> WriteTarget {
        WriteTarget {
            resource: resource.clone(),
            namespace: (!self.key.namespace.is_empty()).then(|| self.key.namespace.clone()),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
            version: self.version,
        }
    }

    /// The owner reference of its members, so that the garbage collector deletes them with it.
    pub fn owner_reference(&self, resource: &Resource) -> OwnerReference {
        let api = &resource.api;
        owner_references::reference(&api.api_version, &api.kind, &self.key.name, &self.uid)
    }

    pub fn reference(&self, resource: &Resource) -> ObjectReference {
        ObjectReference {
            api_version: Some(resource.api.api_version.clone()),
            kind: Some(resource.api.kind.clone()),
            namespace: (!self.key.namespace.is_empty()).then(|| self.key.namespace.clone()),
            name: Some(self.key.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }

    /// The custom resource for templates (`targetNamespace`): metadata and spec, without the metadata that decorators
    /// write.
    pub fn as_data(&self, resource: &Resource) -> Value {
        let others = |map: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let others = map.iter().filter(|(key, _)| !decorator::is_mark(key));
            others.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        json!({
            "apiVersion": resource.api.api_version,
            "kind": resource.api.kind,
            "metadata": {
                "name": self.key.name, "namespace": self.key.namespace, "uid": self.uid,
                "labels": others(&self.labels), "annotations": others(&self.annotations),
            },
            "spec": self.spec().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn resource(object: Value) -> CustomResource {
        serde_json::from_value::<DynamicObject>(object).unwrap().into()
    }

    #[test]
    fn the_status_never_triggers_and_the_spec_does() {
        let with = |status: Value, spec: Value| {
            let annotations = json!({LAST_APPLIED: "{\"password\":1}"});
            resource(json!({"metadata": {"name": "a", "annotations": annotations}, "status": status, "spec": spec}))
        };
        let one = with(json!({"a": 1}), json!({"size": 1}));
        assert_eq!(one.trigger(), with(json!({"a": 2}), json!({"size": 1})).trigger());
        assert_ne!(one.trigger(), with(json!({"a": 1}), json!({"size": 2})).trigger());
        assert!(one.annotations.is_empty());
        assert_eq!(with(json!(null), json!(null)).spec(), Ok(json!({})));
        assert_eq!(resource(json!({"metadata": {"name": "a"}})).spec(), Ok(json!({})));
    }

    #[test]
    fn a_parent_is_named_by_label_and_annotation_of_the_custom_resource_itself() {
        let kind = GroupKind::new("example.com", "Shop");
        let with = |label: &str, tracking: &str| {
            let object = json!({"metadata": {
                "name": "a", "namespace": "b", "uid": "u", "labels": {(label): "set"},
                "annotations": {(applyset::TRACKING_ANNOTATION): tracking},
            }});
            resource(object).parent(&kind).map(|owner| (owner.uid, owner.set))
        };
        let label = applyset::PART_OF_LABEL;
        assert_eq!(with(label, "p:Shop.example.com:b/a"), Some(("p".into(), "set".into())));
        assert_eq!(with(label, "p:Shop.example.com:b/other"), None, "a copy of another's");
        assert_eq!(with("label", "p:Shop.example.com:b/a"), None);
    }

    #[test]
    fn each_decorator_has_marks_of_its_own() {
        let kind = GroupKind::new("", "Namespace");
        let object = json!({
            "metadata": {
                "name": "a", "uid": "u", "finalizers": [decorator::finalizer("x")],
                "labels": {"team": "t", (decorator::LABEL): "true"},
                "annotations": {(decorator::kinds("y")): "ConfigMap", (decorator::kept("y")): "Secret a/b"},
            },
            "status": {"release": {"revision": 3}},
        });
        let of = |name: Option<&str>| resource(object.clone()).decorated_by(name.map(Arc::from));
        let (plain, x, y) = (of(None), of(Some("x")), of(Some("y")));
        let flags = |resource: &CustomResource| {
            (
                resource.has_finalizer(),
                resource.is_claimed(),
                resource.is_marked(),
                resource.status().is_null(),
            )
        };
        assert_eq!(flags(&plain), (false, false, false, false));
        assert_eq!(flags(&x), (true, false, true, true));
        assert_eq!(flags(&y), (false, true, true, true));
        let owners: HashSet<String> = [&plain, &x, &y].iter().map(|of| of.owner(&kind).uid).collect();
        let sets: HashSet<String> = [&plain, &x, &y].iter().map(|of| of.applyset_id(&kind)).collect();
        assert_eq!((owners.len(), sets.len()), (3, 3));
        assert_eq!(plain.applyset_id(&kind), applyset::id("a", "", "Namespace", ""));
        assert!(sets.iter().all(|set| set.len() == 55), "{sets:?}");
        let api = kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::Namespace>(&());
        let served = Resource {
            api,
            namespaced: false,
            watchable: true,
            status: true,
        };
        let seen = x.as_data(&served);
        assert_eq!(seen["metadata"]["labels"], json!({"team": "t"}));
        assert_eq!(seen["metadata"]["annotations"], json!({}));
    }

    #[test]
    fn our_own_marks_are_not_asked_for() {
        let with = |finalizers: &[&str], label: [&str; 2], annotation: [&str; 2], size: i64| {
            let metadata = json!({
                "name": "a", "uid": "u", "finalizers": finalizers, "labels": {"l": "1", (label[0]): label[1]},
                "annotations": {"a": "1", (annotation[0]): annotation[1]},
            });
            resource(json!({"metadata": metadata, "spec": {"size": size}}))
        };
        let before = with(&[], ["l", "1"], ["a", "1"], 1);
        for ours in [applyset::KINDS_ANNOTATION, annotations::KEPT, annotations::TAKEOVER] {
            let claimed = [FINALIZER, "uninstall-helm-release"];
            let claimed = with(&claimed, [applyset::ID_LABEL, "x"], [ours, "x"], 1);
            assert_eq!(claimed.author_digest(), before.author_digest());
        }
        let decorated = with(
            &["chartwright.dev/decorator-x"],
            [decorator::LABEL, "true"],
            [&decorator::kinds("x"), ""],
            1,
        );
        assert_eq!(decorated.author_digest(), before.author_digest());
        for theirs in [
            with(&[], ["l", "1"], ["a", "1"], 2),
            with(&["theirs"], ["l", "1"], ["a", "1"], 1),
            with(&[], ["l", "2"], ["a", "1"], 1),
            with(&[], ["l", "1"], [annotations::SUSPEND, "true"], 1),
            CustomResource {
                deleting: true,
                ..before.clone()
            },
        ] {
            assert_ne!(theirs.author_digest(), before.author_digest());
        }
    }
}
