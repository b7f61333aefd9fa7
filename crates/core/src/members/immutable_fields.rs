//! Fields that the API server does not let clients change. Commands without an API server need this table; `run` gets the
//! error from the API server.
//! Facts: `k8s.io/kubernetes/pkg/apis/*/validation`; a test compares the table of `tests/fixtures/plan/immutable.yaml` with a
//! real API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use crate::annotations::{FORCE_AT, PRUNE, UPDATE};
use crate::drift::managed_fields::owns;
use crate::identity::protected_kinds::is_protected;
use crate::identity::{GroupKind, ObjectId};
use crate::index::live::Live;
use crate::members::desired::Member;
use crate::members::policy::Update;
use crate::status::conditions::short_list;
use crate::usage::requests::quantity;

/// Why a member isn't recreated, although immutable fields differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptField {
    /// No annotation requests it.
    NotAsked,
    /// Data, or objects of others, would go with it.
    TakesData,
}

/// Fields of a kind, each with what an object has that doesn't say it; empty: nothing.
type Fields = &'static [(&'static str, &'static str)];

/// Kinds whose fields can't be changed, regardless of other fields.
const FIELDS: [(&str, Fields); 14] = [
    ("Deployment.apps", &[("spec.selector", "")]),
    ("DaemonSet.apps", &[("spec.selector", "")]),
    ("ReplicaSet.apps", &[("spec.selector", "")]),
    (
        "StatefulSet.apps",
        &[
            ("spec.selector", ""),
            ("spec.serviceName", ""),
            ("spec.podManagementPolicy", "OrderedReady"),
            ("spec.volumeClaimTemplates", ""),
        ],
    ),
    (
        "Job.batch",
        &[
            ("spec.completionMode", "NonIndexed"),
            ("spec.selector", ""),
            ("spec.template", ""),
            ("spec.podFailurePolicy", ""),
            ("spec.backoffLimitPerIndex", ""),
            ("spec.successPolicy", ""),
            ("spec.managedBy", ""),
        ],
    ),
    ("Secret", &[("type", "Opaque")]),
    ("RoleBinding.rbac.authorization.k8s.io", &[("roleRef", "")]),
    ("ClusterRoleBinding.rbac.authorization.k8s.io", &[("roleRef", "")]),
    ("IngressClass.networking.k8s.io", &[("spec.controller", "")]),
    ("RuntimeClass.node.k8s.io", &[("handler", "")]),
    (
        "PriorityClass.scheduling.k8s.io",
        &[("value", ""), ("preemptionPolicy", "PreemptLowerPriority")],
    ),
    (
        "StorageClass.storage.k8s.io",
        &[
            ("provisioner", ""),
            ("parameters", ""),
            ("reclaimPolicy", "Delete"),
            ("volumeBindingMode", "Immediate"),
        ],
    ),
    ("CustomResourceDefinition.apiextensions.k8s.io", &[("spec.scope", "")]),
    (
        "PersistentVolumeClaim",
        &[
            ("spec.accessModes", ""),
            ("spec.storageClassName", ""),
            ("spec.volumeMode", "Filesystem"),
            ("spec.volumeName", ""),
            ("spec.selector", ""),
            ("spec.dataSource", ""),
            ("spec.dataSourceRef", ""),
        ],
    ),
];

/// What may be changed of a Pod's spec, besides the images of its containers.
const OF_PODS: [&str; 3] = ["activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"];

