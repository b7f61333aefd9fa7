//! Hides secret values: of a Secret only the keys are shown, and which of them change.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::identity::GroupKind;
use crate::redact::Secrets;

/// What stands in the place of a value.
const HIDDEN: &str = "(secret)";
const HIDDEN_AND_CHANGED: &str = "(secret, changed)";
/// What follows a redacted text that is another one.
const CHANGED: &str = " (changed)";
/// The fields of a Secret that hold values.
const VALUES: [&str; 2] = ["data", "stringData"];

/// Both states of an object without secret values.
pub(super) fn masked(
    group_kind: &GroupKind,
    mut before: Option<Value>,
    mut after: Option<Value>,
    secrets: &Secrets,
) -> (Option<Value>, Option<Value>) {
    if *group_kind == GroupKind::new("", "Secret") {
        for field in VALUES {
            let value = |object: &mut Option<Value>| {
                object
                    .as_mut()
                    .and_then(|object| object.get_mut(field))
                    .map(Value::take)
            };
            let (old, new) = (value(&mut before), value(&mut after));
            let (old, new) = hide(old, new);
            put(&mut before, field, old);
            put(&mut after, field, new);
        }
    }
    match (&mut before, &mut after) {
        (Some(before), Some(after)) => redact_both(before, after, secrets),
        (one, other) => [one, other]
            .into_iter()
            .flatten()
            .for_each(|object| redact(object, secrets)),
    }
    (before, after)
}

fn put(object: &mut Option<Value>, field: &str, value: Option<Value>) {
    if let (Some(Value::Object(fields)), Some(value)) = (object, value) {
        fields.insert(field.to_owned(), value);
    }
}

/// Replaces every scalar, and shows whether it changes.
fn hide(old: Option<Value>, new: Option<Value>) -> (Option<Value>, Option<Value>) {
    match (old, new) {
        (Some(Value::Object(mut old)), Some(Value::Object(mut new))) => {
            let keys: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
            for key in keys {
                let (one, other) = hide(old.remove(&key), new.remove(&key));
                one.map(|value| old.insert(key.clone(), value));
                other.map(|value| new.insert(key, value));
            }
            (Some(old.into()), Some(new.into()))
        }
        (Some(old), Some(new)) if old == new => (Some(HIDDEN.into()), Some(HIDDEN.into())),
        (Some(_), Some(_)) => (Some(HIDDEN.into()), Some(HIDDEN_AND_CHANGED.into())),
        (old, new) => (old.map(hide_all), new.map(hide_all)),
    }
}

fn hide_all(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let hidden = fields.into_iter().map(|(key, value)| (key, hide_all(value)));
            Value::Object(hidden.collect())
        }
        _ => HIDDEN.into(),
    }
}

fn redact(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => *text = secrets.redact(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|value| redact(value, secrets)),
        _ => {}
    }
}

/// Redacts both, and marks a text whose change the redaction hides.
fn redact_both(before: &mut Value, after: &mut Value, secrets: &Secrets) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old.iter_mut() {
                match new.get_mut(key) {
                    Some(other) => redact_both(value, other, secrets),
                    None => redact(value, secrets),
                }
            }
            let added = new.iter_mut().filter(|(key, _)| !old.contains_key(*key));
            added.for_each(|(_, value)| redact(value, secrets));
        }
        (Value::Array(old), Value::Array(new)) => {
            let both = old.len().min(new.len());
            for (old, new) in old.iter_mut().zip(new.iter_mut()) {
                redact_both(old, new, secrets);
            }
            let rest = old.iter_mut().skip(both).chain(new.iter_mut().skip(both));
            rest.for_each(|value| redact(value, secrets));
        }
        (Value::String(old), Value::String(new)) => {
            let is_same = old == new;
            *old = secrets.redact(old).into_owned();
            *new = secrets.redact(new).into_owned();
            if !is_same && old == new {
                new.push_str(CHANGED);
            }
        }
        (old, new) => [old, new].into_iter().for_each(|value| redact(value, secrets)),
    }
}
