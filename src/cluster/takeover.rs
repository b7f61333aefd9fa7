//! Requests that only a takeover needs: metadata with everything in it, patches of it, and Helm's release Secrets.

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::core::ObjectMeta;
use serde_json::Value;

use super::connect::bounded;
use super::discovery::{Discovery, Resource};
use super::error::{Error, Result};
use super::objects::FIELD_MANAGER;

/// A Secret in which Helm stored a revision of a release.
pub struct ReleaseSecret {
    pub name: String,
    pub uid: String,
    /// `data.release`.
    pub release: Vec<u8>,
}

/// All metadata of an object. `None` if it does not exist. `namespace` is empty for a cluster-scoped one.
pub async fn metadata(
    discovery: &Discovery,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectMeta>> {
    let api = discovery.api::<DynamicObject>(resource, (!namespace.is_empty()).then_some(namespace));
    match bounded(api.get_metadata(name)).await {
        Ok(object) => Ok(Some(object.metadata)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Merges a patch into the metadata of an object, which it pins by UID and resourceVersion.
pub async fn rewrite(
    discovery: &Discovery,
    resource: &Resource,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<ObjectMeta> {
    let api = discovery.api::<DynamicObject>(resource, (!namespace.is_empty()).then_some(namespace));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let answer = bounded(api.patch_metadata(name, &parameters, &Patch::Merge(patch))).await?;
    Ok(answer.metadata)
}

/// The Secrets in which Helm keeps the revisions of a release.
pub async fn releases(discovery: &Discovery, namespace: &str, release: &str) -> Result<Vec<ReleaseSecret>> {
    let api = discovery.secrets(namespace);
    let parameters = ListParams::default().labels(&format!("owner=helm,name={release}"));
    let list = bounded(api.list(&parameters)).await?;
    let found = list.items.into_iter().filter_map(|secret| {
        let is_release = secret.type_.as_deref() == Some("helm.sh/release.v1");
        let release = secret.data.unwrap_or_default().remove("release")?.0;
        is_release.then(|| ReleaseSecret {
            name: secret.metadata.name.unwrap_or_default(),
            uid: secret.metadata.uid.unwrap_or_default(),
            release,
        })
    });
    Ok(found.collect())
}

/// Removes one of them; one that isn't there is removed.
pub async fn remove_release(discovery: &Discovery, namespace: &str, name: &str, uid: &str) -> Result<()> {
    let api = discovery.secrets(namespace);
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match bounded(api.delete(name, &parameters)).await {
        Ok(_) => Ok(()),
        // Another one came in its place meanwhile: somebody still uses Helm, and it isn't what was taken over.
        Err(Error::Conflict(_)) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
