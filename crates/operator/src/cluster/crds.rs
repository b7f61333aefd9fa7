//! Requests on the CustomResourceDefinitions of a chart's `crds/` folder.

use api_objects::Whole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Patch, PatchParams, ValidationDirective};
use serde_json::Value;

use crate::cluster::connection::bounded;
use crate::cluster::connection::url_path::segment;
use crate::cluster::discovery::Resource;
use crate::cluster::error::{Error, Result};
use crate::cluster::objects::{NO_VERSION, is_uid_conflict};
use chartwright_core::crds::CRD_MANAGER;

/// A live definition.
pub struct LiveDefinition {
    pub metadata: ObjectMeta,
    pub object: Value,
}

impl LiveDefinition {
    fn new(found: &Whole) -> Result<Self> {
        let object = found.value().map_err(|error| Error::Invalid(error.to_string()))?;
        let metadata = found.metadata.clone();
        Ok(LiveDefinition { metadata, object })
    }
}

/// Reads a definition. `None` if it does not exist.
pub async fn read(client: &Client, resource: &Resource, name: &str) -> Result<Option<LiveDefinition>> {
    let api = resource.api_in::<Whole>(client, None);
    let found = bounded(api.get_opt(&segment(name))).await?;
    found.as_ref().map(LiveDefinition::new).transpose()
}

/// Applies a definition (server-side apply, with force). Returns the result.
///
/// `live`: the state that it replaces; `None`: it must not exist.
///
/// # Errors
/// `Conflict`, without a write, if the live definition is in another state.
pub async fn apply(
    client: &Client,
    resource: &Resource,
    name: &str,
    object: &mut Value,
    live: Option<&ObjectMeta>,
    dry_run: bool,
) -> Result<LiveDefinition> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or_else(|| Error::Invalid("no metadata".to_owned()))?;
    match live {
        Some(live) => {
            metadata.insert("uid".to_owned(), live.uid.as_deref().into());
            metadata.insert("resourceVersion".to_owned(), live.resource_version.as_deref().into());
        }
        None => drop(metadata.insert("resourceVersion".to_owned(), NO_VERSION.into())),
    }
    let parameters = PatchParams {
        dry_run,
        force: true,
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply(CRD_MANAGER)
    };
    let api = resource.api_in::<Whole>(client, None);
    match bounded(api.patch(&segment(name), &parameters, &Patch::Apply(&*object))).await {
        Ok(result) => LiveDefinition::new(&result),
        Err(error) if is_uid_conflict(&error) => Err(Error::Conflict(format!("{name} was replaced by another object"))),
        Err(error) => Err(error),
    }
}
