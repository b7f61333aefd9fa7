//! Decides whether a change of a workload restarts its pods, by how its controller handles a changed pod template.
//! Facts: `k8s.io/kubernetes/pkg/controller/{deployment,statefulset,daemon}`.

use serde_json::Value;

use crate::identity::GroupKind;

/// True if the controller of a workload replaces running pods of it, because the pod template is another one. Both as they are
/// applied; a default that is written out counts as a change.
pub fn restarts(group_kind: &GroupKind, live: &Value, wanted: &Value) -> bool {
    if live["spec"]["template"] == wanted["spec"]["template"] {
        return false;
    }
    let spec = &wanted["spec"];
    let replicas = |object: &Value| object["spec"]["replicas"].as_i64().unwrap_or(1);
    let on_delete = spec["updateStrategy"]["type"] == "OnDelete";
    match group_kind.to_string().as_str() {
        "Deployment.apps" => spec["paused"] != true && replicas(live) > 0 && replicas(wanted) > 0,
        "StatefulSet.apps" => {
            let partition = &spec["updateStrategy"]["rollingUpdate"]["partition"];
            // Pods of a lower number than the partition stay as they are.
            let first = partition.as_i64().unwrap_or_default();
            !on_delete && first < replicas(live).min(replicas(wanted))
        }
        "DaemonSet.apps" => !on_delete,
        // The pods of others are made once: of Jobs, and of what a CronJob or a ReplicaSet makes next.
        _ => false,
    }
}

/// True if the deletion and creation of an object replaces running pods.
pub fn has_pods(group_kind: &GroupKind) -> bool {
    let workloads = [
        "Deployment.apps",
        "StatefulSet.apps",
        "DaemonSet.apps",
        "ReplicaSet.apps",
        "Pod",
    ];
    workloads.contains(&group_kind.to_string().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn workloads_that_are_recreated_have_other_pods() {
        for (kind, expected) in [
            ("Deployment.apps", true),
            ("Pod", true),
            ("Job.batch", false),
            ("Deployment.example.com", false),
        ] {
            assert_eq!(has_pods(&GroupKind::parse(kind)), expected, "{kind}");
        }
    }

    #[test]
    fn a_pod_template_restarts_pods_where_a_controller_rolls_it_out() {
        for (kind, live, wanted, expected) in table::<(String, Value, Value, bool)>("rollout", "changes") {
            let spec = |spec: &Value| serde_json::json!({"spec": spec});
            let found = restarts(&GroupKind::parse(&kind), &spec(&live), &spec(&wanted));
            assert_eq!(found, expected, "{kind} {live} {wanted}");
        }
    }
}
