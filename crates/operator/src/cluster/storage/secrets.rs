//! Secrets with data of a release. Most have no owner reference: the operator creates them, and deletes them after the last
//! member. The mark identifies the operator's own Secrets; the caller checks it.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, Preconditions};

use crate::cluster::connection::bounded;
use crate::cluster::error::{Error, Result};
use crate::cluster::objects::FIELD_MANAGER;

/// The label of a Secret that belongs to one custom resource: its UID.
pub const UID_LABEL: &str = "chartwright.dev/release-uid";
/// The label that names the program that created an object.
pub(in crate::cluster) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The annotation that proves that the operator wrote a Secret or a Lease: a keyed digest of its owner.
pub const MARK: &str = "chartwright.dev/mark";
/// The most bytes of data in a Secret. The API server's limit for the complete object is 1 MiB.
pub const MAX_BYTES: usize = 900 << 10;

/// Namespace and name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    pub namespace: String,
    pub name: String,
}

/// The data of a Secret, by key.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Type, labels and annotations of a Secret to write.
pub struct SecretSpec<'a> {
    /// Its type.
    pub kind: &'static str,
    /// Describes the data, for messages.
    pub what: &'static str,
    /// The release, for readers.
    pub about: &'a str,
    /// The UID of the custom resource, for [`UID_LABEL`].
    pub uid: &'a str,
    /// For the annotation [`MARK`].
    pub mark: String,
    /// The owner, whose deletion deletes the Secret.
    pub owner: Option<OwnerReference>,
}

/// A Secret as it was read.
pub struct StoredSecret {
    pub files: Files,
    /// Its resourceVersion.
    pub version: String,
    pub mark: Option<String>,
}

impl std::fmt::Display for SecretName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret {}/{}", self.namespace, self.name)
    }
}

/// The Secrets of a namespace.
pub(in crate::cluster) fn secrets(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

/// Reads a Secret; `None` if it does not exist.
pub async fn read(client: &Client, place: &SecretName) -> Result<Option<StoredSecret>> {
    let api = secrets(client, &place.namespace);
    let Some(secret) = bounded(api.get_opt(&place.name)).await? else {
        return Ok(None);
    };
    let data = secret.data.unwrap_or_default().into_iter();
    Ok(Some(StoredSecret {
        files: data.map(|(name, bytes)| (name, bytes.0)).collect(),
        mark: mark(&secret.metadata),
        version: secret.metadata.resource_version.unwrap_or_default(),
    }))
}

/// Preconditions: the UID and version that were read.
pub(in crate::cluster) fn delete_if_unchanged(metadata: ObjectMeta) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: metadata.uid,
        resource_version: metadata.resource_version,
    })
}

/// The mark of an object.
pub fn mark(metadata: &ObjectMeta) -> Option<String> {
    metadata.annotations.as_ref()?.get(MARK).cloned()
}

/// Writes a Secret and returns its new resourceVersion. `version`: the expected one, or `None` for any.
///
/// # Errors
/// Also if it is larger than [`MAX_BYTES`], or if a Secret of another type has the name: that one has another owner and
/// stays. `Conflict` if the version differs.
pub async fn write(
    client: &Client,
    place: &SecretName,
    files: Files,
    form: &SecretSpec<'_>,
    version: Option<&str>,
) -> Result<String> {
    let size: usize = files.iter().map(|(name, bytes)| name.len() + bytes.len()).sum();
    if size > MAX_BYTES {
        return Err(Error::Invalid(format!(
            "{} take {size} bytes, and a Secret holds {MAX_BYTES}",
            form.what
        )));
    }
    let labels = BTreeMap::from([
        (MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned()),
        (UID_LABEL.to_owned(), form.uid.to_owned()),
    ]);
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(place.name.clone()),
            namespace: Some(place.namespace.clone()),
            resource_version: version.map(str::to_owned),
            labels: Some(labels),
            owner_references: form.owner.clone().map(|owner| vec![owner]),
            annotations: Some(BTreeMap::from([
                ("chartwright.dev/release".to_owned(), form.about.to_owned()),
                (MARK.to_owned(), form.mark.clone()),
            ])),
            ..ObjectMeta::default()
        },
        type_: Some(form.kind.to_owned()),
        data: Some(
            files
                .into_iter()
                .map(|(name, bytes)| (name, ByteString(bytes)))
                .collect(),
        ),
        ..Secret::default()
    };
    let api = secrets(client, &place.namespace);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let written = bounded(api.patch(&place.name, &parameters, &Patch::Apply(&secret))).await;
    let written = written.map_err(|error| match error {
        // The type of a Secret is immutable.
        Error::Unprocessable { causes, .. } if causes.iter().any(|cause| cause.field == "type") => {
            let message = format!(
                "{place} is there with another type, so it is not the operator's: names like this are reserved for {}. \
                 Delete it, or give it another name",
                form.what
            );
            Error::Invalid(message)
        }
        error => error,
    })?;
    Ok(written.metadata.resource_version.unwrap_or_default())
}

/// True if its namespace is being deleted, checked by dry run.
pub async fn is_namespace_terminating(client: &Client, place: &SecretName) -> Result<bool> {
    let name = format!("{}-probe", place.name);
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    };
    let parameters = PatchParams::apply(FIELD_MANAGER).dry_run();
    let api = secrets(client, &place.namespace);
    match bounded(api.patch(&name, &parameters, &Patch::Apply(&secret))).await {
        Ok(_) => Ok(false),
        Err(Error::Terminating(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Deletes a Secret, in the version that was read, if `is_own` accepts its mark. True if it existed.
pub async fn remove(client: &Client, place: &SecretName, is_own: impl Fn(&str) -> bool) -> Result<bool> {
    let api = secrets(client, &place.namespace);
    let Some(secret) = bounded(api.get_opt(&place.name)).await? else {
        return Ok(false);
    };
    if !is_own(&mark(&secret.metadata).unwrap_or_default()) {
        tracing::warn!("{place} stays: it doesn't carry the operator's mark");
        return Ok(false);
    }
    match bounded(api.delete(&place.name, &delete_if_unchanged(secret.metadata))).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
