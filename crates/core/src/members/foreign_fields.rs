//! Finds fields of other field managers that keep the API server from accepting a render.
//!
//! Server-side apply merges a render into the live object. A hand edit, a default, or a former render may have left fields beside the
//! rendered ones that exclude them: `value` beside `valueFrom`, a second port of one name, `maxUnavailable` beside `minAvailable`. The
//! API server then refuses every apply, although it would accept the rendered object alone.
//!
//! `managedFields` gives such fields to our field manager, which changes no value. The next apply omits them and so removes them. Which
//! fields these are follows from the refused ones: first what is at and below a refused field, then its siblings, and so on up to the
//! complete object. A dry run decides how far up. So fields of other managers that do not exclude a rendered field stay.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value, json};

use crate::drift::managed_fields::{applied, fields, is_leaf, item_keys, may_have, move_fields, owned_paths};

/// Fields without an owner are removed only this near to a refused field. Farther away they are defaults that exclude nothing.
const NEAR: usize = 1;

/// Fields of an object that exclude no other field.
const OUTSIDE: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Fields that the next apply can remove once `managed_fields` is written.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldCorrection {
    /// The live object with the render and without the fields. The API server is asked whether it is valid.
    pub merged: Value,
    /// The entries that make our field manager the only owner of the fields.
    pub managed_fields: Vec<ManagedFieldsEntry>,
    /// The fields of other managers, as `spec.ports[port=81,protocol=TCP] (kubectl-edit)`.
    pub fields: Vec<String>,
}

/// One step of the path of a refused field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusedStep<'a> {
    Field(&'a str),
    /// An item of a list. Its index counts in the refused object, which only the API server has, so any item is meant.
    Item,
}

/// What the managers own at one place of the object. `others`: of those whose fields can be taken.
#[derive(Clone, Default)]
struct Owners<'a> {
    own: Option<&'a Value>,
    others: Vec<(&'a str, &'a Value)>,
    /// Autoscalers, and managers whose fields are those of another API version.
    kept: Vec<&'a Value>,
}

/// Returns the corrections that may let the API server accept a render, the narrowest first.
///
/// `live`: the complete live object. `refused`: the fields that the API server refuses, as `spec.ports[0].name`. The result is empty if
/// our field manager never applied the object in the API version of `live`.
pub fn corrections(live: &Value, manager: &str, rendered: &Value, refused: &[&str]) -> Vec<FieldCorrection> {
    let managed = live.pointer("/metadata/managedFields").cloned().unwrap_or_default();
    let managed: Vec<ManagedFieldsEntry> = serde_json::from_value(managed).unwrap_or_default();
    let version = live["apiVersion"].as_str();
    let ours = applied(&managed, manager).filter(|own| own.api_version.as_deref() == version);
    let Some((ours, own)) = ours.and_then(|ours| Some((ours, fields(ours)?))) else {
        return Vec::new();
    };
    let mut owners = Owners {
        own: Some(own),
        ..Owners::default()
    };
    for entry in &managed {
        match fields(entry) {
            Some(set) if set == own => {}
            Some(set) if is_takeable(entry, version) => {
                owners.others.push((entry.manager.as_deref().unwrap_or_default(), set));
            }
            Some(set) if entry.subresource.as_deref() != Some("status") => owners.kept.push(set),
            _ => {}
        }
    }
    let (bare, rendered) = (body(live), body(rendered));
    let paths: Vec<Vec<RefusedStep<'_>>> = refused.iter().filter_map(|path| steps(path)).collect();
    let deepest = paths.iter().map(Vec::len).max().unwrap_or_default();
    let mut found: Vec<FieldCorrection> = Vec::new();
    let mut known = json!({});
    for level in 0..=deepest {
        let mut set = json!({});
        for path in &paths {
            let path = &path[..path.len().saturating_sub(level)];
            if let Some(more) = extra_at(&bare, Some(&rendered), &owners, path, level <= NEAR) {
                cover(&mut set, &more);
            }
        }
        if set == known || set == json!({}) {
            continue;
        }
        known = set.clone();
        let managed_fields = move_fields(&managed, ours, &set, |entry| is_takeable(entry, version));
        if managed_fields == managed {
            continue;
        }
        let mut owned = Vec::new();
        owned_paths(&set, &owners.others, "", &mut owned);
        let names = owned
            .iter()
            .map(|(path, manager)| format!("{path} ({manager})"))
            .collect();
        let mut object = live.clone();
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), merged(&bare, &rendered, &owners, &set))
        {
            object.retain(|name, _| OUTSIDE.contains(&name.as_str()));
            object.extend(fields);
        }
        found.push(FieldCorrection {
            merged: object,
            managed_fields,
            fields: names,
        });
    }
    found
}

