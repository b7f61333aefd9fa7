//! `valuesFrom`: values from Secrets and ConfigMaps. They are read like looked-up objects: from memory where a watch
//! shows no change, and followed from then on, so that a release hears immediately of changes and of missing objects
//! that appear.

use go_yaml as yaml;
use serde_json::{Map, Value};

use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::unit::Unit;
use crate::reconcile::values::error::ValuesError;
use crate::reconcile::values::name_templates::NameTemplates;
use crate::reconcile::values::release_namespace::release_namespace;
use chartwright_watches::text::cut;
use chartwright_watches::{SourceKind, ValuesFrom, ValuesFromField, names};
use helm_template::chart::strvals::{self, Mode};
use helm_template::chart::values::merge_maps;
use helm_template::render::LookupKey;

/// The longest list in an annotation, in bytes.
const LONGEST_LIST: usize = 64 << 10;
/// What all sources of a release may hold together, in bytes of text.
pub(crate) const LARGEST: usize = 4 << 20;
/// Of a name in a message, in bytes.
const SHOWN: usize = 100;

/// An entry of a list, for one release.
pub(crate) struct ValuesSource {
    /// How messages name it: `valuesFrom[0]`.
    place: String,
    from: ValuesFrom,
    pub key: LookupKey,
}

/// What a release's values come from, the weakest first: the list of the watch, then its own.
///
/// # Errors
/// A list that can't be read, a name that can't be made, or a release without a namespace.
pub(crate) fn sources(unit: &Unit, resource: &CustomResource) -> Result<Vec<ValuesSource>, ValuesError> {
    let watch = &unit.watch;
    if !watch.has_sources() {
        return Ok(Vec::new());
    }
    let namespace = match resource.key.namespace.as_str() {
        "" => release_namespace(unit, resource)?,
        own => own.to_owned(),
    };
    let texts = NameTemplates::new(unit, resource);
    let mut all = Vec::new();
    for (index, from) in watch.values_from.iter().enumerate() {
        let place = format!("valuesFrom[{index}]");
        let name = texts.text("valuesFrom", &from.name);
        let name = name.map_err(|error| ValuesError::Source(format!("{place}: name: {error}")))?;
        all.push(ValuesSource::of(place, from.clone(), name.trim(), &namespace)?);
    }
    if let Some(field) = &watch.values_from_field {
        let place = field.to_string();
        let list = ValuesFrom::list(&place, &own_list(field, resource)?).map_err(ValuesError::Source)?;
        for (index, from) in list.into_iter().enumerate() {
            // The author's entries are no templates: authors know the names.
            let name = from.name.clone();
            all.push(ValuesSource::of(format!("{place}[{index}]"), from, &name, &namespace)?);
        }
    }
    Ok(all)
}

/// The list that a custom resource has; null without one.
fn own_list(field: &ValuesFromField, resource: &CustomResource) -> Result<Value, ValuesError> {
    match field {
        ValuesFromField::Spec(fields) => {
            let spec = resource.spec()?;
            let list = fields.iter().try_fold(&spec, |at, field| at.get(field));
            Ok(list.cloned().unwrap_or_default())
        }
        ValuesFromField::Annotation(key) => {
            let text = resource.annotations.get(key).map(String::as_str).unwrap_or_default();
            if text.len() > LONGEST_LIST {
                return Err(ValuesError::Source(format!(
                    "{field} is longer than {LONGEST_LIST} bytes"
                )));
            }
            yaml::to_json(text.as_bytes()).map_err(|error| ValuesError::Source(format!("{field}: {error}")))
        }
    }
}

/// The spec without the list of sources, which is no value.
pub(crate) fn without_list(unit: &Unit, spec: &mut Value) {
    let Some(ValuesFromField::Spec(fields)) = &unit.watch.values_from_field else {
        return;
    };
    if let Some((last, path)) = fields.split_last() {
        let parent = path.iter().try_fold(spec, |at, field| at.get_mut(field));
        if let Some(fields) = parent.and_then(Value::as_object_mut) {
            fields.remove(last);
        }
    }
}

