//! Requests of a takeover: complete metadata, patches of it, and Helm's release Secrets.

use api_objects::MetadataOnly;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DeleteParams, PartialObjectMeta, Patch, PatchParams, Preconditions};
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::cluster::connection::bounded;
use crate::cluster::connection::url_path::segment;
use crate::cluster::discovery::Resource;
use crate::cluster::error::{Error, Result};
pub use crate::cluster::objects::metadata;
use crate::cluster::objects::{FIELD_MANAGER, list};
use crate::cluster::storage::secrets::secrets;

/// A Secret in which Helm stored a revision of a release.
pub struct ReleaseSecret {
    pub name: String,
    pub uid: String,
    /// UIDs of its owners.
    pub owners: Vec<String>,
    /// The revision, and whether it is deployed, from its labels.
    pub version: i64,
    pub deployed: bool,
}

/// Merges a patch into the metadata of an object, which it pins by UID and resourceVersion.
pub async fn patch_metadata(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<ObjectMeta> {
    let api = resource.api_in::<MetadataOnly>(client, (!namespace.is_empty()).then_some(namespace));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let answer = bounded(api.patch(&segment(name), &parameters, &Patch::Merge(patch))).await?;
    Ok(answer.metadata)
}

/// Lists the metadata of the Secrets in which Helm stores the revisions of a release.
pub async fn list_releases(client: &Client, namespace: &str, release: &str) -> Result<Vec<ReleaseSecret>> {
    let api: Api<PartialObjectMeta<Secret>> = Api::namespaced(client.clone(), namespace);
    let revision = |secret: PartialObjectMeta<Secret>| {
        let labels = secret.metadata.labels.unwrap_or_default();
        let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
        let owners = secret.metadata.owner_references.unwrap_or_default();
        ReleaseSecret {
            owners: owners.into_iter().map(|owner| owner.uid).collect(),
            version: label("version").parse().unwrap_or_default(),
            deployed: label("status") == "deployed",
            name: secret.metadata.name.unwrap_or_default(),
            uid: secret.metadata.uid.unwrap_or_default(),
        }
    };
    list(api, &format!("owner=helm,name={release}"), revision).await
}

/// Reads `data.release` of a release Secret. `None` if it is gone, or not a Helm release.
pub async fn read_release(client: &Client, namespace: &str, secret: &ReleaseSecret) -> Result<Option<Vec<u8>>> {
    let found = bounded(secrets(client, namespace).get_opt(&secret.name)).await?;
    let is_release = |found: &Secret| found.type_.as_deref() == Some("helm.sh/release.v1");
    let found = found.filter(|found| is_release(found) && found.metadata.uid.as_deref() == Some(&secret.uid));
    Ok(found.and_then(|secret| Some(secret.data?.remove("release")?.0)))
}

/// Deletes a release Secret. An absent one is no error.
pub async fn remove_release(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<()> {
    let api = secrets(client, namespace);
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match bounded(api.delete(name, &parameters)).await {
        Ok(_) => Ok(()),
        Err(error @ Error::Conflict(_)) => {
            // A new Secret of this name means that Helm is still in use; it is not part of the takeover.
            let found = bounded(api.get_metadata_opt(name)).await?;
            if found.is_some_and(|found| found.metadata.uid.as_deref() == Some(uid)) {
                Err(error)
            } else {
                Ok(())
            }
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
