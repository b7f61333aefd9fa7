//! Starting a control plane, waiting until it works, and ending it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::audit::Audit;
use super::credentials::{self, Authority, ClientIdentity};
use super::kubectl::Kubectl;
use super::parts::{self, Binaries, Ports};
use super::watchdog::Watchdog;

/// How long it may take to become ready, building the parts apart.
const READY: Duration = Duration::from_secs(60);

/// What a control plane shall be like.
#[derive(Clone, Debug, Default)]
pub struct ControlPlaneBuilder {
    pods: bool,
}

/// etcd, kube-apiserver, kube-controller-manager and, on request, what makes pods run, on free ports of 127.0.0.1
/// and in a temporary directory of their own. All of it ends and goes when this is dropped, and when the process ends,
/// in any way.
#[derive(Debug)]
pub struct ControlPlane {
    // The fields are dropped in this order, and the processes have to end before the directory goes.
    processes: Mutex<Vec<ControlPlaneProcess>>,
    watchdog: Watchdog,
    dir: PathBuf,
    server: String,
    etcd_port: u16,
    authority: Authority,
    kubectl: Kubectl,
}

#[derive(Debug)]
struct ControlPlaneProcess {
    name: &'static str,
    child: Child,
    binary: PathBuf,
    arguments: Vec<std::ffi::OsString>,
}

impl ControlPlaneBuilder {
    /// With kube-scheduler, kwok and one Node, so that Deployments become ready and Jobs complete. Off at first.
    #[must_use]
    pub fn pods(mut self, pods: bool) -> Self {
        self.pods = pods;
        self
    }

    /// Starts it and waits until it works. Builds the parts before, if they are nowhere to be found.
    pub fn start(self) -> anyhow::Result<ControlPlane> {
        let binaries = Binaries::resolve(self.pods)?;
        // Another process can take a free port before we listen on it.
        let mut attempt = 1;
        loop {
            match ControlPlane::start(&binaries) {
                Err(error) if attempt < 4 && format!("{error:#}").contains("address already in use") => attempt += 1,
                outcome => return outcome,
            }
        }
    }
}

impl ControlPlane {
    /// Says what it shall be like.
    pub fn builder() -> ControlPlaneBuilder {
        ControlPlaneBuilder::default()
    }

