//! `--dry-run=server`: capabilities and lookups from the cluster (`pkg/engine/lookup_func.go`).

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use kube::Client;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::args::TemplateArgs;
use super::kubeconfig;
use chartwright_operator::cluster::Discovery;
use chartwright_operator::cluster::connection;
use chartwright_operator::cluster::discovery::Snapshot;
use chartwright_operator::cluster::error::Error;
use chartwright_operator::cluster::objects::lookup::{self, group_kind};
use helm_template::render::{Lookup, LookupKey};

/// A cluster and its discovery.
pub struct TemplateCluster {
    runtime: Runtime,
    client: Client,
    pub snapshot: Arc<Snapshot>,
}

impl TemplateCluster {
    /// Connects to the cluster of the kubeconfig.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or the cluster does not answer.
    pub fn connect(args: &TemplateArgs, dir: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let connected = runtime.block_on(async {
            let config = kubeconfig::connection_config(args, dir).await?;
            let url = config.cluster_url.clone();
            let client = connection::client(config)?;
            let discovery = Discovery::new(client.clone()).await.with_context(|| url.to_string())?;
            anyhow::Ok((client, discovery.snapshot()))
        });
        let (client, snapshot) = connected.context("kubernetes cluster unreachable")?;
        Ok(TemplateCluster {
            runtime,
            client,
            snapshot,
        })
    }

    /// Returns whether a kind is namespaced. `None`: the cluster does not serve the kind.
    pub fn is_namespaced(&self, key: &LookupKey) -> Option<bool> {
        let (group_kind, version) = group_kind(key);
        self.snapshot.namespaced(&group_kind, &version)
    }

    /// Reads an object. Returns an empty mapping if it does not exist.
    pub fn get(&self, key: &LookupKey) -> Result<Value, String> {
        self.runtime.block_on(fetch(&self.client, &self.snapshot, key))
    }
}

/// Blocks the render until the cluster answers.
impl Lookup for TemplateCluster {
    fn lookup(&self, key: &LookupKey) -> Result<Option<Cow<'_, Value>>, String> {
        Ok(Some(Cow::Owned(self.get(key)?)))
    }
}

/// Reads an object as the operator does, except that an unserved group or version is an error, as in Helm.
async fn fetch(client: &Client, snapshot: &Snapshot, key: &LookupKey) -> Result<Value, String> {
    let LookupKey { api_version, kind, .. } = key;
    if api_version.is_empty() {
        return Err(format!(
            "unable to get apiresource from unstructured: /, Kind={kind}: groupVersion shouldn't be empty"
        ));
    }
    if !snapshot.capabilities.api_versions.contains(api_version) {
        return Err(format!(
            "unable to get apiresource from unstructured: {api_version}, Kind={kind}: the server could not find the \
             requested resource"
        ));
    }
    lookup::fetch(client, snapshot, key).await.map_err(|error| match error {
        // Helm prints only the server's message.
        Error::Forbidden(text) | Error::Unauthorized(text) | Error::Conflict(text) => text,
        error => error.to_string(),
    })
}
