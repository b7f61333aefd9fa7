//! Replicas that an autoscaler sets, and when the chart sets them again.
//!
//! A client that sets `spec.replicas` through the subresource `scale` owns the field from then on, even after the autoscaler is
//! gone. An object does not show that its autoscaler was removed, so the operator lists the autoscalers.

use serde_json::Value;

use crate::identity::{GroupKind, ObjectId};

/// The field manager of Kubernetes' own autoscaler.
const CONTROLLER: &str = "kube-controller-manager";

/// The kind of KEDA's autoscalers.
const SCALED_OBJECT: &str = "ScaledObject";

/// The kind of Kubernetes' own autoscalers.
pub fn autoscaler() -> GroupKind {
    GroupKind::new("autoscaling", "HorizontalPodAutoscaler")
}

/// True for kinds whose objects set the replicas of others: HorizontalPodAutoscaler, and ScaledObject of KEDA, which makes one.
pub fn is_autoscaler(group_kind: &GroupKind) -> bool {
    *group_kind == autoscaler() || *group_kind == GroupKind::new("keda.sh", SCALED_OBJECT)
}

/// True if an autoscaler of its namespace scales an object.
pub fn scales(autoscaler: &Value, target: &ObjectId) -> bool {
    // Defaults of KEDA (keda.sh/docs/latest/reference/scaledobject-spec).
    let defaults = match autoscaler["kind"].as_str() {
        Some(SCALED_OBJECT) => [("apiVersion", "apps/v1"), ("kind", "Deployment")].as_slice(),
        _ => &[],
    };
    let field = |name: &str| {
        let value = autoscaler
            .pointer("/spec/scaleTargetRef")
            .and_then(|reference| reference.get(name));
        let default = defaults.iter().find(|(field, _)| *field == name);
        value
            .and_then(Value::as_str)
            .or(default.map(|(_, default)| *default))
            .unwrap_or_default()
    };
    let group = field("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    (group, field("kind"), field("name"))
        == (
            target.group_kind.group.as_str(),
            target.group_kind.kind.as_str(),
            target.name.as_str(),
        )
}

/// Whether replicas that were given up are the chart's again. `by`: the manager that owns them; `autoscalers`: those of
/// the namespace, `None` if they can't be listed; `forced`: a user requested to apply every member.
///
/// Unless forced, only replicas that Kubernetes' own autoscaler left are set again: other autoscalers may exist that
/// can't be listed. While an autoscaler exists, or may exist, replicas are not set even if forced.
pub fn is_free(by: &str, autoscalers: Option<&[Value]>, target: &ObjectId, forced: bool) -> bool {
    match autoscalers {
        Some(autoscalers) if autoscalers.iter().any(|autoscaler| scales(autoscaler, target)) => false,
        Some(_) => forced || by == CONTROLLER,
        None => false,
    }
}

/// Why `force-at` does not set replicas: it is unknown whether an autoscaler scales them.
pub fn unseen(target: &ObjectId, by: &str, error: &dyn std::fmt::Display) -> String {
    format!(
        "{target}: spec.replicas stays as {by} set it, for it can't be seen whether an autoscaler is there: {error}. To \
         have the chart's number, let the operator list horizontalpodautoscalers (autoscaling) and ask again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{id, table};
    use serde_json::json;

    #[test]
    fn autoscalers_name_their_target() {
        for (autoscaler, target, expected) in table::<(Value, String, bool)>("annotations", "autoscalers") {
            let target = id(&target, "web");
            assert_eq!(scales(&autoscaler, &target), expected, "{autoscaler}");
        }
    }

    #[test]
    fn replicas_are_free_when_no_autoscaler_is_left() {
        let web = id("Deployment.apps", "web");
        type Row = (String, Option<Vec<Value>>, bool, bool);
        for (by, targets, forced, expected) in table::<Row>("annotations", "replicas") {
            let autoscaler = |target: &Value| json!({"spec": {"scaleTargetRef": target}});
            let autoscalers = targets.map(|targets| targets.iter().map(autoscaler).collect::<Vec<_>>());
            let found = is_free(&by, autoscalers.as_deref(), &web, forced);
            assert_eq!(found, expected, "{by} {autoscalers:?} {forced}");
        }
    }
}
