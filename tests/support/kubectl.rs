//! kubectl with the credentials of one user.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// Runs kubectl with a kubeconfig, in a namespace if one is set.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
    namespace: Option<String>,
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
            ..self.clone()
        }
    }

    /// The command with the flags for credentials and namespace, to be run in another way than these methods do.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        // Plugins, preferences and aliases of whoever runs this have no say.
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
    ///
    /// # Errors
    /// kubectl cannot be run, or fails; the message is what it said.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> anyhow::Result<String> {
        self.run_with_input(arguments, "")
    }

    /// The same with text on its standard input.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &str,
    ) -> anyhow::Result<String> {
        let mut command = self.command();
        command.args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.binary.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl reads its input before it writes more than a pipe holds; a broken pipe shows in its exit code.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let arguments: Vec<_> = command.get_args().skip(4).map(OsStr::to_string_lossy).collect();
            bail!(
                "kubectl {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Server-side apply in the name of a field manager, which takes over the fields of others.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn take_over(&self, manager: &str, manifest: &str) -> anyhow::Result<String> {
        let manager = format!("--field-manager={manager}");
        let arguments = ["apply", "--server-side", "--force-conflicts", &manager, "-f", "-"];
        self.run_with_input(arguments, manifest)
    }

    /// Sets the replicas of a Deployment as an autoscaler does: through the subresource, in the name of a field manager.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn scale(&self, manager: &str, deployment: &str, replicas: u32) -> anyhow::Result<String> {
        let patch = json!({"spec": {"replicas": replicas}}).to_string();
        let manager = format!("--field-manager={manager}");
        let how = ["--subresource=scale", "--type=merge", &manager, "-p", &patch];
        self.run(["patch", "deployment", deployment].into_iter().chain(how))
    }

    /// Server-side apply of YAML or JSON documents, with kubectl's own field manager.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn apply(&self, documents: &str) -> anyhow::Result<String> {
        self.run_with_input(["apply", "--server-side", "-f", "-"], documents)
    }

    /// Server-side apply of a file or folder.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn apply_file(&self, path: &Path) -> anyhow::Result<String> {
        self.run([
            OsStr::new("apply"),
            OsStr::new("--server-side"),
            OsStr::new("-f"),
            path.as_os_str(),
        ])
    }

    /// One object, if it is there. `kind` is anything that kubectl takes, such as `statefulsets.apps`.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn get(&self, kind: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let text = self.run([
            "get",
            kind,
            name,
            "--ignore-not-found",
            "--show-managed-fields",
            "-o",
            "json",
        ])?;
        if text.trim().is_empty() {
            Ok(None)
        } else {
            Ok(Some(serde_json::from_str(&text)?))
        }
    }

    /// The objects of one kind, or of several (`configmaps,secrets`), that a label selector takes; all with `""`.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn list(&self, kinds: &str, selector: &str) -> anyhow::Result<Vec<Value>> {
        let text = self.run(["get", kinds, "-l", selector, "--show-managed-fields", "-o", "json"])?;
        match serde_json::from_str::<Value>(&text)?.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => bail!("kubectl get {kinds}: no list came back"),
        }
    }

    /// A merge patch (RFC 7386).
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<String> {
        self.run(["patch", kind, name, "--type=merge", "--patch", &patch.to_string()])
    }

    /// Changes the status of an object by a merge patch.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn patch_status(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<String> {
        self.run([
            "patch",
            kind,
            name,
            "--subresource=status",
            "--type=merge",
            "--patch",
            &patch.to_string(),
        ])
    }

    /// Deletes an object and waits until it is gone; one that isn't there is no error.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub fn delete(&self, kind: &str, name: &str) -> anyhow::Result<String> {
        self.run([
            "delete",
            kind,
            name,
            "--ignore-not-found",
            "--wait=true",
            "--timeout=60s",
        ])
    }

    /// Waits for something about an object, which need not be there yet. `condition` is what `kubectl wait --for`
    /// takes: `create`, `delete`, `condition=Ready`, `jsonpath={.status.phase}=Running`.
    ///
    /// # Errors
    /// As [`Kubectl::run`]; in particular when it takes longer than `timeout`.
    pub fn wait(&self, condition: &str, kind: &str, name: &str, timeout: Duration) -> anyhow::Result<()> {
        let patience = format!("--timeout={}ms", timeout.as_millis());
        if !matches!(condition, "create" | "delete") {
            // Without this, kubectl fails at once when there is no such object.
            self.run(["wait", "--for=create", kind, name, &patience])?;
        }
        self.run(["wait", &format!("--for={condition}"), kind, name, &patience])
            .map(drop)
    }

    /// Creates a namespace and gives kubectl in it.
    ///
    /// # Errors
    /// As [`Kubectl::run`]; in particular when there is one of that name.
    pub fn create_namespace(&self, name: &str) -> anyhow::Result<Self> {
        self.run(["create", "namespace", name])?;
        Ok(self.in_namespace(name))
    }
}
