//! Health rules for individual kinds.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Health, HealthStatus, ObjectCondition, conditions, int, text};

/// How one kind is judged.
pub(super) type Rule = fn(&Value, Timestamp) -> Health;

/// How many pods of a workload there should be, and how many are created, ready, available and updated.
struct Replicas {
    want: i64,
    created: i64,
    ready: i64,
    available: i64,
    updated: i64,
}

fn replicas(object: &Value) -> Replicas {
    Replicas {
        want: int(object, "/spec/replicas").unwrap_or(1),
        created: count(object, "replicas"),
        ready: count(object, "readyReplicas"),
        available: count(object, "availableReplicas"),
        updated: count(object, "updatedReplicas"),
    }
}

/// A number in the status; 0 where there is none.
fn count(object: &Value, field: &str) -> i64 {
    object["status"][field].as_i64().unwrap_or(0)
}

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

/// Says how many pods are still terminating (`status.terminatingReplicas`): with `podReplacementPolicy: TerminationComplete` these keep
/// new pods from being created.
fn with_terminating(health: Health, object: &Value) -> Health {
    match count(object, "terminatingReplicas") {
        ..=0 => health,
        pods if health.status == HealthStatus::InProgress => Health {
            message: format!("{}; {pods} still terminating", health.message),
            ..health
        },
        _ => health,
    }
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
        return Health::new(HealthStatus::Failed, late.says("progress deadline exceeded"));
    }
    // Without a deadline (the largest int32 stands for none) the controller doesn't report progress.
    let deadline = int(object, "/spec/progressDeadlineSeconds").filter(|seconds| *seconds != i64::from(i32::MAX));
    let rolled_out = progressing.is_some_and(|c| c.is_true() && c.reason == "NewReplicaSetAvailable");
    let available = find("Available").is_some_and(|condition| condition.is_true());
    let pods = replicas(object);
    // A quota or an admission webhook refuses the pods: only this condition shows it.
    let refused = find("ReplicaFailure").filter(ObjectCondition::is_true);
    let health = first(
        [
            refused.map(|condition| Health::in_progress(condition.says("pods cannot be created"))),
            lacking(pods.created, pods.want, "created"),
            lacking(pods.updated, pods.want, "updated"),
            excess(pods.created, pods.want),
            lacking(pods.available, pods.updated, "available"),
            lacking(pods.ready, pods.want, "ready"),
            (deadline.is_some() && !rolled_out).then(|| Health::in_progress("the new ReplicaSet is not available yet")),
            (!available).then(|| Health::in_progress("is not available yet")),
        ],
        || format!("{} of {} available", pods.available, pods.want),
    );
    with_terminating(health, object)
}

/// StatefulSets never report that they failed.
fn stateful_set(object: &Value, _: Timestamp) -> Health {
    if text(object, "/spec/updateStrategy/type") == Some("OnDelete") {
        return Health::current("is updated by hand (OnDelete)");
    }
    let pods = replicas(object);
    let fine = || format!("{} of {} ready", pods.ready, pods.want);
    let basics = [
        lacking(pods.created, pods.want, "created"),
        lacking(pods.ready, pods.want, "ready"),
        excess(pods.created, pods.want),
    ];
    // The API server writes a partition of 0 into every StatefulSet with a rolling update, so this is the usual case.
    if let Some(partition) = int(object, "/spec/updateStrategy/rollingUpdate/partition") {
        let updated = lacking(pods.updated, pods.want - partition, "updated");
        return first(basics.into_iter().chain([updated]), fine);
    }
    let same = text(object, "/status/currentRevision") == text(object, "/status/updateRevision");
    let current = [
        lacking(count(object, "currentReplicas"), pods.want, "current"),
        (!same).then(|| Health::in_progress("the update is not complete yet")),
    ];
    first(basics.into_iter().chain(current), fine)
}

