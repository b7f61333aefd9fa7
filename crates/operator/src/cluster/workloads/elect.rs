//! Requests of leader election for workloads: the Lease of a workload, and the leader label on its pods.

use std::collections::{BTreeMap, BTreeSet};

use api_objects::Whole;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::connection::bounded;
use crate::cluster::connection::url_path::segment;
use crate::cluster::discovery::Resource;
use crate::cluster::error::{Error, Result};
use crate::cluster::storage::secrets::{MANAGED_BY, MARK as OWN_MARK, delete_if_unchanged, mark};
use chartwright_core::identity::GroupKind;
use chartwright_core::identity::reserved_names::ELECTION;
use chartwright_core::leader::{Held, Holder, Label, MARK, Pod};

/// The field manager of leader labels and Leases. Never change it.
pub const FIELD_MANAGER: &str = "chartwright-elect";

/// Annotation of a Lease: who held it before.
const FORMER: &str = "chartwright.dev/former-holder";

/// The kind of what is elected.
pub fn pod_kind() -> GroupKind {
    GroupKind::new("", "Pod")
}

/// Where the Lease of a workload lies.
#[derive(Clone, Debug)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

/// The pods, to be read and written.
#[derive(Clone, Copy)]
pub struct PodLabeler<'a> {
    pub client: &'a Client,
    pub resource: &'a Resource,
    pub namespace: &'a str,
    /// The labels that are read of them.
    pub labels: &'a BTreeSet<String>,
}

impl LeaseName {
    pub fn of(namespace: &str, kind: &str, name: &str) -> Self {
        LeaseName {
            namespace: namespace.to_owned(),
            name: format!("{ELECTION}-{}-{name}", kind.to_lowercase()),
        }
    }

    fn api(&self, client: &Client) -> Api<Lease> {
        Api::namespaced(client.clone(), &self.namespace)
    }
}

/// Reads the Lease; `None` if there is none.
pub async fn read(client: &Client, place: &LeaseName) -> Result<Option<Lease>> {
    bounded(place.api(client).get_opt(&segment(&place.name))).await
}

/// The operator's mark on a Lease; empty if there is none.
pub fn mark_of(lease: &Lease) -> String {
    mark(&lease.metadata).unwrap_or_default()
}

/// True if a Lease has the label of an operator and this workload as its owner. Any client can write both.
pub fn is_labelled_own(lease: &Lease, workload: &str) -> bool {
    let manager = lease.labels().get(MANAGED_BY).map(String::as_str);
    let owners = lease.owner_references();
    manager == Some(crate::cluster::objects::FIELD_MANAGER) && owners.iter().any(|owner| owner.uid == workload)
}

/// Creates the Lease, or replaces the one that was read, for another holder, with this owner and mark.
///
/// # Errors
/// `Conflict` if another client wrote it since it was read.
pub async fn claim(
    client: &Client,
    place: &LeaseName,
    read: Option<Lease>,
    holder: &Holder,
    owner: OwnerReference,
    mark: String,
) -> Result<Lease> {
    let api = place.api(client);
    let known = read.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
    let lease = claimed(place, read.unwrap_or_default(), holder, owner, mark);
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PostParams::default()
    };
    match known {
        Some(_) => bounded(api.replace(&segment(&place.name), &parameters, &lease)).await,
        None => bounded(api.create(&parameters, &lease)).await,
    }
}

fn claimed(place: &LeaseName, mut lease: Lease, holder: &Holder, owner: OwnerReference, mark: String) -> Lease {
    let former = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    let metadata: &mut ObjectMeta = &mut lease.metadata;
    metadata.name = Some(place.name.clone());
    metadata.namespace = Some(place.namespace.clone());
    metadata.owner_references = Some(vec![owner]);
    metadata.managed_fields = None;
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(MANAGED_BY.to_owned(), crate::cluster::objects::FIELD_MANAGER.to_owned());
    let annotations: &mut BTreeMap<String, String> = metadata.annotations.get_or_insert_default();
    annotations.remove(FORMER);
    annotations.insert(OWN_MARK.to_owned(), mark);
    annotations.extend(former.clone().map(|former| (FORMER.to_owned(), former)));
    // The API stores microseconds.
    let now = Timestamp::now();
    let now = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
    let spec: &mut LeaseSpec = lease.spec.get_or_insert_default();
    let transitions = spec.lease_transitions.unwrap_or_default();
    spec.lease_transitions = Some(transitions.saturating_add(former.is_some().into()));
    spec.holder_identity = Some(holder.identity());
    spec.acquire_time = Some(MicroTime(now));
    lease
}

/// The holder, former holder and epoch of a Lease; empty without a Lease.
pub fn held(lease: Option<&Lease>) -> Held {
    let Some(lease) = lease else {
        return Held::default();
    };
    let spec = lease.spec.as_ref();
    let identity = spec.and_then(|spec| spec.holder_identity.as_deref());
    let former = lease.annotations().get(FORMER).map(String::as_str);
    Held {
        holder: identity.and_then(Holder::parse),
        former: former.and_then(Holder::parse),
        epoch: format!("{}-{}", lease.uid().unwrap_or_default(), transitions(lease)),
    }
}

pub fn transitions(lease: &Lease) -> i32 {
    lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_transitions)
        .unwrap_or_default()
}

/// The time at which its holder acquired it.
pub fn since(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.acquire_time.as_ref()?.0)
}

