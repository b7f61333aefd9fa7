//! The custom resources of the measurement, and the bare client that is the floor.

use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{TryStreamExt, stream};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use crate::support::Kubectl;

/// Parallel requests of the bare client and of the client that creates and edits custom resources.
const AT_ONCE: usize = 8;
const GROUP: &str = "bench.chartwright.test";
/// Far beyond what any operator should take.
const PHASE_TIMEOUT: Duration = Duration::from_secs(1200);

/// A namespace with `count` custom resources of kind `Three`.
#[derive(Clone)]
pub struct Load {
    client: Client,
    namespace: String,
    pub count: usize,
}

/// A client for a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Installs the kind.
pub fn install(kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(include_str!("crd.yaml"))?;
    let name = format!("threes.{GROUP}");
    kubectl.wait("Established", "crd", &name, Duration::from_secs(30))
}

/// The watches file of an operator for the kind.
pub fn watches(chart: &Path) -> String {
    let chart = chart.display();
    format!("- group: {GROUP}\n  version: v1\n  kind: Three\n  chart: {chart}\n")
}

/// Objects by name, and whether each is ready.
type KnownObjects = HashMap<String, bool>;

fn members(objects: &KnownObjects) -> usize {
    objects.keys().filter(|name| name.starts_with("load-")).count()
}

fn threes() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Three"), "threes")
}

fn configmaps() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"))
}

fn is_ready(object: &DynamicObject) -> bool {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"].as_i64() == object.metadata.generation
    })
}

