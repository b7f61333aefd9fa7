//! The operator's key, without which its record and its stored values prove nothing.

use anyhow::{Context as _, bail};
use clap::Args;
use kube::Client;
use serde_json::Value;

use chartwright_core::digest::{Key, Keyring};
use chartwright_operator::cluster::storage::keys;
use chartwright_operator::cluster::{Discovery, Error};
use chartwright_preview::PreviewCluster;

/// The operator whose record of a release is read.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct OperatorArgs {
    /// The operator's name: the label on members, and part of the name of its key
    #[arg(
        long,
        value_name = "NAME",
        env = "OPERATOR_NAME",
        hide_env_values = true,
        default_value = "chartwright"
    )]
    pub operator_name: String,
    /// The operator's own namespace, where its key lies [default: where its key is found]
    #[arg(long, value_name = "NAMESPACE")]
    pub operator_namespace: Option<String>,
}

impl OperatorArgs {
    /// Connects a preview with the operator's keys. `live`: the custom resources that are previewed, of which an operator may have a record.
    pub(in crate::cli) async fn preview_cluster<'a>(
        &self,
        client: Client,
        discovery: Discovery,
        live: impl IntoIterator<Item = &'a Value>,
    ) -> anyhow::Result<PreviewCluster> {
        let (keys, own_namespace) = self.load_keys(&client, live.into_iter().any(has_record)).await?;
        Ok(PreviewCluster {
            client,
            discovery,
            keys,
            operator: self.operator_name.clone(),
            own_namespace,
            render: None,
            quick: None,
        })
    }

    /// Reads the operator's keys. Returns them with the operator's namespace. `is_needed`: a release has a record that the operator signed.
    async fn load_keys(&self, client: &Client, is_needed: bool) -> anyhow::Result<(Keyring, String)> {
        let operator = self.operator_name.as_str();
        let given = self.operator_namespace.as_deref();
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
}

/// True if the operator has applied a custom resource.
fn has_record(live: &Value) -> bool {
    live["status"]["release"]["revision"].as_i64().unwrap_or_default() > 0
}
