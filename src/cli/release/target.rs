//! The custom resource of a command, named as in kubectl: `KIND NAME`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::kinds::find_kind;
use super::release_list::read_resource;
use chartwright_core::identity::GroupKind;
use chartwright_operator::cluster::connection::bounded;
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::cluster::{self, Discovery};

/// Arguments that name a custom resource.
#[derive(Args, Clone, Debug)]
pub struct TargetArgs {
    /// Kind of the CR, singular or plural, with or without its group: memcached, memcacheds.cache.example.com
    kind: String,
    /// Name of the CR
    name: String,
    /// Namespace of the CR [default: that of the kubeconfig's context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// A custom resource in a cluster.
pub struct TargetResource {
    pub group_kind: GroupKind,
    pub resource: Resource,
    pub name: String,
    pub client: Client,
    api: Api<DynamicObject>,
    /// `None`: the kind is cluster-scoped.
    namespace: Option<String>,
}

impl TargetArgs {
    /// Connects to the cluster and resolves the kind.
    pub async fn connect(&self) -> anyhow::Result<TargetResource> {
        self.connect_with_discovery().await.map(|(target, _)| target)
    }

    /// The same, with the kinds that the API server serves.
    pub async fn connect_with_discovery(&self) -> anyhow::Result<(TargetResource, Discovery)> {
        let (client, discovery) = cluster::connect_with_discovery(self.kubeconfig.as_deref()).await?;
        let snapshot = discovery.snapshot();
        let (group_kind, resource) = find_kind(&snapshot, &self.kind)?;
        let namespace = self.namespace.as_deref().unwrap_or(client.default_namespace());
        let namespace = resource.namespaced.then(|| namespace.to_owned());
        let target = TargetResource {
            group_kind: group_kind.clone(),
            resource: resource.clone(),
            name: self.name.clone(),
            api: resource.api_in(&client, namespace.as_deref()),
            namespace,
            client,
        };
        Ok((target, discovery))
    }
}

impl TargetResource {
    /// Reads the custom resource.
    pub async fn read(&self) -> anyhow::Result<Value> {
        let namespace = self.namespace.as_deref();
        read_resource(&self.client, (&self.group_kind, &self.resource), namespace, &self.name).await
    }

    /// True if the API server is known to have no such custom resource.
    pub async fn is_gone(&self) -> bool {
        matches!(bounded(self.api.get_metadata_opt(&self.name)).await, Ok(None))
    }

    /// Sets annotations. Fails if the custom resource changed after it was read.
    pub async fn annotate(&self, read: &Value, pairs: &[(&str, &str)]) -> anyhow::Result<()> {
        let annotations: Map<String, Value> = pairs
            .iter()
            .map(|(key, text)| ((*key).to_owned(), (*text).into()))
            .collect();
        let version = &read["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let written = bounded(self.api.patch(&self.name, &parameters, &patch)).await;
        written.with_context(|| self.to_string())?;
        Ok(())
    }
}

impl std::fmt::Display for TargetResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.group_kind, self.name)
    }
}
