//! Moves managedFields from one manager to another, as client-go's `util/csaupgrade` does for kubectl: entries of updates
//! become an entry of an apply, so that the next apply removes the fields that it does not contain.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value, json};

use super::FINALIZERS;
use crate::drift::managed_fields::{fields, item_keys, may_have, unite};

/// Those who write whole objects, and whom the operator replaces: helm-operator and Helm under the names of their
/// binaries (Helm 4 applies, the others update), kubectl where it made the object, and the API server's name for what
/// was there before anybody applied. What people changed with `kubectl edit`, `label` or `scale` stays theirs.
const FORMER_MANAGERS: [&str; 8] = [
    "helm-operator",
    "helm",
    "Helm",
    "kubectl-client-side-apply",
    "kubectl-create",
    "kubectl-replace",
    "kubectl",
    "before-first-apply",
];

/// Who gets the fields.
#[derive(Clone, Copy, Debug)]
pub struct Heir<'a> {
    pub manager: &'a str,
    /// `status`, or empty for the object itself.
    pub subresource: &'a str,
    /// Of a new entry, where there is none to take it from.
    pub api_version: &'a str,
    /// What the former owner had sent. Its entry lists the API server's defaults as well, of which some can't be taken
    /// back (`clusterIPs`): these lose their owner, and stay.
    pub manifest: Option<&'a Value>,
    /// UID of the custom resource: an entry that has its owner reference is that of an operator.
    pub owner_uid: &'a str,
}

/// The entries after the heir got its inheritance; `None` if nothing changes. With `owned`, the owner reference to the
/// custom resource becomes the heir's alone.
pub fn inherit(entries: &[ManagedFieldsEntry], heir: &Heir<'_>, owned: bool) -> Option<Vec<ManagedFieldsEntry>> {
    let key = format!("k:{}", json!({"uid": heir.owner_uid}));
    let reference = json!({"f:metadata": {"f:ownerReferences": {(&key): {}}}});
    let mut rest = Vec::with_capacity(entries.len());
    let mut inherited = owned.then_some(reference);
    let mut time = None;
    // The version of what is applied is that of our own entry, or of the last write.
    let mut version: Option<(bool, &ManagedFieldsEntry)> = None;
    for entry in entries {
        let is_of = entry.subresource.as_deref().unwrap_or_default() == heir.subresource;
        let ours = is_of && name(entry) == heir.manager && entry.operation.as_deref() == Some("Apply");
        let former = is_of && is_former(entry, &key);
        if !ours && !former {
            let mut entry = entry.clone();
            let owners = entry.fields_v1.as_mut().filter(|_| owned);
            let owners = owners.and_then(|fields| fields.0.pointer_mut("/f:metadata/f:ownerReferences"));
            if let Some(owners) = owners.and_then(Value::as_object_mut) {
                owners.remove(&key);
            }
            rest.push(entry);
            continue;
        }
        let mut fields = fields(entry).cloned().unwrap_or_default();
        if !ours {
            fields = sent(fields, heir.manifest);
        }
        unite(inherited.get_or_insert(json!({})), &fields);
        time = time.max(entry.time.clone());
        if ours || version.is_none_or(|(ours, known)| !ours && entry.time > known.time) {
            version = Some((ours, entry));
        }
    }
    let version = version.and_then(|(_, entry)| entry.api_version.clone());
    rest.push(ManagedFieldsEntry {
        manager: Some(heir.manager.to_owned()),
        operation: Some("Apply".to_owned()),
        subresource: (!heir.subresource.is_empty()).then(|| heir.subresource.to_owned()),
        api_version: version.or_else(|| Some(heir.api_version.to_owned())),
        time,
        fields_type: Some("FieldsV1".to_owned()),
        fields_v1: Some(FieldsV1(inherited?)),
    });
    (rest != entries).then_some(rest)
}

fn name(entry: &ManagedFieldsEntry) -> &str {
    entry.manager.as_deref().unwrap_or_default()
}

