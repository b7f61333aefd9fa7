#![doc = include_str!("../README.md")]
//!
//! Every response and watch event is parsed here, so the release profile optimizes this crate for speed. The functions
//! that do the work are not generic: generic functions are compiled with the settings of the calling crate.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use go_yaml::MAX_DEPTH;
use helm_template::render::on_large_stack;

/// The depth to which [`shallow`] reads: less than serde_json's own limit, and deeper than any field that is used.
const LEVELS: usize = 120;

/// An object with all its fields, as it was sent.
///
/// ```
/// use api_objects::Whole;
///
/// let pod: Whole = serde_json::from_str(r#"{"metadata": {"name": "web"}, "status": {"phase": "Running"}}"#).unwrap();
/// assert_eq!(pod.metadata.name.as_deref(), Some("web"));
/// assert_eq!(pod.outline()["status"]["phase"], "Running");
/// assert_eq!(pod.status(), Some(r#"{"phase": "Running"}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Whole {
    pub metadata: ObjectMeta,
    text: Box<RawValue>,
    problem: Option<String>,
}

/// A custom resource, or another object with a spec and a status. Of its managed fields it has who wrote them, and when.
///
/// ```
/// use api_objects::CustomObject;
///
/// let object: CustomObject = serde_json::from_str(r#"{"metadata": {}, "spec": {"b": 1, "a": 2}}"#).unwrap();
/// assert_eq!(object.spec.as_deref(), Some(br#"{"a":2,"b":1}"#.as_slice()));
/// ```
#[derive(Clone, Debug)]
pub struct CustomObject {
    /// Its names, versions, times, labels, annotations and finalizers.
    pub metadata: ObjectMeta,
    /// As JSON. Equal specs have equal bytes, unless they nest deeper than serde_json reads.
    pub spec: Option<Arc<[u8]>>,
    /// As JSON. Parts that nest deeper than any used field are null.
    pub status: Option<Arc<[u8]>>,
    problem: Option<String>,
}

/// The metadata of an object, for metadata-only requests.
///
/// ```
/// use api_objects::{MetadataOnly, Readable};
///
/// let object: MetadataOnly = serde_json::from_str(r#"{"metadata": {"name": "web", "labels": 5}}"#).unwrap();
/// assert_eq!(object.metadata.name.as_deref(), Some("web"));
/// assert!(object.problem().unwrap().starts_with("metadata: "));
/// ```
#[derive(Clone, Debug)]
pub struct MetadataOnly {
    pub metadata: ObjectMeta,
    problem: Option<String>,
}

/// An object that may be invalid.
pub trait Readable {
    /// The error in the object. If there is one, only the names in the metadata are valid.
    fn problem(&self) -> Option<&str>;
}

/// Why a value can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("nests {0} levels deep; at most {MAX_DEPTH} are read")]
    TooDeep(usize),
    #[error("can't be read: {0}")]
    Malformed(String),
}

impl Whole {
    /// The object as data.
    ///
    /// # Errors
    /// If it nests deeper than [`MAX_DEPTH`].
    pub fn value(&self) -> Result<Value, Unreadable> {
        deep(self.text.get().as_bytes())
    }

    /// The object as data, without parts that nest deeper than any used field.
    pub fn outline(&self) -> Value {
        shallow(self.text.get()).unwrap_or_default()
    }

    /// The status as it was sent.
    pub fn status(&self) -> Option<&str> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow)]
            status: Option<&'a RawValue>,
        }
        let fields = serde_json::from_str::<Fields<'_>>(self.text.get()).ok()?;
        fields.status.map(RawValue::get)
    }

    /// [`Whole::outline`] without the metadata.
    pub fn outline_without_metadata(&self) -> Map<String, Value> {
        body(self.text.get()).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let (metadata, problem) = metadata(text.get());
        Ok(Whole {
            metadata,
            text,
            problem,
        })
    }
}

impl CustomObject {
    fn of(object: &str) -> Self {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(default)]
            metadata: CustomMetadata,
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
            #[serde(borrow)]
            status: Option<&'a RawValue>,
        }
        match serde_json::from_str::<Fields<'_>>(object) {
            Ok(fields) => CustomObject {
                metadata: fields.metadata.into(),
                spec: fields.spec.map(|text| canonical(text.get())),
                status: fields.status.and_then(|text| shallow_bytes(text.get())).map(Arc::from),
                problem: None,
            },
            Err(error) => {
                let (metadata, problem) = metadata(object);
                CustomObject {
                    metadata,
                    spec: None,
                    status: None,
                    problem: problem.or_else(|| Some(error.to_string())),
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for CustomObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(CustomObject::of(text.get()))
    }
}

/// The metadata that a [`CustomObject`] has.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CustomMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    managed_fields: Option<Vec<FieldWriter>>,
}

