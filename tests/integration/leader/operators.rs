//! Leader election on a real API server, with the rights of config/rbac's leader election role and no others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chartwright_operator::cluster;
use chartwright_operator::controller::leader::{CandidacyEnd, LeaderElection, Timing};
use chartwright_operator::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{AuditedRequest, ControlPlane, Kubectl, until};
use crate::world::fields::ensure_contains;
use crate::world::operator::{ELECTED, Launch};
use crate::world::{SOON, World};

/// Short, so that a test needn't wait for fifteen seconds.
const TIMING: Timing = Timing {
    lease: Duration::from_secs(4),
    renew_deadline: Duration::from_millis(2500),
    retry: Duration::from_millis(500),
};

/// A namespace in which a ServiceAccount may do what leader election needs.
struct LeaseNamespace {
    control_plane: &'static ControlPlane,
    runtime: Runtime,
    kubectl: Kubectl,
    namespace: &'static str,
}

/// A candidate at work: its work lasts until its token.
struct RunningCandidate {
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    task: JoinHandle<CandidacyEnd<()>>,
}

impl LeaseNamespace {
    fn new(namespace: &'static str) -> Result<Self> {
        let control_plane = ControlPlane::shared();
        let kubectl = control_plane.kubectl().create_namespace(namespace)?;
        kubectl.apply(&include_str!("../../fixtures/integration/leader.yaml").replace("NAMESPACE", namespace))?;
        Ok(Self {
            control_plane,
            runtime: Runtime::new()?,
            kubectl,
            namespace,
        })
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:operator", self.namespace)
    }

    fn run(&self, identity: &str) -> Result<RunningCandidate> {
        let kubeconfig = self.control_plane.kubeconfig_for(&self.user(), &[])?;
        let client = self.runtime.block_on(cluster::connect(Some(&kubeconfig)))?;
        let metrics = Arc::new(Metrics::new());
        let mut candidate = LeaderElection::new(client, self.namespace, "operator", metrics.clone())?;
        candidate.identity = identity.to_owned();
        candidate.timing = TIMING;
        let stop = CancellationToken::new();
        let run = candidate.run(stop.clone(), |token| async move { token.cancelled().await });
        let task = self.runtime.spawn(run);
        Ok(RunningCandidate { metrics, stop, task })
    }

    fn lease(&self) -> Result<Option<Value>> {
        let lease = self.kubectl.get("leases", "operator")?;
        Ok(lease.map(|lease| lease["spec"].clone()))
    }

    /// Waits until `candidate`, of that identity, leads. How long that took.
    fn until_held_by(&self, identity: &str, candidate: &RunningCandidate) -> Result<Duration> {
        let started = Instant::now();
        until(&format!("the lease is held by {identity:?}"), SOON, || {
            let held = self.lease()?.is_some_and(|spec| spec["holderIdentity"] == identity);
            // The candidate hears of it a moment after the server wrote it.
            Ok(held && candidate.metrics.process.leader.get() == 1)
        })?;
        Ok(started.elapsed())
    }

    fn end(&self, candidate: RunningCandidate) -> Result<CandidacyEnd<()>> {
        let end = async { tokio::time::timeout(Duration::from_secs(20), candidate.task).await };
        let ended = self.runtime.block_on(end);
        Ok(ended.context("the candidate doesn't end")??)
    }
}

#[test]
fn a_stopped_leader_releases_its_lease_and_a_killed_one_expires() -> Result<()> {
    let place = LeaseNamespace::new("leader-handover")?;
    let mark = place.control_plane.audit().mark()?;
    let a = place.run("a")?;
    place.until_held_by("a", &a)?;
    let b = place.run("b")?;
    std::thread::sleep(TIMING.lease + Duration::from_secs(1));
    ensure!((a.metrics.process.leader.get(), b.metrics.process.leader.get()) == (1, 0));

    a.stop.cancel();
    ensure!(place.end(a)? == CandidacyEnd::Finished(()));
    let took = place.until_held_by("b", &b)?;
    ensure!(took < TIMING.lease, "the lease was given back, yet it took {took:?}");

    let c = place.run("c")?;
    b.task.abort();
    let took = place.until_held_by("c", &c)?;
    ensure!(took > TIMING.renew_deadline, "b's lease was taken after {took:?}");
    let spec = place.lease()?.context("the lease is gone")?;
    ensure!(spec["leaseTransitions"] == 2, "from a to b to c: {spec}");

    c.stop.cancel();
    ensure!(place.end(c)? == CandidacyEnd::Finished(()));
    let spec = place.lease()?.context("the lease is gone")?;
    ensure!(spec["holderIdentity"] == "", "given back: {spec}");
    ensure!(spec["leaseDurationSeconds"] == 1, "given back: {spec}");

    let requests = place.control_plane.audit().since(mark)?.by_user(&place.user());
    ensure!(!requests.is_empty());
    // It needs no more than its role.
    let is_its = |request: &AuditedRequest| ["get", "create", "update"].contains(&request.verb.as_str());
    requests
        .filter(|request| request.resource != "leases" || !is_its(request))
        .none()
}

