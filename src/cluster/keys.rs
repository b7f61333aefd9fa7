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
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let name = secret_name(operator);
    for _ in 0..3 {
        if let Some(secret) = bounded(api.get_opt(&name)).await? {
            return read(&secret, namespace, &name);
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
    match bounded(Api::namespaced(client, namespace).get_opt(&name)).await? {
        Some(secret) => read(&secret, namespace, &name).map(Some),
        None => Ok(None),
    }
}

fn read(secret: &Secret, namespace: &str, name: &str) -> Result<Key> {
    let bytes = secret
        .data
        .as_ref()
        .and_then(|data| data.get(FIELD))
        .map(|value| value.0.as_slice());
    match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
        Some(bytes) => Ok(Key::new(bytes)),
        None => Err(Error::Invalid(format!(
            "Secret {namespace}/{name} does not hold a key of 32 bytes under `{FIELD}`: delete it and a new one is made \
             (every release is then applied once more)"
        ))),
    }
}
