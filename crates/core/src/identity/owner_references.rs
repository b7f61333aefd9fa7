//! Owner references. They let the garbage collector delete members if a custom resource disappears in spite of its finalizer.
//! The API server considers only the finalizers that exist when a deletion request arrives. A finalizer that is added at the
//! same moment has no effect.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use crate::identity::applyset;
use crate::identity::decorator;

/// The reference that makes an object go with its custom resource. The custom resource doesn't wait for it, and it may
/// have another controller.
pub fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        block_owner_deletion: Some(false),
        controller: None,
    }
}

/// Puts a reference beside those of the chart. One to the same object stays as the chart has it.
pub fn insert(object: &mut Value, reference: &OwnerReference) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let owners = metadata.entry("ownerReferences").or_insert(Value::Null);
    if owners.is_null() {
        *owners = json!([]);
    }
    // Anything else than a list is for the API server to refuse.
    if let Some(owners) = owners.as_array_mut()
        && !owners.iter().any(|owner| owner["uid"] == reference.uid.as_str())
    {
        owners.push(json!(reference));
    }
}

/// The API version in the reference of a live object to the custom resource that its tracking annotation names; `None`
/// if it has no such reference.
pub fn of_owner(metadata: &ObjectMeta, tracking: Option<&str>) -> Option<Box<str>> {
    let owners = metadata
        .owner_references
        .as_deref()
        .filter(|owners| !owners.is_empty())?;
    let tracking = applyset::parse_tracking_id(tracking?)?;
    let uid = decorator::object_uid(&tracking.owner_uid);
    let owner = owners.iter().find(|owner| owner.uid == uid)?;
    Some(owner.api_version.as_str().into())
}

/// The references of an object that stay when those to `uid` (or to the object that a decorator of that owner's UID is of) go, as a merge patch says it; `None` if there is none to it.
pub fn without(metadata: &ObjectMeta, uid: &str) -> Option<Value> {
    let uid = decorator::object_uid(uid);
    let all = metadata.owner_references.as_deref().unwrap_or_default();
    let rest: Vec<&OwnerReference> = all.iter().filter(|owner| owner.uid != uid).collect();
    (rest.len() < all.len()).then(|| if rest.is_empty() { Value::Null } else { json!(rest) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn a_reference_stands_beside_those_of_the_chart() {
        for (before, after) in table::<(Value, Value)>("references", "sent") {
            let mut object = json!({"metadata": before});
            insert(&mut object, &reference("a.test/v1", "Shop", "web", "u1"));
            assert_eq!(object["metadata"]["ownerReferences"], after, "{before}");
        }
    }

    #[test]
    fn the_reference_to_the_tracked_owner_is_known_and_goes_alone() {
        type Row = (ObjectMeta, Option<String>, Option<String>, Value);
        for (metadata, tracking, expected, rest) in table::<Row>("references", "tracked") {
            assert_eq!(
                of_owner(&metadata, tracking.as_deref()).as_deref(),
                expected.as_deref(),
                "{metadata:?}"
            );
            assert_eq!(without(&metadata, "u1").unwrap_or("all".into()), rest, "{metadata:?}");
        }
    }
}
