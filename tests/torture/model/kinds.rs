//! The kinds of the model, and what happens to some of them.

use std::time::Duration;

use fake_apiserver::kinds::{ServedKind, kind};
use serde_json::{Value, json};

use super::Model;

/// The longest run of a Job.
const JOBS_TAKE: Duration = Duration::from_secs(3);

/// The kind of the custom resources.
pub const WIDGET: ServedKind = ServedKind {
    custom: true,
    ..kind("torture.test", "Widget", "widgets", true)
};

/// Another kind of custom resources.
pub const GADGET: ServedKind = ServedKind {
    custom: true,
    ..kind("torture.test", "Gadget", "gadgets", true)
};

/// A kind of members that may be served in [`EARLY`], too.
const PART: ServedKind = kind("parts.test", "Part", "parts", true);
const EARLY: &str = "v1alpha1";

const CRD: &str = "CustomResourceDefinition";
const DEFINITION: ServedKind = kind("apiextensions.k8s.io", CRD, "customresourcedefinitions", false);
const HPA: &str = "HorizontalPodAutoscaler";
const SCALER: ServedKind = ServedKind {
    version: "v2",
    ..kind("autoscaling", HPA, "horizontalpodautoscalers", true)
};

/// Jobs end by [`end_jobs`].
pub const JOB: ServedKind = kind("batch", "Job", "jobs", true);

/// For elections among Pods. The operators of these tests have no Lease.
pub const LEASE: ServedKind = kind("coordination.k8s.io", "Lease", "leases", true);

/// The kinds of the model. Each plural is unique.
pub static KINDS: [ServedKind; 26] = [
    WIDGET,
    GADGET,
    PART,
    kind("", "ConfigMap", "configmaps", true),
    kind("", "Secret", "secrets", true),
    kind("", "Namespace", "namespaces", false),
    kind("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
    kind("events.k8s.io", "Event", "events", true),
    DEFINITION,
    kind("apiregistration.k8s.io", "APIService", "apiservices", false),
    // Other kinds of charts. No controller runs for these: no Pod ever starts.
    kind("", "Service", "services", true),
    kind("", "ServiceAccount", "serviceaccounts", true),
    kind("", "Pod", "pods", true),
    JOB,
    kind("apps", "Deployment", "deployments", true),
    kind("apps", "StatefulSet", "statefulsets", true),
    SCALER,
    LEASE,
    kind("monitoring.coreos.com", "PrometheusRule", "prometheusrules", true),
    kind("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", true),
    kind("networking.k8s.io", "Ingress", "ingresses", true),
    kind("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    kind("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    kind("rbac.authorization.k8s.io", "Role", "roles", true),
    kind("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
];

/// Serves [`PART`] in [`EARLY`], too, as the preferred version.
pub fn begin_early(model: &Model) {
    let early = ServedKind { version: EARLY, ..PART };
    let mut store = model.store();
    let place = store.kinds.iter().position(|kind| kind.plural == PART.plural);
    store.kinds.insert(place.unwrap_or(0), early);
}

/// Ends [`begin_early`]. That something changed shows in a CustomResourceDefinition.
pub fn end_early(model: &Model) {
    let mut store = model.store();
    store.kinds.retain(|kind| kind.version != EARLY);
    let name = format!("{}.{}", PART.plural, PART.group);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": DEFINITION.kind, "metadata": {"name": name},
        "spec": {"storedVersions": [PART.version]},
    });
    store.put(&DEFINITION, (DEFINITION.key, String::new(), name), definition);
}

/// Acts as the controller of Jobs: a Job ends as a label of its pods says, in success (`ends`), in failure (`fails`), or
/// never.
pub async fn end_jobs(model: Model) {
    loop {
        tokio::time::sleep(JOBS_TAKE).await;
        let mut store = model.store();
        let is_open = |object: &Value| object["status"].is_null();
        let jobs = store.objects.iter();
        let jobs = jobs.filter(|(key, job)| key.0 == JOB.key && is_open(job));
        let jobs: Vec<_> = jobs.map(|(key, job)| (key.clone(), (**job).clone())).collect();
        for (key, mut job) in jobs {
            let end = match job["spec"]["template"]["metadata"]["labels"]["outcome"].as_str() {
                Some("ends") => "Complete",
                Some("fails") => "Failed",
                _ => continue,
            };
            job["status"] = json!({"conditions": [{"type": end, "status": "True", "message": "as its label says"}]});
            store.put(&JOB, key, job);
        }
    }
}