impl ValuesSource {
    /// # Errors
    /// The name can't be that of an object: without one, all objects would be looked up.
    fn of(place: String, from: ValuesFrom, name: &str, namespace: &str) -> Result<Self, ValuesError> {
        let kind = from.kind.name();
        if !names::is_dns_subdomain(name) {
            let shown = cut(name, SHOWN);
            return Err(ValuesError::Source(format!(
                "{place}: name: {shown:?} can't be the name of a {kind}"
            )));
        }
        let key = LookupKey {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        Ok(ValuesSource { place, from, key })
    }

    /// Whether its text is secret.
    pub fn is_secret(&self) -> bool {
        self.from.kind == SourceKind::Secret
    }

    /// `valuesFrom[0]: Secret shop/creds`
    pub fn describe(&self) -> String {
        let ValuesSource { place, key, .. } = self;
        format!("{place}: {} {}/{}", key.kind, key.namespace, key.name)
    }

    /// Adds what it says to `values`. `object`: what was found, an empty mapping for nothing. `room`: how many bytes of text
    /// all sources together may still have.
    ///
    /// # Errors
    /// If something is missing that isn't optional, is too large, or can't be read. The text itself is not quoted.
    pub fn add(&self, object: &Value, values: &mut Map<String, Value>, room: &mut usize) -> Result<(), ValuesError> {
        let from = &self.from;
        let what = self.describe();
        let missing = |message: String| {
            if from.optional {
                Ok(())
            } else {
                Err(ValuesError::Source(message))
            }
        };
        if object.get("metadata").is_none() {
            return missing(format!("{what} is not there"));
        }
        let Some(text) = self.text(object) else {
            return missing(format!("{what} has no text under the key {:?}", from.values_key));
        };
        *room = room.checked_sub(text.len()).ok_or_else(|| {
            let limit = LARGEST >> 20;
            ValuesError::Source(format!(
                "{what}: the sources of this release hold more than {limit} MiB of text together"
            ))
        })?;
        let unreadable = |error: &dyn std::fmt::Display| {
            ValuesError::Source(format!("{what}: {} can't be read: {error}", from.values_key))
        };
        if let Some(path) = &from.target_path {
            let text = text.trim_end_matches('\n');
            return self.set(path, text, values).map_err(|error| unreadable(&error));
        }
        match yaml::to_json(text.as_bytes()) {
            Ok(Value::Null) => Ok(()),
            Ok(Value::Object(more)) => {
                merge_maps(values, more);
                Ok(())
            }
            Ok(_) => Err(unreadable(&"it is no mapping")),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Sets a value. The text of a Secret is always a string: a password of digits is no number. The text of a
    /// ConfigMap is interpreted as by `--set` unless it is quoted, but a comma does not end it.
    fn set(&self, path: &str, text: &str, values: &mut Map<String, Value>) -> Result<(), String> {
        let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
        let (text, mode) = match inside('"').or_else(|| inside('\'')) {
            Some(inside) if !self.is_secret() => (inside, Mode::Literal),
            None if !self.is_secret() && is_plain(text) => (text, Mode::Typed),
            _ => (text, Mode::Literal),
        };
        strvals::parse_into(&format!("{path}={text}"), &mode, values)
    }

    fn text(&self, object: &Value) -> Option<String> {
        let data = |field: &str| object.get(field)?.get(&self.from.values_key)?.as_str();
        match self.from.kind {
            SourceKind::ConfigMap => data("data").map(str::to_owned),
            SourceKind::Secret => {
                let bytes = data_encoding::BASE64.decode(data("data")?.as_bytes()).ok()?;
                String::from_utf8(bytes).ok()
            }
        }
    }
}

/// Adds what all sources say, the weakest first.
///
/// # Errors
/// Those of [`ValuesSource::add`].
pub(crate) fn add_all(found: &[(ValuesSource, Value)], values: &mut Map<String, Value>) -> Result<(), ValuesError> {
    let mut room = LARGEST;
    found
        .iter()
        .try_for_each(|(source, object)| source.add(object, values, &mut room))
}

/// True for a text in which nothing is special to `--set` but its type.
fn is_plain(text: &str) -> bool {
    !text.contains([',', '{', '}', '\\'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_become_values() {
        for (kind, path, text, expected) in [
            (
                SourceKind::ConfigMap,
                None,
                "a: {b: 2}\n",
                json!({"a": {"b": 2, "c": 1}}),
            ),
            (SourceKind::ConfigMap, None, "", json!({"a": {"c": 1}})),
            (SourceKind::ConfigMap, None, "a: null", json!({"a": null})),
            (
                SourceKind::ConfigMap,
                Some("a.p"),
                "5432\n",
                json!({"a": {"c": 1, "p": 5432}}),
            ),
            (
                SourceKind::ConfigMap,
                Some("a.p"),
                "\"5432\"",
                json!({"a": {"c": 1, "p": "5432"}}),
            ),
            (
                SourceKind::ConfigMap,
                Some("l[0]"),
                "x,y={z}",
                json!({"a": {"c": 1}, "l": ["x,y={z}"]}),
            ),
            (
                SourceKind::Secret,
                Some("a.p"),
                "0123",
                json!({"a": {"c": 1, "p": "0123"}}),
            ),
            (
                SourceKind::Secret,
                Some("a.p"),
                "\"q\",'",
                json!({"a": {"c": 1, "p": "\"q\",'"}}),
            ),
            (SourceKind::Secret, None, "a: {c: x}", json!({"a": {"c": "x"}})),
        ] {
            let source = source(kind, path);
            let mut values = Map::from_iter([("a".to_owned(), json!({"c": 1}))]);
            source.add(&object(kind, text), &mut values, &mut 1000).unwrap();
            assert_eq!(Value::Object(values), expected, "{kind:?} {path:?} {text:?}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_without_its_text() {
        let error = |source: &ValuesSource, object: Value| {
            let error = source
                .add(&object, &mut Map::new(), &mut 100)
                .map_err(|error| error.to_string());
            error.err().unwrap_or_default()
        };
        let mut from = source(SourceKind::Secret, None);
        let other = json!({"metadata": {}, "data": {"other": ""}});
        assert_eq!(error(&from, json!({})), "valuesFrom[0]: Secret shop/creds is not there");
        assert!(error(&from, other.clone()).contains("no text under the key \"values.yaml\""));
        for text in ["hidden", "- hidden", "a: b: hidden"] {
            let message = error(&from, object(SourceKind::Secret, text));
            assert!(
                message.contains("values.yaml can't be read") && !message.contains("hidden"),
                "{message}"
            );
        }
        let long = object(SourceKind::Secret, &"x".repeat(101));
        assert!(error(&from, long).contains("more than 4 MiB of text together"));
        from.from.optional = true;
        assert_eq!((error(&from, json!({})), error(&from, other)), Default::default());
    }

    fn source(kind: SourceKind, path: Option<&str>) -> ValuesSource {
        let list = json!([{"kind": kind.name(), "name": "creds", "targetPath": path}]);
        ValuesSource {
            place: "valuesFrom[0]".into(),
            from: ValuesFrom::list("valuesFrom", &list).unwrap().remove(0),
            key: LookupKey {
                api_version: "v1".into(),
                kind: kind.name().into(),
                namespace: "shop".into(),
                name: "creds".into(),
            },
        }
    }

    fn object(kind: SourceKind, text: &str) -> Value {
        let text = match kind {
            SourceKind::ConfigMap => text.to_owned(),
            SourceKind::Secret => data_encoding::BASE64.encode(text.as_bytes()),
        };
        json!({"metadata": {"name": "creds"}, "data": {"values.yaml": text}})
    }
}
