//! The programs of a control plane: where their binaries are, and how each is called.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// The folder with the build script and the Stage files.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane");

/// The binaries of a control plane.
#[derive(Clone, Debug)]
pub struct Binaries {
    pub etcd: PathBuf,
    pub api_server: PathBuf,
    pub controller_manager: PathBuf,
    pub kubectl: PathBuf,
    /// What makes pods run: kube-scheduler and kwok.
    pub pods: Option<(PathBuf, PathBuf)>,
}

impl Binaries {
    /// Finds the binaries, or builds what is missing, which takes minutes; the progress is on standard error.
    pub fn resolve(pods: bool) -> anyhow::Result<Self> {
        let mut parts = vec!["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
        if pods {
            parts.extend(["kube-scheduler", "kwok"]);
        }
        let script = Path::new(SOURCE).join("build");
        let output = Command::new(&script)
            .arg("--resolve")
            .args(&parts)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", script.display()))?;
        ensure!(output.status.success(), "{} has said why it fails", script.display());
        let paths = String::from_utf8(output.stdout)?;
        let mut paths = paths.lines().map(PathBuf::from);
        let mut next = |part: &str| paths.next().with_context(|| format!("the build names no {part}"));
        Ok(Self {
            etcd: next("etcd")?,
            api_server: next("kube-apiserver")?,
            controller_manager: next("kube-controller-manager")?,
            kubectl: next("kubectl")?,
            pods: if pods {
                Some((next("kube-scheduler")?, next("kwok")?))
            } else {
                None
            },
        })
    }
}

/// The ports of 127.0.0.1 that one control plane listens on.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub etcd: u16,
    pub etcd_peer: u16,
    pub api_server: u16,
    /// Where the API server requests the logs of pods.
    pub kubelet: u16,
}

impl Ports {
    /// Free ports. Another process may take one before it is used.
    pub fn free() -> anyhow::Result<Self> {
        let listen = || std::net::TcpListener::bind(("127.0.0.1", 0));
        // All are held before the first is given back, or the same one could come three times.
        let (etcd, peer, api_server, kubelet) = (listen()?, listen()?, listen()?, listen()?);
        Ok(Self {
            etcd: etcd.local_addr()?.port(),
            etcd_peer: peer.local_addr()?.port(),
            api_server: api_server.local_addr()?.port(),
            kubelet: kubelet.local_addr()?.port(),
        })
    }
}

/// What is recorded of requests.
pub const AUDIT_POLICY: &str = include_str!("../control-plane/audit-policy.yaml");

/// What pods need besides the programs.
pub const POD_OBJECTS: &str = include_str!("../control-plane/pods.yaml");

/// What every container has written, as a kubelet keeps it, and what gives kwok the file that holds it.
pub const POD_LOG: &str = include_str!("../control-plane/pod.log");
pub const POD_LOGS: &str = include_str!("../control-plane/pod-logs.yaml");

type ProgramArguments = Vec<OsString>;

/// A file of `tests/control-plane` for the control plane of a directory.
pub fn in_dir(text: &str, dir: &Path) -> String {
    text.replace("$DIR", &dir.display().to_string())
}

/// How a program is called, by `tests/control-plane/flags.yaml`.
pub fn flags(program: &str, dir: &Path, ports: Ports) -> anyhow::Result<ProgramArguments> {
    let mut text = in_dir(include_str!("../control-plane/flags.yaml"), dir);
    let ports = [
        ("$ETCD", ports.etcd),
        ("$PEER", ports.etcd_peer),
        ("$PORT", ports.api_server),
        ("$KUBELET", ports.kubelet),
    ];
    for (name, port) in ports {
        text = text.replace(name, &port.to_string());
    }
    let mut all: BTreeMap<String, Vec<String>> = serde_yaml::from_str(&text)?;
    let flags = all.remove(program).with_context(|| format!("no flags for {program}"))?;
    Ok(flags.into_iter().map(OsString::from).collect())
}

/// kwok has no stages of its own; each of ours is a file, which these flags name.
pub fn stages() -> anyhow::Result<ProgramArguments> {
    let folder = Path::new(SOURCE).join("stages");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut stages = paths.collect::<Result<Vec<_>, _>>()?;
    stages.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    ensure!(!stages.is_empty(), "there are no kwok stages in {}", folder.display());
    stages.sort();
    Ok(stages
        .into_iter()
        .flat_map(|stage| ["--config".into(), stage.into()])
        .collect())
}
