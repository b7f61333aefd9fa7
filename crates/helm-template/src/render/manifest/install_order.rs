//! Helm's install order of kinds (`pkg/release/v1/util/kind_sorter.go`).

use std::cmp::Ordering;

/// Kinds in the order in which Helm installs and prints them. All others come after, by name.
#[rustfmt::skip]
pub const INSTALL_ORDER: [&str; 38] = [
    "PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy",
    "PodDisruptionBudget", "ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass",
    "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleList",
    "ClusterRoleBinding", "ClusterRoleBindingList", "Role", "RoleList", "RoleBinding", "RoleBindingList", "Service",
    "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler",
    "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress", "APIService", "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Compares two kinds by [`INSTALL_ORDER`]; unknown kinds are last, by name. Sort stably with it.
///
/// ```
/// let mut kinds = ["Deployment", "Secret", "Namespace"];
/// kinds.sort_by(|a, b| helm_template::render::by_install_order(a, b));
/// assert_eq!(kinds, ["Namespace", "Secret", "Deployment"]);
/// ```
pub fn by_install_order(a: &str, b: &str) -> Ordering {
    let rank = |kind: &str| INSTALL_ORDER.iter().position(|known| *known == kind);
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kinds_are_last_by_name() {
        let mut kinds: Vec<&str> = "Zebra Service Namespace Apple Deployment PriorityClass"
            .split(' ')
            .collect();
        kinds.push("");
        kinds.sort_by(|a, b| by_install_order(a, b));
        assert_eq!(
            kinds.join(" "),
            "PriorityClass Namespace Service Deployment  Apple Zebra"
        );
    }
}
