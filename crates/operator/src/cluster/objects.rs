//! Requests on members: look, apply, list, delete. Each is bounded; nothing here decides.

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
use chartwright_core::annotations;
use chartwright_core::drift::fingerprint;
use chartwright_core::health;
use chartwright_core::hooks;
use chartwright_core::identity::applyset;
use chartwright_core::identity::owner_references;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::members::Live;
use chartwright_core::members::immutable_fields;

pub mod lookup;
pub mod takeover;

/// The field manager of members. Frozen for ever: another name would orphan every field that this one owns.
pub const FIELD_MANAGER: &str = "chartwright";

/// Objects read in one request; a larger list comes in pages.
const PAGE: u32 = 500;
/// So often, and after so long, discovery is asked about a kind that isn't served though it tells of it.
const LOOKS_AT_DISCOVERY: usize = 5;
const DISCOVERY_LAGS: Duration = Duration::from_secs(1);
/// A version that no object has: etcd counts from 1, and 1 is the store before anything was written to it.
pub const NO_VERSION: &str = "1";

/// Reads what the plan needs to know from an object's metadata.
pub fn live(metadata: &ObjectMeta) -> Live {
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let annotation = |key: &str| {
        metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(key))
            .cloned()
    };
    let managed_fields = metadata.managed_fields.as_deref().unwrap_or_default();
    let controller = metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true));
    let tracking = annotation(applyset::TRACKING_ANNOTATION);
    Live {
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        part_of: label(applyset::PART_OF_LABEL),
        owner: owner_references::of_owner(metadata, tracking.as_deref()),
        tracking,
        keep: annotation(annotations::RESOURCE_POLICY).is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep")),
        prune_allowed: annotation(annotations::PRUNE).is_some_and(|value| value == "true"),
        disabled: annotation(annotations::RECONCILE).is_some_and(|value| value.trim() == "disabled"),
        wave: annotation(annotations::WAVE)
            .and_then(|wave| wave.trim().parse().ok())
            .unwrap_or_default(),
        is_of_hook: annotation(annotations::HOOK_RUN).is_some(),
        force: annotation(annotations::FORCE).is_some_and(|value| value.trim() == "true"),
        scaled_by: fingerprint::scaled_by(managed_fields),
        finished: false,
        takes_data: false,
        fingerprint: fingerprint::fingerprint(
            managed_fields,
            FIELD_MANAGER,
            annotation(applyset::DIGEST_ANNOTATION).as_deref(),
        ),
        deleting: metadata.deletion_timestamp.is_some(),
        controller: controller.map(|owner| (format!("{}/{}", owner.kind, owner.name), owner.uid.clone())),
        last_writer: fingerprint::foreign_writers(managed_fields, FIELD_MANAGER)
            .into_iter()
            .next(),
        health: None,
        pods: None,
        ready_when: annotation(annotations::READY_WHEN).map(String::into_boxed_str),
    }
}