impl KeptField {
    /// The message that a release reports. `foreign`: fields that other managers set near the refused ones, with the manager.
    pub fn message(self, member: &Member, fields: &str, foreign: &[String]) -> String {
        let advice = match self {
            KeptField::NotAsked if member.id.group_kind == GroupKind::new("apps", "StatefulSet") => {
                let ObjectId { namespace, name, .. } = &member.id;
                format!(
                    "`kubectl delete statefulset {name} -n {namespace} --cascade=orphan` lets the operator create it again around the \
                     running pods, and existing claims keep their size; or set the value back"
                )
            }
            KeptField::NotAsked => format!(
                "set the value back, or, to have it recreated, annotate it with {UPDATE}=Recreate, or the custom resource with \
                 {FORCE_AT}"
            ),
            KeptField::TakesData => format!(
                "set the value back; recreating it would delete data or other objects, which {PRUNE}=true on it allows"
            ),
        };
        let set = match foreign {
            [] => String::new(),
            _ => format!("set beside by others: {}; ", short_list(foreign)),
        };
        format!(
            "{} ({}): {fields} can't be changed; {set}{advice}",
            member.id, member.source
        )
    }
}

/// True if a member with a changed immutable field may be recreated, apart from the protection of its data.
/// `forced`: its custom resource requests it for this reconcile.
pub fn may_recreate(member: &Member, live: &Live, forced: bool) -> bool {
    forced || live.marks.force || member.policy.update == Update::Recreate
}

/// True if data, or objects of others, go with an object that is deleted: claims of a StatefulSet, for one. `object`: as it is
/// live.
pub fn takes_data(id: &ObjectId, object: &Value) -> bool {
    let deletes_claims = object
        .pointer("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted")
        .is_some_and(|policy| policy == "Delete");
    is_protected(&id.group_kind) || id.group_kind.kind == "StatefulSet" && deletes_claims
}

/// The fields that an object has otherwise than the live one, and that can't be changed. Both as they are applied.
pub fn changed(group_kind: &GroupKind, live: &Value, wanted: &Value) -> Vec<String> {
    let mut found: Vec<String> = fields_of(group_kind)
        .iter()
        .filter(|(path, usual)| said(live, path, usual) != said(wanted, path, usual))
        .map(|(path, _)| (*path).to_owned())
        .collect();
    match group_kind.to_string().as_str() {
        "Service" => found.extend(of_service(live, wanted)),
        "PersistentVolumeClaim" if is_smaller(live, wanted) => {
            found.push(CLAIM_SIZE.to_owned());
        }
        "ConfigMap" | "Secret" if live["immutable"] == true => {
            let fields = ["data", "binaryData", "immutable"].into_iter();
            found.extend(fields.filter(|field| live[field] != wanted[field]).map(str::to_owned));
        }
        "Pod" => found.extend(of_pod(live, wanted)),
        _ => {}
    }
    found
}

/// The immutable leaves in which a rendered object differs from the live one: the API server names only `spec` of some kinds.
/// `wanted`: as it is rendered, without defaults.
pub fn changed_leaves(group_kind: &GroupKind, live: &Value, wanted: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (path, usual) in fields_of(group_kind) {
        differing_leaves(&said(live, path, usual), &said(wanted, path, ""), path, &mut found);
    }
    found
}

/// The immutable fields of a kind, none for a kind that is not in the table.
fn fields_of(group_kind: &GroupKind) -> Fields {
    let kind = group_kind.to_string();
    FIELDS
        .iter()
        .find(|(name, _)| *name == kind)
        .map_or(&[], |(_, fields)| fields)
}

fn differing_leaves(live: &Value, wanted: &Value, path: &str, found: &mut Vec<String>) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            for (field, value) in wanted {
                let path = format!("{path}.{field}");
                differing_leaves(live.get(field).unwrap_or(&Value::Null), value, &path, found);
            }
        }
        (Value::Array(live), Value::Array(wanted)) if live.len() == wanted.len() => {
            for (index, (live, wanted)) in live.iter().zip(wanted).enumerate() {
                differing_leaves(live, wanted, &format!("{path}[{index}]"), found);
            }
        }
        (live, wanted) if live == wanted || wanted.is_null() => {}
        (live, wanted) => {
            let size = |value: &Value| value.as_str().and_then(quantity);
            if size(live).is_none() || size(live) != size(wanted) {
                found.push(path.to_owned());
            }
        }
    }
}

