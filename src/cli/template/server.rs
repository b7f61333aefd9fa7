//! `--dry-run=server`: capabilities and lookups from the cluster (`pkg/engine/lookup_func.go`).

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::args::TemplateArgs;
use super::kubeconfig;
use crate::cluster::Discovery;
use crate::cluster::connect::bounded;
use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Error;
use crate::cluster::lookup::group_kind;
use crate::cluster::path::{check, segment};
use helm_template::render::{Capabilities, Lookup, LookupKey};

/// A cluster, and what it serves.
pub struct Cluster {
    runtime: Runtime,
    client: Client,
    snapshot: Arc<Snapshot>,
}

impl Cluster {
    /// Connects as the command line and the kubeconfig say.
    ///
    /// # Errors
    /// The kubeconfig can't be used, or the cluster doesn't answer.
    pub fn connect(args: &TemplateArgs, dir: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let connected = runtime.block_on(async {
            let config = kubeconfig::config(args, dir).await?;
            let url = config.cluster_url.clone();
            let client = Client::try_from(config)?;
            let discovery = Discovery::new(client.clone()).await.with_context(|| url.to_string())?;
            anyhow::Ok((client, discovery.snapshot()))
        });
        let (client, snapshot) = connected.context("kubernetes cluster unreachable")?;
        Ok(Cluster {
            runtime,
            client,
            snapshot,
        })
    }

    /// The cluster's version, and what it serves.
    pub fn capabilities(&self) -> Capabilities {
        self.snapshot.capabilities.clone()
    }

    /// Whether the objects of a kind lie in namespaces; `None` if the cluster doesn't serve the kind.
    pub fn is_namespaced(&self, key: &LookupKey) -> Option<bool> {
        let (group_kind, version) = group_kind(key);
        self.snapshot.namespaced(&group_kind, &version)
    }

    /// An object as the API server has it; an empty mapping if it doesn't exist.
    pub fn get(&self, key: &LookupKey) -> Result<Value, String> {
        self.runtime.block_on(fetch(&self.client, &self.snapshot, key))
    }
}

/// A render waits for the cluster's answers.
impl Lookup for Cluster {
    fn lookup(&self, key: &LookupKey) -> Result<Option<Cow<'_, Value>>, String> {
        Ok(Some(Cow::Owned(self.get(key)?)))
    }
}

/// An object or a list exactly as the API server gives it. What doesn't exist is an empty mapping; a group or version
/// that isn't served is an error, as with Helm.
async fn fetch(client: &Client, snapshot: &Snapshot, key: &LookupKey) -> Result<Value, String> {
    let LookupKey { api_version, kind, .. } = key;
    if api_version.is_empty() {
        return Err(format!(
            "unable to get apiresource from unstructured: /, Kind={kind}: groupVersion shouldn't be empty"
        ));
    }
    let (group_kind, version) = group_kind(key);
    if !snapshot.capabilities.api_versions.contains(api_version) {
        return Err(format!(
            "unable to get apiresource from unstructured: {api_version}, Kind={kind}: the server could not find the \
             requested resource"
        ));
    }
    let Some(resource) = snapshot.resource(&group_kind, &version) else {
        return Ok(json!({}));
    };
    let namespace = match resource.namespaced {
        true => key.namespace.as_str(),
        false => "",
    };
    check(namespace, &key.name).map_err(|e| e.to_string())?;
    let mut path = match group_kind.group.as_str() {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    if !namespace.is_empty() {
        path.push_str(&format!("/namespaces/{}", segment(namespace)));
    }
    path.push_str(&format!("/{}", resource.api.plural));
    let request = match key.name.as_str() {
        "" => Request::new(path).list(&ListParams::default()),
        name => Request::new(path).get(&segment(name), &GetParams::default()),
    };
    let request = request.map_err(|e| e.to_string())?;
    match bounded(client.request::<Value>(request)).await {
        Ok(mut answer) => {
            name_items(&mut answer, &resource.api.api_version, &resource.api.kind);
            Ok(answer)
        }
        Err(Error::NotFound(_)) => Ok(json!({})),
        // Helm shows the server's words alone.
        Err(Error::Forbidden(text) | Error::Conflict(text)) => Err(text),
        Err(error) => Err(error.to_string()),
    }
}

/// The items of a list come without kind and version; client-go gives them both.
fn name_items(list: &mut Value, api_version: &str, kind: &str) {
    let Some(items) = list.get_mut("items").and_then(Value::as_array_mut) else {
        return;
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.entry("apiVersion").or_insert_with(|| api_version.into());
        item.entry("kind").or_insert_with(|| kind.into());
    }
}