/// As [`live`], with the health of kinds that have one.
pub fn live_with_health(id: &ObjectId, object: &Whole) -> Live {
    let mut live = live(&object.metadata);
    if health::has_health(&id.group_kind.group, &id.group_kind.kind) {
        let mut fields = object.outline_without_metadata();
        fields.insert("metadata".into(), health_metadata(&object.metadata));
        let value = Value::Object(fields);
        let health = health::health(&id.group_kind, &value, jiff::Timestamp::now());
        if health.status != health::Status::Current {
            live.pods = health::pods::selector(&id.group_kind, &value).map(String::into_boxed_str);
        }
        live.health = Some(health);
        live.finished = is_finished(id, &value);
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

/// Which object of a kind some metadata are of.
pub fn id_of(group_kind: &GroupKind, metadata: &ObjectMeta) -> ObjectId {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectId::new(group_kind.clone(), text(&metadata.namespace), text(&metadata.name))
}

fn namespace(id: &ObjectId) -> Option<&str> {
    (!id.namespace.is_empty()).then_some(id.namespace.as_str())
}

/// What a look tells, and its `managedFields` in full.
pub type LiveAndFields = (Live, Vec<ManagedFieldsEntry>);

/// Metadata GET. `None` if the object does not exist.
pub async fn read_live(client: &Client, resource: &Resource, id: &ObjectId) -> Result<Option<Live>> {
    let found = read_live_and_fields(client, resource, id).await?;
    Ok(found.map(|(live, _)| live))
}

/// The same, with what `managedFields` say in full.
pub async fn read_live_and_fields(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
) -> Result<Option<LiveAndFields>> {
    let found = metadata(client, resource, &id.namespace, &id.name).await?;
    Ok(found.map(|metadata| (live(&metadata), metadata.managed_fields.unwrap_or_default())))
}

/// All metadata of an object. `None` if it does not exist. `namespace` is empty for a cluster-scoped one.
pub async fn metadata(client: &Client, resource: &Resource, namespace: &str, name: &str) -> Result<Option<ObjectMeta>> {
    let api = resource.api_in::<MetadataOnly>(client, (!namespace.is_empty()).then_some(namespace));
    match bounded(api.get(&segment(name))).await {
        Ok(object) => Ok(Some(object.metadata)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// All objects of a kind in a namespace, or (`None`) wherever they are.
pub async fn list_objects(client: &Client, resource: &Resource, namespace: Option<&str>) -> Result<Vec<Whole>> {
    list(resource.api_in(client, namespace), "", |object| object).await
}

/// All pages of what a label selector finds, each object reduced at once to what is wanted of it.
pub(in crate::cluster) async fn list<K, T>(api: Api<K>, labels: &str, reduce: impl Fn(K) -> T) -> Result<Vec<T>>
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

/// The whole object, with what the plan needs to know of it. `None` if it does not exist.
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

/// The object that an apply is for. Whatever else has its name stays untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyTarget<'a> {
    /// None: the apply creates it, in the same step in which the API server sees that nothing has the name. A version is
    /// compared with that of an object that exists, and with nothing if there is none (`Store.Update` of
    /// k8s.io/apiserver/pkg/registry/generic/registry), so one that no object has is a condition that only creation meets.
    Nothing,
    /// The one of this UID, with force. It doesn't come back if it is gone.
    Object(&'a str),
}

/// Server-side apply of a member; unknown fields are errors.
///
/// # Errors
/// `Conflict`, and nothing is written, if what has the name is not what the apply is for.
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
        Err(error) if is_uid_conflict(&error) => Err(Error::Conflict(format!("another {id} is there by now"))),
        Err(error) => Err(error),
    }
}

/// Who writes to the successor of an object wants to change its UID, in the API server's eyes.
fn is_uid_conflict(error: &Error) -> bool {
    match error {
        Error::Unprocessable { causes, .. } => causes.iter().any(|cause| cause.field == "metadata.uid"),
        _ => false,
    }
}

/// Has the TTL controller remove a Job so many seconds after its end. False if that Job is gone.
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

/// What the API server would say if the object that is there were not, and this one were created.
#[derive(Clone, Debug)]
pub enum CreationCheck {
    /// It would be created: that it exists is all that is in the way.
    Accepted,
    /// It would be refused, by validation, admission or for lack of a right.
    Refused(Error),
}

/// Asks, without writing anything, whether an object that exists could be created as it is rendered. The API server
/// validates a new object, and asks admission about it, before it looks whether the name is taken
/// (`Store.Create` of k8s.io/apiserver/pkg/registry/generic/registry): so "already exists" says that it could.
///
/// # Errors
/// No answer to the question: the server is out of reach, or the object is gone and a dry run created it.
pub async fn check_creation(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    object: &Value,
) -> Result<CreationCheck> {
    match create(client, resource, id, object, true).await {
        Ok(()) => Err(Error::NotFound(format!("{id} is gone meanwhile"))),
        Err(Error::Conflict(_)) => Ok(CreationCheck::Accepted),
        // A name has only one Service's address or port to give: these are the ones that it holds itself.
        Err(Error::Taken(_)) => Ok(CreationCheck::Accepted),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok(CreationCheck::Refused(error)),
    }
}

/// Creates an object unless it exists. For what belongs to a watch, not to a release.
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

/// The objects of a kind that carry the label of a set: metadata only, live, all pages.
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

/// The metadata of the objects of a kind that a label selector finds: live, all pages. An empty one finds all.
pub async fn list_metadata(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<ObjectMeta>> {
    let api = resource.api_in::<MetadataOnly>(client, namespace);
    list(api, labels, |object| object.metadata).await
}

/// As [`list_metadata`], and nothing of a kind that isn't served any more: while all kinds are looked at, the
/// CustomResourceDefinition of one may go. What discovery tells lags behind a moment.
///
/// # Errors
/// Also if a kind isn't served that discovery still tells of: what lies there is there all the same.
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

/// What a request to delete came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone, or on its way: accepted is all that the API server promises.
    Accepted,
    /// It was gone already.
    Absent,
    /// It is not what was looked at any more, and stays.
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

/// Deletes an object in the very state that was looked at: one that was replaced or changed since stays.
///
/// What the object makes by itself (a Deployment's pods) goes after it, in the background, as with Helm.
pub async fn delete(client: &Client, resource: &Resource, id: &ObjectId, live: &Live) -> Result<DeleteOutcome> {
    delete_with_policy(PropagationPolicy::Background, client, resource, id, live).await
}

/// The same, but it stays until all that it made is gone: a Job until none of its pods runs.
pub async fn delete_in_foreground(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
) -> Result<DeleteOutcome> {
    delete_with_policy(PropagationPolicy::Foreground, client, resource, id, live).await
}

async fn delete_with_policy(
    propagation: PropagationPolicy,
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
) -> Result<DeleteOutcome> {
    let api = resource.api_in::<MetadataOnly>(client, namespace(id));
    let parameters = DeleteParams {
        propagation_policy: Some(propagation),
        preconditions: Some(Preconditions {
            uid: Some(live.uid.clone()),
            resource_version: Some(live.resource_version.clone()),
        }),
        ..DeleteParams::default()
    };
    let request = Request::new(api.resource_url()).delete(&segment(&id.name), &parameters);
    let request = request.map_err(|error| Error::Invalid(error.to_string()))?;
    // What the answer shows of the object is of no interest.
    DeleteOutcome::of(bounded(api.into_client().request_text(request)).await)
}

/// Takes our labels, annotation and owner reference off an object that stays behind, so that nothing takes it for a
/// member again, nor the garbage collector for an orphan: in the very state that was looked at, as [`delete`].
pub async fn release_member(client: &Client, resource: &Resource, id: &ObjectId, live: &Live) -> Result<DeleteOutcome> {
    let patch = json!({
        "labels": {(applyset::PART_OF_LABEL): null, (applyset::OPERATOR_LABEL): null},
        "annotations": {(applyset::TRACKING_ANNOTATION): null, (applyset::DIGEST_ANNOTATION): null},
    });
    patch_metadata_if_unchanged(client, resource, id, live, patch).await
}

/// Takes only the owner reference off: the object stays the member that it is when its custom resource goes.
pub async fn remove_owner_reference(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
) -> Result<DeleteOutcome> {
    patch_metadata_if_unchanged(client, resource, id, live, json!({})).await
}

/// Patches metadata, and takes the reference to the custom resource off that the tracking annotation names.
async fn patch_metadata_if_unchanged(
    client: &Client,
    resource: &Resource,
    id: &ObjectId,
    live: &Live,
    mut metadata: Value,
) -> Result<DeleteOutcome> {
    let api = resource.api_in::<MetadataOnly>(client, namespace(id));
    if live.owner.is_some() {
        // A patch says of a list which items stay, and those of others aren't known.
        let Some(found) = self::metadata(client, resource, &id.namespace, &id.name).await? else {
            return Ok(DeleteOutcome::Absent);
        };
        if found.resource_version.as_ref() != Some(&live.resource_version) {
            return Ok(DeleteOutcome::Changed);
        }
        let owner = live.tracking.as_deref().and_then(applyset::parse_tracking_id);
        let rest = owner.and_then(|owner| references::without(&found, &owner.owner_uid));
        metadata["ownerReferences"] = rest.unwrap_or_else(|| json!(found.owner_references));
    }
    metadata["uid"] = live.uid.as_str().into();
    metadata["resourceVersion"] = live.resource_version.as_str().into();
    let patch = json!({"metadata": metadata});
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    DeleteOutcome::of(bounded(api.patch(&segment(&id.name), &parameters, &Patch::Merge(&patch))).await)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::cluster::testing::{client, served, widgets};

    /// Lists widgets that aren't served the first `refused` times, and of which discovery tells in `groups` from its
    /// second reading on.
    async fn listed(refused: usize, groups: &'static [&'static str]) -> Result<usize> {
        let (lists, readings) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let client = client(move |asked| match asked.path.as_str() {
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
    async fn of_a_kind_that_goes_meanwhile_there_is_nothing() {
        assert_eq!(listed(0, &["a.test"]).await.unwrap(), 1);
        assert_eq!(listed(100, &["b.test"]).await.unwrap(), 0, "it is gone");
        assert_eq!(listed(2, &["a.test"]).await.unwrap(), 1, "only for a moment");
        let untold = listed(100, &["a.test"]).await;
        assert!(matches!(untold, Err(Error::NotServed(_))), "{untold:?}");
        let untold = listed(100, &["a.test!"]).await;
        assert!(
            matches!(untold, Err(Error::NotServed(_))),
            "its group doesn't answer: {untold:?}"
        );
    }
}
