//! Answers a template's `lookup` from the cluster.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::connect::bounded;
use super::discovery::{Discovery, Snapshot};
use super::error::Result;
use super::objects::list_whole;
use crate::plan::identity::GroupKind;
use crate::plan::lookups::Target;
use crate::render::LookupKey;

/// The kind that a lookup asks for.
pub fn group_kind(key: &LookupKey) -> (GroupKind, String) {
    let (group, version) = key.api_version.split_once('/').unwrap_or(("", &key.api_version));
    (GroupKind::new(group, &key.kind), version.to_owned())
}

/// The lookup as messages and records name it: `v1/Secret/shop/tls`, with empty parts for "all".
pub fn describe(key: &LookupKey) -> String {
    format!("{}/{}/{}/{}", key.api_version, key.kind, key.namespace, key.name)
}

/// What [`describe`] described, if it is such a text.
pub fn parse(text: &str) -> Option<LookupKey> {
    let mut parts = text.rsplitn(4, '/');
    let (name, namespace, kind, api_version) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some(LookupKey {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// What a watch has to look at for a lookup. A namespace given for a cluster-scoped kind means nothing.
pub fn target(snapshot: &Snapshot, key: &LookupKey) -> Target {
    let (group_kind, version) = group_kind(key);
    let namespaced = snapshot.namespaced(&group_kind, &version).unwrap_or(true);
    Target {
        group_kind,
        namespace: if namespaced {
            key.namespace.clone()
        } else {
            String::new()
        },
        name: key.name.clone(),
    }
}

/// Fetches one object, or a list if the name is empty. As with Helm, what doesn't exist, and what is of a kind that is
/// not served, is an empty mapping.
///
/// # Errors
/// Also if the kind's API group does not answer at present: that nothing is there is not known then.
pub async fn fetch(discovery: &Discovery, snapshot: &Snapshot, key: &LookupKey) -> Result<Value> {
    let (group_kind, version) = group_kind(key);
    let Some(resource) = snapshot.resource(&group_kind, &version) else {
        return snapshot.has_answered(&group_kind.group).map(|()| json!({}));
    };
    let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_str());
    if !key.name.is_empty() {
        let api = discovery.api::<DynamicObject>(resource, namespace);
        return match bounded(api.get(&key.name)).await {
            Ok(object) => Ok(plain(object)),
            Err(error) if error.is_not_found() => Ok(json!({})),
            Err(error) => Err(error),
        };
    }
    let found = list_whole(discovery, resource, namespace).await?;
    let items = found.into_iter().map(|mut object| {
        object.types = Some(kube::core::TypeMeta {
            api_version: resource.api.api_version.clone(),
            kind: resource.api.kind.clone(),
        });
        plain(object)
    });
    let items: Vec<Value> = items.collect();
    Ok(json!({
        "apiVersion": resource.api.api_version, "kind": format!("{}List", resource.api.kind), "metadata": {}, "items": items,
    }))
}

/// The object as data, without what changes at every write: a template that printed those would never settle.
fn plain(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_can_be_read_back() {
        for text in [
            "v1/Secret/shop/tls",
            "apps/v1/Deployment/shop/",
            "v1/Node//",
            "v1/Secret//",
        ] {
            assert_eq!(parse(text).map(|key| describe(&key)).as_deref(), Some(text));
        }
        assert_eq!(parse("v1/Secret"), None);
    }
}