impl Load {
    /// Makes the namespace.
    pub fn new(kubectl: &Kubectl, client: &Client, namespace: &str, count: usize) -> Result<Self> {
        kubectl.create_namespace(namespace)?;
        Ok(Load {
            client: client.clone(),
            namespace: namespace.to_owned(),
            count,
        })
    }

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, resource)
    }

    fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.count).map(|number| format!("load-{number:05}"))
    }

    async fn for_all(&self, act: impl AsyncFn(String) -> Result<()>) -> Result<()> {
        let names = stream::iter(self.names().map(Ok));
        names.try_for_each_concurrent(AT_ONCE, |name| act(name)).await
    }

    /// Creates the custom resources.
    pub async fn create(&self) -> Result<()> {
        let api = self.api(&threes());
        self.for_all(async |name| {
            let object = json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "Three", "metadata": {"name": name}, "spec": {"size": 1},
            });
            let object = serde_json::from_value(object)?;
            api.create(&Default::default(), &object).await?;
            Ok(())
        })
        .await
    }

    /// Edits each of them so that one of three members changes.
    pub async fn edit(&self, color: &str) -> Result<()> {
        self.patch(&Patch::Merge(json!({"spec": {"color": color}}))).await
    }

    async fn patch(&self, patch: &Patch<Value>) -> Result<()> {
        let api = self.api(&threes());
        self.for_all(async |name| {
            api.patch(&name, &PatchParams::default(), patch).await?;
            Ok(())
        })
        .await
    }

    /// Deletes them; who made the members removes those.
    pub async fn delete(&self) -> Result<()> {
        let api = self.api(&threes());
        self.for_all(async |name| {
            api.delete(&name, &DeleteParams::default()).await?;
            Ok(())
        })
        .await
    }

    /// How long the bare writes take with the same watches open: one on each kind, and one that waits for the custom
    /// resources.
    pub async fn watched_writes(&self, status: &Value) -> Result<Duration> {
        let watches = [threes(), configmaps(), threes()].map(|resource| {
            let load = self.clone();
            tokio::spawn(async move { load.watch_until("never", &resource, |_| false).await })
        });
        let written = self.bare_writes(status).await;
        watches.iter().for_each(tokio::task::JoinHandle::abort);
        written
    }

    /// What an operator wrote into the status of one of them.
    pub async fn a_status(&self) -> Result<Value> {
        let name = self.names().next().unwrap_or_default();
        let mut object = self.api(&threes()).get(&name).await?;
        Ok(object.data["status"].take())
    }

    /// How long the writes take that no operator can do without, by a client that does nothing else: one apply on the
    /// custom resource, three members, one status.
    pub async fn bare_writes(&self, status: &Value) -> Result<Duration> {
        let (owners, members) = (self.api(&threes()), self.api(&configmaps()));
        let parameters = PatchParams::apply("bare").force();
        let started = Instant::now();
        self.for_all(async |name| {
            let owner = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Three"});
            let mut claim = owner.clone();
            let finalizers = ["bench.chartwright.test/bare"];
            claim["metadata"] = json!({"name": name, "finalizers": finalizers, "labels": {"bare": "true"}});
            owners.patch(&name, &parameters, &Patch::Apply(claim)).await?;
            for part in ["main", "files", "tuning"] {
                let text: String = (0..12).map(|line| format!("{part} line {line}\n")).collect();
                let member_name = format!("{name}-{part}");
                let labels = json!({"app.kubernetes.io/name": "three", "app.kubernetes.io/instance": name});
                let member = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": member_name, "labels": labels},
                    "data": {"size": "1", "text": text},
                });
                members.patch(&member_name, &parameters, &Patch::Apply(member)).await?;
            }
            let mut object = owner;
            object["metadata"] = json!({"name": name});
            object["status"] = status.clone();
            owners.patch_status(&name, &parameters, &Patch::Apply(object)).await?;
            Ok(())
        })
        .await?;
        Ok(started.elapsed())
    }

    /// Removes what the bare writes left.
    pub async fn clear(&self) -> Result<()> {
        self.patch(&Patch::Merge(json!({"metadata": {"finalizers": null}})))
            .await?;
        self.delete().await?;
        let (how, all) = (DeleteParams::default(), ListParams::default());
        self.api(&configmaps()).delete_collection(&how, &all).await?;
        Ok(())
    }

    /// Waits with one watch until all custom resources are Ready at their generation.
    pub async fn all_ready(&self) -> Result<()> {
        let all = |objects: &KnownObjects| objects.len() == self.count && objects.values().all(|ready| *ready);
        self.watch_until("all custom resources are Ready", &threes(), all).await
    }

    /// Waits until all members are there, for operators whose conditions say something else.
    pub async fn all_members(&self) -> Result<()> {
        let all = |objects: &KnownObjects| members(objects) == 3 * self.count;
        self.watch_until("all members are there", &configmaps(), all).await
    }

    /// Waits until every `main` member has this color.
    pub async fn all_colored(&self, color: &str) -> Result<()> {
        let api = self.api(&configmaps());
        let colored = async {
            loop {
                let list = api.list(&ListParams::default()).await?;
                let colored = list.items.iter().filter(|object| object.data["data"]["color"] == color);
                if colored.count() == self.count {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let outcome = tokio::time::timeout(PHASE_TIMEOUT, colored).await;
        outcome.with_context(|| format!("not all members are {color}"))?
    }

    /// Waits until neither custom resources nor members are left.
    pub async fn all_gone(&self) -> Result<()> {
        self.watch_until("all custom resources are gone", &threes(), HashMap::is_empty)
            .await?;
        let none = |objects: &KnownObjects| members(objects) == 0;
        self.watch_until("all members are gone", &configmaps(), none).await
    }

    async fn watch_until(
        &self,
        what: &str,
        resource: &ApiResource,
        holds: impl Fn(&KnownObjects) -> bool,
    ) -> Result<()> {
        let waiting = async {
            let mut known = KnownObjects::new();
            let mut listed = false;
            let mut events = pin!(watcher(self.api(resource), watcher::Config::default()));
            while let Some(event) = events.try_next().await? {
                match event {
                    Event::Apply(object) | Event::InitApply(object) => {
                        known.insert(object.name_any(), is_ready(&object));
                    }
                    Event::Delete(object) => drop(known.remove(&object.name_any())),
                    Event::Init => known.clear(),
                    Event::InitDone => listed = true,
                }
                if listed && holds(&known) {
                    break;
                }
            }
            anyhow::Ok(())
        };
        let outcome = tokio::time::timeout(PHASE_TIMEOUT, waiting).await;
        outcome.with_context(|| format!("{what}: not within {PHASE_TIMEOUT:?}"))?
    }
}
