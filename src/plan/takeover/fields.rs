//! managedFields from one manager to another. What client-go's `util/csaupgrade` does for kubectl: entries of writes
//! that were no applies become an entry of an apply, so that the next apply drops what it doesn't have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value, json};

use super::FINALIZERS;

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
    /// back (`clusterIPs`): these become nobody's, and stay.
    pub manifest: Option<&'a Value>,
    /// UID of the custom resource: an entry that has its owner reference is that of an operator.
    pub owner_uid: &'a str,
}

/// The entries after the heir got its inheritance; `None` if nothing changes. With `owned`, the owner reference to the
/// custom resource becomes the heir's alone.
pub fn inherit(entries: &[ManagedFieldsEntry], heir: &Heir<'_>, owned: bool) -> Option<Vec<ManagedFieldsEntry>> {
    let mut former_release: Option<ManagedFieldsEntry> = None;
    let mut rest = Vec::with_capacity(entries.len());
    let reference = owner_reference(heir.owner_uid);
    for entry in entries {
        let ours = is_of(entry, heir) && name(entry) == heir.manager && operation(entry) == "Apply";
        let former = is_of(entry, heir) && is_former(entry, &reference);
        if !ours && !former {
            let mut entry = entry.clone();
            if let (true, Some(fields)) = (owned, &mut entry.fields_v1) {
                disown(&mut fields.0, &reference);
            }
            rest.push(entry);
            continue;
        }
        let fields = match ours {
            true => fields(entry),
            false => sent(fields(entry), heir.manifest),
        };
        match &mut former_release {
            None => {
                former_release = Some(ManagedFieldsEntry {
                    fields_v1: Some(FieldsV1(fields)),
                    ..entry.clone()
                });
            }
            Some(known) => {
                unite(set(known), &fields);
                // The version of what is applied is that of our own entry, or of the last write.
                if ours || (name(known) != heir.manager && entry.time > known.time) {
                    known.api_version.clone_from(&entry.api_version);
                }
                known.time = known.time.take().max(entry.time.clone());
                if ours {
                    known.manager.clone_from(&entry.manager);
                }
            }
        }
    }
    if former_release.is_none() && owned {
        former_release = Some(ManagedFieldsEntry {
            api_version: Some(heir.api_version.to_owned()),
            fields_type: Some("FieldsV1".to_owned()),
            ..ManagedFieldsEntry::default()
        });
    }
    let mut former_release = former_release?;
    former_release.manager = Some(heir.manager.to_owned());
    former_release.operation = Some("Apply".to_owned());
    former_release.subresource = (!heir.subresource.is_empty()).then(|| heir.subresource.to_owned());
    if owned {
        unite(set(&mut former_release), &reference);
    }
    rest.push(former_release);
    (rest != entries).then_some(rest)
}

fn name(entry: &ManagedFieldsEntry) -> &str {
    entry.manager.as_deref().unwrap_or_default()
}

fn operation(entry: &ManagedFieldsEntry) -> &str {
    entry.operation.as_deref().unwrap_or_default()
}

fn is_of(entry: &ManagedFieldsEntry, heir: &Heir<'_>) -> bool {
    entry.subresource.as_deref().unwrap_or_default() == heir.subresource
}

/// Known by name, or by what only an operator of Helm charts writes: an operator built on helm-operator-plugins is
/// called as its binary is.
fn is_former(entry: &ManagedFieldsEntry, reference: &Value) -> bool {
    if FORMER_MANAGERS.contains(&name(entry)) {
        return true;
    }
    let fields = fields(entry);
    let has = |path: &[&str]| path.iter().try_fold(&fields, |value, key| value.get(key)).is_some();
    let key = reference_key(reference);
    !name(entry).starts_with("kubectl")
        && (has(&["f:metadata", "f:annotations", "f:meta.helm.sh/release-name"])
            || key.is_some_and(|key| has(&["f:metadata", "f:ownerReferences", key]))
            || has(&["f:status", "f:deployedRelease"]))
}

