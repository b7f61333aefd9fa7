//! Our three writes on a custom resource: its metadata, its status, and the finalizer that goes at the end.

use std::collections::BTreeMap;

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation, TestOperation};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::connect::bounded;
use super::discovery::{Discovery, Resource};
use super::error::{Error, Result};
use crate::plan::applyset::FINALIZER;
use crate::plan::takeover::is_former_finalizer;

/// Owns the finalizer, the ApplySet label and the ApplySet annotations. Frozen for ever.
pub const APPLYSET_MANAGER: &str = "chartwright-applyset";
/// Owns the status. Frozen for ever.
pub const STATUS_MANAGER: &str = "chartwright-status";
/// Objects read in one request.
const PAGE: u32 = 500;

/// So often a status is written to a custom resource that others change all the time.
const TRIES: usize = 4;

/// Which custom resource a write is for. The UID makes sure that it is still the same one.
#[derive(Clone, Debug)]
pub struct Target {
    /// The resourceVersion that was seen last.
    pub version: u64,
    pub resource: Resource,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

/// Applies finalizer, ApplySet label and annotations. The UID in the patch keeps a deleted custom resource deleted.
pub async fn apply_metadata(
    discovery: &Discovery,
    target: &Target,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<DynamicObject> {
    let api = discovery.api::<DynamicObject>(&target.resource, target.namespace.as_deref());
    let patch = json!({
        "apiVersion": target.resource.api.api_version,
        "kind": target.resource.api.kind,
        "metadata": {
            "name": target.name, "namespace": target.namespace, "uid": target.uid,
            "labels": labels, "annotations": annotations, "finalizers": [FINALIZER],
        },
    });
    let parameters = PatchParams::apply(APPLYSET_MANAGER).force();
    bounded(api.patch(&target.name, &parameters, &Patch::Apply(&patch))).await
}

/// Applies the status: all of it that is ours.
pub async fn apply_status(discovery: &Discovery, target: &Target, status: &Value) -> Result<DynamicObject> {
    let patch = json!({
        "apiVersion": target.resource.api.api_version,
        "kind": target.resource.api.kind,
        "metadata": {"name": target.name, "namespace": target.namespace, "uid": target.uid},
        "status": status,
    });
    let parameters = PatchParams::apply(STATUS_MANAGER).force();
    write_status(discovery, target, patch, &parameters, Patch::Apply).await
}

/// Writes a status to the custom resource that it is about, and not to another one of its name that came meanwhile: a
/// status subresource doesn't look at the UID (`PrepareForUpdate` of the status strategy of
/// k8s.io/apiextensions-apiserver puts the live metadata in the place of what was sent), but at the resourceVersion.
async fn write_status(
    discovery: &Discovery,
    target: &Target,
    mut patch: Value,
    parameters: &PatchParams,
    form: fn(Value) -> Patch<Value>,
) -> Result<DynamicObject> {
    let api = discovery.api::<DynamicObject>(&target.resource, target.namespace.as_deref());
    let mut version = target.version.to_string();
    for tries in 1..=TRIES {
        patch["metadata"]["resourceVersion"] = version.as_str().into();
        let answer = bounded(api.patch_status(&target.name, parameters, &form(patch.clone()))).await;
        if tries == TRIES || !matches!(answer, Err(Error::Conflict(_))) {
            return answer;
        }
        let found = bounded(api.get_metadata(&target.name)).await?.metadata;
        if found.uid.as_deref() != Some(&target.uid) {
            return Err(Error::NotFound(format!("{} is another one now", target.name)));
        }
        version = found.resource_version.unwrap_or_default();
    }
    Err(Error::Conflict(format!("{} changes all the time", target.name)))
}

/// The metadata of the objects that carry our finalizer, in one namespace or (`None`) everywhere.
pub async fn with_finalizer(
    discovery: &Discovery,
    resource: &Resource,
    namespace: Option<&str>,
) -> Result<Vec<ObjectMeta>> {
    let api = discovery.api::<DynamicObject>(resource, namespace);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = bounded(api.list_metadata(&parameters)).await?;
        let ours = |metadata: &ObjectMeta| metadata.finalizers.iter().flatten().any(|name| name == FINALIZER);
        found.extend(page.items.into_iter().map(|object| object.metadata).filter(ours));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Merges the status, for a schema that doesn't have all of our fields: the API server refuses to apply such a status,
/// and merges what it knows of it. `fields`: those that are ours, so that absent ones go.
pub async fn merge_status(
    discovery: &Discovery,
    target: &Target,
    status: &Value,
    fields: &[&str],
) -> Result<DynamicObject> {
    let mut merged: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), Value::Null)).collect();
    merged.extend(status.as_object().cloned().unwrap_or_default());
    let patch = json!({"metadata": {"uid": target.uid}, "status": merged});
    let parameters = PatchParams {
        field_manager: Some(STATUS_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    write_status(discovery, target, patch, &parameters, Patch::Merge).await
}

/// Takes the finalizer off, and helm-operator's, if the list of finalizers is still the one that was read.
pub async fn remove_finalizer(discovery: &Discovery, target: &Target, finalizers: &[String]) -> Result<()> {
    let goes = |finalizer: &str| finalizer == FINALIZER || is_former_finalizer(finalizer);
    if !finalizers.iter().any(|finalizer| goes(finalizer)) {
        return Ok(());
    }
    let path = |text: &str| PointerBuf::parse(text).map_err(|error| Error::Invalid(error.to_string()));
    let mut patch = vec![PatchOperation::Test(TestOperation {
        path: path("/metadata/uid")?,
        value: target.uid.as_str().into(),
    })];
    // From the back, so that the places of the others stay.
    for (index, finalizer) in finalizers.iter().enumerate().rev().filter(|(_, name)| goes(name)) {
        let path = path(&format!("/metadata/finalizers/{index}"))?;
        patch.push(PatchOperation::Test(TestOperation {
            path: path.clone(),
            value: finalizer.as_str().into(),
        }));
        patch.push(PatchOperation::Remove(RemoveOperation { path }));
    }
    let patch = json_patch::Patch(patch);
    let api = discovery.api::<DynamicObject>(&target.resource, target.namespace.as_deref());
    let patch = Patch::<()>::Json(patch);
    match bounded(api.patch_metadata(&target.name, &PatchParams::default(), &patch)).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        // A failed test is 422; the list changed since it was read. What names a field is the schema's.
        Err(Error::Invalid(error)) => Err(Error::Conflict(error)),
        Err(error) => Err(error),
    }
}
