//! What the demo plays on: a control plane, the project's CRD and rights in it, and an operator process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{ControlPlane, Kubectl};
use crate::terminal::Terminal;
use crate::watchdog::Watchdog;

/// What `config/default` calls the operator's namespace and account.
const NAMESPACE: &str = "chartwright-system";
pub const OPERATOR: &str = "system:serviceaccount:chartwright-system:chartwright-controller-manager";

/// The kind of the samples, as kubectl takes it.
pub const RESOURCE: &str = "memcacheds.cache.example.com";

/// How long anything may take before the demo gives up. Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether somebody wants the demo to end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    set: AtomicBool,
    deaf: AtomicBool,
}

/// The demo was told to end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// A process that ends when this is dropped, at the latest.
pub struct Process(Child);

/// All that was started. Dropping it ends and removes everything.
pub struct Playground {
    // Dropped before the control plane, so that nothing is left of its process group.
    operator: Process,
    log: PathBuf,
    control_plane: ControlPlane,
    kubectl: Kubectl,
    stop: Stop,
}

// === impl Stop ===

impl Stop {
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Relaxed)
    }

    /// Whether what runs now doesn't look at this.
    pub fn is_deaf(&self) -> bool {
        self.0.deaf.load(Ordering::Relaxed)
    }

    /// Runs something that doesn't look at this.
    fn deaf<T>(&self, run: impl FnOnce() -> T) -> T {
        self.0.deaf.store(true, Ordering::Relaxed);
        let outcome = run();
        self.0.deaf.store(false, Ordering::Relaxed);
        outcome
    }

    /// # Errors
    /// The demo was told to end.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Sleeps, unless the demo is told to end.
    ///
    /// # Errors
    /// As [`Stop::check`].
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

// === impl Process ===

impl Process {
    /// Its standard output, if that is a pipe and nobody has it yet.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    fn has_ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
}

impl Drop for Process {
    /// SIGTERM, so that it may say goodbye, and SIGKILL if it takes its time.
    fn drop(&mut self) {
        let asked = Command::new("kill")
            .args(["-TERM", &self.0.id().to_string()])
            .stderr(Stdio::null())
            .status();
        let until = Instant::now() + Duration::from_secs(3);
        while asked.is_ok() && matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// === impl Playground ===

impl Playground {
    /// Starts everything, step by step.
    ///
    /// # Errors
    /// Something is missing or doesn't start; nothing of it is left then.
    pub fn start(terminal: &Terminal, stop: &Stop) -> Result<Self> {
        let binary = operator_binary()?;
        terminal.heading("Chartwright: a Helm chart becomes a Kubernetes operator")?;
        terminal.text(
            "A control plane of its own starts on this machine, in a temporary directory. Ctrl-C ends the demo at any \
             time; nothing of it stays.",
        )?;
        terminal.gap()?;
        build_control_plane(stop)?;

        let step =
            terminal.step("Starting etcd, kube-apiserver, controller manager, scheduler and kwok (about 10 s)")?;
        let control_plane = stop.deaf(|| ControlPlane::builder().pods(true).start());
        // What went wrong is no news if the demo was told to end.
        stop.check()?;
        let control_plane = control_plane?;
        step.done(&format!(
            "A Kubernetes control plane with one node runs at {}",
            control_plane.server()
        ))?;

        let step = terminal.step("Installing CRD, ServiceAccount and RBAC from config/")?;
        install(control_plane.kubectl(), stop)?;
        step.done("CRD, ServiceAccount and RBAC of config/ are installed")?;

        let log = control_plane.dir().join("operator.log");
        let operator = start_operator(&control_plane, &binary, &log)?;
        let kubectl = control_plane.kubectl().in_namespace("default");
        Ok(Playground {
            operator,
            log,
            control_plane,
            kubectl,
            stop: stop.clone(),
        })
    }

    /// Waits until the operator watches its kind.
    ///
    /// # Errors
    /// As [`Playground::until`].
    pub fn await_operator(&mut self, terminal: &Terminal) -> Result<()> {
        let step = terminal.step("Starting the operator")?;
        self.until("the operator watches its kind", |play| {
            Ok(fs::read_to_string(&play.log)?.contains("watching").then_some(()))
        })?;
        step.done(&format!(
            "The operator runs, with the rights of config/rbac and no others; its log: {}",
            self.log.display()
        ))?;
        Ok(())
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// kubectl as the administrator, in the namespace of the samples.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The last lines of the operator's log.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines
            .get(lines.len().saturating_sub(20)..)
            .unwrap_or_default()
            .join("\n")
    }

    /// An error if the operator has ended, or the demo was told to.
    ///
    /// # Errors
    /// These two.
    pub fn check(&mut self) -> Result<()> {
        self.stop.check()?;
        match self.operator.has_ended()? {
            None => Ok(()),
            Some(status) => bail!("the operator ended by itself, {status}"),
        }
    }

    /// Asks again and again until there is an answer. An error of `ask` doesn't end the wait: objects come and go.
    ///
    /// # Errors
    /// It takes more than a minute, the operator ended, or the demo was told to end.
    pub fn until<T>(&mut self, what: &str, mut ask: impl FnMut(&Self) -> Result<Option<T>>) -> Result<T> {
        let since = Instant::now();
        loop {
            self.check()?;
            let answer = ask(self);
            match answer {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) if since.elapsed() < PATIENCE => {}
                Err(_) if since.elapsed() < PATIENCE => {}
                Ok(None) => bail!("{what}: not within {} s", PATIENCE.as_secs()),
                Err(error) => return Err(error.context(format!("{what}: not within {} s", PATIENCE.as_secs()))),
            }
            self.stop.sleep(Duration::from_millis(50))?;
        }
    }

    /// The custom resource, once `Ready` is true for its current spec.
    ///
    /// # Errors
    /// As [`Playground::until`], or it is `Stalled`, which no waiting changes.
    pub fn ready(&mut self, name: &str) -> Result<Value> {
        let resource = self.until(&format!("{RESOURCE} {name} is Ready"), |play| {
            let resource = play.kubectl.get(RESOURCE, name)?.context("there is none")?;
            let generation = &resource["metadata"]["generation"];
            let holds = |kind: &str| {
                condition(&resource, kind)
                    .is_some_and(|found| found["status"] == "True" && found["observedGeneration"] == *generation)
            };
            let settled =
                resource["status"]["observedGeneration"] == *generation && (holds("Ready") || holds("Stalled"));
            let because =
                condition(&resource, "Ready").map(|ready| format!("{}: {}", ready["reason"], ready["message"]));
            ensure!(
                settled,
                "{}",
                because.unwrap_or_else(|| "the operator hasn't said anything yet".to_owned())
            );
            Ok(Some(resource))
        })?;
        if let Some(stalled) = condition(&resource, "Stalled") {
            bail!("{name} is Stalled: {}", stalled["message"].as_str().unwrap_or_default());
        }
        Ok(resource)
    }

    /// Runs a program as long as the demo lives, at most.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn spawn(&self, command: &mut Command) -> Result<Process> {
        Ok(Process(self.control_plane.adopt(command).spawn()?))
    }
}

