//! The operator's HMAC key: one Secret in its own namespace, made at the first start.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::connect::bounded;
use super::error::{Error, Result};
use crate::plan::digest::Key;

/// The Secret's name; each operator of a namespace has its own.
pub fn secret_name(operator: &str) -> String {
    format!("{operator}-hmac-key")
}

const FIELD: &str = "key";

/// Reads the key, or makes it. Two replicas that start at once agree: the second to create reads the first's.
///
/// # Errors
/// If the Secret may not be read or made, or holds something else.
pub async fn load_or_create(client: Client, namespace: &str, operator: &str) -> Result<Key> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let name = secret_name(operator);
    for _ in 0..3 {
        if let Some(key) = load(client.clone(), namespace, operator).await? {
            return Ok(key);
        }
        let mut bytes = [0; 32];
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
            Ok(_) => return Ok(Key::new(bytes)),
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Unavailable(format!("Secret {namespace}/{name} comes and goes")))
}

/// Reads the key; `None` if there is none yet.
///
/// # Errors
/// If the Secret may not be read, or holds something else.
pub async fn load(client: Client, namespace: &str, operator: &str) -> Result<Option<Key>> {
    let name = secret_name(operator);
    let Some(secret) = bounded(Api::<Secret>::namespaced(client, namespace).get_opt(&name)).await? else {
        return Ok(None);
    };
    let bytes = secret.data.and_then(|mut data| data.remove(FIELD)).unwrap_or_default();
    match <[u8; 32]>::try_from(bytes.0) {
        Ok(bytes) => Ok(Some(Key::new(bytes))),
        Err(_) => Err(Error::Invalid(format!(
            "Secret {namespace}/{name} does not hold a key of 32 bytes under `{FIELD}`: delete it and a new one is made \
             (every release is then applied once more)"
        ))),
    }
}
