//! EtcdCluster: what changes only while a quorum is there.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{CLUSTER, MOMENT, System};
use crate::support::until;
use crate::world::fields::{condition, ensure_contains, text, uid};
use crate::world::{HANGS, SOON};

/// A cluster without a schedule.
pub(super) fn cluster(system: &System, name: &str, spec: Value) -> Result<Value> {
    system.install(name, spec)
}

#[test]
fn a_size_without_a_majority_is_refused_and_it_stays_as_it_was() -> Result<()> {
    let system = System::new("etcd-refused", CLUSTER)?;
    for size in [0, 2, 4, 7] {
        ensure_contains(
            &system.refused("none", json!({"size": size}))?,
            &["a cluster has 1, 3 or 5 members"],
        )?;
    }
    cluster(&system, "kv", json!({}))?;
    let error = system.edit("kv", json!({"size": 5})).err().context("it is accepted")?;
    ensure_contains(
        &format!("{error:#}"),
        &["the number of members stays as it was", "restoreFrom"],
    )?;
    let set = system.world.expect("statefulset", "kv-etcd")?;
    ensure!(
        set["spec"]["replicas"] == 3 && set["status"]["readyReplicas"] == 3,
        "{set}"
    );
    system.end()
}

#[test]
fn a_cluster_is_restored_member_by_member_before_it_begins() -> Result<()> {
    let system = System::new("etcd-restore", CLUSTER)?;
    let world = &system.world;
    let kv = cluster(&system, "kv", json!({}))?;
    let plan = &kv["status"]["plans"][0];
    ensure!(plan["name"] == "snapshot" && plan["next"].is_string(), "{plan}");
    let (succeeded, said) = system.run_plan("kv", "snapshot", &[])?;
    ensure!(succeeded, "{said}");
    let ended = system.live("kv")?["status"]["plans"][0]["ended"].clone();
    system.await_status("kv", &[("/lastSnapshot", ended)])?;
    system.delete("kv")?;
    world.await_gone("persistentvolumeclaim", "data-kv-etcd-2")?;

    let start = world.mark()?;
    system.install(
        "more",
        json!({"size": 5, "restoreFrom": {"claim": "kv-etcd-snapshots"}}),
    )?;
    let order = world.all_requests(&system.operator, start)?.writes();
    let at = |name: &str| {
        order
            .iter()
            .position(|request| request.name == name && request.verb == "patch")
    };
    for member in 0..5 {
        let job = at(&format!("more-etcd-restore-{member}"));
        ensure!(job.is_some() && job < at("more-etcd"), "{member}: {order}");
        let job = world.expect("job", &format!("more-etcd-restore-{member}"))?;
        let command = &job["spec"]["template"]["spec"]["containers"][0]["command"];
        ensure_contains(
            &command.to_string(),
            &[&format!("--name=more-etcd-{member}"), "/snapshots/latest.db"],
        )?;
    }
    system.end()
}

/// Sets the readiness of a member, like a kubelet.
pub(super) fn set_ready(system: &System, pod: &str, ready: bool) -> Result<()> {
    let status = if ready { "True" } else { "False" };
    let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [ready]}});
    system.world.kubectl.patch_status("pod", pod, &status)
}

