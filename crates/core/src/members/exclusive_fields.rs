//! Fields that exclude each other: `rollingUpdate` only with that `type`, one source of a volume, one handler of a probe.
//! Server-side apply removes fields that its manager owned and omits, and keeps fields without an owner. A default within
//! `rollingUpdate` or `configMap` outlives the field it belongs to, and the API server refuses the object.
//!
//! So a refused field that is not rendered and has no owner is first claimed by an apply that changes no value: it contains all
//! fields that we own already, and these fields as they are. The apply of the render omits them and so removes them.
//! Fields of another manager stay, and so does the refusal.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value, json};

use crate::drift::managed_fields::{applied, fields, foreign, item_keys, may_have};

/// What validation says of a field that another one excludes (k8s.io/kubernetes/pkg/apis/*/validation).
const EXCLUDED: [&str; 6] = [
    "may not be specified when",
    "may only be specified",
    "may only be used when",
    "may only be set",
    "must not be set when",
    "only allowed for",
];

/// The same where it may be either of the two that is named.
const ONE_OF: [&str; 4] = [
    "may not specify more than 1 ",
    "more than one field specified",
    "cannot set both",
    "may not be specified when `value`",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnionStep<'a> {
    Field(&'a str),
    /// An item of a list. Its place says nothing: the server counts in the object that it refuses.
    Item,
}

/// True if a message is about fields that exclude each other.
pub fn is_exclusion(message: &str) -> bool {
    EXCLUDED.iter().chain(&ONE_OF).any(|phrase| message.contains(phrase))
}

/// What `manager` has to apply in order to own what keeps the API server from taking the rendered object, for the very
/// version of the live object. `refused`: fields, as `spec.volumes[0].configMap`, each with what was said of it. `None`
/// if that would be empty, or owned by another field manager.
pub fn claim(live: &Value, manager: &str, rendered: &Value, refused: &[(&str, &str)]) -> Option<Value> {
    let managed = live.pointer("/metadata/managedFields")?.clone();
    let managed: Vec<ManagedFieldsEntry> = serde_json::from_value(managed).ok()?;
    let own = applied(&managed, manager)?;
    // The names of fields are those of one version.
    if own.api_version.as_deref() != live.get("apiVersion")?.as_str() {
        return None;
    }
    let own = fields(own)?;
    let others: Vec<&Value> = foreign(&managed, manager).into_iter().filter_map(fields).collect();
    let mut fields = own.clone();
    let mut found = false;
    for (field, message) in refused.iter().filter(|(_, message)| is_exclusion(message)) {
        let either = ONE_OF.iter().any(|phrase| message.contains(phrase));
        let path = steps(field).filter(|path| path.len() > 1 && path.first() != Some(&UnionStep::Field("metadata")));
        if let Some(more) = path.and_then(|path| unowned(live, rendered, Some(own), &others, &path, either)) {
            add(&mut fields, &more);
            found = true;
        }
    }
    if !found {
        return None;
    }
    let mut object = owned(live, &fields)?;
    for field in ["apiVersion", "kind"] {
        object[field] = live.get(field)?.clone();
    }
    let mut metadata = match object.get_mut("metadata").map(Value::take) {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    for field in ["name", "namespace", "resourceVersion"] {
        if let Some(value) = live.get("metadata").and_then(|metadata| metadata.get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    object["metadata"] = Value::Object(metadata);
    Some(object)
}

/// The fields at the end of a path without an owner that aren't rendered, as `fieldsV1` has them. `either`: the field
/// that is named may be the one that is to stay.
fn unowned(
    live: &Value,
    rendered: &Value,
    own: Option<&Value>,
    others: &[&Value],
    path: &[UnionStep<'_>],
    either: bool,
) -> Option<Value> {
    // An atomic field is replaced, or kept, completely.
    if others.iter().chain(&own).any(|fields| is_leaf(fields)) {
        return None;
    }
    match path {
        [] => None,
        [UnionStep::Field(last)] => {
            let (live, rendered) = (live.as_object()?, rendered.as_object()?);
            let is_named = |key: &str, value: &Value| {
                if rendered.contains_key(*last) {
                    either && value.is_object()
                } else {
                    key == *last
                }
            };
            let found = live.iter().filter(|(key, value)| {
                let field = format!("f:{key}");
                is_named(key, value)
                    && !rendered.contains_key(*key)
                    && others.iter().all(|fields| fields.get(&field).is_none())
            });
            let found: Map<String, Value> = found.map(|(key, _)| (format!("f:{key}"), json!({}))).collect();
            (!found.is_empty()).then_some(Value::Object(found))
        }
        [UnionStep::Field(name), rest @ ..] => {
            let key = format!("f:{name}");
            let others = below(others, &key);
            let own = own.and_then(|fields| fields.get(&key));
            let found = unowned(live.get(name)?, rendered.get(name)?, own, &others, rest, either)?;
            Some(json!({ key: found }))
        }
        [UnionStep::Item, rest @ ..] => {
            let (live, rendered) = (live.as_array()?, rendered.as_array()?);
            let mut found = Map::new();
            for (key, own) in own?.as_object()? {
                let Some(keys) = item_keys(key) else { continue };
                let live = live.iter().find(|item| is_item(item, &keys));
                let rendered = rendered.iter().find(|item| may_have(item, &keys));
                if let (Some(live), Some(rendered)) = (live, rendered)
                    && let Some(fields) = unowned(live, rendered, Some(own), &below(others, key), rest, either)
                {
                    found.insert(key.clone(), fields);
                }
            }
            (!found.is_empty()).then_some(Value::Object(found))
        }
    }
}

/// `spec.volumes[0].configMap`; `None` for a path through the keys of a map.
fn steps(path: &str) -> Option<Vec<UnionStep<'_>>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let mut rest = part;
        while let Some((before, index)) = rest.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
            index.parse::<usize>().ok()?;
            rest = before;
        }
        if rest.is_empty() || rest.contains(['[', ']']) {
            return None;
        }
        steps.push(UnionStep::Field(rest));
        steps.extend(part.matches('[').map(|_| UnionStep::Item));
    }
    Some(steps)
}

fn is_leaf(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

fn below<'v>(sets: &[&'v Value], key: &str) -> Vec<&'v Value> {
    sets.iter().filter_map(|fields| fields.get(key)).collect()
}

