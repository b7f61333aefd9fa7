//! Answers a template's `lookup` from the cluster.

use futures::{StreamExt, TryStreamExt};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::connect::bounded;
use super::decoding::Whole;
use super::discovery::{Resource, Snapshot};
use super::error::{Error, Result};
use super::objects::list_whole;
use super::path::{check, segment};
use crate::plan::dependencies::Dependency;
use crate::plan::identity::GroupKind;
use helm_template::render::LookupKey;

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

/// What a release depends on by a lookup. A namespace given for a cluster-scoped kind means nothing.
pub fn dependency(snapshot: &Snapshot, key: &LookupKey) -> Dependency {
    let (group_kind, version) = group_kind(key);
    let namespaced = snapshot.namespaced(&group_kind, &version).unwrap_or(true);
    Dependency {
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
/// Also if the kind's API group does not answer at present: that nothing is there is not known then. `Invalid` for a name
/// that client-go refuses.
pub async fn fetch(client: &Client, snapshot: &Snapshot, key: &LookupKey) -> Result<Value> {
    let (group_kind, version) = group_kind(key);
    let Some(resource) = snapshot.resource(&group_kind, &version) else {
        return snapshot.has_answered(&group_kind.group).map(|()| json!({}));
    };
    let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_str());
    check(namespace.filter(|_| resource.namespaced).unwrap_or_default(), &key.name)?;
    if !key.name.is_empty() {
        let api = resource.api_in::<Whole>(client, namespace);
        return match bounded(api.get(&segment(&key.name))).await {
            Ok(object) => plain(&object),
            Err(error) if error.is_not_found() => Ok(json!({})),
            Err(error) => Err(error),
        };
    }
    let found = list_whole(client, resource, namespace).await?;
    let items = found.iter().map(|object| typed(object, resource));
    let items = items.collect::<Result<Vec<Value>>>()?;
    Ok(json!({
        "apiVersion": resource.api.api_version, "kind": format!("{}List", resource.api.kind), "metadata": {}, "items": items,
    }))
}

/// Requests of one release for what it looks up that are under way at a time.
const AT_ONCE: usize = 8;

/// As [`fetch`] for each of the keys, some at a time. `gate` bounds how many of these requests the process makes at once.
///
/// # Errors
/// Those of [`fetch`], with the first key that met one.
pub async fn fetch_all(
    client: &Client,
    snapshot: &Snapshot,
    keys: &[LookupKey],
    gate: &Semaphore,
) -> std::result::Result<Vec<Value>, (LookupKey, Error)> {
    let fetched = keys.iter().cloned().map(|key| async move {
        let _permit = gate.acquire().await;
        let fetched = fetch(client, snapshot, &key).await;
        fetched.map_err(|error| (key, error))
    });
    futures::stream::iter(fetched).buffered(AT_ONCE).try_collect().await
}

/// What stands in a list doesn't say what it is.
fn typed(object: &Whole, resource: &Resource) -> Result<Value> {
    let mut item = plain(object)?;
    item["apiVersion"] = resource.api.api_version.as_str().into();
    item["kind"] = resource.api.kind.as_str().into();
    Ok(item)
}

/// The object as data, without what changes at every write: a template that printed those would never settle.
fn plain(object: &Whole) -> Result<Value> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let mut value = object
        .value()
        .map_err(|error| Error::Invalid(format!("{name} {error}")))?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::super::discovery::Discovery;
    use super::super::testing::client;
    use super::*;

    #[tokio::test]
    async fn the_first_that_fails_is_told() {
        let client = client(|_| None);
        let keys = ["a", "b/x", "c/x"].map(|name| LookupKey {
            name: name.to_owned(),
            ..parse("a.test/v1/Widget/shop/").unwrap()
        });
        let snapshot = Discovery::new(client.clone()).await.unwrap().snapshot();
        let told = fetch_all(&client, &snapshot, &keys, &Semaphore::new(1)).await;
        let (key, error) = told.unwrap_err();
        assert_eq!(key.name, "b/x", "{error}");
    }

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
