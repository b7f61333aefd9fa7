//! EtcdCluster: what changes only while a quorum is there.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{CLUSTER, MOMENT, System};
use crate::look::{condition, says, text, uid};

/// A cluster without a schedule.
pub(super) fn cluster(system: &System, name: &str, spec: Value) -> Result<Value> {
    system.install(name, spec)
}

#[test]
fn a_size_without_a_majority_is_refused_and_it_stays_as_it_was() -> Result<()> {
    let system = System::new("etcd-refused", CLUSTER)?;
    for size in [0, 2, 4, 7] {
        says(
            &system.refused("none", json!({"size": size}))?,
            &["a cluster has 1, 3 or 5 members"],
        )?;
    }
    cluster(&system, "kv", json!({}))?;
    let error = system.edit("kv", json!({"size": 5})).err().context("it is accepted")?;
    says(
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
        says(
            &command.to_string(),
            &[&format!("--name=more-etcd-{member}"), "/snapshots/latest.db"],
        )?;
    }
    system.end()
}

/// Tells of a member that it is ready or not, as a kubelet does.
pub(super) fn set_ready(system: &System, pod: &str, ready: bool) -> Result<()> {
    let status = if ready { "True" } else { "False" };
    let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let told = json!({"status": {"conditions": [ready]}});
    system.world.kubectl.patch_status("pod", pod, &told)
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
    says(text(&quorum["message"]), &["1 of 3 members are ready, 2 are a quorum"])?;

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