/// A condition of an object, if it is there.
pub fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Beside the examples' folder, in which cargo puts this program.
fn operator_binary() -> Result<PathBuf> {
    let demo = std::env::current_exe().context("where this program is")?;
    let folder = demo
        .parent()
        .and_then(Path::parent)
        .context("this program is in no folder of cargo's")?;
    let binary = folder.join("chartwright");
    let built = if folder.ends_with("release") {
        "cargo build --release"
    } else {
        "cargo build"
    };
    ensure!(
        binary.is_file(),
        "there is no operator at {}: run `{built}` first",
        binary.display()
    );
    Ok(binary)
}

/// Builds what is missing of the control plane, which takes minutes and says so itself. The control plane would do the
/// same when it starts, but as processes that nobody ends with the demo.
fn build_control_plane(stop: &Stop) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane/build");
    let scratch = tempfile::Builder::new().prefix("chartwright-").tempdir()?;
    let watchdog = Watchdog::start(scratch.path()).context("cannot run bash, which watches over the demo")?;
    let mut command = Command::new(&script);
    command.args([
        "--resolve",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
    ]);
    // Go's scratch goes with ours.
    command
        .env("GOTMPDIR", scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let child = watchdog
        .adopt(&mut command)
        .spawn()
        .with_context(|| format!("cannot run {}", script.display()))?;
    let mut build = Process(child);
    loop {
        stop.check()?;
        match build.has_ended()? {
            None => stop.sleep(Duration::from_millis(50))?,
            Some(status) if status.success() => return Ok(()),
            Some(_) => bail!("the control plane cannot be had: {} has said why", script.display()),
        }
    }
}

/// `config/default` without the Deployment, whose place this demo's own process takes, and the Service that leads to it.
fn install(kubectl: &Kubectl, stop: &Stop) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/default");
    let yaml = kubectl.run(["kustomize".as_ref(), folder.as_os_str()])?;
    let objects = serde_yaml::Deserializer::from_str(&yaml)
        .map(Value::deserialize)
        .collect::<Result<Vec<_>, _>>()?;
    let left_out = |object: &Value| object["kind"] == "Deployment" || object["kind"] == "Service";
    let objects: Vec<Value> = objects.into_iter().filter(|object| !left_out(object)).collect();
    // The namespace first: kubectl applies a list in its order.
    let (namespaces, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| object["kind"] == "Namespace");
    for items in [namespaces, others] {
        stop.check()?;
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
    }
    kubectl.wait("condition=Established", "crd", RESOURCE, PATIENCE)
}

fn start_operator(control_plane: &ControlPlane, binary: &Path, log: &Path) -> Result<Process> {
    let kubeconfig = control_plane.kubeconfig_for(OPERATOR, &["system:serviceaccounts"])?;
    let file = File::create(log).with_context(|| format!("no log at {}", log.display()))?;
    let mut command = Command::new(binary);
    command
        .args(["run", "--watches-file=./watches.yaml", "--zap-encoder=console"])
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .arg(format!("--namespace={NAMESPACE}"))
        .env("KUBECONFIG", kubeconfig)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    for name in ["WATCH_NAMESPACE", "OPERATOR_NAME", "POD_NAMESPACE", "RUST_LOG"] {
        command.env_remove(name);
    }
    let child = control_plane.adopt(&mut command).spawn();
    Ok(Process(
        child.with_context(|| format!("cannot run {}", binary.display()))?,
    ))
}
