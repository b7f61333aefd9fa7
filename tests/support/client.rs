//! The most frequent kubectl requests without a process for each: many tests wait at the same time.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Runtime;

/// Requests with the credentials of one user. Copies share what they know of the server.
#[derive(Clone)]
pub struct Client {
    client: kube::Client,
    known: Arc<Mutex<Vec<ServedResource>>>,
}

/// A kind that the server has.
#[derive(Clone, Debug)]
pub struct ServedResource {
    /// Group and version as objects have them, such as `apps/v1`.
    pub api_version: String,
    pub kind: String,
    plural: String,
    /// What kubectl knows it by, in lower case.
    names: Vec<String>,
    namespaced: bool,
}

/// Waits for a future, from any thread, also one that belongs to another runtime.
fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads can be started"));
    let (sender, receiver) = mpsc::sync_channel(1);
    RUNTIME.spawn(async move { sender.send(future.await) });
    receiver.recv().context("the request panicked")
}

/// Whether nothing is served there, or (`named`) nothing of that name.
fn is_not_found(error: &anyhow::Error, named: bool) -> bool {
    let Some(kube::Error::Api(status)) = error.downcast_ref() else {
        return false;
    };
    let is_named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    status.code == 404 && is_named == named
}

/// A list from somewhere in an answer.
fn items(answer: &Value, pointer: &str) -> Vec<Value> {
    let items = answer.pointer(pointer).and_then(Value::as_array);
    items.cloned().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Client {
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
        let client = wait(async move {
            let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
            // A request that kube tries again takes minutes where the answer stays 503.
            config.default_retry = false;
            Ok::<_, anyhow::Error>(kube::Client::try_from(config)?)
        })??;
        Ok(Client {
            client,
            known: Arc::default(),
        })
    }

    /// One request. `content` is the type of the body, and the body.
    pub fn request(&self, method: &str, path: &str, content: Option<(&str, &Value)>) -> Result<Value> {
        let (kind, body) = content.map_or(("application/json", Vec::new()), |(kind, body)| {
            (kind, body.to_string().into_bytes())
        });
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header(http::header::CONTENT_TYPE, kind).body(body)?;
        let mut tries = 0..20;
        let answer = loop {
            let (client, request) = (self.client.clone(), request.clone());
            match wait(async move { client.request_text(request).await })? {
                // A kind that was changed is not served for a moment.
                Err(kube::Error::Api(status)) if status.code == 429 && tries.next().is_some() => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                answer => break answer?,
            }
        };
        // What is tested may nest deeper than serde_json reads by itself.
        let mut reader = serde_json::Deserializer::from_str(&answer);
        reader.disable_recursion_limit();
        Ok(Value::deserialize(&mut reader)?)
    }

    /// A GET, `None` if there is nothing of that name. That the whole kind isn't there is an error.
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.request("GET", path, None) {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_not_found(&error, true) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A kind by the names that kubectl takes: `pods`, `deploy`, `widgets.example.com`, `job.v1.batch`.
    pub fn resource(&self, name: &str) -> Result<ServedResource> {
        let lower = name.to_lowercase();
        let (name, rest) = lower.split_once('.').unwrap_or((&lower, ""));
        let is_it = |resource: &ServedResource| {
            let (group, version) = resource.api_version.split_once('/').unwrap_or(("", "v1"));
            let has_group = rest.is_empty() || rest == group || rest == format!("{version}.{group}");
            has_group && resource.names.iter().any(|known| known == name)
        };
        self.known_or(is_it, || self.learn(rest))
            .with_context(|| format!("the server doesn't have a resource type {lower:?}"))
    }

    /// The kind of an object.
    pub fn resource_of(&self, object: &Value) -> Result<ServedResource> {
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let is_it = |resource: &ServedResource| resource.api_version == api_version && resource.kind == kind;
        self.known_or(is_it, || self.learn_version(&api_version))
            .with_context(|| format!("no matches for kind {kind:?} in version {api_version:?}"))
    }

    /// Removes a kind that may no longer exist.
    pub fn forget(&self, resource: &ServedResource) {
        self.known().retain(|known| known.api_version != resource.api_version);
    }

    fn known(&self) -> MutexGuard<'_, Vec<ServedResource>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_or(
        &self,
        is_it: impl Fn(&ServedResource) -> bool,
        learn: impl Fn() -> Result<()>,
    ) -> Result<ServedResource> {
        for _ in 0..20 {
            let known = || self.known().iter().find(|resource| is_it(resource)).cloned();
            if let Some(found) = known() {
                return Ok(found);
            }
            learn()?;
            if let Some(found) = known() {
                return Ok(found);
            }
            // Discovery shows a new kind shortly after it is established.
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(anyhow!("it is not served"))
    }

    /// Reads what a group has, or all of Kubernetes' own with `""`; `group` may have a version before it.
    fn learn(&self, group: &str) -> Result<()> {
        if group.is_empty() {
            self.learn_version("v1")?;
        }
        for found in items(&self.request("GET", "/apis", None)?, "/groups") {
            let name = text(&found["name"]);
            let is_builtin = !name.contains('.') || name.ends_with(".k8s.io");
            if group.is_empty() && is_builtin || group.ends_with(&name) {
                // One that doesn't answer keeps no other from being known.
                let _ = self.learn_version(&text(&found["preferredVersion"]["groupVersion"]));
            }
        }
        Ok(())
    }

    fn learn_version(&self, api_version: &str) -> Result<()> {
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let list = match self.request("GET", &format!("/{root}/{api_version}"), None) {
            Err(error) if is_not_found(&error, false) => return Ok(()),
            list => list?,
        };
        let found = items(&list, "/resources").into_iter().map(|found| {
            let short = items(&found, "/shortNames");
            let others = [&found["name"], &found["singularName"], &found["kind"]];
            let names = others.into_iter().chain(&short).map(|name| text(name).to_lowercase());
            ServedResource {
                api_version: api_version.to_owned(),
                kind: text(&found["kind"]),
                plural: text(&found["name"]),
                names: names.collect(),
                namespaced: found["namespaced"] == true,
            }
        });
        let found: Vec<ServedResource> = found.filter(|resource| !resource.plural.contains('/')).collect();
        let mut known = self.known();
        known.retain(|resource| resource.api_version != api_version);
        known.extend(found);
        Ok(())
    }
}

impl ServedResource {
    /// The path of an object, or of all with `""`.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let namespace = if self.namespaced {
            format!("/namespaces/{namespace}")
        } else {
            String::new()
        };
        let path = format!("/{root}/{}{namespace}/{}/{name}", self.api_version, self.plural);
        path.trim_end_matches('/').to_owned()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