fn body(object: &Value) -> Value {
    let mut fields = object.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !OUTSIDE.contains(&name.as_str()));
    Value::Object(fields)
}

/// Adds fields to a set in which a leaf stands for all that is below it.
fn cover(set: &mut Value, more: &Value) {
    let (Some(set), Some(more)) = (set.as_object_mut(), more.as_object()) else {
        return;
    };
    for (key, more) in more {
        match set.get_mut(key) {
            Some(known) if is_leaf(known) => {}
            Some(known) if !is_leaf(more) => cover(known, more),
            _ => drop(set.insert(key.clone(), more.clone())),
        }
    }
}

/// True if an entry is about the object itself, in this version: its fields have the names that the live object has.
fn is_takeable(entry: &ManagedFieldsEntry, version: Option<&str>) -> bool {
    entry.subresource.as_deref().unwrap_or_default().is_empty() && entry.api_version.as_deref() == version
}

impl<'a> Owners<'a> {
    fn below(&self, key: &str) -> Owners<'a> {
        let others = self.others.iter();
        Owners {
            own: self.own.and_then(|own| own.get(key)),
            others: others.filter_map(|(name, set)| Some((*name, set.get(key)?))).collect(),
            kept: self.kept.iter().filter_map(|set| set.get(key)).collect(),
        }
    }

    fn sets(&self) -> impl Iterator<Item = &'a Value> {
        let (own, kept) = (self.own, self.kept.clone());
        let others: Vec<&Value> = self.others.iter().map(|(_, set)| *set).collect();
        own.into_iter().chain(others).chain(kept)
    }

    /// True if one owner has the complete value: an apply replaces it.
    fn is_atomic(&self) -> bool {
        self.sets().any(is_leaf)
    }

    /// The keys of a list's items, each as `k:{...}` and parsed, each once.
    fn items(&self) -> Vec<(&'a str, Map<String, Value>)> {
        let mut found: Vec<(&str, Map<String, Value>)> = Vec::new();
        for key in self.sets().filter_map(Value::as_object).flat_map(Map::keys) {
            if let Some(keys) = item_keys(key)
                && !found.iter().any(|(_, known)| *known == keys)
            {
                found.push((key, keys));
            }
        }
        found
    }

    /// True if the node is not rendered and may be removed.
    fn may_go(&self, is_near: bool) -> bool {
        let is_partly_ours = self.own.is_some_and(|own| !is_leaf(own));
        self.kept.is_empty() && (!self.others.is_empty() || is_near && (self.own.is_none() || is_partly_ours))
    }
}

/// The set of the fields at and below a path that are not rendered.
fn extra_at(
    live: &Value,
    rendered: Option<&Value>,
    owners: &Owners<'_>,
    path: &[RefusedStep<'_>],
    is_near: bool,
) -> Option<Value> {
    match path {
        // What is below has no owner of its own.
        [_, ..] if owners.is_atomic() => None,
        [] => extra(live, rendered, owners, is_near),
        [RefusedStep::Field(name), rest @ ..] => {
            let key = format!("f:{name}");
            let rendered = rendered.and_then(|rendered| rendered.get(name));
            let found = extra_at(live.get(name)?, rendered, &owners.below(&key), rest, is_near)?;
            Some(json!({ key: found }))
        }
        [RefusedStep::Item, rest @ ..] => {
            let below = |live: &Value, rendered: Option<&Value>, owners: &Owners<'_>| {
                extra_at(live, rendered, owners, rest, is_near)
            };
            let (of_rendered, of_others) = extra_items(live, rendered, owners, below)?;
            // The refused item is probably a rendered one. Items of other managers are likelier to exclude nothing.
            [of_rendered, of_others]
                .into_iter()
                .find(|found| !found.is_empty())
                .map(Value::Object)
        }
    }
}

