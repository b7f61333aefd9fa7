//! Fields that `ignoreDifferences` leaves to others: neither applied to an existing object nor corrected.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

use crate::drift::field_path::{FieldPath, FieldStep};
use crate::drift::managed_fields::{applied, fields, foreign, is_leaf, item_keys, raw_item, remove_set, unite};
use crate::identity::ObjectId;
use chartwright_watches::{FieldPointer, IgnoreRule};

/// What the rules of a watch say about one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFields {
    pub pointers: Vec<FieldPointer>,
    pub managers: Vec<String>,
}

impl IgnoredFields {
    /// Collects the rules for an object. `None`: there are none.
    pub fn of(rules: &[IgnoreRule], id: &ObjectId) -> Option<Self> {
        let kind = (id.group_kind.group.as_str(), id.group_kind.kind.as_str());
        let mut ignored = IgnoredFields::default();
        for rule in rules.iter().filter(|rule| rule.matches(kind, &id.namespace, &id.name)) {
            ignored.pointers.extend(rule.pointers.iter().cloned());
            ignored.managers.extend(rule.managers.iter().cloned());
        }
        (ignored != IgnoredFields::default()).then_some(ignored)
    }

    /// The places of all ignored fields in a rendered object. Part of an atomic value stands for the complete value. The
    /// keys of an item stay, unless the item goes.
    pub fn places(&self, object: &Value, entries: &[ManagedFieldsEntry], manager: &str) -> Vec<FieldPath> {
        let own = applied(entries, manager).and_then(fields);
        let others = foreign(entries, manager);
        let sets: Vec<&Value> = own
            .into_iter()
            .chain(others.iter().filter_map(|entry| fields(entry)))
            .collect();
        let pointed = self.pointers.iter().filter_map(|pointer| place(object, pointer));
        let mut found: Vec<FieldPath> = pointed.filter_map(|path| as_owned(object, &path, &sets)).collect();
        let theirs: Vec<&Value> = others
            .iter()
            .filter(|entry| self.managers.iter().any(|name| entry.manager.as_ref() == Some(name)))
            .filter_map(|entry| fields(entry))
            .collect();
        if !theirs.is_empty() {
            owned_by(object, &theirs, &FieldPath::default(), &[], &mut found);
        }
        found.retain(|path| !path.is_mark());
        found.sort();
        found.dedup();
        found
    }

    /// The entries after `manager` gave up the fields of the pointers, without another owner: the next apply must not remove them. `None`
    /// if it owns none of them.
    pub fn released(
        &self,
        entries: &[ManagedFieldsEntry],
        manager: &str,
        object: &Value,
    ) -> Option<Vec<ManagedFieldsEntry>> {
        let own = applied(entries, manager)?;
        let mut set = json!({});
        for pointer in &self.pointers {
            if let Some(part) = owned_part(fields(own)?, object, &pointer.segments) {
                unite(&mut set, &part);
            }
        }
        let rest = entries.iter().map(|entry| {
            let is_own = entry == own;
            let mut entry = entry.clone();
            if let Some(fields) = entry.fields_v1.as_mut().filter(|_| is_own) {
                remove_set(&mut fields.0, &set);
            }
            entry
        });
        (!is_leaf(&set)).then(|| rest.collect())
    }
}

/// Finds a pointer in an object.
fn place(object: &Value, pointer: &FieldPointer) -> Option<FieldPath> {
    let mut path = FieldPath::default();
    let mut value = object;
    for segment in &pointer.segments {
        let step = match value {
            Value::Object(_) => FieldStep::Field(segment.clone()),
            Value::Array(items) => FieldStep::Item(index_of(items, segment)?),
            _ => return None,
        };
        value = match &step {
            FieldStep::Field(name) => value.get(name)?,
            FieldStep::Item(index) => value.get(*index)?,
        };
        path.0.push(step);
    }
    Some(path)
}

/// The item that a segment names: an index, or keys such as `port=80,protocol=TCP`.
fn index_of(items: &[Value], segment: &str) -> Option<usize> {
    if let Ok(index) = segment.parse::<usize>() {
        return (index < items.len()).then_some(index);
    }
    let keys = keys_of(segment)?;
    items.iter().position(|item| {
        keys.iter()
            .all(|(name, text)| item.get(name).is_some_and(|value| is_text(value, text)))
    })
}

/// The keys in a segment such as `name=app`.
fn keys_of(segment: &str) -> Option<Vec<(&str, &str)>> {
    segment.split(',').map(|pair| pair.split_once('=')).collect()
}

fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        other => serde_json::from_str::<Value>(text).is_ok_and(|value| value == *other),
    }
}

/// A path as far as fields have owners of their own. `None` for a key of an item, which the API server needs.
fn as_owned(object: &Value, path: &FieldPath, sets: &[&Value]) -> Option<FieldPath> {
    let mut sets = sets.to_vec();
    let (mut value, mut reached) = (object, FieldPath::default());
    let mut keys: Vec<String> = Vec::new();
    for step in &path.0 {
        let is_owned_whole = !sets.is_empty() && sets.iter().all(|set| is_leaf(set));
        if is_owned_whole && !reached.0.is_empty() {
            break;
        }
        match step {
            FieldStep::Field(name) if keys.contains(name) => return None,
            FieldStep::Field(name) => {
                let key = format!("f:{name}");
                sets = sets.iter().filter_map(|set| set.get(&key)).collect();
                value = value.get(name)?;
                keys.clear();
            }
            FieldStep::Item(index) => {
                value = value.get(*index)?;
                (sets, keys) = in_item(&sets, value);
            }
        }
        reached = reached.then(step.clone());
    }
    Some(reached)
}