#[test]
fn nothing_changes_while_there_is_no_quorum() -> Result<()> {
    let system = System::new("etcd-quorum", CLUSTER)?;
    let world = &system.world;
    cluster(&system, "kv", json!({"version": "3.6.11"}))?;
    system.await_status(
        "kv",
        &[
            ("/quorum", json!("3 of 3 members in quorum")),
            ("/version", json!("3.6.11")),
        ],
    )?;
    set_ready(&system, "kv-etcd-2", false)?;
    system.await_status("kv", &[("/quorum", json!("2 of 3 members in quorum"))])?;
    ensure!(condition(&system.live("kv")?, "Quorum")["status"] == "True");
    set_ready(&system, "kv-etcd-1", false)?;
    let lost = system.await_status("kv", &[("/quorum", json!("1 of 3 members in quorum"))])?;
    let quorum = condition(&lost, "Quorum");
    ensure!(quorum["reason"] == "NoQuorum", "{quorum}");
    ensure_contains(text(&quorum["message"]), &["1 of 3 members are ready, 2 are a quorum"])?;

    let image = || {
        let set = world.expect("statefulset", "kv-etcd")?;
        Ok::<_, anyhow::Error>(text(&set["spec"]["template"]["spec"]["containers"][0]["image"]).to_owned())
    };
    system.edit("kv", json!({"version": "3.6.12"}))?;
    system.await_unready("kv", "Progressing", &["Service kv-etcd-members"])?;
    std::thread::sleep(MOMENT);
    ensure!(image()?.ends_with("v3.6.11"), "{}", image()?);
    set_ready(&system, "kv-etcd-1", true)?;
    system.await_ready("kv")?;
    ensure!(image()?.ends_with("v3.6.12"), "{}", image()?);
    system.await_status(
        "kv",
        &[
            ("/quorum", json!("3 of 3 members in quorum")),
            ("/version", json!("3.6.12")),
        ],
    )?;
    system.end()
}

#[test]
fn an_upgrade_replaces_members_one_by_one() -> Result<()> {
    let system = System::new("etcd-upgrade", CLUSTER)?;
    let world = &system.world;
    cluster(&system, "kv", json!({"version": "3.6.11"}))?;
    let before: Vec<String> = world
        .list("pods", "app.kubernetes.io/component=database")?
        .iter()
        .map(uid)
        .collect();
    system.update("kv", json!({"version": "3.6.12"}))?;
    let pods = world.list("pods", "app.kubernetes.io/component=database")?;
    ensure!(
        pods.len() == 3 && pods.iter().all(|pod| !before.contains(&uid(pod))),
        "{pods:?}"
    );
    for pod in &pods {
        ensure!(
            text(&pod["spec"]["containers"][0]["image"]).ends_with(":v3.6.12"),
            "{pod}"
        );
    }
    system.end()
}

#[test]
fn an_upgrade_that_breaks_a_member_is_rolled_back_with_quorum() -> Result<()> {
    let system = System::with_keys("etcd-health", CLUSTER, &[("timeout", "8s")])?;
    let world = &system.world;
    cluster(&system, "kv", json!({"version": "3.6.11"}))?;
    system.edit("kv", json!({"version": "3.6.12", "podLabels": {HANGS: "true"}}))?;
    // The next member is not touched before this one is well.
    system.await_status("kv", &[("/quorum", json!("2 of 3 members in quorum"))])?;
    let texts = ["not healthy within 8s", "kv-etcd", "runs as revision 3"];
    system.await_unready("kv", "RolledBack", &texts)?;
    system.await_status(
        "kv",
        &[
            ("/quorum", json!("3 of 3 members in quorum")),
            ("/version", json!("3.6.11")),
        ],
    )?;
    let set = world.expect("statefulset", "kv-etcd")?;
    ensure_contains(&set["spec"]["template"]["spec"].to_string(), &[":v3.6.11"])?;
    system.end()
}

/// A member's process, with the command of its pod. It listens on this machine, at ports of its own.
struct EtcdMember {
    process: Child,
    /// For clients, for members, for probes and metrics.
    ports: [u16; 3],
}

