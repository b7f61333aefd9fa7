//! Which requests a report needs. All of them read, and none of them reads a Secret.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::live::{id_of, list, text};
use crate::health::{has_health, pods};
use crate::identity::applyset::{self, KINDS_ANNOTATION, NAMESPACES_ANNOTATION, PART_OF_LABEL, TRACKING_ANNOTATION};
use crate::identity::{GroupKind, ObjectId};
use crate::record::{Record, Stored};
use chartwright_watches::names::is_built_in;

/// Different label selectors of one kind and namespace that are listed one by one. With more, all objects are listed.
const SELECTORS: usize = 8;
/// Names in one label selector.
const NAMES: usize = 50;

/// On an Ingress: its class, before there was `spec.ingressClassName`.
pub(super) const INGRESS_CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// On an IngressClass: it is the default.
pub const DEFAULT_CLASS_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// A list request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListRead {
    pub kind: GroupKind,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The label selector. Empty: all objects.
    pub labels: String,
}

/// The first requests of a report: the members.
#[derive(Clone, Debug)]
pub struct MemberReads {
    pub lists: Vec<ListRead>,
    /// Members and hooks by name, to be read alone if no list has them.
    pub ids: Vec<ObjectId>,
    /// The status lists only some of the members.
    pub is_partial: bool,
    /// The namespaces of the release.
    pub namespaces: BTreeSet<String>,
}

impl MemberReads {
    /// The requests for the members of a custom resource.
    pub fn of(kind: &GroupKind, resource: &Value) -> Self {
        let (name, namespace) = (text(resource, "/metadata/name"), text(resource, "/metadata/namespace"));
        let stored = Record::from_status(&resource["status"], None);
        let is_partial = matches!(stored, Stored::Part { .. });
        let record = stored.into_record();
        let entries = record.entries.iter().map(|entry| &entry.id);
        let hooks = record
            .hooks
            .runs
            .iter()
            .filter(|run| !run.deleted)
            .map(|run| &run.object);
        let ids: Vec<ObjectId> = entries
            .chain(hooks)
            .filter(|id| !is_secret(&id.group_kind))
            .cloned()
            .collect();
        let mut places: BTreeSet<(GroupKind, String)> = ids
            .iter()
            .map(|id| (id.group_kind.clone(), id.namespace.clone()))
            .collect();
        if is_partial {
            places.extend(annotated_places(resource, namespace));
        }
        let labels = format!(
            "{PART_OF_LABEL}={}",
            applyset::id(name, namespace, &kind.kind, &kind.group)
        );
        let mut namespaces: BTreeSet<String> = places.iter().map(|(_, namespace)| namespace.clone()).collect();
        namespaces.insert(namespace.to_owned());
        namespaces.retain(|namespace| !namespace.is_empty());
        let read = |(kind, namespace): (GroupKind, String)| ListRead {
            kind,
            namespace,
            labels: labels.clone(),
        };
        MemberReads {
            lists: places.into_iter().map(read).collect(),
            ids,
            is_partial,
            namespaces,
        }
    }
}

/// The kinds and namespaces that the ApplySet annotations of a custom resource name.
fn annotated_places(resource: &Value, namespace: &str) -> Vec<(GroupKind, String)> {
    let annotation = |key: &str| resource["metadata"]["annotations"][key].as_str().unwrap_or_default();
    let mut namespaces = applyset::parse_list(annotation(NAMESPACES_ANNOTATION));
    namespaces.push(namespace.to_owned());
    let kinds = applyset::parse_list(annotation(KINDS_ANNOTATION)).into_iter();
    let kinds = kinds
        .map(|kind| GroupKind::parse(&kind))
        .filter(|kind| !is_secret(kind));
    kinds
        .flat_map(|kind| {
            namespaces
                .iter()
                .map(move |namespace| (kind.clone(), namespace.clone()))
        })
        .collect()
}

/// True for the kind that a report never reads.
pub fn is_secret(kind: &GroupKind) -> bool {
    kind.group.is_empty() && kind.kind == "Secret"
}

/// True if a report needs no more than the metadata of a kind.
pub fn is_metadata_enough(kind: &GroupKind) -> bool {
    let is_checked = ["Ingress", "CronJob", "EndpointSlice", "Event", "Node"].contains(&kind.kind.as_str());
    !is_checked && !has_health(&kind.group, &kind.kind)
}

/// The fields of a spec that are large, and that no check reads.
const UNREAD_FIELDS: [&str; 5] = [
    "jobTemplate",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "tolerations",
];
/// The annotations that are read.
const READ_ANNOTATIONS: [&str; 3] = [TRACKING_ANNOTATION, INGRESS_CLASS_ANNOTATION, DEFAULT_CLASS_ANNOTATION];

