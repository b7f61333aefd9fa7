//! The operator's key, without which its record and its stored values prove nothing.

use anyhow::{Context as _, bail};
use kube::Client;

use chartwright_core::digest::{Key, Keyring};
use chartwright_operator::cluster::Error;
use chartwright_operator::cluster::storage::keys;

/// Reads the keys of an operator by its name. Returns them with the operator's namespace, which is found if it is not `given`. `is_needed`:
/// a release has a record that the operator signed.
pub(in crate::cli) async fn load(
    operator: &str,
    given: Option<&str>,
    client: &Client,
    is_needed: bool,
) -> anyhow::Result<(Keyring, String)> {
    let name = keys::secret_name(operator);
    let namespace = match given {
        Some(namespace) => namespace.to_owned(),
        None => {
            let found = keys::find_namespace(client, operator).await;
            found.unwrap_or_else(|| client.default_namespace().to_owned())
        }
    };
    let loaded = keys::load(client.clone(), &namespace, operator).await;
    match loaded {
        Ok(Some(keys)) => Ok((keys, namespace)),
        // No operator has run yet.
        Ok(None) if !is_needed => Ok((Keyring::new(Key::new([0; 32]), Vec::new()), namespace)),
        Ok(None) => bail!(
            "the operator's key, Secret {namespace}/{name}, does not exist: --operator-namespace and --operator-name set its place"
        ),
        Err(error @ Error::Forbidden(_)) => Err(error).with_context(|| {
            format!(
                "you need the right to get the operator's key, Secret {namespace}/{name}, so that its record of a release can be read; \
                 --operator-namespace and --operator-name set its place"
            )
        }),
        Err(error) => Err(error).with_context(|| format!("Secret {namespace}/{name}")),
    }
}