impl EtcdMember {
    /// What an HTTP request answers: the status line, or nothing.
    fn ask(&self, port: usize, request: &str) -> Result<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.ports[port]))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        connection.write_all(request.as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// What a probe of the chart finds.
    fn probe(&self, path: &str) -> bool {
        let answer = self.ask(2, &format!("GET {path} HTTP/1.0\r\n\r\n"));
        answer.is_ok_and(|answer| answer.contains(" 200 OK"))
    }

    /// A call of etcd's JSON gateway.
    fn call(&self, call: &str, body: &str) -> Result<String> {
        let head = format!("POST /v3/kv/{call} HTTP/1.0\r\nContent-Type: application/json");
        self.ask(0, &format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    }
}

/// A process of each member, from the command that its pod would run.
fn members(system: &System, name: &str) -> Result<Vec<EtcdMember>> {
    let build = super::project("tests/control-plane/build");
    let found = Command::new(build).args(["--resolve", "etcd"]).output()?;
    let binary = String::from_utf8(found.stdout)?.trim().to_owned();
    let set = system.world.expect("statefulset", name)?;
    let command = &set["spec"]["template"]["spec"]["containers"][0]["command"];
    let command: Vec<String> = serde_json::from_value(command.clone())?;
    // All are held at the same time, so that no port is returned twice.
    let listeners = (0..9)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)))
        .collect::<io::Result<Vec<_>>>()?;
    let ports = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect::<io::Result<Vec<_>>>()?;
    drop(listeners);
    let ports: Vec<[u16; 3]> = ports
        .chunks_exact(3)
        .map(|chunk| [chunk[0], chunk[1], chunk[2]])
        .collect();
    let local = |argument: &str, member: usize| {
        let mut argument = argument.replace("$(POD_NAME)", &format!("{name}-{member}"));
        for (other, ports) in ports.iter().enumerate() {
            let host = format!("{name}-{other}.{name}-members.{}.svc", system.world.name);
            for (port, own) in [2379, 2380].iter().zip(ports) {
                argument = argument.replace(&format!("{host}:{port}"), &format!("127.0.0.1:{own}"));
            }
        }
        for (port, own) in [2379, 2380, 2381].iter().zip(&ports[member]) {
            argument = argument.replace(&format!("0.0.0.0:{port}"), &format!("127.0.0.1:{own}"));
        }
        let folder = system.world.dir.path().join(format!("member-{member}"));
        argument.replace("/var/lib/etcd", &folder.display().to_string())
    };
    let start = |member: usize| {
        let mut command_line = Command::new(&binary);
        command_line.args(command[1..].iter().map(|argument| local(argument, member)));
        command_line
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = system.world.control_plane.adopt(&mut command_line).spawn()?;
        Ok(EtcdMember {
            process,
            ports: ports[member],
        })
    };
    (0..3).map(start).collect()
}

/// The pods here are kwok's. But their commands run, and the results of their probes are written to their status.
#[test]
fn processes_of_etcd_make_the_cluster_that_the_chart_describes() -> Result<()> {
    let system = System::new("etcd-real", CLUSTER)?;
    cluster(&system, "kv", json!({}))?;
    let mut members = members(&system, "kv-etcd")?;
    until("all members are ready", SOON, || {
        Ok(members.iter().all(|member| member.probe("/readyz")))
    })?;
    members[0].call("put", r#"{"key": "a2V5", "value": "dmFsdWU="}"#)?;
    ensure_contains(&members[2].call("range", r#"{"key": "a2V5"}"#)?, &["dmFsdWU="])?;
    let write_probes = |members: &[EtcdMember]| {
        for (number, member) in members.iter().enumerate() {
            set_ready(&system, &format!("kv-etcd-{number}"), member.probe("/readyz"))?;
        }
        Ok::<_, anyhow::Error>(())
    };

    // The other two have elected a leader, if they must, and serve what was written.
    members[2].process.kill()?;
    until("two members are ready", SOON, || {
        Ok(members[..2].iter().all(|member| member.probe("/readyz")))
    })?;
    ensure_contains(&members[1].call("range", r#"{"key": "a2V5"}"#)?, &["dmFsdWU="])?;
    write_probes(&members)?;
    system.await_status("kv", &[("/quorum", json!("2 of 3 members in quorum"))])?;

    // One alone lives, and isn't ready: it is not restarted, and nothing is changed.
    members[1].process.kill()?;
    until("the last one is not ready", SOON, || Ok(!members[0].probe("/readyz")))?;
    ensure!(members[0].probe("/livez"));
    write_probes(&members)?;
    let kv = system.await_status("kv", &[("/quorum", json!("0 of 3 members in quorum"))])?;
    ensure!(condition(&kv, "Quorum")["status"] == "False", "{kv}");
    for member in &mut members {
        let _ = member.process.kill();
        member.process.wait()?;
    }
    system.end()
}
