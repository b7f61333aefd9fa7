//! Writes to a custom resource: metadata, status, and removal of the finalizer.

use std::collections::BTreeMap;

use api_objects::{CustomObject, MetadataOnly};
use kube::Client;
use kube::api::{Api, ApiResource, ListParams, Patch, PatchParams};
use kube::core::{DynamicResourceScope, ObjectMeta};
use serde_json::{Value, json};

use crate::cluster::connection::bounded;
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::error::{Error, Result};
use crate::cluster::objects::list_if_served;
use chartwright_core::identity::GroupKind;
use chartwright_core::identity::applyset::FINALIZER;
use chartwright_core::identity::decorator;
use chartwright_core::takeover::is_former_finalizer;

/// Owns the finalizer, the ApplySet label and the ApplySet annotations. Never change it.
pub const APPLYSET_MANAGER: &str = "chartwright-applyset";
/// Owns the status. Never change it.
pub const STATUS_MANAGER: &str = "chartwright-status";

/// The most attempts to write a status while other clients change the custom resource.
const TRIES: usize = 4;

/// The custom resource that a write is for. The UID guards against a replaced object.
#[derive(Clone, Debug)]
pub struct WriteTarget {
    /// The last known resourceVersion.
    pub version: u64,
    pub resource: Resource,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

impl WriteTarget {
    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        self.resource.api_in(client, self.namespace.as_deref())
    }
}

/// The metadata of a custom resource that the operator owns.
#[derive(Clone, Debug, Default)]
pub struct OwnedMetadata {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizer: Option<String>,
}

/// The field manager of this metadata. Each decorator has its own, so that none removes the fields of another.
fn applyset_manager(decorator: Option<&str>) -> String {
    match decorator {
        None => APPLYSET_MANAGER.to_owned(),
        Some(name) => format!("{APPLYSET_MANAGER}-{name}"),
    }
}

/// Applies finalizer, labels and annotations. `marks` must be complete: what is absent is removed. The UID in the patch
/// prevents that a deleted custom resource is created again.
pub async fn apply_metadata(
    client: &Client,
    target: &WriteTarget,
    marks: &OwnedMetadata,
    decorator: Option<&str>,
) -> Result<CustomObject> {
    let api = target.api::<CustomObject>(client);
    let mut metadata = json!({"name": target.name, "namespace": target.namespace, "uid": target.uid});
    if let Some(finalizer) = &marks.finalizer {
        metadata["finalizers"] = json!([finalizer]);
    }
    for (field, map) in [("labels", &marks.labels), ("annotations", &marks.annotations)] {
        if !map.is_empty() {
            metadata[field] = json!(map);
        }
    }
    let patch = json!({
        "apiVersion": target.resource.api.api_version,
        "kind": target.resource.api.kind,
        "metadata": metadata,
    });
    let parameters = PatchParams::apply(&applyset_manager(decorator)).force();
    bounded(api.patch(&target.name, &parameters, &Patch::Apply(&patch))).await
}

/// Removes annotations of any field manager.
pub async fn remove_annotations(client: &Client, target: &WriteTarget, keys: &[String]) -> Result<CustomObject> {
    let annotations: BTreeMap<&String, Value> = keys.iter().map(|key| (key, Value::Null)).collect();
    let patch = json!({"metadata": {"uid": target.uid, "annotations": annotations}});
    let api = target.api::<CustomObject>(client);
    bounded(api.patch(&target.name, &PatchParams::default(), &Patch::Merge(&patch))).await
}

/// Applies the complete status of our field manager.
pub async fn apply_status(client: &Client, target: &WriteTarget, status: &Value) -> Result<CustomObject> {
    let patch = json!({
        "apiVersion": target.resource.api.api_version,
        "kind": target.resource.api.kind,
        "metadata": {"name": target.name, "namespace": target.namespace, "uid": target.uid},
        "status": status,
    });
    let parameters = PatchParams::apply(STATUS_MANAGER).force();
    write_status(client, target, patch, &parameters, |patch| Patch::Apply(patch)).await
}

/// Writes a status, but not to a new custom resource of the same name. The status subresource ignores the UID
/// (`PrepareForUpdate` of the status strategy of k8s.io/apiextensions-apiserver replaces the sent metadata with the live
/// one), so the resourceVersion is the guard.
async fn write_status(
    client: &Client,
    target: &WriteTarget,
    mut patch: Value,
    parameters: &PatchParams,
    form: fn(&Value) -> Patch<&Value>,
) -> Result<CustomObject> {
    let api = target.api::<CustomObject>(client);
    let metadata = target.api::<MetadataOnly>(client);
    let mut version = target.version.to_string();
    for tries in 1..=TRIES {
        patch["metadata"]["resourceVersion"] = version.as_str().into();
        let answer = bounded(api.patch_status(&target.name, parameters, &form(&patch))).await;
        if tries == TRIES || !matches!(answer, Err(Error::Conflict(_))) {
            return answer;
        }
        let found = bounded(metadata.get(&target.name)).await?.metadata;
        if found.uid.as_deref() != Some(&target.uid) {
            return Err(Error::NotFound(format!(
                "{} was replaced by another object",
                target.name
            )));
        }
        version = found.resource_version.unwrap_or_default();
    }
    Err(Error::Conflict(format!("{} keeps changing", target.name)))
}