/// Removes what a report does not need, since it may hold thousands of objects: managed fields, other annotations, the spec of custom
/// resources and CRDs, and the templates (but their labels) and containers of workloads.
pub fn strip(object: &mut Value) {
    let group = text(object, "/apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let has_spec = is_built_in(group) && group != "apiextensions.k8s.io";
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| READ_ANNOTATIONS.contains(&key.as_str()));
        }
    }
    if !has_spec {
        fields.remove("spec");
    }
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| !UNREAD_FIELDS.contains(&field.as_str()));
        if let Some(template) = spec.remove("template") {
            let labels = &template["metadata"]["labels"];
            if labels.is_object() {
                spec.insert("template".to_owned(), json!({"metadata": {"labels": labels}}));
            }
        }
        if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
            volumes.retain(|volume| volume["persistentVolumeClaim"].is_object());
        }
    }
}

/// True if the tracking annotation of a live object names the object itself and the custom resource with this UID. A copied label proves
/// nothing.
pub fn is_member(object: &Value, owner_uid: &str) -> bool {
    let tracking = object["metadata"]["annotations"][TRACKING_ANNOTATION].as_str();
    let Some(tracking) = tracking.and_then(applyset::parse_tracking_id) else {
        return false;
    };
    let itself = ObjectId::new(tracking.group_kind, tracking.namespace, tracking.name);
    !owner_uid.is_empty() && tracking.owner_uid == owner_uid && itself == id_of(object)
}

/// The lists of what these members own.
pub fn owned_reads(members: &[Value]) -> Vec<ListRead> {
    let mut selectors: BTreeMap<(GroupKind, String), BTreeSet<String>> = BTreeMap::new();
    let mut services: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for member in members {
        let id = id_of(member);
        let namespace = id.namespace.clone();
        if id.group_kind == GroupKind::new("", "Service") && member["spec"]["selector"].is_object() {
            services
                .entry(namespace)
                .or_default()
                .push(text(member, "/metadata/name"));
            continue;
        }
        let selector = selector(&id.group_kind, member);
        for owned in owned_kinds(&id.group_kind) {
            let place = (GroupKind::new(owned.0, owned.1), namespace.clone());
            selectors.entry(place).or_default().insert(selector.clone());
        }
    }
    let mut reads: Vec<ListRead> = selectors
        .into_iter()
        .flat_map(|((kind, namespace), selectors)| {
            joined(&selectors).into_iter().map(move |labels| ListRead {
                kind: kind.clone(),
                namespace: namespace.clone(),
                labels,
            })
        })
        .collect();
    reads.extend(services.into_iter().map(|(namespace, names)| ListRead {
        kind: GroupKind::new("discovery.k8s.io", "EndpointSlice"),
        namespace,
        labels: match names.len() {
            ..=NAMES => format!("kubernetes.io/service-name in ({})", names.join(",")),
            _ => String::new(),
        },
    }));
    reads
}

/// The kinds that objects of a kind own, directly or not.
fn owned_kinds(kind: &GroupKind) -> &'static [(&'static str, &'static str)] {
    const REPLICA_SET: (&str, &str) = ("apps", "ReplicaSet");
    const JOB: (&str, &str) = ("batch", "Job");
    const POD: (&str, &str) = ("", "Pod");
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment") => &[REPLICA_SET, POD],
        ("apps", "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job") | ("", "ReplicationController") => {
            &[POD]
        }
        ("batch", "CronJob") => &[JOB, POD],
        _ => &[],
    }
}

/// The label selector of what a member owns; empty if it states none.
fn selector(kind: &GroupKind, member: &Value) -> String {
    // The pods of a Deployment carry its labels, and so do its ReplicaSets: the selector must match the template.
    pods::selector(kind, member).unwrap_or_default()
}

/// Selectors that find at least all objects of these selectors: their common labels, else each of them, else everything.
fn joined(selectors: &BTreeSet<String>) -> Vec<String> {
    if selectors.contains("") {
        return vec![String::new()];
    }
    if selectors.len() <= 1 {
        return selectors.iter().cloned().collect();
    }
    // Only plain labels are compared: a comma inside of `in (a,b)` is no end of a part.
    let are_plain = selectors.iter().all(|selector| !selector.contains('('));
    let parts = |selector: &'_ String| selector.split(',').map(str::to_owned).collect::<BTreeSet<String>>();
    let common = selectors
        .iter()
        .map(parts)
        .reduce(|one, other| &one & &other)
        .filter(|_| are_plain);
    match common {
        Some(common) if !common.is_empty() => vec![common.into_iter().collect::<Vec<_>>().join(",")],
        _ if selectors.len() <= SELECTORS => selectors.iter().cloned().collect(),
        _ => vec![String::new()],
    }
}

