//! The operator's HMAC keys: a Secret in its own namespace, created at the first start. `key` is the current key;
//! `previous` contains the replaced keys, concatenated.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::cluster::connection::bounded;
use crate::cluster::connection::url_path::segment;
use crate::cluster::error::{Error, Result};
use chartwright_core::digest::{Key, Keyring};

/// The end of the Secret's name.
const SUFFIX: &str = "-hmac-key";
/// Secrets in one answer of the API server.
const PAGE: u32 = 500;

/// The Secret's name; each operator of a namespace has its own.
pub fn secret_name(operator: &str) -> String {
    format!("{operator}{SUFFIX}")
}

/// An operator and the namespace of its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyOwner {
    pub operator: String,
    pub namespace: String,
}

const FIELD: &str = "key";
const PREVIOUS: &str = "previous";
const LENGTH: usize = 32;

/// Reads the keys, or creates one. If two replicas start together, the second one reads the key of the first.
///
/// # Errors
/// If the Secret cannot be read or created, or contains other data.
pub async fn load_or_create(client: Client, namespace: &str, operator: &str) -> Result<Keyring> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let name = secret_name(operator);
    for _ in 0..3 {
        if let Some(keys) = load(client.clone(), namespace, operator).await? {
            return Ok(keys);
        }
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes).map_err(|error| Error::Unavailable(error.to_string()))?;
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(FIELD.to_owned(), ByteString(bytes.to_vec()))])),
            ..Secret::default()
        };
        match bounded(api.create(&PostParams::default(), &secret)).await {
            Ok(_) => return Ok(Keyring::new(Key::new(bytes), Vec::new())),
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Unavailable(format!("Secret {namespace}/{name} comes and goes")))
}

/// Reads the keys; `None` if there is none yet.
///
/// # Errors
/// If the Secret cannot be read, or contains other data.
pub async fn load(client: Client, namespace: &str, operator: &str) -> Result<Option<Keyring>> {
    let name = secret_name(operator);
    let Some(secret) = bounded(Api::<Secret>::namespaced(client, namespace).get_opt(&name)).await? else {
        return Ok(None);
    };
    let data = secret.data.unwrap_or_default();
    let keyring = read(&data).map_err(|why| Error::Invalid(format!("Secret {namespace}/{name}: {why}")))?;
    Ok(Some(keyring))
}

/// Finds the namespace with the Secret of an operator: the client's own, or the only one that has it. `None`: there is none or there are
/// several, or the user may not list Secrets.
pub async fn find_namespace(client: &Client, operator: &str) -> Option<String> {
    let name = secret_name(operator);
    let own = Api::<Secret>::default_namespaced(client.clone());
    if bounded(own.get_metadata_opt(&name))
        .await
        .is_ok_and(|found| found.is_some())
    {
        return Some(client.default_namespace().to_owned());
    }
    let parameters = ListParams::default().fields(&format!("metadata.name={name}")).limit(2);
    let found = bounded(Api::<Secret>::all(client.clone()).list_metadata(&parameters)).await;
    match found.ok()?.items.as_slice() {
        [one] => one.metadata.namespace.clone(),
        _ => None,
    }
}

/// Lists the operators whose Secret is in one namespace or (`None`) in any, sorted. Reads metadata only.
///
/// # Errors
/// If the Secrets cannot be listed.
pub async fn list_owners(client: &Client, namespace: Option<&str>) -> Result<Vec<KeyOwner>> {
    let api: Api<Secret> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), &segment(namespace)),
        None => Api::all(client.clone()),
    };
    let mut parameters = ListParams::default().limit(PAGE);
    let mut owners = Vec::new();
    loop {
        let page = bounded(api.list_metadata(&parameters)).await?;
        owners.extend(page.items.iter().filter_map(|secret| {
            let operator = secret.metadata.name.as_deref()?.strip_suffix(SUFFIX)?;
            (!operator.is_empty()).then(|| KeyOwner {
                operator: operator.to_owned(),
                namespace: secret.metadata.namespace.clone().unwrap_or_default(),
            })
        }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    owners.sort();
    Ok(owners)
}

/// # Errors
/// What is wrong with the Secret.
fn read(data: &BTreeMap<String, ByteString>) -> std::result::Result<Keyring, String> {
    let bytes = |field: &str| data.get(field).map(|bytes| bytes.0.as_slice()).unwrap_or_default();
    let current = <[u8; LENGTH]>::try_from(bytes(FIELD)).map_err(|_| {
        format!(
            "it does not hold a key of {LENGTH} bytes under `{FIELD}`: put the key back, or delete the Secret and a new one \
             is made (what the old key signed is then lost: docs/guides/operating.md, the operator's key)"
        )
    })?;
    let (previous, rest) = bytes(PREVIOUS).as_chunks::<LENGTH>();
    if !rest.is_empty() {
        return Err(format!(
            "`{PREVIOUS}` has {} bytes, which are no whole number of keys of {LENGTH} bytes",
            bytes(PREVIOUS).len()
        ));
    }
    let previous = previous.iter().map(|bytes| Key::new(*bytes)).collect();
    Ok(Keyring::new(Key::new(current), previous))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_and_previous_keys_are_read() {
        let data = |fields: &[(&str, usize)]| -> BTreeMap<String, ByteString> {
            let fields = fields.iter().map(|(field, length)| {
                let bytes = (0..*length).map(|at| u8::try_from(at / LENGTH).unwrap());
                ((*field).to_owned(), ByteString(bytes.collect()))
            });
            fields.collect()
        };
        let id = |byte: u8| Key::new([byte; LENGTH]).id().to_owned();
        let keys = read(&data(&[("key", 32), ("previous", 64)])).unwrap();
        assert_eq!(keys.current().id(), id(0));
        assert!(keys.get(&id(1)).is_some() && keys.get(&id(2)).is_none());
        for (wrong, field) in [
            (data(&[]), "`key`"),
            (data(&[("key", 31)]), "`key`"),
            (data(&[("key", 32), ("previous", 33)]), "`previous`"),
        ] {
            let why = read(&wrong).unwrap_err();
            assert!(why.contains(field), "{why}");
        }
    }

    #[tokio::test]
    async fn owners_are_found_by_the_names_of_secrets() {
        use serde_json::json;
        let client = crate::cluster::testing::client(|request| {
            let secret = |name: &str| json!({"metadata": {"name": name, "namespace": "shop"}});
            let (items, next) = match (request.path.as_str(), request.query.contains("continue=more")) {
                ("/api/v1/secrets", false) => (vec![secret("web-hmac-key"), secret("-hmac-key")], "more"),
                ("/api/v1/secrets", true) => (vec![secret("hmac-key"), secret("ops-hmac-key")], ""),
                _ => (vec![secret("web-hmac-key"), secret("web-hmac-key-old")], ""),
            };
            let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                              "metadata": {"continue": next}, "items": items});
            Some((200, list))
        });
        let names = async |namespace| {
            let owners = list_owners(&client, namespace).await.unwrap();
            owners.into_iter().map(|owner| owner.operator).collect::<Vec<_>>()
        };
        assert_eq!(names(None).await, ["ops", "web"]);
        assert_eq!(names(Some("shop")).await, ["web"]);
    }
}
