//! What the demo plays on: a control plane, the project's CRDs and rights in it, and an operator process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{ControlPlane, Kubectl};

/// What `config/default` calls the operator's namespace and account.
const NAMESPACE: &str = "chartwright-system";
pub const OPERATOR: &str = "system:serviceaccount:chartwright-system:chartwright-controller-manager";

/// How long anything may take before the demo gives up. Generous: the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// All that was started. Dropping it ends and removes everything.
pub struct Playground {
    operator: Child,
    log: PathBuf,
    pub control_plane: ControlPlane,
    /// The administrator's, in the namespace of the samples.
    pub kubectl: Kubectl,
}

impl Playground {
    /// Starts everything, step by step.
    pub fn start() -> Result<Self> {
        println!("Starting etcd, kube-apiserver, controller manager, scheduler and kwok (about 10 s) ...");
        let control_plane = ControlPlane::builder().pods(true).start()?;
        let server = control_plane.server();
        println!("A Kubernetes control plane with one node runs at {server}");
        install(control_plane.kubectl())?;
        println!("CRDs, ServiceAccount and RBAC of config/ are installed");
        let log = control_plane.dir().join("operator.log");
        let mut play = Playground {
            operator: start_operator(&control_plane, &log)?,
            kubectl: control_plane.kubectl().in_namespace("default"),
            log,
            control_plane,
        };
        play.until("the operator watches its kinds", |play| {
            Ok(fs::read_to_string(&play.log)?.contains("watching").then_some(()))
        })?;
        let log = play.log.display();
        println!("The operator runs, with the rights of config/rbac; its log: {log}");
        Ok(play)
    }

    /// The last lines of the operator's log.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(20);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// Asks again and again until there is an answer. An error of `ask` doesn't end the wait: objects come and go.
    pub fn until<T>(&mut self, what: &str, mut ask: impl FnMut(&Self) -> Result<Option<T>>) -> Result<T> {
        let since = Instant::now();
        loop {
            if let Some(status) = self.operator.try_wait()? {
                bail!("the operator ended by itself, {status}");
            }
            let late = since.elapsed() > TIMEOUT;
            match ask(self) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) if late => bail!("{what}: not within {TIMEOUT:?}"),
                Err(error) if late => return Err(error.context(format!("{what}: not within {TIMEOUT:?}"))),
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The custom resource, once `Ready` is true for its current spec.
    pub fn ready(&mut self, kind: &str, name: &str) -> Result<Value> {
        self.until(&format!("{kind} {name} is Ready"), |play| {
            let resource = play.kubectl.get(kind, name)?.context("there is none")?;
            let ready = condition(&resource, "Ready").context("the operator hasn't said anything yet")?;
            let is_current = ready["observedGeneration"] == resource["metadata"]["generation"];
            ensure!(is_current && ready["status"] == "True", "{ready}");
            Ok(Some(resource))
        })
    }
}

impl Playground {
    /// The operator's program, which is the command line tool as well.
    pub fn binary(&self) -> Result<PathBuf> {
        binary()
    }

    /// What the log of every pod says from now on, since none has a container that writes one.
    pub fn write_pod_log(&self, text: &str) -> Result<()> {
        let now = Timestamp::now();
        let line = format!("{now} stdout F {text}\n");
        fs::write(self.control_plane.dir().join("pod.log"), line)?;
        Ok(())
    }

    /// Runs the command line tool as the administrator, and shows the command and what it prints.
    pub fn chartwright(&self, arguments: &[&str]) -> Result<()> {
        println!("\n$ chartwright {}", arguments.join(" "));
        let mut command = Command::new(binary()?);
        command.args(arguments).env("KUBECONFIG", self.kubectl.kubeconfig());
        let output = command.output()?;
        println!("{}", String::from_utf8_lossy(&output.stdout).trim_end());
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.operator.kill();
        let _ = self.operator.wait();
    }
}

/// A condition of an object, if it is there.
pub fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// `config/default` without the Deployment, whose place this demo's own process takes, and the Service that leads to it.
fn install(kubectl: &Kubectl) -> Result<()> {
    let yaml = kubectl.run(["kustomize", "config/default"])?;
    let objects = serde_yaml::Deserializer::from_str(&yaml).map(Value::deserialize);
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    let left_out = |object: &Value| object["kind"] == "Deployment" || object["kind"] == "Service";
    let objects: Vec<Value> = objects.into_iter().filter(|object| !left_out(object)).collect();
    // The namespace first: kubectl applies a list in its order.
    let (namespaces, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| object["kind"] == "Namespace");
    for items in [namespaces, others] {
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
    }
    kubectl.run(["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])?;
    Ok(())
}

/// The operator's program lies beside the examples' folder, in which cargo puts this one.
fn binary() -> Result<PathBuf> {
    let demo = std::env::current_exe().context("where this program is")?;
    let folder = demo.parent().and_then(Path::parent).context("cargo's folder")?;
    Ok(folder.join("chartwright"))
}

fn start_operator(control_plane: &ControlPlane, log: &Path) -> Result<Child> {
    let binary = binary()?;
    let kubeconfig = control_plane.kubeconfig_for(OPERATOR, &["system:serviceaccounts"])?;
    let file = File::create(log).with_context(|| format!("no log at {}", log.display()))?;
    let mut command = Command::new(&binary);
    command
        .args(["run", "--watches-file=./watches.yaml", "--zap-encoder=console"])
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .arg(format!("--namespace={NAMESPACE}"))
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    for name in ["WATCH_NAMESPACE", "OPERATOR_NAME", "POD_NAMESPACE", "RUST_LOG"] {
        command.env_remove(name);
    }
    let child = control_plane.adopt(&mut command).spawn();
    child.with_context(|| format!("cannot run {}: run `make build` first", binary.display()))
}