/// The sets of one item, and the fields that identify the item.
fn in_item<'v>(sets: &[&'v Value], item: &Value) -> (Vec<&'v Value>, Vec<String>) {
    let found: Vec<(&str, &Value)> = sets.iter().filter_map(|set| raw_item(set, item)).collect();
    let keys = found.iter().filter_map(|(key, _)| item_keys(key));
    let keys = keys.flat_map(|keys| keys.into_iter().map(|(name, _)| name)).collect();
    (found.into_iter().map(|(_, set)| set).collect(), keys)
}

/// Adds the places of a rendered object that one of these sets owns. `keys`: fields that identify the item.
fn owned_by(value: &Value, sets: &[&Value], path: &FieldPath, keys: &[String], found: &mut Vec<FieldPath>) {
    if sets.iter().any(|set| is_leaf(set)) {
        found.push(path.clone());
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, child) in fields.iter().filter(|(name, _)| !keys.contains(name)) {
                let key = format!("f:{name}");
                let sets: Vec<&Value> = sets.iter().filter_map(|set| set.get(&key)).collect();
                owned_by(child, &sets, &path.then(FieldStep::Field(name.clone())), &[], found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let (sets, keys) = in_item(sets, item);
                owned_by(item, &sets, &path.then(FieldStep::Item(index)), &keys, found);
            }
        }
        _ => {}
    }
}

/// The part of a set that a pointer leads to, in a set of its own; all of an atomic value. `None`: it is not in the
/// set, or is a key of an item.
fn owned_part(own: &Value, object: &Value, segments: &[String]) -> Option<Value> {
    let (mut own, mut object) = (own, Some(object));
    let mut way: Vec<&str> = Vec::new();
    for segment in segments {
        if is_leaf(own) {
            break;
        }
        let item = way.last().and_then(|key| item_keys(key));
        if item.is_some_and(|keys| keys.contains_key(segment)) {
            return None;
        }
        let fields = own.as_object()?;
        let key = match fields.get_key_value(&format!("f:{segment}")) {
            Some((key, _)) => {
                object = object.and_then(|object| object.get(segment));
                key
            }
            None => {
                object = object
                    .and_then(Value::as_array)
                    .and_then(|items| items.get(index_of(items, segment)?));
                let by_object = object.and_then(|item| raw_item(own, item)).map(|(key, _)| key);
                let by_keys = || fields.keys().map(String::as_str).find(|key| has_keys(key, segment));
                by_object.or_else(by_keys)?
            }
        };
        own = own.get(key)?;
        way.push(key);
    }
    let part = own.clone();
    (!way.is_empty()).then(|| way.into_iter().rev().fold(part, |below, key| json!({(key): below})))
}

/// True if the key of an item in a set of fields has the keys of a segment.
fn has_keys(key: &str, segment: &str) -> bool {
    let (Some(own), Some(keys)) = (item_keys(key), keys_of(segment)) else {
        return false;
    };
    keys.iter()
        .all(|(name, text)| own.get(*name).is_some_and(|value| is_text(value, text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::field_path::without;
    use crate::testing::{Managed, managed_fields, table};

    const OURS: &str = "chartwright";

    #[derive(serde::Deserialize)]
    struct Case {
        object: Value,
        #[serde(default)]
        pointers: Vec<String>,
        #[serde(default)]
        managers: Vec<String>,
        entries: Vec<Managed>,
        /// What is applied.
        applied: Value,
        /// The entries after the operator gave up the fields; absent: it owns none.
        released: Option<Vec<Managed>>,
    }

    #[test]
    fn ignored_fields_are_left_to_others() {
        for case in table::<Case>("differences", "ignored") {
            let pointers = case.pointers.iter().map(|text| FieldPointer::parse(text).unwrap());
            let ignored = IgnoredFields {
                pointers: pointers.collect(),
                managers: case.managers.clone(),
            };
            let entries = managed_fields(case.entries);
            let (pointers, managers) = (case.pointers, case.managers);
            let places = ignored.places(&case.object, &entries, OURS);
            assert_eq!(
                without(&case.object, &places),
                case.applied,
                "{pointers:?} {managers:?}"
            );
            let released = ignored.released(&entries, OURS, &case.object);
            assert_eq!(released, case.released.map(managed_fields), "{pointers:?} {managers:?}");
        }
    }

    #[test]
    fn rules_of_an_object_add_up() {
        let rule = |kind: &str, pointer: &str| IgnoreRule {
            kind: Some(kind.into()),
            pointers: vec![FieldPointer::parse(pointer).unwrap()],
            ..IgnoreRule::default()
        };
        let rules = [
            rule("ConfigMap", "/data/a"),
            rule("Secret", "/data/b"),
            rule("ConfigMap", "/data/c"),
        ];
        let found = IgnoredFields::of(&rules, &crate::testing::id("ConfigMap", "x")).unwrap();
        let texts: Vec<String> = found.pointers.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["/data/a", "/data/c"]);
        assert_eq!(IgnoredFields::of(&rules, &crate::testing::id("Service", "x")), None);
    }
}