/// The set of the fields at and below a node that are not rendered.
fn extra(live: &Value, rendered: Option<&Value>, owners: &Owners<'_>, is_near: bool) -> Option<Value> {
    let Some(rendered) = rendered else {
        return owners.may_go(is_near).then(|| json!({}));
    };
    if owners.is_atomic() {
        return None;
    }
    match (live, rendered) {
        (Value::Object(live), Value::Object(rendered)) => {
            let found: Map<String, Value> = live
                .iter()
                .filter_map(|(name, live)| {
                    let key = format!("f:{name}");
                    let found = extra(live, rendered.get(name), &owners.below(&key), is_near)?;
                    Some((key, found))
                })
                .collect();
            (!found.is_empty()).then_some(Value::Object(found))
        }
        (Value::Array(_), Value::Array(_)) => {
            let below =
                |live: &Value, rendered: Option<&Value>, owners: &Owners<'_>| extra(live, rendered, owners, is_near);
            let (mut found, of_others) = extra_items(live, Some(rendered), owners, below)?;
            found.extend(of_others);
            (!found.is_empty()).then_some(Value::Object(found))
        }
        _ => None,
    }
}

/// The sets of the items of a list, those of rendered items and of others.
fn extra_items(
    live: &Value,
    rendered: Option<&Value>,
    owners: &Owners<'_>,
    below: impl Fn(&Value, Option<&Value>, &Owners<'_>) -> Option<Value>,
) -> Option<(Map<String, Value>, Map<String, Value>)> {
    let live = live.as_array()?;
    let rendered = rendered.and_then(Value::as_array);
    let (mut of_rendered, mut of_others) = (Map::new(), Map::new());
    for (key, keys) in owners.items() {
        let Some(live) = live.iter().find(|item| is_item(item, &keys)) else {
            continue;
        };
        let rendered = rendered.and_then(|items| items.iter().find(|item| may_have(item, &keys)));
        if let Some(set) = below(live, rendered, &owners.below(key)) {
            let found = if rendered.is_some() {
                &mut of_rendered
            } else {
                &mut of_others
            };
            found.insert(key.to_owned(), set);
        }
    }
    Some((of_rendered, of_others))
}

/// The live object with the render, without the fields of a set, and without what only we own and do not render.
fn merged(live: &Value, rendered: &Value, owners: &Owners<'_>, set: &Value) -> Value {
    match (live, rendered) {
        (Value::Object(live), Value::Object(rendered)) => {
            let mut object = live.clone();
            for (name, value) in live {
                let key = format!("f:{name}");
                let (removed, owners) = (set.get(&key), owners.below(&key));
                let is_ours = owners.own.is_some() && owners.others.is_empty() && owners.kept.is_empty();
                match rendered.get(name) {
                    None if is_ours || removed.is_some_and(is_leaf) => drop(object.remove(name)),
                    None => drop(object.insert(name.clone(), without(value, removed))),
                    Some(rendered) if owners.is_atomic() => drop(object.insert(name.clone(), rendered.clone())),
                    Some(rendered) => {
                        let removed = removed.unwrap_or(&Value::Null);
                        object.insert(name.clone(), merged(value, rendered, &owners, removed));
                    }
                }
            }
            for (name, value) in rendered.iter().filter(|(name, _)| !live.contains_key(*name)) {
                object.insert(name.clone(), value.clone());
            }
            Value::Object(object)
        }
        (Value::Array(live), Value::Array(rendered)) => {
            let keys = owners.items();
            if keys.is_empty() {
                return Value::Array(rendered.clone());
            }
            let mut rest: Vec<&Value> = rendered.iter().collect();
            let mut items = Vec::new();
            for item in live {
                let Some((key, keys)) = keys.iter().find(|(_, keys)| is_item(item, keys)) else {
                    items.push(item.clone());
                    continue;
                };
                let (removed, owners) = (set.get(*key), owners.below(key));
                let at = rest.iter().position(|wanted| may_have(wanted, keys));
                if let Some(at) = at {
                    items.push(merged(item, rest.remove(at), &owners, removed.unwrap_or(&Value::Null)));
                } else if !(removed.is_some_and(is_leaf) || owners.own.is_some() && owners.others.is_empty()) {
                    items.push(without(item, removed));
                }
            }
            items.extend(rest.into_iter().cloned());
            Value::Array(items)
        }
        _ => rendered.clone(),
    }
}

/// A value without the fields of a set.
fn without(value: &Value, set: Option<&Value>) -> Value {
    let mut value = value.clone();
    for (key, below) in set.and_then(Value::as_object).into_iter().flatten() {
        match (&mut value, key.strip_prefix("f:"), item_keys(key)) {
            (Value::Object(fields), Some(name), _) if is_leaf(below) => drop(fields.remove(name)),
            (Value::Object(fields), Some(name), _) => {
                if let Some(field) = fields.get_mut(name) {
                    *field = without(field, Some(below));
                }
            }
            (Value::Array(items), _, Some(keys)) if is_leaf(below) => items.retain(|item| !is_item(item, &keys)),
            (Value::Array(items), _, Some(keys)) => {
                for item in items.iter_mut().filter(|item| is_item(item, &keys)) {
                    *item = without(item, Some(below));
                }
            }
            _ => {}
        }
    }
    value
}

/// `spec.volumes[0].configMap`; `None` for metadata, and for a path through the keys of a map.
fn steps(path: &str) -> Option<Vec<RefusedStep<'_>>> {
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
        steps.push(RefusedStep::Field(rest));
        steps.extend(part.matches('[').map(|_| RefusedStep::Item));
    }
    (steps.first() != Some(&RefusedStep::Field("metadata"))).then_some(steps)
}

