//! How case files name objects and the fields in them.

use std::fmt;

use serde_json::Value;

use chartwright_core::identity::{GroupKind, ObjectId};

/// Names objects: `StatefulSet web`, `StatefulSet.apps shop/web`, `StatefulSet/web`, or a kind alone. What isn't said may be
/// anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    kind: String,
    group: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// As it was written.
    text: String,
}

/// A step into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Key(String),
    /// An item by its place, from 0.
    Index(usize),
    /// The item of a list that has this text in this field.
    Item(String, String),
}

/// Where a field is: `spec.containers[0].image`, `spec.containers[name=web].image`, `metadata.labels["a.b/c"]` or
/// `metadata.labels.a\.b/c`; or a JSON pointer, `/spec/containers/0/image`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferencePath {
    parts: Vec<Part>,
    /// As it was written.
    text: String,
}

impl Reference {
    /// # Errors
    /// What it should look like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} names no object: write a kind and a name, as in \"StatefulSet.apps web\" or \"Service shop/web\""
            )
        };
        let trimmed = text.trim();
        let (kind, rest) = match trimmed.split_once(char::is_whitespace) {
            Some((kind, rest)) => (kind, Some(rest.trim())),
            None => match trimmed.split_once('/') {
                Some((kind, name)) => (kind, Some(name)),
                None => (trimmed, None),
            },
        };
        let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
        let (namespace, name) = match rest {
            None => (None, None),
            Some(rest) => match rest.split_once('/') {
                Some((namespace, name)) => (Some(namespace), Some(name)),
                None => (None, Some(rest)),
            },
        };
        let is_kind = kind.starts_with(|c: char| c.is_ascii_alphabetic()) && !kind.contains('/');
        if !is_kind || namespace.is_some_and(|namespace| !is_name(namespace)) || name.is_some_and(|name| !is_name(name))
        {
            return Err(wrong());
        }
        let GroupKind { group, kind } = GroupKind::parse(kind);
        Ok(Reference {
            kind,
            group: Some(group).filter(|group| !group.is_empty()),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            text: trimmed.to_owned(),
        })
    }

    pub fn is_to(&self, id: &ObjectId) -> bool {
        let is = |own: &Option<String>, other: &str| own.as_deref().is_none_or(|own| own == other);
        self.kind == id.group_kind.kind
            && is(&self.group, &id.group_kind.group)
            && is(&self.namespace, &id.namespace)
            && is(&self.name, &id.name)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ReferencePath {
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = match text.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(plain).collect(),
            None => parts(text)?,
        };
        if parts.is_empty() {
            Err(format!("{text:?} is no path, such as spec.replicas"))
        } else {
            Ok(ReferencePath {
                parts,
                text: text.to_owned(),
            })
        }
    }

    /// What is there.
    pub fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.parts.iter().try_fold(object, |value, part| part.of(value))
    }

    /// Whether another one is this one, or leads further.
    pub fn covers(&self, other: &ReferencePath, object: &Value) -> bool {
        let (own, other) = (self.places(object), other.places(object));
        other.starts_with(&own)
    }

    /// The same with places of items alone, as far as the object has them.
    fn places(&self, object: &Value) -> Vec<String> {
        let mut at = Some(object);
        let mut places = Vec::new();
        for part in &self.parts {
            let place = match (part, at) {
                (Part::Key(key), _) => key.clone(),
                (Part::Index(index), _) => index.to_string(),
                (Part::Item(key, text), Some(Value::Array(items))) => {
                    let found = items.iter().position(|item| has(item, key, text));
                    found.map_or_else(|| format!("{key}={text}"), |place| place.to_string())
                }
                (Part::Item(key, text), _) => format!("{key}={text}"),
            };
            at = at.and_then(|value| part.of(value));
            places.push(place);
        }
        places
    }
}

impl fmt::Display for ReferencePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Part {
    /// What is there of a value.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match (self, value) {
            (Part::Key(key), Value::Array(items)) => items.get(key.parse::<usize>().ok()?),
            (Part::Key(key), value) => value.get(key),
            (Part::Index(index), value) => value.get(index),
            (Part::Item(key, text), value) => value.as_array()?.iter().find(|item| has(item, key, text)),
        }
    }
}

/// Whether an item of a list has this in a field.
fn has(item: &Value, key: &str, text: &str) -> bool {
    go_yaml::text(&item[key]).is_some_and(|own| own == text)
}

/// A part of a JSON pointer.
fn plain(part: &str) -> Part {
    Part::Key(part.replace("~1", "/").replace("~0", "~"))
}

