//! Takes over releases of operator-sdk's helm-operator or of Helm: who owned an object, and which of its former labels,
//! annotations and references to remove.
//!
//! Facts: operator-sdk's `internal/helm/client/client.go` (owner references, label), operator-lib's
//! `handler/enqueue_annotation.go` (annotations where no owner reference is possible), Helm's `pkg/action/validate.go`
//! (its own label and annotations). Objects are trusted, a custom resource's status is not: a client that may write the
//! status may not write the objects.

mod fields;
mod release;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

pub use fields::{Heir, inherit};
pub use release::{ReleaseError, StoredRelease, objects};

use crate::annotations;
use crate::identity::ObjectId;
use crate::identity::applyset;
use crate::identity::owner_references;
use crate::identity::ownership::Owner;
use chartwright_watches::Collisions;

/// helm-operator's finalizer, and the one that it had before 1.0 (helm-operator-plugins still has it).
pub const FINALIZERS: [&str; 2] = [
    "helm.sdk.operatorframework.io/uninstall-release",
    "uninstall-helm-release",
];
/// helm-operator's field in the status: the release's name and its whole manifest.
pub const DEPLOYED_RELEASE: &str = "deployedRelease";
/// On objects that can't have an owner reference: `namespace/name` of the custom resource.
const PRIMARY: &str = "operator-sdk/primary-resource";
/// Beside it: `Kind.group` of the custom resource.
const PRIMARY_TYPE: &str = "operator-sdk/primary-resource-type";
/// Helm's marks on what a release has: its name, and its namespace.
pub const HELM_RELEASE: &str = "meta.helm.sh/release-name";
pub const HELM_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Who had the release before us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// helm-operator, for the same custom resource.
    OperatorSdk,
    /// A user with `helm install`.
    Helm,
}

/// The release that wants an object.
#[derive(Clone, Debug)]
pub struct Claimant {
    /// UID of the custom resource.
    pub uid: String,
    /// `namespace/name` of the custom resource.
    pub primary: String,
    /// `Kind.group` of the custom resource.
    pub primary_type: String,
    /// `.Release.Name` and `.Release.Namespace`.
    pub release: String,
    pub namespace: String,
    pub collisions: Collisions,
}

/// Whether a release may have an object that doesn't carry its marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// helm-operator made it for this very custom resource.
    Inherited,
    /// Helm made it for a release of this name, and the watch allows to take it.
    Adopted,
    /// No controller and no Helm release owns it, and the watch allows to take it.
    Unowned,
    /// It is anybody's, and the watch allows to take it.
    Forced,
    /// It stays untouched; whose it is, and what would allow to take it.
    Refused(String),
}
impl Former {
    /// As our annotation on the custom resource calls it.
    pub fn name(self) -> &'static str {
        match self {
            Former::OperatorSdk => "operator-sdk",
            Former::Helm => "helm",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Former::OperatorSdk, Former::Helm]
            .into_iter()
            .find(|former| former.name() == text)
    }
}

/// True if helm-operator still holds a custom resource.
pub fn is_held(finalizers: &[String]) -> bool {
    finalizers.iter().any(|finalizer| is_former_finalizer(finalizer))
}

pub fn is_former_finalizer(finalizer: &str) -> bool {
    FINALIZERS.contains(&finalizer)
}
/// Marks an object that no one owns as one that existed before its release: it is left behind. The fields of its other managers stay.
/// `None` if it is marked.
pub fn adoption(metadata: &ObjectMeta) -> Option<Value> {
    let marked = metadata.annotations.as_ref();
    if marked.is_some_and(|all| all.contains_key(annotations::ADOPTED)) {
        return None;
    }
    Some(json!({"metadata": {
        "uid": metadata.uid, "resourceVersion": metadata.resource_version,
        "annotations": {(annotations::ADOPTED): "keep"},
    }}))
}