fn is_item(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter().all(|(name, value)| item.get(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Managed, managed_fields, table};

    #[derive(serde::Deserialize)]
    struct Case {
        managed: Vec<Managed>,
        live: Value,
        rendered: Value,
        refused: Vec<String>,
        expected: Vec<Expected>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Expected {
        spec: Value,
        fields: Vec<String>,
    }

    #[test]
    fn fields_that_exclude_rendered_ones_are_found_near_the_refused_ones() {
        for (number, case) in table::<Case>("unions", "corrections").into_iter().enumerate() {
            let managed = managed_fields(case.managed);
            let metadata = json!({"name": "web", "managedFields": managed, "labels": {"theirs": "2"}});
            let live = json!({"apiVersion": "v1", "kind": "Deployment", "metadata": metadata, "spec": case.live, "status": {}});
            let rendered = json!({"apiVersion": "v1", "metadata": {"name": "web"}, "spec": case.rendered});
            let refused: Vec<&str> = case.refused.iter().map(String::as_str).collect();
            let found = corrections(&live, "chartwright", &rendered, &refused);
            for found in &found {
                assert_eq!(found.merged["metadata"], live["metadata"], "number {number}");
                let own = applied(&found.managed_fields, "chartwright").and_then(fields);
                assert_ne!(
                    own,
                    applied(&managed, "chartwright").and_then(fields),
                    "number {number}"
                );
            }
            let found = found.into_iter().map(|found| Expected {
                spec: found.merged["spec"].clone(),
                fields: found.fields,
            });
            assert_eq!(found.collect::<Vec<_>>(), case.expected, "number {number}");
        }
    }

    #[test]
    fn the_fields_move_from_their_manager_to_ours() {
        let case = table::<Case>("unions", "corrections").pop().unwrap();
        let live =
            json!({"apiVersion": "v1", "metadata": {"managedFields": managed_fields(case.managed)}, "spec": case.live});
        let found = corrections(
            &live,
            "chartwright",
            &json!({"spec": case.rendered}),
            &["spec.ports[1].name"],
        );
        let fields: Vec<&Value> = found[1].managed_fields.iter().filter_map(fields).collect();
        let port = r#"k:{"port":81,"protocol":"TCP"}"#;
        assert_eq!(fields, [&json!({"f:spec": {"f:type": {}, "f:ports": {port: {}}}})]);
    }
}
