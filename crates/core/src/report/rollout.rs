//! Pods that a rollout does not reach, although their workload has another template.

use serde_json::Value;

use super::live::{LiveObjects, list, text};
use crate::identity::{GroupKind, ObjectId};

/// The label with the revision of a pod's template.
const REVISION_LABEL: &str = "controller-revision-hash";
const STUCK: &str = "the pod still has the former template, and the StatefulSet does not replace a pod that is not ready: delete the pod";

/// Why a pod keeps its former template, if it is not ready and its StatefulSet does not replace it. `None` for any other object.
///
/// Kubernetes calls it "forced rollback": with `OrderedReady`, the StatefulSet controller waits for each pod to be ready before it updates
/// one, also for a pod whose former template cannot become ready.
pub(super) fn stuck(id: &ObjectId, pod: &Value, objects: &LiveObjects<'_>) -> Option<&'static str> {
    if id.group_kind != GroupKind::new("", "Pod") || !waits(pod) {
        return None;
    }
    let owner = list(pod, "/metadata/ownerReferences").find(|owner| owner["controller"] == true)?;
    let kind = GroupKind::new("apps", "StatefulSet");
    let owner_id = ObjectId::new(kind, &id.namespace, text(owner, "/name"));
    let is_owner = |set: &&Value| owner["kind"] == "StatefulSet" && text(set, "/metadata/uid") == text(owner, "/uid");
    let set = objects.get(&owner_id).filter(is_owner)?;
    let is_ordered = matches!(text(set, "/spec/podManagementPolicy"), "" | "OrderedReady");
    let is_rolling = matches!(text(set, "/spec/updateStrategy/type"), "" | "RollingUpdate");
    let is_observed = set["status"]["observedGeneration"] == set["metadata"]["generation"];
    let wanted = text(set, "/status/updateRevision");
    let live = pod["metadata"]["labels"][REVISION_LABEL].as_str().unwrap_or_default();
    let is_former = ![wanted, live].contains(&"") && wanted != live;
    (is_ordered && is_rolling && is_observed && is_former && is_reached(id, set)).then_some(STUCK)
}

/// True if a pod is there, not ready, and not replaced by itself: a pod that ended is.
fn waits(pod: &Value) -> bool {
    let is_ready =
        list(pod, "/status/conditions").any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let is_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    !is_ready && !is_ended && text(pod, "/metadata/deletionTimestamp").is_empty()
}

/// True if the update is for this pod: pods below `partition` keep their template on purpose.
fn is_reached(pod: &ObjectId, set: &Value) -> bool {
    let number = |pointer: &str| set.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let ordinal = pod
        .name
        .rsplit_once('-')
        .and_then(|(_, ordinal)| ordinal.parse::<i64>().ok());
    let place = ordinal.map(|ordinal| ordinal.saturating_sub(number("/spec/ordinals/start")));
    place.is_some_and(|place| place >= number("/spec/updateStrategy/rollingUpdate/partition"))
}
