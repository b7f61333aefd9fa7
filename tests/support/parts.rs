//! The programs of a control plane: where their binaries are, and how each is called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

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
        ensure!(
            output.status.success(),
            "the control plane cannot be had: {} has said why",
            script.display()
        );
        let paths = String::from_utf8(output.stdout)?;
        let mut paths = paths.lines().map(PathBuf::from);
        let mut next = |part: &str| {
            paths
                .next()
                .with_context(|| format!("{} names no {part}", script.display()))
        };
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
    /// Where the API server asks for the logs of pods.
    pub kubelet: u16,
}

impl Ports {
    /// Ports that nobody listens on just now. Somebody may by the time they are used.
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

/// Requests are recorded once, when they have been answered (and a watch also when it begins), without their bodies.
pub const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
";

/// What pods need besides the programs: the Node they run on, whose status kwok fills in, and the default class of
/// their volumes, which a Stage provisions.
pub const POD_OBJECTS: &str = "\
apiVersion: v1
kind: Node
metadata:
  name: node-1
  labels:
    kubernetes.io/arch: amd64
    kubernetes.io/hostname: node-1
    kubernetes.io/os: linux
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations:
    storageclass.kubernetes.io/is-default-class: 'true'
provisioner: chartwright.test/volumes
";

/// What every container has written, as a kubelet keeps it.
pub fn pod_log() -> String {
    let lines = (1..=12).map(|line| format!("line {line}"));
    let lines = lines.chain(["signed in with Logged-secret-1d7f".to_owned()]);
    lines
        .map(|line| format!("2026-01-01T00:00:00.000000000Z stdout F {line}\n"))
        .collect()
}

/// Gives kwok the file that holds it.
pub fn pod_logs(file: &Path) -> String {
    let file = file.display();
    format!(
        "{{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterLogs, metadata: {{name: all}}, spec: {{logs: [{{logsFile: {file}}}]}}}}\n"
    )
}

type Arguments = Vec<OsString>;

fn arguments<const N: usize>(flags: [String; N]) -> Arguments {
    flags.into_iter().map(OsString::from).collect()
}

/// What is written is gone with the directory anyway, so etcd needn't wait for the disk.
pub fn etcd(dir: &Path, ports: Ports) -> Arguments {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    arguments([
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".into(),
        "--logger=zap".into(),
        "--log-level=warn".into(),
    ])
}

/// No endpoint reconciler: it would refuse to publish a loopback address in the `kubernetes` Service, over and over.
pub fn api_server(dir: &Path, ports: Ports) -> Arguments {
    let file = |name: &str| dir.join(name).display().to_string();
    arguments([
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--secure-port={}", ports.api_server),
        "--endpoint-reconciler-type=none".into(),
        "--authorization-mode=RBAC".into(),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--cert-dir={}", file("certificates")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        format!("--service-account-key-file={}", file("service-account.pub")),
        "--service-cluster-ip-range=10.0.0.0/16".into(),
        "--allow-privileged=true".into(),
        "--kubelet-preferred-address-types=InternalIP".into(),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
        // In megabytes: beyond it the file would be renamed, and readers would lose their place.
        "--audit-log-maxsize=100000".into(),
        "--profiling=false".into(),
    ])
}

/// The garbage collector and the node lifecycle controller stay on: without the first, deletion tests pass falsely;
/// without the second, no new node ever loses its taint. Each controller has an account and a role of its own; the
/// manager's own user may hardly do anything.
pub fn controller_manager(dir: &Path) -> Arguments {
    let file = |name: &str| dir.join(name).display().to_string();
    arguments([
        format!("--kubeconfig={}", file("kube-controller-manager.kubeconfig")),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        "--use-service-account-credentials=true".into(),
        // kwok gives no sign of life for its Node: after the usual 50 s every pod would be taken for not ready.
        "--node-monitor-grace-period=24h".into(),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--service-account-private-key-file={}", file("service-account.key")),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
        "--profiling=false".into(),
    ])
}

/// The scheduler, without leader election and without a port of its own.
pub fn scheduler(dir: &Path) -> Arguments {
    arguments([
        format!("--kubeconfig={}", dir.join("kube-scheduler.kubeconfig").display()),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
        "--profiling=false".into(),
    ])
}

/// kwok has no stages of its own; each of ours is a file. It answers like a kubelet for the logs of pods.
pub fn kwok(dir: &Path, ports: Ports) -> anyhow::Result<Arguments> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut flags = arguments([
        format!("--kubeconfig={}", file("kwok.kubeconfig")),
        "--manage-all-nodes=true".into(),
        "--node-ip=127.0.0.1".into(),
        format!("--node-port={}", ports.kubelet),
        format!("--server-address=127.0.0.1:{}", ports.kubelet),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--config={}", file("pod-logs.yaml")),
    ]);
    let folder = Path::new(SOURCE).join("stages");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut stages = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    stages.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    if stages.is_empty() {
        bail!("there are no kwok stages in {}", folder.display());
    }
    stages.sort();
    for stage in stages {
        flags.push("--config".into());
        flags.push(stage.into());
    }
    Ok(flags)
}