fn is_item(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter().all(|(name, value)| item.get(name) == Some(value))
}

/// Adds fields to a set. A field that is added atomically counts as atomic.
fn add(fields: &mut Value, more: &Value) {
    let (Some(fields), Some(more)) = (fields.as_object_mut(), more.as_object()) else {
        return;
    };
    for (key, more) in more {
        match fields.get_mut(key).filter(|_| !is_leaf(more)) {
            Some(known) => add(known, more),
            None => drop(fields.insert(key.clone(), more.clone())),
        }
    }
}

/// The part of a live object that a set of fields covers; lists in their live order. `None` if it is unknown.
fn owned(live: &Value, fields: &Value) -> Option<Value> {
    if is_leaf(fields) {
        return Some(live.clone());
    }
    let fields = fields.as_object()?;
    match live {
        Value::Array(items) => {
            let mut found = Vec::new();
            for item in items {
                for (key, fields) in fields {
                    if let Some(value) = key.strip_prefix("v:") {
                        let value: Value = serde_json::from_str(value).ok()?;
                        found.extend((value == *item).then_some(value));
                    } else if let Some(keys) = item_keys(key) {
                        if is_item(item, &keys) {
                            let mut item = owned(item, fields)?;
                            item.as_object_mut()?.extend(keys);
                            found.push(item);
                        }
                    } else if key != "." {
                        return None;
                    }
                }
            }
            Some(Value::Array(found))
        }
        Value::Object(live) => {
            let mut found = Map::new();
            for (key, fields) in fields.iter().filter(|(key, _)| *key != ".") {
                let name = key.strip_prefix("f:")?;
                if let Some(value) = live.get(name) {
                    found.insert(name.to_owned(), owned(value, fields)?);
                }
            }
            Some(Value::Object(found))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Managed, managed_fields, table};

    #[derive(serde::Deserialize)]
    struct Case {
        version: String,
        managed: Vec<Managed>,
        live: Value,
        rendered: Value,
        field: String,
        message: String,
        claimed: Option<Value>,
    }

    #[test]
    fn fields_without_owner_are_adopted_unchanged() {
        for (number, case) in table::<Case>("unions", "claims").into_iter().enumerate() {
            let mut managed = managed_fields(case.managed);
            if let Some(ours) = managed.first_mut() {
                ours.api_version = Some(case.version);
            }
            let metadata = json!({"name": "web", "namespace": "shop", "resourceVersion": "7", "labels": {"ours": "1"}});
            let mut live = json!({"apiVersion": "v1", "kind": "Deployment", "metadata": metadata, "spec": case.live});
            live["metadata"]["managedFields"] = json!(managed);
            live["metadata"]["labels"]["theirs"] = "2".into();
            live["status"] = json!({"replicas": 1});
            let rendered = json!({"spec": case.rendered});
            let claimed = claim(&live, "chartwright", &rendered, &[(&case.field, &case.message)]);
            let expected = case
                .claimed
                .map(|spec| json!({"apiVersion": "v1", "kind": "Deployment", "metadata": metadata, "spec": spec}));
            assert_eq!(claimed, expected, "number {number}: {}", case.field);
        }
    }

    #[test]
    fn lists_keep_their_order_and_sets_their_values() {
        let live = json!({"finalizers": ["b", "a"], "ports": [{"port": 2, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]});
        let fields = json!({
            "f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}},
            "f:ports": {
                "k:{\"port\":1,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}},
                "k:{\"port\":2,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
            },
        });
        assert_eq!(owned(&live, &fields), Some(live.clone()));
        assert_eq!(owned(&live, &json!({"f:finalizers": {"i:0": {}}})), None);
    }
}
