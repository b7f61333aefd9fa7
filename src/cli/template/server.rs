//! `--dry-run=server`: capabilities and lookups from the cluster (`pkg/engine/lookup_func.go`).

use std::sync::Arc;

use kube::api::{GetParams, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Process, env_bool, namespace};
use crate::cli::pflag::Parsed;
use crate::cluster::Discovery;
use crate::cluster::connect::bounded;
use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Error;
use crate::cluster::lookup::group_kind;
use crate::render::{Capabilities, LookupKey, Lookups};

/// A cluster, and what it serves.
pub struct Cluster {
    runtime: Arc<Runtime>,
    client: Client,
    snapshot: Arc<Snapshot>,
}

impl Cluster {
    /// Connects as the command line, the environment and the kubeconfig say.
    ///
    /// # Errors
    /// The text for a cluster that can't be reached, in Helm's words as far as they are Helm's.
    pub fn connect(flags: &Parsed, process: &Process<'_>) -> Result<Self, String> {
        let unreachable =
            |text: String| format!("cluster reachability check failed: kubernetes cluster unreachable: {text}");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|e| e.to_string())?;
        let (client, snapshot) = runtime
            .block_on(async {
                let mut config = config(flags, process).await?;
                overrule(&mut config, flags, process)?;
                let url = config.cluster_url.clone();
                let client = Client::try_from(config).map_err(|e| e.to_string())?;
                let discovery = Discovery::new(client.clone())
                    .await
                    .map_err(|e| format!("{url}: {e}"))?;
                Ok((client, discovery.snapshot()))
            })
            .map_err(unreachable)?;
        Ok(Cluster {
            runtime: Arc::new(runtime),
            client,
            snapshot,
        })
    }

    /// The cluster's version, and what it serves.
    pub fn capabilities(&self) -> Capabilities {
        self.snapshot.capabilities.clone()
    }

    /// Lookups that ask the cluster.
    pub fn lookups(&self) -> Lookups {
        let (runtime, client, snapshot) = (
            Arc::clone(&self.runtime),
            self.client.clone(),
            Arc::clone(&self.snapshot),
        );
        Lookups::live(Arc::new(move |key| runtime.block_on(fetch(&client, &snapshot, key))))
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
    // client-go refuses such names, as they would change the path.
    if let Some(bad) = ["/", "%"].iter().find(|bad| key.name.contains(**bad)) {
        return Err(format!(
            "invalid resource name {:?}: [may not contain '{bad}']",
            key.name
        ));
    }
    if [".", ".."].contains(&key.name.as_str()) {
        return Err(format!(
            "invalid resource name {:?}: [may not be '{}']",
            key.name, key.name
        ));
    }
    let mut path = match group_kind.group.as_str() {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    if resource.namespaced && !key.namespace.is_empty() {
        path.push_str(&format!("/namespaces/{}", key.namespace));
    }
    path.push_str(&format!("/{}", resource.api.plural));
    let request = match key.name.as_str() {
        "" => Request::new(path).list(&ListParams::default()),
        name => Request::new(path).get(name, &GetParams::default()),
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

/// The kubeconfig's, or that of a pod.
async fn config(flags: &Parsed, process: &Process<'_>) -> Result<Config, String> {
    let explicit = flags.text("kubeconfig").is_some_and(|path| !path.is_empty());
    let mut merged: Option<Kubeconfig> = None;
    for path in namespace::kubeconfigs(flags, process) {
        if !explicit && !path.exists() {
            continue;
        }
        if let Err(e) = std::fs::metadata(&path) {
            return Err(format!(
                "stat {}: {}",
                flags.text("kubeconfig").unwrap_or_default(),
                crate::chart::io_text(&e)
            ));
        }
        let next = Kubeconfig::read_from(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        merged = Some(match merged {
            Some(earlier) => earlier.merge(next).map_err(|e| e.to_string())?,
            None => next,
        });
    }
    let Some(kubeconfig) = merged else {
        return Config::infer().await.map_err(|e| e.to_string());
    };
    let context = namespace::context(flags, process);
    if let Some(name) = &context
        && !kubeconfig.contexts.iter().any(|context| &context.name == name)
    {
        return Err(format!("context {name:?} does not exist"));
    }
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|e| e.to_string())
}

/// What the command line and the environment say over the kubeconfig.
fn overrule(config: &mut Config, flags: &Parsed, process: &Process<'_>) -> Result<(), String> {
    let given = |flag: &str, variable: &str| {
        let text = flags.text(flag).map(str::to_owned).or_else(|| (process.env)(variable));
        text.filter(|text| !text.is_empty())
    };
    if let Some(url) = given("kube-apiserver", "HELM_KUBEAPISERVER") {
        config.cluster_url = url.parse().map_err(|e| format!("{url}: {e}"))?;
    }
    if let Some(token) = given("kube-token", "HELM_KUBETOKEN") {
        config.auth_info.token = Some(token.into());
    }
    if let Some(user) = given("kube-as-user", "HELM_KUBEASUSER") {
        config.auth_info.impersonate = Some(user);
    }
    let groups = match flags.is_set("kube-as-group") {
        true => flags.list("kube-as-group"),
        false => (process.env)("HELM_KUBEASGROUPS")
            .map(|text| text.trim_matches([',', ' ']).split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    };
    if groups.iter().any(|group| !group.is_empty()) {
        config.auth_info.impersonate_groups = Some(groups);
    }
    if let Some(name) = given("kube-tls-server-name", "HELM_KUBETLS_SERVER_NAME") {
        config.tls_server_name = Some(name);
    }
    if flags.bool("kube-insecure-skip-tls-verify") || env_bool(process, "HELM_KUBEINSECURE_SKIP_TLS_VERIFY") {
        config.accept_invalid_certs = true;
    }
    if given("kube-ca-file", "HELM_KUBECAFILE").is_some() {
        return Err("--kube-ca-file is not supported: put the authority into the kubeconfig".to_owned());
    }
    Ok(())
}