/// # Errors
/// A bracket that means nothing.
fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut key = String::new();
    let mut chars = text.trim_start_matches('.').chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => key.extend(chars.next()),
            '.' => parts.extend(taken(&mut key)),
            '[' => {
                parts.extend(taken(&mut key));
                let part = bracket(&mut chars);
                let wrong = || format!("the path {text:?} has a `[` that isn't [0], [name=web] or [\"a.b/c\"]");
                parts.push(part.ok_or_else(wrong)?);
            }
            c => key.push(c),
        }
    }
    parts.extend(taken(&mut key));
    Ok(parts)
}

fn taken(key: &mut String) -> Option<Part> {
    (!key.is_empty()).then(|| Part::Key(std::mem::take(key)))
}

/// What stands in brackets, up to the closing one.
fn bracket(chars: &mut std::str::Chars<'_>) -> Option<Part> {
    let rest = chars.as_str();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (inner, after) = match quote {
        Some(quote) => rest.get(1..)?.split_once(&format!("{quote}]"))?,
        None => rest.split_once(']')?,
    };
    *chars = after.chars();
    if quote.is_some() {
        return Some(Part::Key(inner.to_owned()));
    }
    if let Ok(index) = inner.parse() {
        return Some(Part::Index(index));
    }
    let (key, text) = inner.split_once('=')?;
    Some(Part::Item(
        key.trim().to_owned(),
        text.trim().trim_matches(['"', '\'']).to_owned(),
    ))
}

/// The path of a key within a mapping, as [`ReferencePath::parse`] reads it.
fn joined(path: &str, key: &str) -> String {
    let key = key.replace('\\', "\\\\").replace('.', "\\.").replace('[', "\\[");
    match path {
        "" => key,
        path => format!("{path}.{key}"),
    }
}

/// The fields in which two objects differ, as far down as both have the same shape.
pub fn differences(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = joined(path, key);
                compare(&path, &before[key], &after[key], found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (place, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{place}]"), old, new, found);
            }
        }
        (before, after) if before == after => {}
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_name_objects() {
        let id = |kind: &str, namespace: &str, name: &str| ObjectId::new(GroupKind::parse(kind), namespace, name);
        let set = id("StatefulSet.apps", "shop", "web");
        for (text, is_to) in [
            ("StatefulSet web", true),
            ("StatefulSet.apps web", true),
            ("StatefulSet.apps shop/web", true),
            ("StatefulSet/web", true),
            ("StatefulSet", true),
            ("StatefulSet.batch web", false),
            ("StatefulSet other/web", false),
            ("StatefulSet api", false),
            ("Deployment web", false),
        ] {
            assert_eq!(
                Reference::parse(text).map(|reference| reference.is_to(&set)),
                Ok(is_to),
                "{text}"
            );
        }
        for text in ["", "1 web", "StatefulSet a b", "StatefulSet /web", "Service shop/"] {
            let error = Reference::parse(text).unwrap_err();
            assert!(error.contains("write a kind and a name"), "{text}: {error}");
        }
    }

    #[test]
    fn paths_lead_to_fields() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "spec": {"replicas": 3, "containers": [{"name": "web", "ports": [80]}, {"name": "log"}]},
        });
        for (path, expected) in [
            ("spec.replicas", json!(3)),
            (".spec.replicas", json!(3)),
            ("spec.containers[1].name", json!("log")),
            ("spec.containers[name=web].ports[0]", json!(80)),
            ("metadata.labels[\"a.b/c\"]", json!("x")),
            ("metadata.labels['a.b/c']", json!("x")),
            ("metadata.labels.a\\.b/c", json!("x")),
            ("/metadata/labels/a.b~1c", json!("x")),
            ("/spec/containers/0/ports/0", json!(80)),
            ("spec.nothing.there", Value::Null),
            ("spec.containers[7]", Value::Null),
            ("spec.containers[name=none].ports", Value::Null),
        ] {
            let found = ReferencePath::parse(path).unwrap();
            assert_eq!(found.find(&object).cloned().unwrap_or_default(), expected, "{path}");
        }
        for path in ["", "a[", "a[x]", "a[\"x]"] {
            assert!(ReferencePath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn differences_are_told_as_paths_that_can_be_read_back() {
        let before = json!({"a": {"b.c": 1, "same": 1}, "list": [{"x": 1}, {"x": 2}], "more": [1]});
        let after = json!({"a": {"b.c": 2, "same": 1, "new": 3}, "list": [{"x": 1}, {"x": 3}], "more": [1, 2]});
        let found = differences(&before, &after);
        assert_eq!(found, ["a.b\\.c", "a.new", "list[1].x", "more"]);
        for path in found {
            assert!(ReferencePath::parse(&path).unwrap().find(&after).is_some(), "{path}");
        }
        let path = |text: &str| ReferencePath::parse(text).unwrap();
        assert!(path("list[x=3]").covers(&path("list[1].x"), &after));
        assert!(path("a").covers(&path("a.new"), &after) && !path("a.new").covers(&path("a"), &after));
        assert!(!path("list[0]").covers(&path("list[1].x"), &after));
    }
}
