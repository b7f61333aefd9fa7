//! Requests on members: read, apply, list, delete. The caller decides.

use std::fmt::Debug;
use std::time::Duration;

use api_objects::{MetadataOnly, Whole};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Client;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    ValidationDirective,
};
use kube::core::{ObjectMeta, Request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::connection::bounded;
use crate::cluster::connection::url_path::segment;
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::error::{Error, Result};
use chartwright_core::health;
use chartwright_core::hooks;
use chartwright_core::identity::applyset;
use chartwright_core::identity::owner_references;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::live::Live;
use chartwright_core::members::immutable_fields;

pub mod lookup;
pub mod takeover;

/// The field manager of members. Never change it: another name would orphan every field that this one owns.
pub const FIELD_MANAGER: &str = "chartwright";

/// The field manager of replicas that wait for their autoscaler.
const REPLICAS_MANAGER: &str = "chartwright-replicas";

/// Objects read in one request; a larger list comes in pages.
const PAGE: u32 = 500;
/// Retries, and their interval, when discovery lists a kind that is not served.
const LOOKS_AT_DISCOVERY: usize = 5;
const DISCOVERY_LAGS: Duration = Duration::from_secs(1);
/// A version that no object has: etcd counts from 1, and 1 is the store before anything was written to it.
pub const NO_VERSION: &str = "1";

/// Extracts [`Live`] from the metadata of an object.
pub fn live(metadata: &ObjectMeta) -> Live {
    Live::from_metadata(metadata, FIELD_MANAGER)
}

/// As [`live`], with health for kinds that have one.
pub fn live_with_health(id: &ObjectId, object: &Whole) -> Live {
    let mut live = live(&object.metadata);
    if health::has_health(&id.group_kind.group, &id.group_kind.kind) {
        let mut fields = object.outline_without_metadata();
        fields.insert("metadata".into(), health_metadata(&object.metadata));
        let value = Value::Object(fields);
        let health = health::health(&id.group_kind, &value, jiff::Timestamp::now());
        if health.status != health::HealthStatus::Current {
            live.state.pods = health::pods::selector(&id.group_kind, &value).map(String::into_boxed_str);
        }
        live.state.health = Some(health);
        live.state.finished = is_finished(id, &value);
    }
    live
}

/// A complete Job that its TTL will remove.
fn is_finished(id: &ObjectId, object: &Value) -> bool {
    let complete = |condition: &Value| condition["type"] == "Complete" && condition["status"] == "True";
    id.group_kind.group == "batch"
        && id.group_kind.kind == "Job"
        && object
            .pointer("/spec/ttlSecondsAfterFinished")
            .is_some_and(Value::is_number)
        && object["status"]["conditions"]
            .as_array()
            .is_some_and(|conditions| conditions.iter().any(complete))
}

/// The part of the metadata that health reads.
fn health_metadata(metadata: &ObjectMeta) -> Value {
    json!({
        "name": metadata.name, "namespace": metadata.namespace, "generation": metadata.generation,
        "creationTimestamp": metadata.creation_timestamp, "deletionTimestamp": metadata.deletion_timestamp,
        "labels": metadata.labels, "annotations": metadata.annotations,
    })
}

/// The identity of an object, from its kind and metadata.
pub fn id_of(group_kind: &GroupKind, metadata: &ObjectMeta) -> ObjectId {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectId::new(group_kind.clone(), text(&metadata.namespace), text(&metadata.name))
}

fn namespace(id: &ObjectId) -> Option<&str> {
    (!id.namespace.is_empty()).then_some(id.namespace.as_str())
}

/// A live object with its complete `managedFields`.
pub type LiveAndFields = (Live, Vec<ManagedFieldsEntry>);

/// Reads the metadata of an object. `None` if it does not exist.
pub async fn read_live(client: &Client, resource: &Resource, id: &ObjectId) -> Result<Option<Live>> {
    let found = read_live_and_fields(client, resource, id).await?;
    Ok(found.map(|(live, _)| live))
}

/// As [`read_live`], with the complete `managedFields`.
pub async fn read_live_and_fields(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
) -> Result<Option<LiveAndFields>> {
    let found = metadata(client, resource, &id.namespace, &id.name).await?;
    Ok(found.map(|metadata| (live(&metadata), metadata.managed_fields.unwrap_or_default())))
}

/// Reads all metadata of an object. `None` if it does not exist. `namespace` is empty for a cluster-scoped object.
pub async fn metadata(client: &Client, resource: &Resource, namespace: &str, name: &str) -> Result<Option<ObjectMeta>> {
    let api = resource.api_in::<MetadataOnly>(client, (!namespace.is_empty()).then_some(namespace));
    match bounded(api.get(&segment(name))).await {
        Ok(object) => Ok(Some(object.metadata)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists all objects of a kind in one namespace, or (`None`) in all.
pub async fn list_objects(client: &Client, resource: &Resource, namespace: Option<&str>) -> Result<Vec<Whole>> {
    list(resource.api_in(client, namespace), "", |object| object).await
}

/// Lists all pages of a label selector. `reduce` runs on each object immediately, to save memory.
pub async fn list<K, T>(api: Api<K>, labels: &str, reduce: impl Fn(K) -> T) -> Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut parameters = ListParams::default().labels(labels).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = bounded(api.list(&parameters)).await?;
        found.extend(page.items.into_iter().map(&reduce));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Reads a complete object. `None` if it does not exist.
pub async fn read(client: &Client, resource: &Resource, id: &ObjectId) -> Result<Option<(Live, Value)>> {
    let api = resource.api_in::<Whole>(client, namespace(id));
    let Some(object) = bounded(api.get_opt(&segment(&id.name))).await? else {
        return Ok(None);
    };
    let value = object
        .value()
        .map_err(|error| Error::Invalid(format!("{id} {error}")))?;
    let live = Live {
        takes_data: immutable_fields::takes_data(id, &value),
        ..live(&object.metadata)
    };
    Ok(Some((live, value)))
}

/// The object that an apply is for. Another object of the same name is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyTarget<'a> {
    /// None: the apply must create it. The API server compares a resourceVersion with an existing object only
    /// (`Store.Update` of k8s.io/apiserver/pkg/registry/generic/registry), so a version that no object has allows creation
    /// alone.
    Nothing,
    /// The object with this UID, with force. A deleted object is not created again.
    Object(&'a str),
}

/// Applies a member (server-side apply). Unknown fields are errors.
///
/// # Errors
/// `Conflict`, without a write, if the live object does not match the target.
pub async fn apply(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    object: &mut Value,
    onto: ApplyTarget<'_>,
) -> Result<Live> {
    let api = resource.api_in::<Whole>(client, namespace(id));
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or_else(|| Error::Invalid(format!("{id}: no metadata")))?;
    let (field, value) = match onto {
        ApplyTarget::Nothing => ("resourceVersion", NO_VERSION),
        ApplyTarget::Object(uid) => ("uid", uid),
    };
    metadata.insert(field.to_owned(), value.into());
    let parameters = PatchParams {
        force: matches!(onto, ApplyTarget::Object(_)),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply(FIELD_MANAGER)
    };
    match bounded(api.patch(&segment(&id.name), &parameters, &Patch::Apply(&*object))).await {
        Ok(answer) => Ok(live_with_health(id, &answer)),
        Err(error) if is_uid_conflict(&error) => Err(Error::Conflict(format!("{id} was replaced by another object"))),
        Err(error) => Err(error),
    }
}

/// Makes [`REPLICAS_MANAGER`] an owner of the replicas that an object has, so that they stay when our field manager gives them up
/// (<https://kubernetes.io/docs/reference/using-api/server-side-apply/#transferring-ownership>).
///
/// # Errors
/// `Conflict` if the object is not in this version, or has no replicas.
pub async fn hand_over_replicas(client: &Client, resource: &Resource, id: &ObjectId, object: &Value) -> Result<Live> {
    let api = resource.api_in::<Whole>(client, namespace(id));
    let field = |pointer: &str| object.pointer(pointer).filter(|value| !value.is_null());
    let Some(replicas) = field("/spec/replicas") else {
        return Err(Error::Conflict(format!("{id} has no replicas")));
    };
    let handover = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"name": id.name, "uid": field("/metadata/uid"), "resourceVersion": field("/metadata/resourceVersion")},
        "spec": {"replicas": replicas},
    });
    let parameters = PatchParams::apply(REPLICAS_MANAGER);
    let answer = bounded(api.patch(&segment(&id.name), &parameters, &Patch::Apply(&handover))).await?;
    Ok(live_with_health(id, &answer))
}

/// True if the object was replaced: for the API server, the write would then change `metadata.uid`.
pub(in crate::cluster) fn is_uid_conflict(error: &Error) -> bool {
    match error {
        Error::Unprocessable { causes, .. } => causes.iter().any(|cause| cause.field == "metadata.uid"),
        _ => false,
    }
}

/// Lets the TTL controller delete a Job this many seconds after its end. False if the Job is gone.
pub async fn set_ttl(client: &Client, resource: &Resource, id: &ObjectId, uid: &str, seconds: u32) -> Result<bool> {
    let api = resource.api_in::<MetadataOnly>(client, namespace(id));
    let patch = json!({"metadata": {"uid": uid}, "spec": {(hooks::TTL): seconds}});
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    match bounded(api.patch(&segment(&id.name), &parameters, &Patch::Merge(&patch))).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() || is_uid_conflict(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the API server would accept a write.
#[derive(Clone, Debug)]
pub enum DryRunResult {
    /// Accepted. Of a creation: accepted if the object did not exist.
    Accepted,
    /// Refused by validation, admission or a missing permission.
    Refused(Error),
}

/// Checks by dry run whether an existing object could be created as rendered. The API server validates a new object and
/// runs admission before it checks the name (`Store.Create` of k8s.io/apiserver/pkg/registry/generic/registry). So
/// "already exists" means yes.
///
/// # Errors
/// No verdict: the server is unreachable, or the object is gone and the dry run created it.
pub async fn check_creation(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    object: &Value,
) -> Result<DryRunResult> {
    match create(client, resource, id, object, true).await {
        Ok(()) => Err(Error::NotFound(format!("{id} is gone"))),
        Err(Error::Conflict(_)) => Ok(DryRunResult::Accepted),
        // The IP address or port belongs to this Service itself.
        Err(Error::Taken(_)) => Ok(DryRunResult::Accepted),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok(DryRunResult::Refused(error)),
    }
}

/// Checks by dry run whether the API server accepts a change of an object, which needs the right to patch alone.
///
/// # Errors
/// No verdict: the server is unreachable.
pub async fn check_change(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    (from, to): (&Value, &Value),
) -> Result<DryRunResult> {
    let api = resource.api_in::<MetadataOnly>(client, namespace(id));
    let parameters = PatchParams {
        dry_run: true,
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let patch: Patch<()> = Patch::Json(json_patch::diff(from, to));
    match bounded(api.patch(&segment(&id.name), &parameters, &patch)).await {
        Ok(_) => Ok(DryRunResult::Accepted),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok(DryRunResult::Refused(error)),
    }
}

/// Writes who owns the fields of an object, only in the state that was read, and returns the object afterwards.
///
/// # Errors
/// `Conflict` if the object is not in this version, or gone.
pub async fn set_managed_fields(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
    entries: &[ManagedFieldsEntry],
) -> Result<Live> {
    let patch = json!({"metadata": {
        "uid": live.uid, "resourceVersion": live.resource_version, "managedFields": entries,
    }});
    match takeover::patch_metadata(client, resource, &id.namespace, &id.name, &patch).await {
        Ok(metadata) => Ok(self::live(&metadata)),
        Err(error) if error.is_not_found() => Err(Error::Conflict(format!("{id} is gone"))),
        Err(error) => Err(error),
    }
}

/// Creates an object unless it exists. For objects of a watch, not of a release. True if it was created.
pub async fn create_if_absent(client: &Client, resource: &Resource, id: &ObjectId, object: &Value) -> Result<bool> {
    match create(client, resource, id, object, false).await {
        Ok(()) => Ok(true),
        // AlreadyExists is a conflict by its code.
        Err(Error::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn create(client: &Client, resource: &Resource, id: &ObjectId, object: &Value, dry_run: bool) -> Result<()> {
    let api = resource.api_in::<DynamicObject>(client, namespace(id));
    let object: DynamicObject =
        serde_json::from_value(object.clone()).map_err(|error| Error::Invalid(error.to_string()))?;
    let parameters = PostParams {
        dry_run,
        field_manager: Some(FIELD_MANAGER.into()),
    };
    bounded(api.create(&parameters, &object)).await.map(drop)
}

/// Lists the objects of a kind with the label of an ApplySet (metadata only): namespace, name and live state.
pub async fn list_applyset(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
    applyset_id: &str,
) -> Result<Vec<(String, String, Live)>> {
    let labels = format!("{}={applyset_id}", applyset::PART_OF_LABEL);
    let listed = list_metadata(client, resource, namespace, &labels).await?;
    let found = listed.into_iter().map(|metadata| {
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        (namespace.unwrap_or_default(), name.unwrap_or_default(), live(&metadata))
    });
    Ok(found.collect())
}

/// Lists the metadata of the objects of a kind. An empty label selector matches all.
pub async fn list_metadata(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<ObjectMeta>> {
    let api = resource.api_in::<MetadataOnly>(client, namespace);
    list(api, labels, |object| object.metadata).await
}

/// As [`list_metadata`], but empty for a kind that is no longer served: its CustomResourceDefinition may be deleted
/// during a loop over all kinds. Discovery lags behind, so it is reread.
///
/// # Errors
/// Also if discovery still lists a kind that is not served: its objects exist.
pub async fn list_if_served(
    client: &Client,
    discovery: &Discovery,
    (group_kind, resource): (&GroupKind, &Resource),
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<ObjectMeta>> {
    let mut tries = 0;
    loop {
        match list_metadata(client, resource, namespace, labels).await {
            Err(Error::NotServed(_)) if tries < LOOKS_AT_DISCOVERY => {}
            listed => return listed,
        }
        tokio::time::sleep(DISCOVERY_LAGS).await;
        discovery.refresh().await?;
        if discovery.snapshot().is_gone(group_kind) {
            return Ok(Vec::new());
        }
        tries += 1;
    }
}

/// The outcome of a delete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// Deleted, or being deleted.
    Accepted,
    /// It did not exist.
    Absent,
    /// It was changed or replaced since it was read, and stays.
    Changed,
}

impl DeleteOutcome {
    fn of<T>(answer: Result<T>) -> Result<Self> {
        match answer {
            Ok(_) => Ok(DeleteOutcome::Accepted),
            Err(error) if error.is_not_found() => Ok(DeleteOutcome::Absent),
            // A precondition failed.
            Err(Error::Conflict(_)) => Ok(DeleteOutcome::Changed),
            Err(error) => Err(error),
        }
    }
}

/// Deletes an object in the state that was read. An object that was replaced or changed since stays.
///
/// Its dependents (a Deployment's pods) are deleted in the background, as with Helm.
pub async fn delete(client: &Client, resource: &Resource, id: &ObjectId, live: &Live) -> Result<DeleteOutcome> {
    delete_with_policy(PropagationPolicy::Background, false, client, resource, id, live).await
}

/// As [`delete`], but the API server only checks the request: rights, admission and preconditions.
///
/// # Errors
/// The deletion would be refused.
pub async fn check_deletion(client: &Client, resource: &Resource, id: &ObjectId, live: &Live) -> Result<DeleteOutcome> {
    delete_with_policy(PropagationPolicy::Background, true, client, resource, id, live).await
}

/// As [`delete`], but the object stays until its dependents are gone: a Job until none of its pods runs.
pub async fn delete_in_foreground(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
) -> Result<DeleteOutcome> {
    delete_with_policy(PropagationPolicy::Foreground, false, client, resource, id, live).await
}

async fn delete_with_policy(
    propagation: PropagationPolicy,
    dry_run: bool,
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
) -> Result<DeleteOutcome> {
    let api = resource.api_in::<MetadataOnly>(client, namespace(id));
    let parameters = DeleteParams {
        dry_run,
        propagation_policy: Some(propagation),
        preconditions: Some(Preconditions {
            uid: Some(live.uid.clone()),
            resource_version: Some(live.resource_version.clone()),
        }),
        ..DeleteParams::default()
    };
    let request = Request::new(api.resource_url()).delete(&segment(&id.name), &parameters);
    let request = request.map_err(|error| Error::Invalid(error.to_string()))?;
    // The body of the response is not needed.
    DeleteOutcome::of(bounded(api.into_client().request_text(request)).await)
}

/// Removes our labels, annotations and owner reference from an object that stays, so that it is no longer a member and the
/// garbage collector keeps it. As [`delete`], only in the state that was read.
///
/// `kept_from`: the ApplySet id of a release that may take it up again.
pub async fn release_member(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
    kept_from: Option<&str>,
) -> Result<DeleteOutcome> {
    let mut patch = json!({
        "labels": {(applyset::PART_OF_LABEL): null, (applyset::OPERATOR_LABEL): null},
        "annotations": {(applyset::TRACKING_ANNOTATION): null, (applyset::DIGEST_ANNOTATION): null},
    });
    if let Some(applyset_id) = kept_from {
        patch["annotations"][applyset::KEPT_ANNOTATION] = applyset_id.into();
    }
    patch_metadata_if_unchanged(client, resource, id, live, patch).await
}

/// Removes only the owner reference: the object stays a member when its custom resource is deleted.
pub async fn remove_owner_reference(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
) -> Result<DeleteOutcome> {
    patch_metadata_if_unchanged(client, resource, id, live, json!({})).await
}

/// Removes the owner reference to a custom resource from an object that is not its member, so that the garbage collector does not
/// delete the object with it.
///
/// # Errors
/// Those of the requests.
pub async fn remove_reference_to(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    owner_uid: &str,
) -> Result<DeleteOutcome> {
    let Some(found) = metadata(client, resource, &id.namespace, &id.name).await? else {
        return Ok(DeleteOutcome::Absent);
    };
    let Some(rest) = owner_references::without(&found, owner_uid) else {
        return Ok(DeleteOutcome::Accepted);
    };
    let metadata = json!({
        "uid": found.uid, "resourceVersion": found.resource_version, "ownerReferences": rest,
    });
    patch_metadata(client, resource, id, &metadata).await
}

/// Patches metadata, and removes the owner reference to the custom resource that the tracking annotation names.
async fn patch_metadata_if_unchanged(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
    mut metadata: Value,
) -> Result<DeleteOutcome> {
    if live.ownership.owner.is_some() {
        // A merge patch replaces the list, so the references of other owners must be read.
        let Some(found) = self::metadata(client, resource, &id.namespace, &id.name).await? else {
            return Ok(DeleteOutcome::Absent);
        };
        if found.resource_version.as_ref() != Some(&live.resource_version) {
            return Ok(DeleteOutcome::Changed);
        }
        let owner = live.ownership.parse_tracking();
        let rest = owner.and_then(|owner| owner_references::without(&found, &owner.owner_uid));
        metadata["ownerReferences"] = rest.unwrap_or_else(|| json!(found.owner_references));
    }
    metadata["uid"] = live.uid.as_str().into();
    metadata["resourceVersion"] = live.resource_version.as_str().into();
    patch_metadata(client, resource, id, &metadata).await
}

async fn patch_metadata(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    metadata: &Value,
) -> Result<DeleteOutcome> {
    let patch = json!({"metadata": metadata});
    DeleteOutcome::of(takeover::patch_metadata(client, resource, &id.namespace, &id.name, &patch).await)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::cluster::testing::{client, served, widgets};

    /// Lists widgets that are not served the first `refused` times. Discovery lists `groups` from its second read on.
    async fn listed(refused: usize, groups: &'static [&'static str]) -> Result<usize> {
        let (lists, readings) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let client = client(move |request| match request.path.as_str() {
            "/apis" if readings.fetch_add(1, Ordering::SeqCst) > 0 => Some((200, served("/apis", groups))),
            "/apis/a.test/v1/widgets" if lists.fetch_add(1, Ordering::SeqCst) < refused => {
                let message = "the server could not find the requested resource";
                Some((
                    404,
                    json!({"kind": "Status", "metadata": {}, "code": 404, "message": message}),
                ))
            }
            "/apis/a.test/v1/widgets" => {
                let (kind, version) = ("PartialObjectMetadataList", "meta.k8s.io/v1");
                let items = [json!({"metadata": {"name": "a"}})];
                Some((
                    200,
                    json!({"kind": kind, "apiVersion": version, "metadata": {}, "items": items}),
                ))
            }
            _ => None,
        });
        let discovery = Discovery::new(client.clone()).await?;
        let kind = (&GroupKind::new("a.test", "Widget"), &widgets());
        let found = list_if_served(&client, &discovery, kind, None, "").await?;
        Ok(found.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_no_longer_served_has_no_objects() {
        assert_eq!(listed(0, &["a.test"]).await.unwrap(), 1);
        assert_eq!(listed(100, &["b.test"]).await.unwrap(), 0, "it is gone");
        assert_eq!(listed(2, &["a.test"]).await.unwrap(), 1, "only for a moment");
        let not_served = listed(100, &["a.test"]).await;
        assert!(matches!(not_served, Err(Error::NotServed(_))), "{not_served:?}");
        let not_served = listed(100, &["a.test!"]).await;
        assert!(
            matches!(not_served, Err(Error::NotServed(_))),
            "its group doesn't answer: {not_served:?}"
        );
    }
}
