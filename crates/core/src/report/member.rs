//! The marks of a member on an object. They name a release and prove nothing: any client can copy them.

use serde_json::Value;

use super::live::{list, text};
use crate::identity::applyset::{ID_LABEL, PART_OF_LABEL, TRACKING_ANNOTATION, parse_tracking_id};
use crate::identity::{GroupKind, ObjectId};

/// True if an object has the label or the annotation of a member.
pub fn is_marked(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["labels"][PART_OF_LABEL].is_string() || metadata["annotations"][TRACKING_ANNOTATION].is_string()
}

/// The label selector of the custom resource that an object's label names. `None`: it has no such label, or the value is not a label.
pub fn release_selector(object: &Value) -> Option<String> {
    let id = object["metadata"]["labels"][PART_OF_LABEL].as_str()?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!id.is_empty() && id.chars().all(is_part)).then(|| format!("{ID_LABEL}={id}"))
}

/// The custom resource that an object's owner references and tracking annotation name, with the namespace of the object.
pub fn named_owner(object: &Value) -> Option<ObjectId> {
    let tracking = parse_tracking_id(object["metadata"]["annotations"][TRACKING_ANNOTATION].as_str()?)?;
    let owner = list(object, "/metadata/ownerReferences").find(|owner| owner["uid"] == tracking.owner_uid.as_str())?;
    let (kind, _) = GroupKind::of(owner)?;
    let name = text(owner, "/name");
    (!name.is_empty()).then(|| ObjectId::new(kind, text(object, "/metadata/namespace"), name))
}
