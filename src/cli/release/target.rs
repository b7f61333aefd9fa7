//! The custom resource of a command, named as in kubectl: `KIND NAME`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};

use chartwright_core::identity::GroupKind;
use chartwright_operator::cluster::connection::bounded;
use chartwright_operator::cluster::discovery::{Resource, Snapshot};
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
    pub name: String,
    pub client: Client,
    api: Api<DynamicObject>,
}

impl TargetArgs {
    /// Connects to the cluster and resolves the kind.
    pub async fn connect(&self) -> anyhow::Result<TargetResource> {
        let client = cluster::connect(self.kubeconfig.as_deref()).await?;
        let snapshot = Discovery::new(client.clone()).await?.snapshot();
        let (group_kind, resource) = self.find_kind(&snapshot)?;
        Ok(TargetResource {
            group_kind: group_kind.clone(),
            name: self.name.clone(),
            api: self.api_of(&client, resource),
            client,
        })
    }

    fn find_kind<'s>(&self, snapshot: &'s Snapshot) -> anyhow::Result<(&'s GroupKind, &'s Resource)> {
        let (word, group) = match self.kind.split_once('.') {
            Some((word, group)) => (word.to_lowercase(), Some(group)),
            None => (self.kind.to_lowercase(), None),
        };
        let is_selected = |(group_kind, resource): &(&GroupKind, &Resource)| {
            group.is_none_or(|group| group == group_kind.group)
                && (group_kind.kind.to_lowercase() == word || resource.api.plural == word)
        };
        let mut found: Vec<_> = snapshot.kinds().filter(is_selected).collect();
        found.sort_by_key(|(group_kind, _)| *group_kind);
        match found.as_slice() {
            [one] => Ok(*one),
            [] => bail!("the API server serves no kind {:?}", self.kind),
            several => {
                let names: Vec<String> = several.iter().map(|(group_kind, _)| group_kind.to_string()).collect();
                bail!("{:?} may be any of {}: write one of them", self.kind, names.join(", "))
            }
        }
    }

    fn api_of(&self, client: &Client, resource: &Resource) -> Api<DynamicObject> {
        let namespace = self.namespace.as_deref().unwrap_or(client.default_namespace());
        resource.api_in(client, resource.namespaced.then_some(namespace))
    }
}

impl TargetResource {
    /// Reads the custom resource.
    pub async fn read(&self) -> anyhow::Result<Value> {
        let read = bounded(self.api.get_opt(&self.name)).await;
        let found = read.with_context(|| self.to_string())?;
        let object = found.with_context(|| format!("there is no {self}"))?;
        Ok(serde_json::to_value(object)?)
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
