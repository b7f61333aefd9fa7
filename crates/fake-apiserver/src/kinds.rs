//! The kinds that a server has.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A kind in one of its versions.
#[derive(Clone, Copy, Debug)]
pub struct ServedKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// The first part of an [`crate::ObjectKey`]: the plural, or `<plural>.<group>` where another kind has that plural.
    pub key: &'static str,
    pub namespaced: bool,
    /// Defined by a CustomResourceDefinition: with a status subresource and a generation, and without a schema.
    pub custom: bool,
}

impl ServedKind {
    /// A kind that a CustomResourceDefinition defines. Its names are kept until the process ends.
    pub fn defined(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        ServedKind {
            group: intern(group),
            version: intern(version),
            kind: intern(kind),
            plural: intern(plural),
            key: intern(&format!("{plural}.{group}")),
            namespaced,
            custom: true,
        }
    }

    /// The API version of its objects.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// A copy of a name that lives as long as the process. Each name is copied once.
fn intern(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}

/// A kind of version v1.
pub const fn kind(group: &'static str, kind: &'static str, plural: &'static str, namespaced: bool) -> ServedKind {
    ServedKind {
        group,
        version: "v1",
        kind,
        plural,
        key: plural,
        namespaced,
        custom: false,
    }
}

/// The kinds of Kubernetes 1.36 that have objects, in their stable versions.
pub static BUILT_IN: &[ServedKind] = &[
    kind("", "ConfigMap", "configmaps", true),
    kind("", "Secret", "secrets", true),
    kind("", "Namespace", "namespaces", false),
    kind("", "Node", "nodes", false),
    kind("", "Pod", "pods", true),
    kind("", "PodTemplate", "podtemplates", true),
    kind("", "Service", "services", true),
    kind("", "ServiceAccount", "serviceaccounts", true),
    kind("", "Endpoints", "endpoints", true),
    kind("", "Event", "events", true),
    kind("", "LimitRange", "limitranges", true),
    kind("", "ResourceQuota", "resourcequotas", true),
    kind("", "ReplicationController", "replicationcontrollers", true),
    kind("", "PersistentVolume", "persistentvolumes", false),
    kind("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    kind(
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    kind(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    kind(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        false,
    ),
    kind(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        false,
    ),
    kind(
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        false,
    ),
    kind(
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        false,
    ),
    kind(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
    kind("apiregistration.k8s.io", "APIService", "apiservices", false),
    kind("apps", "ControllerRevision", "controllerrevisions", true),
    kind("apps", "DaemonSet", "daemonsets", true),
    kind("apps", "Deployment", "deployments", true),
    kind("apps", "ReplicaSet", "replicasets", true),
    kind("apps", "StatefulSet", "statefulsets", true),
    ServedKind {
        version: "v2",
        ..kind(
            "autoscaling",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            true,
        )
    },
    kind(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        true,
    ),
    kind("batch", "CronJob", "cronjobs", true),
    kind("batch", "Job", "jobs", true),
    kind(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        false,
    ),
    kind("coordination.k8s.io", "Lease", "leases", true),
    kind("discovery.k8s.io", "EndpointSlice", "endpointslices", true),
    kind("flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas", false),
    kind(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        false,
    ),
    kind("networking.k8s.io", "Ingress", "ingresses", true),
    kind("networking.k8s.io", "IngressClass", "ingressclasses", false),
    kind("networking.k8s.io", "IPAddress", "ipaddresses", false),
    kind("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    kind("networking.k8s.io", "ServiceCIDR", "servicecidrs", false),
    kind("node.k8s.io", "RuntimeClass", "runtimeclasses", false),
    kind("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    kind(
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    kind("rbac.authorization.k8s.io", "Role", "roles", true),
    kind("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    kind("resource.k8s.io", "DeviceClass", "deviceclasses", false),
    kind("resource.k8s.io", "ResourceClaim", "resourceclaims", true),
    kind(
        "resource.k8s.io",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        true,
    ),
    kind("resource.k8s.io", "ResourceSlice", "resourceslices", false),
    kind("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
    kind("storage.k8s.io", "CSIDriver", "csidrivers", false),
    kind("storage.k8s.io", "CSINode", "csinodes", false),
    kind("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", true),
    kind("storage.k8s.io", "StorageClass", "storageclasses", false),
    kind("storage.k8s.io", "VolumeAttachment", "volumeattachments", false),
    kind(
        "storage.k8s.io",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        false,
    ),
    ServedKind {
        key: "events.events.k8s.io",
        ..kind("events.k8s.io", "Event", "events", true)
    },
];