fn fields(entry: &ManagedFieldsEntry) -> Value {
    entry
        .fields_v1
        .as_ref()
        .map(|fields| fields.0.clone())
        .unwrap_or_default()
}

fn set(entry: &mut ManagedFieldsEntry) -> &mut Value {
    &mut entry.fields_v1.get_or_insert_with(|| FieldsV1(json!({}))).0
}

/// The set that holds one owner reference.
fn owner_reference(uid: &str) -> Value {
    let key = format!("k:{}", json!({"uid": uid}));
    json!({"f:metadata": {"f:ownerReferences": {(key): {}}}})
}

fn reference_key(reference: &Value) -> Option<&str> {
    let items = reference.pointer("/f:metadata/f:ownerReferences")?.as_object()?;
    items.keys().next().map(String::as_str)
}

fn disown(fields: &mut Value, reference: &Value) {
    let owners = fields
        .pointer_mut("/f:metadata/f:ownerReferences")
        .and_then(Value::as_object_mut);
    if let (Some(owners), Some(key)) = (owners, reference_key(reference)) {
        owners.remove(key);
    }
}

/// What the API server fills in and then forbids to change, for objects whose manifest nobody knows.
const FILLED_IN: [&str; 6] = [
    "f:clusterIP",
    "f:clusterIPs",
    "f:ipFamilies",
    "f:ipFamilyPolicy",
    "f:volumeMode",
    "f:volumeName",
];

/// The part of a set that somebody sent, the metadata whole: Helm adds its own to that.
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
            let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
            // A key may have a default, as a port's protocol.
            let fits = |item: &&Value| {
                let fits = |(key, value): (&String, &Value)| item.get(key).is_none_or(|own| own == value);
                keys.iter().all(fits)
            };
            object.as_array()?.iter().find(fits)
        }
        _ => None,
    }
}

/// Entries without a former operator's hold on finalizers. An entry that says nothing else goes.
pub(super) fn without_finalizers(entries: &[ManagedFieldsEntry]) -> Vec<ManagedFieldsEntry> {
    let mut rest = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut entry = entry.clone();
        let held = entry
            .fields_v1
            .as_mut()
            .and_then(|fields| fields.0.pointer_mut("/f:metadata"));
        let held = held.and_then(Value::as_object_mut);
        let former = FINALIZERS.map(|finalizer| format!("v:{}", json!(finalizer)));
        let is_former = |set: &Value| former.iter().any(|key| set.get(key).is_some());
        if let Some(metadata) = held
            && metadata.get("f:finalizers").is_some_and(is_former)
        {
            metadata.remove("f:finalizers");
            if metadata.is_empty() {
                set(&mut entry)
                    .as_object_mut()
                    .into_iter()
                    .for_each(|set| set.retain(|key, _| key != "f:metadata"));
            }
            if fields(&entry).as_object().is_none_or(Map::is_empty) {
                continue;
            }
        }
        rest.push(entry);
    }
    rest
}

/// Adds the paths of another set. `{}` is a path itself; one that has others below it says so with `.`.
fn unite(one: &mut Value, other: &Value) {
    let Value::Object(other) = other else { return };
    if !one.is_object() {
        *one = Value::Object(Map::new());
    }
    let Value::Object(one) = one else { return };
    for (key, theirs) in other {
        let Some(mine) = one.get_mut(key) else {
            one.insert(key.clone(), theirs.clone());
            continue;
        };
        let is_leaf = |value: &Value| value.as_object().is_some_and(Map::is_empty);
        let leaves = (is_leaf(mine), is_leaf(theirs));
        unite(mine, theirs);
        if let (true, false) | (false, true) = leaves
            && let Value::Object(mine) = mine
        {
            mine.insert(".".into(), json!({}));
        }
    }
}