#[test]
fn a_leader_that_loses_its_rights_stops_before_the_lease_expires() -> Result<()> {
    let place = LeaseNamespace::new("leader-rights")?;
    let a = place.run("a")?;
    place.until_held_by("a", &a)?;
    place.kubectl.delete("rolebindings", "leader-election")?;
    let refused = Instant::now();
    let ended = place.end(a)?;
    let CandidacyEnd::Lost(reason) = &ended else {
        anyhow::bail!("it ended as {ended:?}")
    };
    // It says which rights are needed.
    ensure_contains(reason, &["leases", "update"])?;
    // The authorizer hears of the deletion a moment later than kubectl.
    let bound = TIMING.lease + Duration::from_secs(2);
    ensure!(refused.elapsed() < bound, "{:?}", refused.elapsed());
    Ok(())
}

#[test]
fn a_foreign_lease_is_taken_over_only_when_it_stops_changing() -> Result<()> {
    let place = LeaseNamespace::new("leader-foreign")?;
    let lease = |second: u8| {
        let renewed = format!("2001-01-01T00:00:0{second}.000000Z");
        let held = json!({"holderIdentity": "go-operator", "leaseDurationSeconds": 3, "renewTime": renewed, "leaseTransitions": 6});
        let metadata = json!({"name": "operator", "labels": {"team": "blue"}});
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": held}).to_string()
    };
    place.kubectl.apply(&lease(0))?;
    let a = place.run("a")?;
    std::thread::sleep(Duration::from_secs(2));
    place.kubectl.apply(&lease(1))?;
    let took = place.until_held_by("a", &a)?;
    // Seen at the latest one jittered retry after the change, and waited for three seconds from then.
    ensure!((2.0..10.0).contains(&took.as_secs_f64()), "{took:?}");
    let lease = place.kubectl.get("leases", "operator")?.context("the lease is gone")?;
    ensure!(lease["spec"]["leaseTransitions"] == 7);
    ensure!(lease["metadata"]["labels"]["team"] == "blue");
    a.stop.cancel();
    ensure!(place.end(a)? == CandidacyEnd::Finished(()));
    Ok(())
}

/// A process that stands still for longer than its Lease lasts is starved of all that it needs: no thread of it runs.
#[test]
fn a_paused_leader_writes_nothing_when_it_resumes() -> Result<()> {
    let world = World::new("leader-still")?;
    let replica = |replica: usize| world.launch(&Launch { replica, ..ELECTED });
    let mut first = replica(1)?;
    world.install("a", json!({"color": "blue", "extra": ["one"]}))?;
    let second = replica(2)?;
    second.await_log("not leading: held by")?;
    first.signal("STOP")?;
    // It hears of these when it goes on.
    for number in 0..5 {
        world.apply_widget(&format!("b{number}"), json!({"color": "red"}))?;
    }
    world.edit("a", json!({"color": "green", "extra": []}))?;
    let works = || Ok(world.get("configmap", "b4-main")?.is_some());
    until("the other replica works", Duration::from_secs(45), works)?;
    world.await_color("a-main", "green")?;
    world.await_gone("configmap", "a-one")?;
    // More work for an operator that still believes that it leads.
    world.paint("a-main", "pink")?;
    world.await_color("a-main", "green")?;

    let start = world.mark()?;
    first.signal("CONT")?;
    ensure!(first.wait()?.code() == Some(1), "{}", first.log());
    ensure_contains(&first.log(), &["leadership lost"])?;
    let writes = world.requests(&first, start)?.writes();
    ensure!(writes.is_empty(), "{writes}");
    ensure!(world.get("configmap", "a-one")?.is_none());
    Ok(())
}
