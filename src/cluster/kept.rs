//! The Secret of a release that holds its random results. It has no owner: the operator makes it before the first member
//! and removes it after the last.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams};

use super::connect::bounded;
use super::discovery::Discovery;
use super::error::{Error, Result};
use super::objects::FIELD_MANAGER;

/// The Secret's type: no other controller takes it for its own.
pub const SECRET_TYPE: &str = "chartwright.dev/kept-results";
/// What a Secret may hold in all, in bytes; the API server's limit is 1 MiB with everything around it.
pub const MAX_BYTES: usize = 900 << 10;

/// Which Secret it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub namespace: String,
    pub name: String,
}

/// What it holds, by file name.
pub type Files = BTreeMap<String, Vec<u8>>;

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret {}/{}", self.namespace, self.name)
    }
}

/// Reads it; `None` if it does not exist.
pub async fn read(discovery: &Discovery, place: &Place) -> Result<Option<Files>> {
    let api = discovery.secrets(&place.namespace);
    match bounded(api.get_opt(&place.name)).await? {
        Some(secret) => Ok(Some(
            secret
                .data
                .unwrap_or_default()
                .into_iter()
                .map(|(name, bytes)| (name, bytes.0))
                .collect(),
        )),
        None => Ok(None),
    }
}

/// Writes it, whatever is there. `about` names the release, for people who come across it.
///
/// # Errors
/// Also if it would be larger than [`MAX_BYTES`].
pub async fn write(discovery: &Discovery, place: &Place, files: Files, about: &str) -> Result<()> {
    let size: usize = files.iter().map(|(name, bytes)| name.len() + bytes.len()).sum();
    if size > MAX_BYTES {
        return Err(Error::Invalid(format!(
            "the chart's random results take {size} bytes, and a Secret holds {MAX_BYTES}"
        )));
    }
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(place.name.clone()),
            namespace: Some(place.namespace.clone()),
            labels: Some(BTreeMap::from([(
                "app.kubernetes.io/managed-by".to_owned(),
                FIELD_MANAGER.to_owned(),
            )])),
            annotations: Some(BTreeMap::from([(
                "chartwright.dev/release".to_owned(),
                about.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(
            files
                .into_iter()
                .map(|(name, bytes)| (name, ByteString(bytes)))
                .collect(),
        ),
        ..Secret::default()
    };
    let api = discovery.secrets(&place.namespace);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    bounded(api.patch(&place.name, &parameters, &Patch::Apply(&secret))).await?;
    Ok(())
}

/// Removes it; one that isn't there is removed.
pub async fn remove(discovery: &Discovery, place: &Place) -> Result<()> {
    let api = discovery.secrets(&place.namespace);
    match bounded(api.delete(&place.name, &DeleteParams::default())).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