/// Known by name, or by what only an operator of Helm charts writes: an operator built on helm-operator-plugins is
/// called as its binary is.
fn is_former(entry: &ManagedFieldsEntry, reference_key: &str) -> bool {
    if FORMER_MANAGERS.contains(&name(entry)) {
        return true;
    }
    let has = |path: &[&str]| {
        let set = fields(entry);
        set.and_then(|set| path.iter().try_fold(set, |value, key| value.get(key)))
            .is_some()
    };
    !name(entry).starts_with("kubectl")
        && (has(&["f:metadata", "f:annotations", "f:meta.helm.sh/release-name"])
            || has(&["f:metadata", "f:ownerReferences", reference_key])
            || has(&["f:status", "f:deployedRelease"]))
}

/// What the API server fills in and then forbids to change, for objects whose manifest is unknown.
const FILLED_IN: [&str; 6] = [
    "f:clusterIP",
    "f:clusterIPs",
    "f:ipFamilies",
    "f:ipFamilyPolicy",
    "f:volumeMode",
    "f:volumeName",
];

/// The part of a set that a client sent, with complete metadata: Helm adds its own to that.
fn sent(mut fields: Value, manifest: Option<&Value>) -> Value {
    let Some(set) = fields.as_object_mut() else {
        return fields;
    };
    match manifest {
        Some(manifest) => {
            let metadata = set.remove("f:metadata");
            *set = within(set, manifest);
            set.extend(metadata.map(|metadata| ("f:metadata".to_owned(), metadata)));
        }
        None => {
            if let Some(spec) = set.get_mut("f:spec").and_then(Value::as_object_mut) {
                spec.retain(|field, _| !FILLED_IN.contains(&field.as_str()));
            }
        }
    }
    fields
}

/// The paths of a set that an object has.
fn within(set: &Map<String, Value>, object: &Value) -> Map<String, Value> {
    let mut kept = Map::new();
    for (key, below) in set {
        let Some(value) = step(key, object) else { continue };
        let below = match below {
            Value::Object(below) if !below.is_empty() => Value::Object(within(below, value)),
            leaf => leaf.clone(),
        };
        kept.insert(key.clone(), below);
    }
    kept
}

/// One step of a path: `.`, `f:<field>`, `k:<keys of a list's item>`, `v:<value in a list>`, `i:<index>`.
fn step<'a>(key: &str, object: &'a Value) -> Option<&'a Value> {
    let (sort, rest) = key.split_once(':').unwrap_or((key, ""));
    match sort {
        "." => Some(object),
        "f" => object.get(rest),
        "i" => object.get(rest.parse::<usize>().ok()?),
        "v" => {
            let value: Value = serde_json::from_str(rest).ok()?;
            object.as_array()?.iter().find(|item| **item == value)
        }
        "k" => {
            let keys = item_keys(key)?;
            object.as_array()?.iter().find(|item| may_have(item, &keys))
        }
        _ => None,
    }
}

/// Entries without a former operator's hold on finalizers. An entry that says nothing else goes.
pub(super) fn without_finalizers(entries: &[ManagedFieldsEntry]) -> Vec<ManagedFieldsEntry> {
    let former = FINALIZERS.map(|finalizer| format!("v:{}", json!(finalizer)));
    let is_former = |set: &Value| former.iter().any(|key| set.get(key).is_some());
    let without = |entry: &ManagedFieldsEntry| {
        let mut entry = entry.clone();
        let Some(FieldsV1(Value::Object(fields))) = &mut entry.fields_v1 else {
            return Some(entry);
        };
        if let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut)
            && metadata.get("f:finalizers").is_some_and(is_former)
        {
            metadata.remove("f:finalizers");
            if metadata.is_empty() {
                fields.remove("f:metadata");
            }
            if fields.is_empty() {
                return None;
            }
        }
        Some(entry)
    };
    entries.iter().filter_map(without).collect()
}
