//! Whether the objects of a render could be installed in the cluster, as Helm finds out before it prints them.
//!
//! Facts: `Install.RunWithContext` in Helm's `pkg/action/install.go` and `pkg/action/validate.go`; the resource builder
//! of cli-runtime (`pkg/resource/{builder,mapper,visitor}.go`); kubectl's `pkg/validation`.

use std::borrow::Cow;

use serde_json::Value;

use super::server::Cluster;
use crate::chart::metadata::json_kind;
use crate::plan::takeover::{HELM_NAMESPACE, HELM_RELEASE};
use crate::render::{LookupKey, Rendered};
use crate::template::go::quote::quote_go;
use crate::yaml;

/// A release that is about to be installed.
pub struct Install<'a> {
    pub cluster: &'a Cluster,
    pub name: &'a str,
    pub namespace: &'a str,
    /// Objects that exist are those of the release.
    pub is_upgrade: bool,
    /// Objects that exist become those of the release.
    pub takes_ownership: bool,
    /// Objects without a kind or version are told as the validation tells them.
    pub validates: bool,
}

/// An object of a kind that the cluster serves.
struct Built {
    key: LookupKey,
    /// Whether it has a `generateName`.
    generates: bool,
}

impl Install<'_> {
    /// # Errors
    /// Helm's text for what keeps the objects from being installed.
    pub fn check(&self, rendered: &Rendered) -> Result<(), String> {
        let crds = rendered.crds.iter().flat_map(|crd| {
            let text = std::str::from_utf8(&crd.data).unwrap_or_default();
            yaml::documents(text).unwrap_or_default()
        });
        let crds: Vec<Value> = crds.filter_map(|text| yaml::to_json(text.as_bytes()).ok()).collect();
        let objects = rendered.objects.iter().map(|manifest| manifest.object());
        let documents = crds.iter().chain(objects).filter(|document| !document.is_null());
        let built = self
            .build(documents)
            .map_err(|e| format!("unable to build kubernetes objects from release manifest: {e}"))?;
        if self.is_upgrade {
            return Ok(());
        }
        built
            .iter()
            .try_for_each(|object| self.unclaimed(object))
            .map_err(|e| format!("unable to continue with install: {e}"))
    }

    /// Finds the kinds of all objects; the items of lists take their place.
    fn build<'d>(&self, documents: impl Iterator<Item = &'d Value>) -> Result<Vec<Built>, String> {
        let mut built = Vec::new();
        let mut problems = Vec::new();
        for document in documents {
            if self.validates
                && let Some(problem) = aggregate(invalid(document))
            {
                problems.push(format!("error validating \"\": error validating data: {problem}"));
                break;
            }
            let objects = match items(document) {
                Ok(objects) => objects,
                Err(problem) => {
                    problems.push(format!("unable to decode \"\": {problem}"));
                    continue;
                }
            };
            for object in &objects {
                match self.built(object, document.get("items").is_some()) {
                    Ok(object) => built.push(object),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        match aggregate(problems) {
            Some(problems) => Err(problems),
            None => Ok(built),
        }
    }

    fn built(&self, object: &Value, is_item: bool) -> Result<Built, String> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = text(object.get("kind"));
        if kind.is_empty() {
            return Err(match is_item {
                true => "unable to get type info from the object \"*unstructured.Unstructured\": Object 'Kind' is missing in \
                         'object has no kind field '"
                    .to_owned(),
                false => format!("unable to decode \"\": Object 'Kind' is missing in '{object}'"),
            });
        }
        let metadata = object.get("metadata");
        for field in ["name", "generateName", "namespace"] {
            let value = metadata
                .and_then(|metadata| metadata.get(field))
                .unwrap_or(&Value::Null);
            if !value.is_null() && !value.is_string() {
                return Err(format!(
                    "unable to decode \"\": json: cannot unmarshal {} into Go struct field ObjectMeta.metadata.{field} of \
                     type string",
                    json_kind(value)
                ));
            }
        }
        let of_metadata = |field: &str| text(metadata.and_then(|metadata| metadata.get(field)));
        let mut key = LookupKey {
            api_version: text(object.get("apiVersion")),
            kind,
            namespace: of_metadata("namespace"),
            name: of_metadata("name"),
        };
        let Some(is_namespaced) = self.cluster.is_namespaced(&key) else {
            return Err(format!(
                "resource mapping not found for name: {} namespace: {} from \"\": no matches for kind {} in version {}\n\
                 ensure CRDs are installed first",
                quote_go(&key.name),
                quote_go(&key.namespace),
                quote_go(&key.kind),
                quote_go(&key.api_version),
            ));
        };
        if !is_namespaced {
            key.namespace.clear();
        } else if key.namespace.is_empty() {
            key.namespace = self.namespace.to_owned();
        }
        Ok(Built {
            key,
            generates: !of_metadata("generateName").is_empty(),
        })
    }

    /// Whether the object isn't there, or may belong to the release.
    fn unclaimed(&self, Built { key, generates }: &Built) -> Result<(), String> {
        if *generates {
            if key.name.is_empty() {
                return Ok(());
            }
            return Err("metadata.name and metadata.generateName cannot both be set".to_owned());
        }
        let what = format!(
            "{} {} in namespace {}",
            key.kind,
            quote_go(&key.name),
            quote_go(&key.namespace)
        );
        let live = match key.name.as_str() {
            "" => Err("resource name may not be empty".to_owned()),
            _ => self.cluster.get(key),
        };
        let live = live.map_err(|e| format!("could not get information about the resource {what}: {e}"))?;
        let is_there = live.get("metadata").is_some();
        match self.foreign(&live).filter(|_| is_there && !self.takes_ownership) {
            Some(problem) => Err(format!(
                "{what} exists and cannot be imported into the current release: invalid ownership metadata; {problem}"
            )),
            None => Ok(()),
        }
    }

    /// What marks a live object as another's.
    fn foreign(&self, live: &Value) -> Option<String> {
        let marks = [
            ("label", "labels", "app.kubernetes.io/managed-by", "Helm"),
            ("annotation", "annotations", HELM_RELEASE, self.name),
            ("annotation", "annotations", HELM_NAMESPACE, self.namespace),
        ];
        let problems = marks.iter().filter_map(|(mark, field, key, wanted)| {
            let value = live.get("metadata")?.get(field).and_then(|marks| marks.get(key));
            let shown = quote_go(wanted);
            let problem = match value.and_then(Value::as_str) {
                None => format!("missing key {key:?}: must be set to {shown}"),
                Some(value) if value != *wanted => {
                    format!("key {key:?} must equal {shown}: current value is {}", quote_go(value))
                }
                Some(_) => return None,
            };
            Some(format!("{mark} validation error: {problem}"))
        });
        let problems: Vec<String> = problems.collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

/// What a document stands for: the items of a list, which may leave out what the list says of them, or itself.
fn items<'d>(document: &'d Value) -> Result<Vec<Cow<'d, Value>>, String> {
    let items = match document.get("items") {
        None => return Ok(vec![Cow::Borrowed(document)]),
        Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => {
            return Err(format!(
                "json: cannot unmarshal {} into Go struct field decodeList.items of type []json.RawMessage",
                json_kind(other)
            ));
        }
    };
    let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
    let kind = kind.strip_suffix("List").unwrap_or_default();
    let whole = |item: &'d Value| match item {
        Value::Object(fields) if !kind.is_empty() && !fields.contains_key("kind") => {
            let mut fields = fields.clone();
            fields.insert("kind".to_owned(), kind.into());
            fields.insert(
                "apiVersion".to_owned(),
                document.get("apiVersion").cloned().unwrap_or_default(),
            );
            Ok(Cow::Owned(Value::Object(fields)))
        }
        Value::Object(_) => Ok(Cow::Borrowed(item)),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_kind(other)
        )),
    };
    items.iter().map(whole).collect()
}

/// What kubectl's validation says of an object, or of the items of a `List`, that don't tell what they are.
fn invalid(document: &Value) -> Vec<String> {
    let is = |field: &str, wanted: &str| document.get(field).is_some_and(|value| value == wanted);
    if is("kind", "List") && is("apiVersion", "v1") {
        return match document.get("items") {
            Some(Value::Array(items)) => items.iter().flat_map(invalid).collect(),
            _ => vec!["invalid object to validate".to_owned()],
        };
    }
    let problems = ["apiVersion", "kind"]
        .into_iter()
        .filter_map(|field| match document.get(field) {
            Some(Value::String(text)) if !text.is_empty() => None,
            Some(Value::String(_) | Value::Null) | None => Some(format!("{field} not set")),
            Some(_) => Some(format!("{field} isn't string type")),
        });
    problems.collect()
}

/// The text of apimachinery's `Aggregate`.
pub(super) fn aggregate(mut problems: Vec<String>) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    match problems.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("[{}]", all.join(", "))),
    }
}
