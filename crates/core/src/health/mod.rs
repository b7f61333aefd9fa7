//! The health of an object, by the rules of kstatus (sigs.k8s.io/cli-utils, `pkg/kstatus/status`), with Flux's rule for Jobs: a
//! Job is healthy when it is complete, not when it has started.
//!
//! Beyond kstatus: a Namespace must be `Active` and an APIService `Available`, because later objects need them.

pub mod cel_view;
pub mod depends_on;
pub mod gates;
pub mod pods;
mod rules;

use jiff::Timestamp;
use serde_json::Value;

use crate::identity::GroupKind;

/// How an object is, in kstatus' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(serde::Serialize, serde::Deserialize))]
pub enum HealthStatus {
    /// As its spec asks.
    Current,
    /// On its way.
    InProgress,
    /// It says that it won't get there by itself.
    Failed,
    /// Being deleted.
    Terminating,
}

/// The health of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Serialize, serde::Deserialize))]
pub struct Health {
    pub status: HealthStatus,
    /// For people, such as `1 of 3 available`. May quote a condition of the object.
    pub message: String,
}

/// Kinds that are well as soon as they exist: their status, if they have one, says nothing about it.
const WITHOUT_HEALTH: [(&str, &str); 15] = [
    (
        "",
        "ConfigMap Secret ServiceAccount LimitRange ResourceQuota Endpoints Event PodTemplate Node PersistentVolume",
    ),
    (
        "rbac.authorization.k8s.io",
        "Role RoleBinding ClusterRole ClusterRoleBinding",
    ),
    ("networking.k8s.io", "Ingress IngressClass NetworkPolicy IPAddress"),
    ("batch", "CronJob"),
    ("apps", "ControllerRevision"),
    ("scheduling.k8s.io", "PriorityClass"),
    (
        "storage.k8s.io",
        "StorageClass CSIDriver CSINode CSIStorageCapacity VolumeAttributesClass",
    ),
    ("node.k8s.io", "RuntimeClass"),
    ("coordination.k8s.io", "Lease LeaseCandidate"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
    ("certificates.k8s.io", "ClusterTrustBundle"),
    ("resource.k8s.io", "DeviceClass ResourceClaimTemplate ResourceSlice"),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicyBinding \
         MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
    ),
    ("autoscaling", "Scale"),
];

/// Whether objects of a kind can be anything but well, so that more than their metadata must be watched. True for kinds
/// that aren't known: they may have conditions.
pub fn has_health(group: &str, kind: &str) -> bool {
    let mut known = WITHOUT_HEALTH.iter();
    !known.any(|(of, kinds)| *of == group && kinds.split(' ').any(|known| known == kind))
}

/// The health of an object. `now` matters only for Pods that can't be scheduled, which fail 15 seconds after their
/// creation. What is malformed counts as absent.
pub fn health(kind: &GroupKind, object: &Value, now: Timestamp) -> Health {
    if let Err(unobserved) = is_observed(object) {
        return unobserved;
    }
    for condition in conditions(object) {
        match condition.kind {
            "Reconciling" if condition.is_true() => return Health::in_progress(condition.says("is reconciling")),
            "Stalled" if condition.is_true() => return Health::new(HealthStatus::Failed, condition.says("is stalled")),
            _ => {}
        }
    }
    match rules::find(&kind.group, &kind.kind) {
        Some(rule) => rule(object, now),
        None => by_ready_condition(object),
    }
}

/// Whether the status of an object is of what it is now.
///
/// # Errors
/// How the object is, for it isn't.
pub fn is_observed(object: &Value) -> Result<(), Health> {
    if text(object, "/metadata/deletionTimestamp").is_some() {
        return Err(Health::new(HealthStatus::Terminating, "is being deleted"));
    }
    let (generation, observed) = (
        int(object, "/metadata/generation"),
        int(object, "/status/observedGeneration"),
    );
    match (generation, observed) {
        (Some(generation), Some(observed)) if generation != observed => Err(Health::in_progress(format!(
            "generation {generation} is not observed yet (last: {observed})"
        ))),
        _ => Ok(()),
    }
}

/// For kinds without a rule: the condition `Ready`, if there is one.
fn by_ready_condition(object: &Value) -> Health {
    match conditions(object).find(|condition| condition.kind == "Ready") {
        Some(ready) if ready.is_true() => Health::current("is ready"),
        Some(ready) if ready.status == "False" || ready.status == "Unknown" => {
            Health::in_progress(ready.says("is not ready"))
        }
        _ => Health::current("exists"),
    }
}

/// A condition of an object's status, as far as it can be read.
struct ObjectCondition<'a> {
    kind: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

fn conditions(object: &Value) -> impl Iterator<Item = ObjectCondition<'_>> {
    let list = object.pointer("/status/conditions").and_then(Value::as_array);
    list.into_iter().flatten().map(|condition| {
        let field = |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default();
        ObjectCondition {
            kind: field("type"),
            status: field("status"),
            reason: field("reason"),
            message: field("message"),
        }
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

fn int(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}
impl ObjectCondition<'_> {
    fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Its message, else its reason, else the words given.
    fn says(&self, otherwise: &str) -> String {
        [self.message, self.reason, otherwise]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned()
    }
}
impl Health {
    fn new(status: HealthStatus, message: impl Into<String>) -> Self {
        Health {
            status,
            message: message.into(),
        }
    }

    fn current(message: impl Into<String>) -> Self {
        Health::new(HealthStatus::Current, message)
    }

    fn in_progress(message: impl Into<String>) -> Self {
        Health::new(HealthStatus::InProgress, message)
    }
}

#[cfg(test)]
mod tests;
