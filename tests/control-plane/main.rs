//! The control plane that the other tests stand on: what runs in it, who can ask it what, and that nothing of it stays.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail loudly"
)]

#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use support::{Audit, ControlPlane, eventually, until};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A Deployment, StatefulSet (with a volume for each pod) or Job with one container and the given labels on its pods.
fn workload(kind: &str, name: &str, replicas: u32, labels: &str) -> String {
    let volume =
        "{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}";
    let many = format!("replicas: {replicas}, selector: {{matchLabels: {{app: {name}}}}}");
    let (group, spec) = match kind {
        "Job" => ("batch/v1", "backoffLimit: 0".to_owned()),
        "StatefulSet" => (
            "apps/v1",
            format!("{many}, serviceName: {name}, volumeClaimTemplates: [{volume}]"),
        ),
        _ => ("apps/v1", many),
    };
    let restart = if kind == "Job" { "restartPolicy: Never, " } else { "" };
    format!(
        "{{apiVersion: {group}, kind: {kind}, metadata: {{name: {name}}}, spec: {{{spec}, template: {{\
         metadata: {{labels: {{app: {name}{labels}}}}}, spec: {{{restart}\
         initContainers: [{{name: before, image: example/before}}], containers: [{{name: main, image: example/main}}]\
         }}}}}}}}"
    )
}

#[test]
fn workloads_run_on_the_control_plane() -> anyhow::Result<()> {
    let kubectl = ControlPlane::shared().kubectl().create_namespace("workloads")?;
    let fails = ", chartwright.test/fails: 'true'";
    let crashes = ", chartwright.test/crashes: 'true'";
    for (kind, name, replicas, labels) in [
        ("Deployment", "web", 3, ""),
        ("StatefulSet", "db", 2, ""),
        ("Job", "once", 1, ""),
        ("Deployment", "broken", 1, fails),
        ("Job", "crashing", 1, crashes),
    ] {
        kubectl.apply(&workload(kind, name, replicas, labels))?;
    }
    kubectl.wait("Available", "deployment", "web", TIMEOUT)?;
    for (kind, name, replicas) in [("deployment", "web", 3), ("statefulset", "db", 2)] {
        until("all replicas are ready", TIMEOUT, || {
            let workload = kubectl.get(kind, name)?.context("it was applied")?;
            Ok(workload["status"]["readyReplicas"] == replicas)
        })?;
    }
    assert_eq!(kubectl.list("persistentvolumeclaims", "")?.len(), 2);
    kubectl.wait("Complete", "job", "once", TIMEOUT)?;
    kubectl.wait("Failed", "job", "crashing", TIMEOUT)?;

    let reason = "/status/containerStatuses/0/state/waiting/reason";
    let broken = eventually("the failing pod has a status", TIMEOUT, || {
        let mut pods = kubectl.list("pods", "app=broken")?.into_iter();
        Ok(pods.find(|pod| pod.pointer(reason).is_some()))
    })?;
    assert_eq!(broken.pointer(reason), Some(&"ImagePullBackOff".into()));
    assert_eq!(broken.pointer("/status/phase"), Some(&"Pending".into()));
    let deployment = kubectl.get("deployment", "broken")?.context("it was applied")?;
    assert_eq!(deployment.pointer("/status/readyReplicas"), None);

    kubectl.run(["delete", "statefulset,persistentvolumeclaim", "--all", "--timeout=30s"])?;
    until("the volumes of deleted claims are gone", TIMEOUT, || {
        Ok(kubectl.list("persistentvolumes", "")?.is_empty())
    })?;

    // The garbage collector takes what the Deployment owned, and waiting for the end of the pods succeeds.
    kubectl.delete("deployment", "web")?;
    until("the pods of a deleted Deployment are gone", TIMEOUT, || {
        Ok(kubectl.list("pods,replicasets", "app=web")?.is_empty())
    })
}

#[test]
fn users_have_their_groups() -> anyhow::Result<()> {
    let control_plane = ControlPlane::shared();
    let account = "system:serviceaccount:users:operator";
    let groups = ["system:serviceaccounts", "system:serviceaccounts:users"];
    let kubeconfig = control_plane.kubeconfig_for(account, &groups)?;
    let operator = control_plane.kubectl().with_kubeconfig(&kubeconfig);
    let review = operator.run(["auth", "whoami", "-o", "json"])?;
    let review: serde_json::Value = serde_json::from_str(&review)?;
    assert_eq!(review.pointer("/status/userInfo/username"), Some(&account.into()));
    let expected = serde_json::json!([groups[0], groups[1], "system:authenticated"]);
    assert_eq!(review.pointer("/status/userInfo/groups"), Some(&expected));
    let config_map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}";
    let refusal = operator.apply(config_map).expect_err("it has no role");
    assert!(refusal.to_string().contains("forbidden"), "{refusal}");

    let three = control_plane.kubeconfig_for("x", &["a", "b", "c"]);
    assert!(three.is_err_and(|error| error.to_string().contains("at most 2 groups")));
    Ok(())
}

