//! What `explain` and `tree` request: reads alone, no Secret, and little time for 300 members.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::succeed;
use crate::world::{World, member_rule};

/// Members of the large release: half of them Deployments with a pod each. The inventory of a status has room for 300.
const MEMBERS: usize = 310;
/// Measured runs, and how often they are measured: other tests run at the same time.
const RUNS: usize = 20;
const ROUNDS: usize = 3;

#[test]
fn only_reads_are_sent_and_no_secret_is_read() -> Result<()> {
    let world = World::new("explain-reads")?;
    world.grant("secrets", &[member_rule("", "secrets"), member_rule("", "services")])?;
    let operator = world.start()?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]},
    });
    let spec = json!({
        "deployment": {"enabled": true, "replicas": 1, "failing": true}, "secret": {"enabled": true, "password": "very-hidden"},
        "extraDeploy": [service], "hook": true,
    });
    world.apply_widget("a", spec)?;
    world.await_unready("a", "Progressing", &["Deployment"])?;
    world.await_quiet(&operator)?;
    let user = "reader-of-explain";
    let reader = world.control_plane.kubeconfig_for(user, &["system:masters"])?;
    let reader = reader.display().to_string();
    let mark = world.control_plane.audit().mark()?;
    for verb in ["explain", "tree"] {
        for format in ["text", "json", "yaml"] {
            let shown = succeed(&world, verb, "a", &["-o", format, "--kubeconfig", &reader])?;
            ensure!(shown.contains("a-secret") && !shown.contains("very-hidden"), "{shown}");
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    let requests = world.control_plane.audit().since(mark)?.by_user(user);
    ensure!(requests.clone().resource("pods").len() >= 6, "{requests}");
    requests.clone().writes().none()?;
    requests.resource("secrets").none()
}

/// A Deployment and a ConfigMap with this number.
fn pair(number: usize) -> [Value; 2] {
    let name = format!("web-{number}");
    let labels = json!({"app": name});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "example/a"}]}});
    [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x".repeat(200)}}),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        }),
    ]
}

#[test]
fn a_release_of_more_than_300_members_is_explained_within_a_second() -> Result<()> {
    let world = World::new("explain-large")?;
    // For the record of so many members.
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let operator = world.start()?;
    // The chart has one ConfigMap of its own.
    let mut objects: Vec<Value> = (0..MEMBERS / 2).flat_map(pair).collect();
    objects.pop();
    world.apply_widget("a", json!({"extraDeploy": objects}))?;
    crate::support::eventually("all pods run", Duration::from_secs(120), || {
        let ready = crate::world::fields::is_ready(&world.live("a")?);
        ensure!(ready, "not ready");
        Ok(Some(()))
    })?;
    world.await_quiet(&operator)?;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        best = best.min(measure(&world)?);
        if best < Duration::from_secs(1) {
            return Ok(());
        }
    }
    bail!("p95 is {best:?}")
}

/// The 95th percentile of the time of `explain`.
fn measure(world: &World) -> Result<Duration> {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        let shown = succeed(world, "explain", "a", &[])?;
        times.push(began.elapsed());
        for (part, least) in [("ok Pod web-", MEMBERS / 2 - 1), ("ok ConfigMap web-", MEMBERS / 2)] {
            ensure!(shown.matches(part).count() >= least, "{part}: {shown}");
        }
    }
    times.sort();
    let p95 = times[RUNS * 95 / 100 - 1];
    println!(
        "explain with {MEMBERS} members: median {:?}, p95 {p95:?}",
        times[RUNS / 2]
    );
    Ok(p95)
}