    /// One with pods for all the tests of a test binary, started by the first that asks. It ends with the process.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ControlPlane> = OnceLock::new();
        SHARED.get_or_init(|| match Self::builder().pods(true).start() {
            Ok(control_plane) => control_plane,
            Err(error) => panic!("the control plane for the tests doesn't start: {error:#}"),
        })
    }

    /// The kubeconfig of the administrator, user `admin` in `system:masters`.
    pub fn kubeconfig(&self) -> &Path {
        self.kubectl.kubeconfig()
    }

    /// Writes a kubeconfig for any user in up to two groups; the API server adds `system:authenticated`. A ServiceAccount
    /// as an RBAC subject is the user `system:serviceaccount:<namespace>:<name>`, whether the account exists or not.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> anyhow::Result<PathBuf> {
        let identity = self.authority.client(user, groups)?;
        let text = credentials::kubeconfig(&self.server, self.authority.certificate(), user, &identity)?;
        // Users have names that no file should have, and the same user may come with other groups.
        let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let stem: String = user.chars().take(80).map(safe).collect();
        let mut number = 1;
        loop {
            let path = self.dir.join(format!("{stem}.{number}.kubeconfig"));
            match credentials::write_private(&path, &text) {
                Err(_) if path.exists() => number += 1,
                outcome => return outcome.map(|()| path),
            }
        }
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// The API server's address, `https://127.0.0.1:<port>`.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The temporary directory: kubeconfigs, logs, certificates. It goes with the control plane.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The record of all requests.
    pub fn audit(&self) -> Audit {
        Audit::new(&self.dir.join("audit.log"))
    }

    /// Makes a command end when the control plane ends or this process does, however that happens. The process is still
    /// the caller's to wait for.
    pub fn adopt<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        self.watchdog.adopt(command)
    }

    /// Kills one of its processes.
    pub fn kill_part(&self, name: &str) -> anyhow::Result<()> {
        let mut processes = self.processes();
        let process = processes.iter_mut().find(|process| process.name == name);
        let process = process.with_context(|| format!("there is no {name}"))?;
        process.child.kill()?;
        process.child.wait()?;
        Ok(())
    }

    /// Starts a process again that was killed.
    pub fn start_part(&self, name: &str) -> anyhow::Result<()> {
        self.start_part_with(name, &[])
    }

    /// The same with further flags.
    pub fn start_part_with(&self, name: &str, flags: &[&str]) -> anyhow::Result<()> {
        let mut processes = self.processes();
        let place = processes.iter().position(|process| process.name == name);
        let mut process = processes.remove(place.with_context(|| format!("there is no {name}"))?);
        drop(processes);
        process.arguments.extend(flags.iter().map(Into::into));
        self.spawn(process.name, &process.binary, process.arguments)
    }

    /// Has etcd forget what every object was before now, as kube-apiserver does every few minutes with what is older
    /// than that.
    pub fn compact(&self) -> anyhow::Result<()> {
        let now = self.ask_etcd("kv/range", r#"{"key": "AA=="}"#)?;
        let now: serde_json::Value = serde_json::from_str(&now).context("etcd's answer")?;
        let revision = now["header"]["revision"].as_str().context("etcd reports no revision")?;
        let all = format!(r#"{{"revision": "{revision}", "physical": true}}"#);
        self.ask_etcd("kv/compaction", &all).map(drop)
    }

    /// One call of etcd's JSON gateway.
    fn ask_etcd(&self, call: &str, body: &str) -> anyhow::Result<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.etcd_port))?;
        let (host, length) = ("Host: etcd", body.len());
        let head = format!("POST /v3/{call} HTTP/1.0\r\n{host}\r\nContent-Length: {length}");
        let request = format!("{head}\r\nContent-Type: application/json\r\n\r\n{body}");
        connection.write_all(request.as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
            _ => bail!("etcd answers {call} with {answer}"),
        }
    }

    /// Kills all its processes and removes its directory, as dropping it does.
    pub fn stop(self) {
        drop(self);
    }

    fn start(binaries: &Binaries) -> anyhow::Result<Self> {
        let deadline = Instant::now() + READY;
        let dir = tempfile::Builder::new().prefix("chartwright-").tempdir();
        let dir = dir.context("no temporary directory")?.keep();
        let watchdog = Watchdog::start(&dir).context("cannot run bash, which watches over the control plane")?;
        let ports = Ports::free()?;
        let authority = Authority::new()?;
        let admin = dir.join("admin.kubeconfig");
        let control_plane = Self {
            processes: Mutex::new(Vec::new()),
            watchdog,
            server: format!("https://127.0.0.1:{}", ports.api_server),
            etcd_port: ports.etcd,
            kubectl: Kubectl::new(&binaries.kubectl, &admin, &dir.join("kubectl-cache")),
            authority,
            dir,
        };
        control_plane.write_files()?;
        control_plane.bring_up(binaries, ports, deadline)?;
        Ok(control_plane)
    }

    fn write_files(&self) -> anyhow::Result<()> {
        let ClientIdentity { certificate, key } = self.authority.server()?;
        let (signing_key, verification_key) = credentials::signing_key()?;
        for (name, content) in [
            ("ca.crt", self.authority.certificate()),
            ("server.crt", &certificate),
            ("server.key", &key),
            ("service-account.key", &signing_key),
            ("service-account.pub", &verification_key),
            ("audit-policy.yaml", parts::AUDIT_POLICY),
            ("pod.log", parts::POD_LOG),
            ("pod-logs.yaml", &parts::in_dir(parts::POD_LOGS, &self.dir)),
        ] {
            credentials::write_private(&self.dir.join(name), content)?;
        }
        for (file, user, groups) in [
            ("admin", "admin", ["system:masters"].as_slice()),
            ("kube-controller-manager", "system:kube-controller-manager", &[]),
            ("kube-scheduler", "system:kube-scheduler", &[]),
            ("kwok", "kwok", &["system:masters"]),
        ] {
            let identity = self.authority.client(user, groups)?;
            let text = credentials::kubeconfig(&self.server, self.authority.certificate(), user, &identity)?;
            credentials::write_private(&self.dir.join(format!("{file}.kubeconfig")), &text)?;
        }
        Ok(())
    }

    /// Each part is started when what it needs is there: the controller manager gives up on an API server that isn't
    /// ready within ten seconds.
    fn bring_up(&self, binaries: &Binaries, ports: Ports, deadline: Instant) -> anyhow::Result<()> {
        let listens = |port: u16| move || TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(Into::into);
        let kubectl = &self.kubectl;

        let spawn = |name: &'static str, binary: &Path, more| {
            let flags = [parts::flags(name, &self.dir, ports)?, more].concat();
            self.spawn(name, binary, flags)
        };

        spawn("etcd", &binaries.etcd, Vec::new())?;
        self.await_part("etcd", deadline, listens(ports.etcd))?;

        spawn("kube-apiserver", &binaries.api_server, Vec::new())?;
        self.await_part("kube-apiserver", deadline, listens(ports.api_server))?;
        let is_ready = || kubectl.run(["get", "--raw", "/readyz"]).map(drop);
        self.await_part("kube-apiserver", deadline, is_ready)?;

        spawn("kube-controller-manager", &binaries.controller_manager, Vec::new())?;
        if let Some((scheduler, kwok)) = &binaries.pods {
            spawn("kube-scheduler", scheduler, Vec::new())?;
            kubectl.apply(parts::POD_OBJECTS)?;
            spawn("kwok", kwok, parts::stages()?)?;
            self.await_part("kwok", deadline, || {
                let node = kubectl.get("node", "node-1")?.context("there is no Node")?;
                ensure!(!node["status"]["phase"].is_null(), "the Node is not initialised");
                let taints = &node["spec"]["taints"];
                ensure!(taints.is_null(), "the Node still has taints: {taints}");
                Ok(())
            })?;
        }
        let in_default = kubectl.in_namespace("default");
        self.await_part("kube-controller-manager", deadline, || {
            let account = in_default.get("serviceaccount", "default")?;
            account.context("no default account").map(drop)
        })
    }

    fn spawn(&self, name: &'static str, binary: &Path, arguments: Vec<std::ffi::OsString>) -> anyhow::Result<()> {
        let log = File::create(self.log(name)).with_context(|| format!("no log for {name}"))?;
        let mut command = Command::new(binary);
        command.args(&arguments).current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = self.adopt(&mut command).spawn();
        let child = child.with_context(|| format!("cannot run {}", binary.display()))?;
        self.processes().push(ControlPlaneProcess {
            name,
            child,
            binary: binary.to_owned(),
            arguments,
        });
        Ok(())
    }

    /// Waits until `check` is content with a part.
    fn await_part(&self, part: &str, deadline: Instant, check: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
        loop {
            let outcome = check();
            // Also when the check is content: a foreign process on the port that our part wanted may have answered.
            self.all_alive()?;
            let Err(error) = outcome else { return Ok(()) };
            if Instant::now() >= deadline {
                let log = self.log_tail(part);
                bail!("{part} is not ready in time: {error:#}; the end of its log:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn processes(&self) -> MutexGuard<'_, Vec<ControlPlaneProcess>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_alive(&self) -> anyhow::Result<()> {
        for ControlPlaneProcess { name, child, .. } in self.processes().iter_mut() {
            if let Some(status) = child.try_wait()? {
                let log = self.log_tail(name);
                bail!("{name} ended with {status}; the end of its log:\n{log}");
            }
        }
        Ok(())
    }

    fn log(&self, part: &str) -> PathBuf {
        self.dir.join(format!("{part}.log"))
    }

    fn log_tail(&self, part: &str) -> String {
        let bytes = fs::read(self.log(part)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.iter().skip(lines.len().saturating_sub(20));
        tail.map(|line| format!("  {line}\n")).collect()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let processes = self.processes.get_mut().unwrap_or_else(PoisonError::into_inner);
        for process in processes.iter_mut() {
            // An error means that it has ended already.
            let _ = process.child.kill();
        }
        for process in processes.iter_mut() {
            let _ = process.child.wait();
        }
        // Ends all adopted processes and removes the directory, possibly a moment after this returns.
        self.watchdog.release();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
