//! Which live objects a release may take over.

use serde_json::Value;

use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::unit::Unit;
use chartwright_core::takeover::{self, Claim, Claimant};

/// Describes the release, by its name and namespace, that claims objects without its marks.
pub(crate) fn claimant(unit: &Unit, resource: &CustomResource, release: &str, namespace: &str) -> Claimant {
    Claimant {
        uid: resource.uid.clone(),
        primary: format!("{}/{}", resource.key.namespace, resource.key.name),
        primary_type: unit.group_kind.to_string(),
        release: release.to_owned(),
        namespace: namespace.to_owned(),
        collisions: unit.watch.collisions,
    }
}

/// True if the release may take over a live object.
pub(crate) fn may_adopt(object: &Value, claimant: &Claimant) -> bool {
    let metadata = serde_json::from_value(object["metadata"].clone());
    metadata.is_ok_and(|metadata| !matches!(takeover::claim(&metadata, claimant), Claim::Refused(_)))
}
