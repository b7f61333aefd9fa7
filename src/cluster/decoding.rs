//! Objects as the API server sends them, however deep they nest. It takes 10,000 levels, serde_json 127: with kube's own
//! types, one object that nests deeper, or its `managedFields`, makes a whole list or watch unreadable. Here everything
//! but the metadata stays text until somebody asks for it, and what can't be read is told of each object by itself.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::Resource;
use kube::api::ApiResource;
use kube::core::{DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object with all that was sent of it.
#[derive(Clone, Debug)]
pub struct Whole {
    pub metadata: ObjectMeta,
    text: Box<RawValue>,
    problem: Option<String>,
}

/// The metadata of an object. Requests for it ask for nothing else.
#[derive(Clone, Debug)]
pub struct MetadataOnly {
    pub metadata: ObjectMeta,
    problem: Option<String>,
}

/// An object that may be unlike what is expected of one.
pub trait Readable {
    /// What is wrong with it; then the metadata is just what names it.
    fn problem(&self) -> Option<&str>;
}

/// A value nests deeper than serde_json reads.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("nests too deep: at most 127 levels are read")]
pub struct Unreadable;

// === impl Whole ===

impl Whole {
    /// The object as data.
    ///
    /// # Errors
    /// If it nests too deep.
    pub fn value(&self) -> Result<Value, Unreadable> {
        serde_json::from_str(self.text.get()).map_err(|_| Unreadable)
    }

    /// The object as data, but for fields that nest too deep.
    pub fn outline(&self) -> Value {
        readable(self.text.get())
    }

    /// Spec and status as they were sent.
    pub fn spec_and_status(&self) -> (Option<&str>, Option<&str>) {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
            #[serde(borrow)]
            status: Option<&'a RawValue>,
        }
        match serde_json::from_str::<Fields<'_>>(self.text.get()) {
            Ok(fields) => (fields.spec.map(RawValue::get), fields.status.map(RawValue::get)),
            Err(_) => (None, None),
        }
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

// === impl MetadataOnly ===

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
resource!(MetadataOnly, true);

/// The metadata of an object, or what is wrong with it and as much as names it.
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
    let value = readable(text);
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

/// An object as data, but for fields that can't be read since they nest too deep.
pub fn readable(object: &str) -> Value {
    serde_json::from_str(object).unwrap_or_else(|_| {
        let fields: BTreeMap<String, &RawValue> = serde_json::from_str(object).unwrap_or_default();
        let read = |(name, text): (String, &RawValue)| {
            let value: Value = serde_json::from_str(text.get()).ok()?;
            Some((name, value))
        };
        fields.into_iter().filter_map(read).collect()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A custom resource whose spec, and what is noted of its fields, nests so deep.
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
        for levels in [1, 100, 126, 300, 9_990] {
            let whole: Whole = serde_json::from_str(&text(levels)).unwrap();
            assert_eq!(
                (whole.metadata.name.as_deref(), whole.problem()),
                (Some("a"), None),
                "{levels}"
            );
            let slim: MetadataOnly = serde_json::from_str(&text(levels)).unwrap();
            assert_eq!((slim.metadata, slim.problem), (whole.metadata.clone(), None));
            assert_eq!(whole.outline()["kind"], "Widget", "{levels}");
            assert!(whole.spec_and_status().0.unwrap().len() > levels);
            match whole.value() {
                Ok(value) => {
                    let path = "/a".repeat(levels);
                    assert_eq!(value.pointer(&format!("/spec{path}")), Some(&json!(1)), "{levels}");
                    let manager = &whole.metadata.managed_fields.as_ref().unwrap()[0].manager;
                    assert_eq!(manager.as_deref(), Some("kubectl"), "{levels}");
                }
                Err(error) => assert!(
                    levels > 120 && error.to_string().contains("at most 127 levels"),
                    "{error}"
                ),
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
        }
        let none: MetadataOnly = serde_json::from_str("{}").unwrap();
        assert_eq!(none.problem(), None);
    }
}