/// What an object says of a field, or what stands for it.
fn said(object: &Value, path: &str, usual: &str) -> Value {
    let value = path.split('.').fold(object, |value, name| &value[name]);
    if value.is_null() && !usual.is_empty() {
        usual.into()
    } else {
        value.clone()
    }
}

/// One that isn't said stays as it is, whether it was given or none.
fn of_service(live: &Value, wanted: &Value) -> Option<String> {
    let is_external = |service: &Value| service["spec"]["type"] == "ExternalName";
    let address = &wanted["spec"]["clusterIP"];
    let is_other = address.as_str().is_some_and(|text| !text.is_empty()) && *address != live["spec"]["clusterIP"];
    (is_other && !is_external(live) && !is_external(wanted)).then(|| "spec.clusterIP".to_owned())
}

/// The requested size of a PersistentVolumeClaim.
pub const CLAIM_SIZE: &str = "spec.resources.requests.storage";

/// True if claims of this kind can only be enlarged.
pub fn is_claim(group_kind: &GroupKind) -> bool {
    *group_kind == GroupKind::new("", "PersistentVolumeClaim")
}

/// Removes the requested size from a rendered PersistentVolumeClaim that another client enlarged: the API server refuses a smaller one.
///
/// `live`: the live claim. `managed`: its managed fields. Returns `None` if the claim is not larger, or `manager` set its size.
pub fn without_size(live: &Value, managed: &[ManagedFieldsEntry], manager: &str, rendered: &Value) -> Option<Value> {
    let is_ours = owns(managed, manager, "/f:spec/f:resources/f:requests/f:storage");
    if is_ours || !is_smaller(live, rendered) {
        return None;
    }
    let mut rest = rendered.clone();
    rest.pointer_mut("/spec/resources/requests")?
        .as_object_mut()?
        .remove("storage");
    Some(rest)
}

fn is_smaller(live: &Value, wanted: &Value) -> bool {
    let size = |claim: &Value| quantity(claim.pointer("/spec/resources/requests/storage")?.as_str()?);
    size(live).zip(size(wanted)).is_some_and(|(live, wanted)| wanted < live)
}

fn of_pod(live: &Value, wanted: &Value) -> Option<String> {
    let rest = |pod: &Value| {
        let mut spec = pod["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|field, _| !OF_PODS.contains(&field.as_str()));
        for containers in ["containers", "initContainers"] {
            let items = spec.get_mut(containers).and_then(Value::as_array_mut);
            for container in items.into_iter().flatten().filter_map(Value::as_object_mut) {
                container.insert("image".into(), Value::Null);
            }
        }
        Value::Object(spec)
    };
    (rest(live) != rest(wanted)).then(|| "spec".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn leaves_of_a_statefulset_are_named() {
        let claim = |size: &str, mode: Option<&str>| {
            let mut spec = serde_json::json!({"resources": {"requests": {"storage": size}}});
            spec["volumeMode"] = mode.into();
            serde_json::json!({"spec": {
                "serviceName": "db", "replicas": 3, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}],
            }})
        };
        let kind = GroupKind::new("apps", "StatefulSet");
        let live = claim("8Gi", Some("Filesystem"));
        assert_eq!(
            changed_leaves(&kind, &live, &claim("16Gi", None)),
            ["spec.volumeClaimTemplates[0].spec.resources.requests.storage"]
        );
        assert!(changed_leaves(&kind, &live, &claim("8192Mi", None)).is_empty());
    }

    #[test]
    fn what_can_not_be_changed_is_known() {
        #[derive(serde::Deserialize)]
        struct Row {
            live: Value,
            wanted: Value,
            fields: Vec<String>,
        }
        for Row { live, wanted, fields } in table::<Row>("immutable", "changes") {
            let (group_kind, _) = GroupKind::of(&live).unwrap();
            // Fields that aren't set keep their values.
            let mut whole = live.clone();
            json_patch::merge(&mut whole, &wanted);
            assert_eq!(changed(&group_kind, &live, &whole), fields, "{live} {wanted}");
        }
    }
}