/// An entry of `managedFields` without its fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FieldWriter {
    manager: Option<String>,
    operation: Option<String>,
    subresource: Option<String>,
    time: Option<Time>,
}

impl From<FieldWriter> for ManagedFieldsEntry {
    fn from(writer: FieldWriter) -> Self {
        ManagedFieldsEntry {
            manager: writer.manager,
            operation: writer.operation,
            subresource: writer.subresource,
            time: writer.time,
            ..ManagedFieldsEntry::default()
        }
    }
}

impl From<CustomMetadata> for ObjectMeta {
    fn from(named: CustomMetadata) -> Self {
        ObjectMeta {
            name: named.name,
            namespace: named.namespace,
            uid: named.uid,
            resource_version: named.resource_version,
            generation: named.generation,
            creation_timestamp: named.creation_timestamp,
            deletion_timestamp: named.deletion_timestamp,
            labels: named.labels,
            annotations: named.annotations,
            finalizers: named.finalizers,
            managed_fields: named
                .managed_fields
                .map(|writers| writers.into_iter().map(ManagedFieldsEntry::from).collect()),
            ..ObjectMeta::default()
        }
    }
}

impl<'de> Deserialize<'de> for MetadataOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let (metadata, problem) = metadata(text.get());
        Ok(MetadataOnly { metadata, problem })
    }
}

macro_rules! resource {
    ($object:ty, $metadata_only:literal) => {
        impl Readable for $object {
            fn problem(&self) -> Option<&str> {
                self.problem.as_deref()
            }
        }

        impl Resource for $object {
            type DynamicType = ApiResource;
            type Scope = DynamicResourceScope;

            fn metadata_api() -> bool {
                $metadata_only
            }

            fn kind(resource: &ApiResource) -> Cow<'_, str> {
                resource.kind.as_str().into()
            }

            fn group(resource: &ApiResource) -> Cow<'_, str> {
                resource.group.as_str().into()
            }

            fn version(resource: &ApiResource) -> Cow<'_, str> {
                resource.version.as_str().into()
            }

            fn api_version(resource: &ApiResource) -> Cow<'_, str> {
                resource.api_version.as_str().into()
            }

            fn plural(resource: &ApiResource) -> Cow<'_, str> {
                resource.plural.as_str().into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(Whole, false);
resource!(CustomObject, false);
resource!(MetadataOnly, true);

/// The metadata of an object; or its names, and the error in it.
fn metadata(object: &str) -> (ObjectMeta, Option<String>) {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(default)]
        metadata: ObjectMeta,
    }
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    if let Ok(Typed { metadata }) = serde_json::from_str(object) {
        return (metadata, None);
    }
    let text = match serde_json::from_str::<Fields<'_>>(object) {
        Ok(Fields { metadata: Some(text) }) => text.get(),
        Ok(Fields { metadata: None }) => return (ObjectMeta::default(), None),
        Err(error) => return (ObjectMeta::default(), Some(error.to_string())),
    };
    let value = shallow(text).unwrap_or_default();
    let error = match ObjectMeta::deserialize(&value) {
        Ok(metadata) => return (metadata, None),
        Err(error) => error,
    };
    let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let named = ObjectMeta {
        name: field("name"),
        namespace: field("namespace"),
        uid: field("uid"),
        resource_version: field("resourceVersion"),
        ..ObjectMeta::default()
    };
    (named, Some(format!("metadata: {error}")))
}