/// The namespaces of pods that use claims.
pub fn claim_reads(objects: &[Value]) -> Vec<ListRead> {
    let uses_claims = |pod: &&Value| {
        pod["kind"] == "Pod" && list(pod, "/spec/volumes").any(|volume| volume["persistentVolumeClaim"].is_object())
    };
    let namespaces = objects
        .iter()
        .filter(uses_claims)
        .map(|pod| text(pod, "/metadata/namespace"));
    let namespaces: BTreeSet<&str> = namespaces.filter(|namespace| !namespace.is_empty()).collect();
    let read = |namespace: &str| ListRead {
        kind: GroupKind::new("", "PersistentVolumeClaim"),
        namespace: namespace.to_owned(),
        labels: String::new(),
    };
    namespaces.into_iter().map(read).collect()
}

/// Names of the nodes of pods that are not ready, at most so many.
pub fn nodes_of(objects: &[Value], most: usize) -> BTreeSet<String> {
    let is_ready = |pod: &Value| {
        list(pod, "/status/conditions").any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let pods = objects
        .iter()
        .filter(|object| object["kind"] == "Pod" && !is_ready(object));
    let names = pods
        .map(|pod| text(pod, "/spec/nodeName"))
        .filter(|name| !name.is_empty());
    names
        .map(str::to_owned)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .take(most)
        .collect()
}

/// Why a node is lost. `None`: it is ready.
pub fn node_trouble(node: &Value) -> Option<String> {
    let ready = list(node, "/status/conditions").find(|condition| condition["type"] == "Ready")?;
    (ready["status"] != "True").then(|| match text(ready, "/message") {
        "" => "is not ready".to_owned(),
        message => format!("is not ready: {message}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, name: &str, labels: &Value) -> Value {
        let api = if kind == "Service" { "v1" } else { "apps/v1" };
        let selector = match kind {
            "Service" => labels.clone(),
            _ => json!({"matchLabels": labels}),
        };
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": {"selector": selector}})
    }

    /// `Kind labels`, in order.
    fn shown(reads: &[ListRead]) -> Vec<String> {
        reads
            .iter()
            .map(|read| format!("{} {}", read.kind.kind, read.labels))
            .collect()
    }

    #[test]
    fn owned_objects_are_listed_with_few_requests() {
        let one = |name: &str, labels: Value| workload("StatefulSet", name, &labels);
        let many = |count: usize| {
            (0..count)
                .map(|n| one("a", json!({"app": n.to_string()})))
                .collect::<Vec<_>>()
        };
        for (members, expected) in [
            (vec![one("a", json!({"app": "a"}))], vec!["Pod app=a"]),
            (
                vec![
                    one("a", json!({"app": "a", "of": "x"})),
                    one("b", json!({"app": "b", "of": "x"})),
                ],
                vec!["Pod of=x"],
            ),
            (many(2), vec!["Pod app=0", "Pod app=1"]),
            (many(9), vec!["Pod "]),
            (
                vec![workload("Deployment", "a", &json!({"app": "a"}))],
                vec!["Pod app=a", "ReplicaSet app=a"],
            ),
            (
                vec![
                    workload("Service", "a", &json!({"app": "a"})),
                    workload("Service", "b", &json!({"app": "b"})),
                ],
                vec!["EndpointSlice kubernetes.io/service-name in (a,b)"],
            ),
            (
                vec![json!({"apiVersion": "v1", "kind": "ConfigMap"}), json!(null)],
                vec![],
            ),
        ] {
            assert_eq!(shown(&owned_reads(&members)), expected, "{members:?}");
        }
    }

    #[test]
    fn members_are_listed_by_label_and_secrets_never() {
        let entry = |kind: &str, name: &str| json!({"kind": kind, "version": "v1", "namespace": "shop", "name": name});
        let mut resource = json!({
            "metadata": {"name": "web", "namespace": "shop", "annotations": {
                KINDS_ANNOTATION: "ConfigMap,Deployment.apps,Secret", NAMESPACES_ANNOTATION: "other",
            }},
            "status": {"inventory": [entry("ConfigMap", "a"), entry("ConfigMap", "b"), entry("Secret", "s")]},
        });
        let kind = GroupKind::new("example.com", "Web");
        let reads = MemberReads::of(&kind, &resource);
        let label = format!("{PART_OF_LABEL}={}", applyset::id("web", "shop", "Web", "example.com"));
        assert_eq!(shown(&reads.lists), [format!("ConfigMap {label}")]);
        assert_eq!((reads.ids.len(), reads.is_partial), (2, false));
        resource["status"]["release"] = json!({"record": {"members": 400}});
        let reads = MemberReads::of(&kind, &resource);
        let places: Vec<String> = reads
            .lists
            .iter()
            .map(|read| format!("{}/{}", read.kind, read.namespace))
            .collect();
        assert_eq!(
            places,
            [
                "ConfigMap/other",
                "ConfigMap/shop",
                "Deployment.apps/other",
                "Deployment.apps/shop"
            ]
        );
        assert!(reads.is_partial && reads.namespaces.len() == 2);
    }

    #[test]
    fn all_that_a_check_looks_at_is_read() {
        for (group, kind, expected) in [
            ("", "ConfigMap", true),
            ("rbac.authorization.k8s.io", "Role", true),
            ("networking.k8s.io", "IngressClass", true),
            ("networking.k8s.io", "Ingress", false),
            ("discovery.k8s.io", "EndpointSlice", false),
            ("", "Event", false),
            ("apps", "Deployment", false),
            ("example.com", "Gadget", false),
        ] {
            assert_eq!(is_metadata_enough(&GroupKind::new(group, kind)), expected, "{kind}");
        }
    }

    #[test]
    fn what_no_check_reads_is_removed() {
        let annotations =
            json!({TRACKING_ANNOTATION: "t", "kubectl.kubernetes.io/last-applied-configuration": "secret"});
        let metadata = json!({"name": "a", "managedFields": [1], "annotations": annotations});
        let claim = json!({"name": "a", "persistentVolumeClaim": {"claimName": "x"}});
        let spec = json!({"containers": [1], "nodeName": "n", "volumes": [claim, {"name": "b", "emptyDir": {}}], "template": 1});
        let stripped = |api: &str, kind: &str| {
            let mut object = json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec, "status": 1});
            strip(&mut object);
            object
        };
        let pod = stripped("v1", "Pod");
        assert_eq!(
            pod["metadata"],
            json!({"name": "a", "annotations": {TRACKING_ANNOTATION: "t"}})
        );
        assert_eq!(pod["spec"], json!({"nodeName": "n", "volumes": [claim]}));
        let labels = json!({"metadata": {"labels": {"app": "a"}}});
        let mut workload =
            json!({"spec": {"template": {"metadata": {"labels": {"app": "a"}, "annotations": {}}, "spec": {}}}});
        workload["apiVersion"] = "apps/v1".into();
        strip(&mut workload);
        assert_eq!(workload["spec"], json!({"template": labels}));
        for (api, kind) in [
            ("example.com/v1", "Gadget"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ] {
            let object = stripped(api, kind);
            assert!(object["spec"].is_null() && object["status"] == 1, "{object}");
        }
        strip(&mut json!(null));
    }

    #[test]
    fn a_label_alone_makes_no_member() {
        let object = |value: &str| {
            let annotations = json!({TRACKING_ANNOTATION: value});
            let metadata = json!({"namespace": "shop", "name": "a", "annotations": annotations});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        };
        assert!(is_member(&object("u1:ConfigMap:shop/a"), "u1"));
        for (value, uid) in [
            ("u1:ConfigMap:shop/a", "u2"),
            ("u1:ConfigMap:shop/b", "u1"),
            ("x", "u1"),
            ("", ""),
        ] {
            assert!(!is_member(&object(value), uid), "{value}");
        }
    }

    #[test]
    fn claims_and_nodes_follow_from_pods() {
        let pod = |ready: &str, node: &str, volume: Value| {
            json!({"kind": "Pod", "metadata": {"namespace": "shop"}, "spec": {"nodeName": node, "volumes": [volume]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}})
        };
        let claim = json!({"persistentVolumeClaim": {"claimName": "x"}});
        let pods = [
            pod("True", "n1", json!({})),
            pod("False", "n2", claim),
            pod("False", "", json!({})),
            json!(null),
        ];
        assert_eq!(shown(&claim_reads(&pods)), ["PersistentVolumeClaim "]);
        assert_eq!(nodes_of(&pods, 5), ["n2".to_owned()].into());
        assert_eq!(nodes_of(&pods, 0).len(), 0);
        let node =
            |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "message": "gone"}]}});
        assert_eq!(node_trouble(&node("True")), None);
        assert_eq!(node_trouble(&node("Unknown")).as_deref(), Some("is not ready: gone"));
        assert_eq!(node_trouble(&json!({})), None, "a new node");
    }
}