fn daemon_set(object: &Value, _: Timestamp) -> Health {
    // Its controller writes all of these; without them it has not looked yet.
    let seen = int(object, "/metadata/generation").and(int(object, "/status/observedGeneration"));
    let (Some(_), Some(want)) = (seen, int(object, "/status/desiredNumberScheduled")) else {
        return Health::in_progress("is not observed yet");
    };
    let ready = count(object, "numberReady");
    first(
        [
            lacking(count(object, "currentNumberScheduled"), want, "scheduled"),
            lacking(count(object, "updatedNumberScheduled"), want, "updated"),
            lacking(count(object, "numberAvailable"), want, "available"),
            lacking(ready, want, "ready"),
        ],
        || format!("{ready} of {want} ready"),
    )
}

fn replica_set(object: &Value, _: Timestamp) -> Health {
    if let Some(failure) = conditions(object).find(|c| c.kind == "ReplicaFailure" && c.is_true()) {
        return Health::in_progress(failure.says("pods cannot be created"));
    }
    let pods = replicas(object);
    let health = first(
        [
            lacking(count(object, "fullyLabeledReplicas"), pods.want, "labelled"),
            lacking(pods.available, pods.want, "available"),
            lacking(pods.ready, pods.want, "ready"),
            excess(pods.created, pods.want),
        ],
        || format!("{} of {} available", pods.available, pods.want),
    );
    with_terminating(health, object)
}

fn job(object: &Value, _: Timestamp) -> Health {
    let want = int(object, "/spec/completions")
        .or(int(object, "/spec/parallelism"))
        .unwrap_or(1);
    let (succeeded, failed) = (count(object, "succeeded"), count(object, "failed"));
    for condition in conditions(object).filter(ObjectCondition::is_true) {
        match condition.kind {
            "Complete" => return Health::current(format!("{succeeded} of {want} completed")),
            "Failed" => return Health::new(HealthStatus::Failed, condition.says(&format!("{failed} failed"))),
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
    if crashing.is_empty() {
        Health::in_progress("runs but is not ready")
    } else {
        Health::new(HealthStatus::Failed, format!("keeps crashing: {}", crashing.join(", ")))
    }
}

fn pending_pod(object: &Value, now: Timestamp) -> Health {
    let unschedulable =
        conditions(object).find(|c| c.kind == "PodScheduled" && c.status == "False" && c.reason == "Unschedulable");
    let Some(condition) = unschedulable else {
        return Health::in_progress("is pending");
    };
    let created = text(object, "/metadata/creationTimestamp").and_then(|time| time.parse::<Timestamp>().ok());
    if created.is_some_and(|created| now.duration_since(created) < SCHEDULE_WINDOW) {
        Health::in_progress("is not scheduled yet")
    } else {
        Health::new(HealthStatus::Failed, condition.says("cannot be scheduled"))
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

/// Not every cluster assigns a load balancer's address: a cluster IP is enough, as in kstatus.
fn service(object: &Value, _: Timestamp) -> Health {
    let balanced = text(object, "/spec/type") == Some("LoadBalancer");
    if balanced && text(object, "/spec/clusterIP").is_none() {
        Health::in_progress("has no cluster IP yet")
    } else {
        Health::current("exists")
    }
}

fn namespace(object: &Value, _: Timestamp) -> Health {
    match text(object, "/status/phase") {
        Some("Active") => Health::current("is active"),
        Some("Terminating") => Health::new(HealthStatus::Terminating, "is being deleted"),
        _ => Health::in_progress("is not active yet"),
    }
}

fn crd(object: &Value, _: Timestamp) -> Health {
    for condition in conditions(object) {
        match (condition.kind, condition.status) {
            ("NamesAccepted", "False") => {
                return Health::new(HealthStatus::Failed, condition.says("its names are taken"));
            }
            ("Established", "True") => return Health::current("is established"),
            ("Established", "False") if condition.reason != "Installing" => {
                return Health::new(HealthStatus::Failed, condition.says("cannot be established"));
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