/// Reads JSON that may nest up to [`MAX_DEPTH`] levels.
///
/// ```
/// use api_objects::{Unreadable, deep};
///
/// let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
/// assert!(deep(nested(500).as_bytes()).is_ok());
/// assert_eq!(deep(nested(5000).as_bytes()), Err(Unreadable::TooDeep(5000)));
/// ```
///
/// # Errors
/// If it nests deeper.
pub fn deep(text: &[u8]) -> Result<Value, Unreadable> {
    let error = match serde_json::from_slice(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let levels = nesting(text);
    if levels > MAX_DEPTH {
        return Err(Unreadable::TooDeep(levels));
    }
    if levels <= LEVELS {
        return Err(malformed(&error));
    }
    let read = || {
        let mut reader = serde_json::Deserializer::from_slice(text);
        reader.disable_recursion_limit();
        Value::deserialize(&mut reader)
    };
    on_large_stack(read).map_err(|error| malformed(&error))
}

fn malformed(error: &serde_json::Error) -> Unreadable {
    Unreadable::Malformed(error.to_string())
}

/// Reads JSON down to a depth; what nests deeper is null.
fn shallow(text: &str) -> serde_json::Result<Value> {
    cut_off(text, LEVELS)
}

/// Each part that nests deep is read again level by level. Only hostile objects have such parts.
fn cut_off(text: &str, levels: usize) -> serde_json::Result<Value> {
    if nesting(text.as_bytes()) <= levels {
        return serde_json::from_str(text);
    }
    let below = |part: &RawValue| match nesting(part.get().as_bytes()) {
        0 => serde_json::from_str(part.get()),
        _ if levels == 1 => Ok(Value::Null),
        _ => cut_off(part.get(), levels - 1),
    };
    match text.trim_start().as_bytes().first() {
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(text)?
            .into_iter()
            .map(below)
            .collect(),
        _ => {
            let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(text)?.into_iter();
            fields.map(|(name, part)| Ok((name, below(part)?))).collect()
        }
    }
}

/// All fields of an object but its metadata, as [`shallow`] reads them.
fn body(object: &str) -> serde_json::Result<Map<String, Value>> {
    let mut fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(object)?;
    fields.remove("metadata");
    let read = |(name, text): (String, &RawValue)| Ok((name, cut_off(text.get(), LEVELS - 1)?));
    fields.into_iter().map(read).collect()
}

/// The same JSON for the same data. Data that nests deeper than serde_json reads stays as it was sent.
fn canonical(text: &str) -> Arc<[u8]> {
    let value = serde_json::from_str::<Value>(text);
    match value.and_then(|value| serde_json::to_vec(&value)) {
        Ok(bytes) => bytes.into(),
        Err(_) => text.as_bytes().into(),
    }
}

/// [`shallow`] as text. Data that does not nest deeper stays as it was sent.
fn shallow_bytes(text: &str) -> Option<Cow<'_, [u8]>> {
    if nesting(text.as_bytes()) <= LEVELS {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    serde_json::to_vec(&shallow(text).ok()?).ok().map(Cow::Owned)
}

/// The number of nested arrays and objects in JSON.
fn nesting(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A custom resource whose spec and managed fields nest so deep.
    fn text(levels: usize) -> String {
        let nest = |field: &str| format!("{}1{}", format!("{{\"{field}\":").repeat(levels), "}".repeat(levels));
        format!(
            r#"{{"apiVersion":"a.test/v1","kind":"Widget","metadata":{{"name":"a","uid":"u","managedFields":[{{
            "manager":"kubectl","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{}}}]}},
            "spec":{},"status":{{"observedGeneration":3,"deep":{}}}}}"#,
            nest("f:a"),
            nest("a"),
            nest("a")
        )
    }

    #[test]
    fn depth_keeps_no_object_from_being_read() {
        for levels in [1, 110, 126, 300, 990, 9_990] {
            let whole: Whole = serde_json::from_str(&text(levels)).unwrap();
            assert_eq!(
                (whole.metadata.name.as_deref(), whole.problem()),
                (Some("a"), None),
                "{levels}"
            );
            let manager = &whole.metadata.managed_fields.as_ref().unwrap()[0].manager;
            assert_eq!(manager.as_deref(), Some("kubectl"), "{levels}");
            assert_eq!(whole.outline()["status"]["observedGeneration"], 3, "{levels}");
            let slim: MetadataOnly = serde_json::from_str(&text(levels)).unwrap();
            assert_eq!((slim.metadata, slim.problem), (whole.metadata.clone(), None));
            let custom: CustomObject = serde_json::from_str(&text(levels)).unwrap();
            assert_eq!(custom.problem, None, "{levels}");
            assert_eq!(custom.metadata.uid, whole.metadata.uid, "{levels}");
            assert_eq!(nesting(&custom.spec.unwrap()), levels);
            assert!(custom.status.unwrap().starts_with(br#"{""#));
            match whole.value() {
                Ok(value) => {
                    let path = "/a".repeat(levels);
                    assert_eq!(value.pointer(&format!("/spec{path}")), Some(&json!(1)), "{levels}");
                }
                Err(error) => assert_eq!((error, levels), (Unreadable::TooDeep(9_994), 9_990)),
            }
        }
    }

    #[test]
    fn what_is_no_object_is_named() {
        for (text, problem) in [
            (r#"{"metadata": {"name": "a", "labels": 5, "uid": "u"}}"#, true),
            (
                r#"{"metadata": {"name": "a", "uid": "u"}, "spec": "no mapping"}"#,
                false,
            ),
        ] {
            let object: Whole = serde_json::from_str(text).unwrap();
            assert_eq!(
                (object.metadata.uid.as_deref(), object.problem().is_some()),
                (Some("u"), problem)
            );
            let custom: CustomObject = serde_json::from_str(text).unwrap();
            assert_eq!(custom.metadata, object.metadata);
            assert_eq!((custom.spec.is_some(), custom.problem), (!problem, object.problem));
        }
        let none: MetadataOnly = serde_json::from_str("{}").unwrap();
        assert_eq!(none.problem(), None);
    }

    #[test]
    fn texts_do_not_nest() {
        assert_eq!(nesting(br#"{"a": "[[\"[[\\", "b": [[]]}"#), 3);
        assert!(matches!(deep(b"[1"), Err(Unreadable::Malformed(_))));
    }
}
