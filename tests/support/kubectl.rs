//! kubectl with the credentials of one user: what tests do all the time as requests of our own, the rest as a command.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Client;
use super::eventually;

/// How long a deletion may take: an API server on a busy machine retries that of a CustomResourceDefinition for over a minute.
const DELETION_TIME: Duration = Duration::from_secs(180);

/// kubectl with a kubeconfig, in a namespace if one is set.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
    namespace: Option<String>,
    client: Arc<OnceLock<Client>>,
}

impl Kubectl {
    /// `cache` is the folder for kubectl's discovery cache: the usual one knows servers by host and port, and other
    /// control planes will have the same ports one day.
    pub fn new(binary: &Path, kubeconfig: &Path, cache: &Path) -> Self {
        Self {
            binary: binary.into(),
            kubeconfig: kubeconfig.into(),
            cache: cache.into(),
            namespace: None,
            client: Arc::default(),
        }
    }

    /// The credentials that are used.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The same user in a namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self.clone()
        }
    }

    /// The same binary with other credentials.
    #[must_use]
    pub fn with_kubeconfig(&self, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            client: Arc::default(),
            ..self.clone()
        }
    }

    /// The command with the flags for credentials and namespace, to be run in another way than these methods do.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        // Plugins, preferences and aliases of the user have no effect.
        command.env_remove("KUBECONFIG").env("KUBERC", "off");
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache);
        if let Some(namespace) = &self.namespace {
            command.args(["--namespace", namespace]);
        }
        command
    }

    /// Standard output of one kubectl call.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        self.run_with_input(arguments, "")
    }

    /// The same with text on its standard input.
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<String> {
        let mut command = self.command();
        command.args(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot run {}", self.binary.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl reads its input before it writes more than a pipe holds; a broken pipe shows in its exit code.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let arguments: Vec<_> = command.get_args().skip(4).map(OsStr::to_string_lossy).collect();
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {}: {}", arguments.join(" "), errors.trim_end());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Server-side apply of YAML or JSON documents in the name of a field manager, which takes over the fields of others.
    pub fn take_over(&self, manager: &str, documents: &str) -> Result<()> {
        self.apply_as(&format!("fieldManager={manager}&force=true"), documents)
    }

    /// Server-side apply of YAML or JSON documents, with kubectl's own field manager.
    pub fn apply(&self, documents: &str) -> Result<()> {
        self.apply_as("fieldManager=kubectl", documents)
    }

    /// What is refused doesn't keep the others from being applied.
    fn apply_as(&self, query: &str, documents: &str) -> Result<()> {
        let mut outcome = Ok(());
        // What is JSON may be larger and deeper than a YAML reader takes.
        let yaml = || serde_yaml::Deserializer::from_str(documents).map(Value::deserialize);
        let documents = match serde_json::from_str(documents) {
            Ok(document) => vec![document],
            Err(_) => yaml().collect::<Result<_, _>>()?,
        };
        for mut document in documents {
            let objects = match document.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => items,
                _ if document.is_null() => continue,
                _ => vec![document],
            };
            for object in objects {
                outcome = outcome.and(self.apply_object(query, &object));
            }
        }
        outcome
    }

    fn apply_object(&self, query: &str, object: &Value) -> Result<()> {
        let client = self.client()?;
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or(self.namespace());
        let name = metadata["name"].as_str().context("an object without a name")?;
        let path = client.resource_of(object)?.path(namespace, name);
        let content = ("application/apply-patch+yaml", object);
        let answer = client.request("PATCH", &format!("{path}?{query}"), Some(content));
        answer.map(drop).map_err(|error| anyhow!("apply of {path}: {error:#}"))
    }

    fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::new(&self.kubeconfig)?;
        Ok(self.client.get_or_init(|| client))
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// A request about an object; made once more where its kind may have another version by now.
    fn at<T>(&self, kind: &str, name: &str, request: impl Fn(&Client, &str) -> Result<T>) -> Result<T> {
        let client = self.client()?;
        let resource = client.resource(kind)?;
        request(client, &resource.path(self.namespace(), name)).or_else(|_| {
            client.forget(&resource);
            let path = client.resource(kind)?.path(self.namespace(), name);
            request(client, &path).map_err(|error| anyhow!("{path}: {error:#}"))
        })
    }

    /// One object, if it is there. `kind` is anything that kubectl takes, such as `statefulsets.apps`.
    pub fn get(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        self.at(kind, name, |client, path| client.find(path))
    }

    /// The objects of one kind, or of several (`configmaps,secrets`), that a label selector takes; all with `""`.
    pub fn list(&self, kinds: &str, selector: &str) -> Result<Vec<Value>> {
        let client = self.client()?;
        let mut all = Vec::new();
        for kind in kinds.split(',') {
            let resource = client.resource(kind)?;
            let path = resource.path(self.namespace(), "");
            let selector = selector.replace('/', "%2F").replace('=', "%3D").replace(',', "%2C");
            let mut list = client.request("GET", &format!("{path}?labelSelector={selector}"), None)?;
            for mut item in list["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
                item["apiVersion"] = resource.api_version.as_str().into();
                item["kind"] = resource.kind.as_str().into();
                all.push(item);
            }
        }
        Ok(all)
    }

    /// A merge patch (RFC 7386).
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        self.patch_as("kubectl-patch", kind, name, patch)
    }

    /// Changes the status of an object by a merge patch.
    pub fn patch_status(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        self.patch_as("kubectl-patch", kind, &format!("{name}/status"), patch)
    }

    /// Sets the replicas of a Deployment as an autoscaler does: through the subresource, in the name of a field manager.
    pub fn scale(&self, manager: &str, deployment: &str, replicas: u32) -> Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.patch_as(manager, "deployments", &format!("{deployment}/scale"), &patch)
    }

    fn patch_as(&self, manager: &str, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let content = ("application/merge-patch+json", patch);
        self.at(kind, name, |client, path| {
            let path = format!("{path}?fieldManager={manager}");
            client.request("PATCH", &path, Some(content)).map(drop)
        })
    }

    /// Deletes an object and waits until it is gone; one that isn't there is no error.
    pub fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let Some(object) = self.get(kind, name)? else {
            return Ok(());
        };
        self.begin_delete(kind, name)?;
        eventually(&format!("{kind} {name} is gone"), DELETION_TIME, || {
            let now = self.get(kind, name)?;
            let is_there = now.is_some_and(|now| now["metadata"]["uid"] == object["metadata"]["uid"]);
            Ok((!is_there).then_some(()))
        })
    }

    /// Deletes an object that must be there, and doesn't wait.
    pub fn begin_delete(&self, kind: &str, name: &str) -> Result<()> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        let content = ("application/json", &options);
        self.at(kind, name, |client, path| {
            client.request("DELETE", path, Some(content)).map(drop)
        })
    }

    /// Waits until a condition of an object, which need not be there yet, is true.
    pub fn wait(&self, condition: &str, kind: &str, name: &str, timeout: Duration) -> Result<()> {
        eventually(&format!("{kind} {name}: {condition}"), timeout, || {
            let object = self.get(kind, name)?.context("it is not there")?;
            let conditions = object["status"]["conditions"].as_array().context("no conditions")?;
            let holds = |found: &Value| found["type"] == condition && found["status"] == "True";
            Ok(conditions.iter().any(holds).then_some(()))
        })
    }

    /// Creates a namespace and gives kubectl in it.
    pub fn create_namespace(&self, name: &str) -> Result<Self> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let content = ("application/json", &namespace);
        self.client()?.request("POST", "/api/v1/namespaces", Some(content))?;
        Ok(self.in_namespace(name))
    }
}