/// Deletes the Lease in the version that was read.
pub async fn remove(client: &Client, place: &LeaseName, lease: Lease) -> Result<()> {
    let parameters = delete_if_unchanged(lease.metadata);
    match bounded(place.api(client).delete(&segment(&place.name), &parameters)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

impl PodLabeler<'_> {
    /// Reads a pod; `None` if it does not exist.
    pub async fn read(&self, name: &str) -> Result<Option<Pod>> {
        let found = bounded(self.api().get_opt(&segment(name))).await?;
        Ok(found.map(|pod| read_pod(&pod, self.labels)))
    }

    /// Adds the label to a pod.
    ///
    /// # Errors
    /// `Conflict` if the pod changed since it was read.
    pub async fn add_label(&self, pod: &Pod, label: Label<'_>) -> Result<Pod> {
        self.patch(pod, json!({"labels": {(label.key): label.value}})).await
    }

    /// Removes the label, and marks the pod, so that its version changes with or without the label.
    ///
    /// # Errors
    /// `Conflict` if the pod changed since it was read.
    pub async fn remove_label(&self, pod: &Pod, label: Label<'_>, mark: &str) -> Result<Pod> {
        let mut metadata = json!({"annotations": {(MARK): mark}});
        if label.is_on(pod) {
            metadata["labels"] = json!({(label.key): null});
        }
        self.patch(pod, metadata).await
    }

    async fn patch(&self, pod: &Pod, mut metadata: Value) -> Result<Pod> {
        metadata["uid"] = pod.uid.as_str().into();
        metadata["resourceVersion"] = pod.resource_version.as_str().into();
        let parameters = PatchParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let answer = bounded(self.api().patch(&segment(&pod.name), &parameters, &patch)).await;
        let answer = answer.map_err(|error| match error {
            // The pod was replaced.
            Error::Unprocessable { causes, .. } if causes.iter().any(|cause| cause.field == "metadata.uid") => {
                Error::Conflict(format!("pod {} was replaced by another pod", pod.name))
            }
            error => error,
        })?;
        Ok(read_pod(&answer, self.labels))
    }

    fn api(&self) -> Api<Whole> {
        self.resource.api_in(self.client, Some(self.namespace))
    }
}

/// Extracts what an election needs of a pod, with these labels.
pub fn read_pod(object: &Whole, labels: &BTreeSet<String>) -> Pod {
    let metadata = &object.metadata;
    let controller = metadata.owner_references.iter().flatten();
    let controller = controller.clone().find(|owner| owner.controller == Some(true));
    let controller = controller.map(|owner| [owner.kind.clone(), owner.name.clone(), owner.uid.clone()]);
    let read = metadata
        .labels
        .iter()
        .flatten()
        .filter(|(key, _)| labels.contains(*key));
    let annotations = metadata.annotations.as_ref();
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    Pod {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        controller: controller.unwrap_or_default(),
        created: created.unwrap_or(Timestamp::UNIX_EPOCH),
        ready: metadata.deletion_timestamp.is_none() && is_ready(object),
        labels: read.map(|(key, value)| (key.clone(), value.clone())).collect(),
        mark: annotations.and_then(|all| all.get(MARK)).cloned().unwrap_or_default(),
    }
}

fn is_ready(object: &Whole) -> bool {
    #[derive(Deserialize)]
    struct PodStatus {
        #[serde(default)]
        conditions: Vec<PodCondition>,
    }
    #[derive(Deserialize)]
    struct PodCondition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
    }
    let status = object.status().map(serde_json::from_str::<PodStatus>);
    let Some(Ok(status)) = status else { return false };
    let mut conditions = status.conditions.iter();
    conditions.any(|condition| condition.kind == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_names_the_former_holder_and_counts_transitions() {
        let place = LeaseName::of("shop", "StatefulSet", "db");
        let claim = |lease, name: &str| {
            let holder = Holder {
                name: name.into(),
                uid: format!("u-{name}"),
            };
            claimed(&place, lease, &holder, OwnerReference::default(), "mark".into())
        };
        let first = claim(Lease::default(), "db-0");
        let state = held(Some(&first));
        assert_eq!(
            (state.holder.unwrap().identity(), state.former),
            ("db-0/u-db-0".into(), None)
        );
        let second = claim(first, "db-1");
        assert_eq!(
            (transitions(&second), second.name_any()),
            (1, "chartwright-elect-statefulset-db".into())
        );
        let state = held(Some(&second));
        assert_eq!(state.former.unwrap().name, "db-0");
        assert_eq!(state.epoch, "-1");
    }

    #[test]
    fn a_pod_is_ready_by_its_condition_only() {
        let read = |text: &str| {
            read_pod(
                &serde_json::from_str(text).unwrap(),
                &BTreeSet::from(["lead".to_owned()]),
            )
        };
        let pod = read(
            r#"{"metadata": {"name": "a", "labels": {"lead": "y", "app": "x"}, "ownerReferences": [
            {"kind": "Other", "name": "o", "uid": "1", "apiVersion": "v1"},
            {"kind": "StatefulSet", "name": "db", "uid": "2", "apiVersion": "apps/v1", "controller": true}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}"#,
        );
        assert!(pod.ready && pod.labels.len() == 1);
        assert_eq!(pod.controller, ["StatefulSet", "db", "2"]);
        for text in [
            r#"{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}"#,
            r#"{"metadata": {}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}}"#,
            r#"{"metadata": {}, "status": {"conditions": 5}}"#,
            r#"{"metadata": {}}"#,
        ] {
            assert!(!read(text).ready, "{text}");
        }
    }
}
