//! The kinds with a rule of their own.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Condition, Health, Status, conditions, int, text};

/// How one kind is judged.
pub(super) type Rule = fn(&Value, Timestamp) -> Health;

const REPLICAS: [&str; 5] = [
    "/spec/replicas",
    "/status/replicas",
    "/status/readyReplicas",
    "/status/availableReplicas",
    "/status/updatedReplicas",
];

/// How long a Pod may be unschedulable before it counts as failed.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);

/// The rule for a kind, if it has one of its own.
pub(super) fn find(group: &str, kind: &str) -> Option<Rule> {
    Some(match (group, kind) {
        ("apps", "Deployment") => deployment,
        ("apps", "StatefulSet") => stateful_set,
        ("apps", "DaemonSet") => daemon_set,
        ("apps", "ReplicaSet") => replica_set,
        ("batch", "Job") => job,
        ("", "Pod") => pod,
        ("", "PersistentVolumeClaim") => claim,
        ("", "Service") => service,
        ("", "Namespace") => namespace,
        // Once the generation is observed, allowed disruptions are computed; that they are 0 is no fault.
        ("policy", "PodDisruptionBudget") => |_, _| Health::current("exists"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd,
        ("apiregistration.k8s.io", "APIService") => api_service,
        _ => return None,
    })
}

/// In progress, if `have` is less than `want`.
fn lacking(have: i64, want: i64, what: &str) -> Option<Health> {
    (have < want).then(|| Health::in_progress(format!("{have} of {want} {what}")))
}

/// In progress, while more pods exist than wanted.
fn excess(have: i64, want: i64) -> Option<Health> {
    (have > want).then(|| Health::in_progress(format!("{} more than {want} still to go", have - want)))
}

fn first(problems: impl IntoIterator<Item = Option<Health>>, fine: impl FnOnce() -> String) -> Health {
    problems
        .into_iter()
        .flatten()
        .next()
        .unwrap_or_else(|| Health::current(fine()))
}

fn deployment(object: &Value, _: Timestamp) -> Health {
    let find = |kind: &str| conditions(object).find(|condition| condition.kind == kind);
    let progressing = find("Progressing");
    if let Some(late) = progressing
        .as_ref()
        .filter(|condition| condition.reason == "ProgressDeadlineExceeded")
    {
        return Health::new(Status::Failed, late.says("progress deadline exceeded"));
    }
    // Without a deadline (the largest int32 stands for none) the controller doesn't report progress.
    let deadline = int(object, "/spec/progressDeadlineSeconds").filter(|seconds| *seconds != i64::from(i32::MAX));
    let rolled_out = progressing.is_some_and(|c| c.is_true() && c.reason == "NewReplicaSetAvailable");
    let available = find("Available").is_some_and(|condition| condition.is_true());
    let want = int(object, REPLICAS[0]).unwrap_or(1);
    let [pods, ready, up, updated] =
        [REPLICAS[1], REPLICAS[2], REPLICAS[3], REPLICAS[4]].map(|f| int(object, f).unwrap_or(0));
    // A quota or an admission webhook refuses the pods: only this condition tells.
    let refused = find("ReplicaFailure").filter(Condition::is_true);
    first(
        [
            refused.map(|condition| Health::in_progress(condition.says("pods cannot be created"))),
            lacking(pods, want, "created"),
            lacking(updated, want, "updated"),
            excess(pods, want),
            lacking(up, updated, "available"),
            lacking(ready, want, "ready"),
            (deadline.is_some() && !rolled_out).then(|| Health::in_progress("the new ReplicaSet is not available yet")),
            (!available).then(|| Health::in_progress("is not available yet")),
        ],
        || format!("{up} of {want} available"),
    )
}

/// StatefulSets never report that they failed.
fn stateful_set(object: &Value, _: Timestamp) -> Health {
    if text(object, "/spec/updateStrategy/type") == Some("OnDelete") {
        return Health::current("is updated by hand (OnDelete)");
    }
    let want = int(object, REPLICAS[0]).unwrap_or(1);
    let count = |field: &str| int(object, field).unwrap_or(0);
    let (pods, ready, updated) = (count(REPLICAS[1]), count(REPLICAS[2]), count(REPLICAS[4]));
    let basics = [
        lacking(pods, want, "created"),
        lacking(ready, want, "ready"),
        excess(pods, want),
    ];
    if let Some(problem) = basics.into_iter().flatten().next() {
        return problem;
    }
    // The API server writes a partition of 0 into every StatefulSet with a rolling update, so this is the usual case.
    if let Some(partition) = int(object, "/spec/updateStrategy/rollingUpdate/partition") {
        return first([lacking(updated, want - partition, "updated")], || {
            format!("{ready} of {want} ready")
        });
    }
    let revision = |field: &str| text(object, field);
    let same = revision("/status/currentRevision") == revision("/status/updateRevision");
    first(
        [
            lacking(count("/status/currentReplicas"), want, "current"),
            (!same).then(|| Health::in_progress("the update is not complete yet")),
        ],
        || format!("{ready} of {want} ready"),
    )
}

fn daemon_set(object: &Value, _: Timestamp) -> Health {
    // Its controller writes all of these; without them it has not looked yet.
    let seen = int(object, "/metadata/generation").and(int(object, "/status/observedGeneration"));
    let (Some(_), Some(want)) = (seen, int(object, "/status/desiredNumberScheduled")) else {
        return Health::in_progress("is not observed yet");
    };
    let count = |field: &str| int(object, field).unwrap_or(0);
    let ready = count("/status/numberReady");
    first(
        [
            lacking(count("/status/currentNumberScheduled"), want, "scheduled"),
            lacking(count("/status/updatedNumberScheduled"), want, "updated"),
            lacking(count("/status/numberAvailable"), want, "available"),
            lacking(ready, want, "ready"),
        ],
        || format!("{ready} of {want} ready"),
    )
}

fn replica_set(object: &Value, _: Timestamp) -> Health {
    if let Some(failure) = conditions(object).find(|c| c.kind == "ReplicaFailure" && c.is_true()) {
        return Health::in_progress(failure.says("pods cannot be created"));
    }
    let want = int(object, REPLICAS[0]).unwrap_or(1);
    let count = |field: &str| int(object, field).unwrap_or(0);
    let available = count(REPLICAS[3]);
    first(
        [
            lacking(count("/status/fullyLabeledReplicas"), want, "labelled"),
            lacking(available, want, "available"),
            lacking(count(REPLICAS[2]), want, "ready"),
            excess(count(REPLICAS[1]), want),
        ],
        || format!("{available} of {want} available"),
    )
}

fn job(object: &Value, _: Timestamp) -> Health {
    let count = |field: &str| int(object, field).unwrap_or(0);
    let want = int(object, "/spec/completions")
        .or(int(object, "/spec/parallelism"))
        .unwrap_or(1);
    let (succeeded, failed) = (count("/status/succeeded"), count("/status/failed"));
    for condition in conditions(object).filter(Condition::is_true) {
        match condition.kind {
            "Complete" => return Health::current(format!("{succeeded} of {want} completed")),
            "Failed" => return Health::new(Status::Failed, condition.says(&format!("{failed} failed"))),
            "Suspended" => return Health::current("is suspended"),
            _ => {}
        }
    }
    match text(object, "/status/startTime") {
        None => Health::in_progress("has not started yet"),
        Some(_) if failed > 0 => Health::in_progress(format!("{succeeded} of {want} completed, {failed} failed")),
        Some(_) => Health::in_progress(format!("{succeeded} of {want} completed")),
    }
}

fn pod(object: &Value, now: Timestamp) -> Health {
    match text(object, "/status/phase") {
        Some("Succeeded") => Health::current("has succeeded"),
        Some("Failed") => Health::current("has ended with a failure"),
        Some("Running") => running_pod(object),
        Some("Pending") => pending_pod(object, now),
        Some(phase) => Health::in_progress(format!("is in the phase {phase}")),
        None => Health::in_progress("is not observed yet"),
    }
}

fn running_pod(object: &Value) -> Health {
    if conditions(object).any(|condition| condition.kind == "Ready" && condition.is_true()) {
        return Health::current("is ready");
    }
    let containers = object.pointer("/status/containerStatuses").and_then(Value::as_array);
    let crashing: Vec<&str> = containers
        .into_iter()
        .flatten()
        .filter(|container| text(container, "/state/waiting/reason") == Some("CrashLoopBackOff"))
        .filter_map(|container| text(container, "/name"))
        .collect();
    match crashing.is_empty() {
        true => Health::in_progress("runs but is not ready"),
        false => Health::new(Status::Failed, format!("keeps crashing: {}", crashing.join(", "))),
    }
}

fn pending_pod(object: &Value, now: Timestamp) -> Health {
    let unschedulable =
        conditions(object).find(|c| c.kind == "PodScheduled" && c.status == "False" && c.reason == "Unschedulable");
    let Some(condition) = unschedulable else {
        return Health::in_progress("is pending");
    };
    let created = text(object, "/metadata/creationTimestamp").and_then(|time| time.parse::<Timestamp>().ok());
    match created.is_some_and(|created| now.duration_since(created) < SCHEDULE_WINDOW) {
        true => Health::in_progress("is not scheduled yet"),
        false => Health::new(Status::Failed, condition.says("cannot be scheduled")),
    }
}

/// A claim whose class waits for its first consumer stays `Pending` until a pod uses it: waves must not wait for that.
fn claim(object: &Value, _: Timestamp) -> Health {
    match text(object, "/status/phase") {
        Some("Bound") => Health::current("is bound"),
        Some(phase) => Health::in_progress(format!("is not bound yet ({phase})")),
        None => Health::in_progress("is not bound yet"),
    }
}

/// A load balancer's own address is nothing that everybody gets: a cluster IP is enough, as in kstatus.
fn service(object: &Value, _: Timestamp) -> Health {
    let balanced = text(object, "/spec/type") == Some("LoadBalancer");
    match balanced && text(object, "/spec/clusterIP").is_none() {
        true => Health::in_progress("has no cluster IP yet"),
        false => Health::current("exists"),
    }
}

fn namespace(object: &Value, _: Timestamp) -> Health {
    match text(object, "/status/phase") {
        Some("Active") => Health::current("is active"),
        Some("Terminating") => Health::new(Status::Terminating, "is being deleted"),
        _ => Health::in_progress("is not active yet"),
    }
}

fn crd(object: &Value, _: Timestamp) -> Health {
    for condition in conditions(object) {
        match (condition.kind, condition.status) {
            ("NamesAccepted", "False") => return Health::new(Status::Failed, condition.says("its names are taken")),
            ("Established", "True") => return Health::current("is established"),
            ("Established", "False") if condition.reason != "Installing" => {
                return Health::new(Status::Failed, condition.says("cannot be established"));
            }
            _ => {}
        }
    }
    Health::in_progress("is not established yet")
}

fn api_service(object: &Value, _: Timestamp) -> Health {
    match conditions(object).find(|condition| condition.kind == "Available") {
        Some(condition) if condition.is_true() => Health::current("is available"),
        Some(condition) => Health::in_progress(condition.says("is not available yet")),
        None => Health::in_progress("is not available yet"),
    }
}
