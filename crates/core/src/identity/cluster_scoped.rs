//! Which built-in kinds are cluster-scoped.

use crate::identity::GroupKind;

/// Built-in cluster-scoped kinds, for renders without an API server (Kubernetes API reference, 1.37).
const CLUSTER_SCOPED: [&str; 21] = [
    "APIService.apiregistration.k8s.io",
    "CSIDriver.storage.k8s.io",
    "CSINode.storage.k8s.io",
    "CertificateSigningRequest.certificates.k8s.io",
    "ClusterRole.rbac.authorization.k8s.io",
    "ClusterRoleBinding.rbac.authorization.k8s.io",
    "CustomResourceDefinition.apiextensions.k8s.io",
    "DeviceClass.resource.k8s.io",
    "FlowSchema.flowcontrol.apiserver.k8s.io",
    "IngressClass.networking.k8s.io",
    "MutatingWebhookConfiguration.admissionregistration.k8s.io",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass.scheduling.k8s.io",
    "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
    "RuntimeClass.node.k8s.io",
    "StorageClass.storage.k8s.io",
    "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
];

/// True for a built-in cluster-scoped kind. Needs no request.
pub fn is_cluster_scoped(group_kind: &GroupKind) -> bool {
    CLUSTER_SCOPED.contains(&group_kind.to_string().as_str())
}