#[test]
fn an_audit_log_that_is_being_written_can_be_read() -> anyhow::Result<()> {
    let event = |id: &str, verb: &str, code: u16| {
        serde_json::json!({
            "auditID": id, "verb": verb, "requestURI": "/x", "user": {"username": "u"},
            "objectRef": {"resource": "leases", "apiGroup": "coordination.k8s.io", "namespace": "n", "name": "l"},
            "responseStatus": {"code": code},
        })
        .to_string()
    };
    let file = tempfile::NamedTempFile::new()?;
    let audit = Audit::new(file.path());
    // A watch that began, a request, the watch's end, and half a line.
    let (watch, update) = (event("1", "watch", 200), event("2", "update", 409));
    std::fs::write(file.path(), format!("{watch}\n{update}\n{watch}\n{{\"audit"))?;
    let about = "coordination.k8s.io/leases n/l";
    let expected = format!("watch {about} 200 (u)\nupdate {about} 409 (u)\n");
    assert_eq!(audit.requests()?.to_string(), expected);
    assert!(audit.requests()?.without_idling().is_empty());

    // A mark in the middle of a line: that line was under way before.
    let mark = audit.mark()?;
    let rest = format!("ID\": \"3\"}}\n{}\n", event("4", "get", 200));
    let mut log = std::fs::OpenOptions::new().append(true).open(file.path())?;
    std::io::Write::write_all(&mut log, rest.as_bytes())?;
    assert_eq!((audit.since(mark)?.len(), audit.since(mark)?.verb("get").len()), (1, 1));
    assert_eq!(audit.requests()?.len(), 4);
    Ok(())
}

#[test]
fn two_control_planes_run_side_by_side() -> anyhow::Result<()> {
    let shared = ControlPlane::shared();
    let second = ControlPlane::builder().start()?;
    ensure!(second.dir() != shared.dir() && second.server() != shared.server());
    second.kubectl().create_namespace("only-here")?;
    assert_eq!(shared.kubectl().get("namespace", "only-here")?, None);
    let dir = second.dir().to_owned();
    let mut adopted = second.adopt(Command::new("sleep").arg("600")).spawn()?;
    second.stop();
    adopted.wait()?;
    gone(&dir)?;
    shared.kubectl().run(["get", "--raw", "/readyz"])?;
    Ok(())
}

/// Set for the process that is killed below.
const VICTIM: &str = "CHARTWRIGHT_TEST_VICTIM";

/// Not a test by itself: run by the next one in a process of its own.
#[test]
fn victim() -> anyhow::Result<()> {
    if std::env::var_os(VICTIM).is_some() {
        // From a thread that ends, as test threads do: the control plane must outlive it.
        let start = std::thread::spawn(|| ControlPlane::builder().start());
        let control_plane = start.join().map_err(|_| anyhow::anyhow!("the thread panicked"))??;
        println!("victim in {}", control_plane.dir().display());
        std::thread::sleep(Duration::from_secs(600));
    }
    Ok(())
}

#[test]
fn a_killed_process_leaves_nothing() -> anyhow::Result<()> {
    let mut victim = Command::new(std::env::current_exe()?)
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, "yes")
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(victim.stdout.take().context("it is piped")?).lines();
    // The name of the test may stand before it on the line.
    let path = |line: String| line.split_once("victim in ").map(|(_, path)| PathBuf::from(path));
    let dir = lines.map_while(Result::ok).find_map(path).context("it did not start")?;
    // The processes of a control plane are recognized by its directory.
    ensure!(!processes_of(&dir)?.is_empty());
    victim.kill()?;
    victim.wait()?;
    gone(&dir)
}

/// Waits until no process names the directory any more, and the directory is gone as well.
fn gone(dir: &Path) -> anyhow::Result<()> {
    eventually("nothing is left of a control plane", Duration::from_secs(10), || {
        let left = processes_of(dir)?;
        ensure!(left.is_empty(), "still running: {left:?}");
        Ok((!dir.exists()).then_some(()))
    })
}

/// The command lines with this directory in them, as Linux' /proc shows them.
fn processes_of(dir: &Path) -> anyhow::Result<Vec<String>> {
    let dir = dir.to_str().context("temporary directories have plain names")?;
    let entries = std::fs::read_dir("/proc")?.flatten();
    // Processes end while we look.
    let lines = entries.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    Ok(lines.filter(|line| line.contains(dir)).collect())
}