/// Lists the metadata of objects with our finalizer or that of a decorator, in one namespace or (`None`) in all.
///
/// # Errors
/// As [`list_if_served`].
pub async fn list_with_finalizer(
    client: &Client,
    discovery: &Discovery,
    kind: (&GroupKind, &Resource),
    namespace: Option<&str>,
) -> Result<Vec<ObjectMeta>> {
    let mut found = list_if_served(client, discovery, kind, namespace, "").await?;
    let is_ours = |name: &String| name == FINALIZER || decorator::of_finalizer(name).is_some();
    found.retain(|metadata| metadata.finalizers.iter().flatten().any(is_ours));
    Ok(found)
}

/// Merges the status, for a schema without all of our fields: the API server refuses to apply such a status, but merges
/// the fields that it knows. `fields`: all fields that we own; absent ones are removed.
pub async fn merge_status(
    client: &Client,
    target: &WriteTarget,
    status: &Value,
    fields: &[&str],
) -> Result<CustomObject> {
    let mut merged: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), Value::Null)).collect();
    merged.extend(status.as_object().cloned().unwrap_or_default());
    let patch = json!({"metadata": {"uid": target.uid}, "status": merged});
    let parameters = PatchParams {
        field_manager: Some(STATUS_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    write_status(client, target, patch, &parameters, |patch| Patch::Merge(patch)).await
}

/// True if the custom resource exists with this UID.
///
/// # Errors
/// Also if its kind is not served. Hence a LIST: a starting API server answers a GET with "not found" until it has read
/// the CustomResourceDefinition.
pub async fn still_exists(client: &Client, target: &WriteTarget) -> Result<bool> {
    let api = target.api::<MetadataOnly>(client);
    let parameters = ListParams::default().fields(&format!("metadata.name={}", target.name));
    let found = bounded(api.list(&parameters)).await?;
    let is_it = |object: &MetadataOnly| object.metadata.uid.as_deref() == Some(&target.uid);
    Ok(found.items.iter().any(is_it))
}

/// Removes the finalizer `ours` if the list of finalizers is unchanged. With [`FINALIZER`] also removes helm-operator's.
pub async fn remove_finalizer(client: &Client, target: &WriteTarget, finalizers: &[String], ours: &str) -> Result<()> {
    let goes = |finalizer: &str| finalizer == ours || ours == FINALIZER && is_former_finalizer(finalizer);
    if !finalizers.iter().any(|finalizer| goes(finalizer)) {
        return Ok(());
    }
    let mut patch = vec![json!({"op": "test", "path": "/metadata/uid", "value": target.uid})];
    // In reverse order, so that the other indexes stay valid.
    for (index, finalizer) in finalizers.iter().enumerate().rev().filter(|(_, name)| goes(name)) {
        let path = format!("/metadata/finalizers/{index}");
        patch.push(json!({"op": "test", "path": path, "value": finalizer}));
        patch.push(json!({"op": "remove", "path": path}));
    }
    let patch = serde_json::from_value(patch.into()).map_err(|error| Error::Invalid(error.to_string()))?;
    let api = target.api::<MetadataOnly>(client);
    let patch = Patch::<()>::Json(patch);
    match bounded(api.patch(&target.name, &PatchParams::default(), &patch)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        // A failed `test` is 422: the list changed. Schema errors name a field and are `Unprocessable`.
        Err(Error::Invalid(error)) => Err(Error::Conflict(error)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{client, widgets};

    /// Calls [`still_exists`] for UID `u` with this response.
    async fn exists(code: u16, answer: Value) -> Result<bool> {
        let target = WriteTarget {
            version: 1,
            resource: widgets(),
            namespace: Some("shop".into()),
            name: "a".into(),
            uid: "u".into(),
        };
        still_exists(&client(move |_| Some((code, answer.clone()))), &target).await
    }

    #[tokio::test]
    async fn an_unserved_kind_is_an_error_and_not_absence() {
        let list = |uids: &[&str]| {
            let items = uids.iter().map(|uid| json!({"metadata": {"name": "a", "uid": uid}}));
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {},
                "items": items.collect::<Vec<_>>(),
            })
        };
        assert!(exists(200, list(&["u"])).await.unwrap());
        assert!(!exists(200, list(&[])).await.unwrap());
        assert!(!exists(200, list(&["another"])).await.unwrap(), "another UID");
        let unknown = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
            "message": "the server could not find the requested resource",
        });
        assert!(exists(404, unknown).await.is_err());
    }
}