/// Decides on an object that carries no marks of any release of ours.
pub fn claim(metadata: &ObjectMeta, claimant: &Claimant) -> Claim {
    let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let controller = controller(metadata);
    let named = annotation(PRIMARY).as_deref() == Some(&claimant.primary)
        && annotation(PRIMARY_TYPE).as_deref() == Some(&claimant.primary_type);
    match controller {
        Some(owner) if owner.uid == claimant.uid => return Claim::Inherited,
        None if named => return Claim::Inherited,
        _ if claimant.collisions == Collisions::Force => return Claim::Forced,
        Some(owner) => {
            return Claim::Refused(format!(
                "it exists already and is controlled by {}/{}",
                owner.kind, owner.name
            ));
        }
        None => {}
    }
    let Some((release, namespace)) = annotation(HELM_RELEASE).zip(annotation(HELM_NAMESPACE)) else {
        if claimant.collisions == Collisions::AdoptUnowned {
            return Claim::Unowned;
        }
        return Claim::Refused(
            "it exists already and was not made by this operator; rename one of them, or let the release have it with its data by \
             `collisions: AdoptUnowned` on this watch in watches.yaml; delete it only if nothing needs it"
                .into(),
        );
    };
    let same = release == claimant.release && namespace == claimant.namespace;
    match same {
        true if claimant.collisions == Collisions::Adopt => Claim::Adopted,
        true => Claim::Refused(format!(
            "it belongs to the Helm release {namespace}/{release}; to take it over, set `collisions: Adopt` on this \
             watch in watches.yaml"
        )),
        false => Claim::Refused(format!(
            "it belongs to the Helm release {namespace}/{release}, and this one is {}/{}: only a release of the same \
             name and namespace is taken over with `collisions: Adopt`",
            claimant.namespace, claimant.release
        )),
    }
}

fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    owners(metadata).iter().find(|owner| owner.controller == Some(true))
}

/// True if the custom resource of this UID is the controller of an object, as of all that helm-operator makes beside it.
pub fn is_controlled(metadata: &ObjectMeta, uid: &str) -> bool {
    controller(metadata).is_some_and(|owner| owner.uid == uid)
}

fn owners(metadata: &ObjectMeta) -> &[OwnerReference] {
    metadata.owner_references.as_deref().unwrap_or_default()
}

/// The merge patch that makes an object's fields ours, so that the next apply drops what the chart doesn't have: other
/// managers' entries are merged into our own one, which also gets the owner reference to the custom resource. `None` if
/// there is nothing to merge.
pub fn migration(metadata: &ObjectMeta, heir: &Heir<'_>) -> Option<Value> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let owned = owners(metadata).iter().any(|owner| owner.uid == heir.owner_uid);
    let migrated = inherit(entries, heir, owned)?;
    Some(pinned(metadata, json!({"managedFields": migrated})))
}

/// The merge patch that makes an object a member without touching what it is: our marks on, its owner reference to the
/// custom resource off.
pub fn marks(metadata: &ObjectMeta, id: &ObjectId, owner: &Owner, operator: &str) -> Value {
    let tracking = applyset::tracking_id(&owner.uid, &id.group_kind, &id.namespace, &id.name);
    let mut patch = json!({
        "labels": {(applyset::PART_OF_LABEL): owner.set, (applyset::OPERATOR_LABEL): operator},
        "annotations": {(applyset::TRACKING_ANNOTATION): tracking},
    });
    if let Some(owners) = owner_references::without(metadata, &owner.uid) {
        patch["ownerReferences"] = owners;
    }
    pinned(metadata, patch)
}

/// The merge patch that cuts an object off its custom resource, so that the garbage collector leaves it. `None` if it
/// has no owner reference to it.
pub fn parting(metadata: &ObjectMeta, owner_uid: &str) -> Option<Value> {
    let owners = owner_references::without(metadata, owner_uid)?;
    Some(pinned(metadata, json!({"ownerReferences": owners})))
}

/// The merge patch that takes helm-operator off a custom resource: its finalizers, and its hold on the status, which
/// `manager` inherits. `None` if there is nothing of it.
pub fn farewell(metadata: &ObjectMeta, manager: &str) -> Option<Value> {
    let mut patch = serde_json::Map::new();
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    if is_held(finalizers) {
        let rest: Vec<&String> = finalizers.iter().filter(|text| !is_former_finalizer(text)).collect();
        patch.insert("finalizers".into(), json!(rest));
    }
    let heir = Heir {
        manager,
        subresource: "status",
        api_version: "",
        manifest: None,
        owner_uid: "",
    };
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let rest = fields::without_finalizers(entries);
    if let Some(migrated) = inherit(&rest, &heir, false).or((rest != entries).then_some(rest)) {
        patch.insert("managedFields".into(), json!(migrated));
    }
    (!patch.is_empty()).then(|| pinned(metadata, Value::Object(patch)))
}

/// A patch of metadata that only fits the object as it was read: anything else is a conflict.
fn pinned(metadata: &ObjectMeta, mut patch: Value) -> Value {
    patch["uid"] = json!(metadata.uid);
    patch["resourceVersion"] = json!(metadata.resource_version);
    json!({"metadata": patch})
}

/// What is being taken over, as the annotation on the custom resource says.
pub fn marker(annotations: &BTreeMap<String, String>) -> Option<Former> {
    Former::parse(annotations.get(annotations::TAKEOVER)?)
}

#[cfg(test)]
mod tests;
