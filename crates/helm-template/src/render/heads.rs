//! What Helm reads of every document that a template made.
//! Facts: Helm's `SimpleHead` in `pkg/release/v1/util/manifest.go`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::bytes;
use crate::chart::metadata::json_kind;
use go_yaml::{self as yaml, GoType};

/// A document's head; or what Go says about text that isn't YAML, or whose head has the wrong types.
pub(super) type Read = Result<Head, String>;

/// Reads a document.
pub(super) fn read(text: &str) -> Read {
    let wanted = |key: &str| !yaml::field(key, &FIELDS).is_empty();
    let document = match bytes::of_text(text) {
        Cow::Borrowed(text) => yaml::to_json_fields(text, wanted, &HEAD),
        Cow::Owned(text) => yaml::to_json_of(&text, &HEAD),
    };
    let document = document.map_err(|e| e.to_string())?;
    Head::read(&document)
        .map_err(|text| format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {text}"))
}

/// What Helm reads of every document. As in `encoding/json` keys match without regard to case, those that match the same
/// field all count, in their order, and the first value of a wrong type in that order is the error.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub kind: String,
    pub annotations: BTreeMap<String, String>,
}

const HEAD: GoType = GoType::Struct(&FIELDS);
/// The fields of a document that are part of its head.
const FIELDS: [(&str, GoType); 3] = [
    ("apiVersion", GoType::Text),
    ("kind", GoType::Text),
    ("metadata", GoType::Struct(&METADATA)),
];
const METADATA: [(&str, GoType); 2] = [("name", GoType::Text), ("annotations", GoType::Map(&GoType::Text))];
const METADATA_TYPE: &str =
    "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }";

impl Head {
    fn read(document: &Value) -> Result<Self, String> {
        let mut head = Head::default();
        for (key, value) in object(document, "value of type util.SimpleHead")?.into_iter().flatten() {
            match yaml::field(key, &FIELDS) {
                "apiVersion" => text(value, "SimpleHead.apiVersion", &mut String::new())?,
                "kind" => text(value, "SimpleHead.kind", &mut head.kind)?,
                "metadata" => head.read_metadata(value)?,
                _ => {}
            }
        }
        Ok(head)
    }

    fn read_metadata(&mut self, value: &Value) -> Result<(), String> {
        let wanted = format!("struct field SimpleHead.metadata of type {METADATA_TYPE}");
        let Some(fields) = object(value, &wanted)? else {
            self.annotations.clear();
            return Ok(());
        };
        for (key, value) in fields {
            match yaml::field(key, &METADATA) {
                "name" => text(value, ".metadata.name", &mut String::new())?,
                "annotations" => self.read_annotations(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_annotations(&mut self, value: &Value) -> Result<(), String> {
        let wanted = "struct field .metadata.annotations of type map[string]string";
        let Some(annotations) = object(value, wanted)? else {
            self.annotations.clear();
            return Ok(());
        };
        for (key, value) in annotations {
            let mut annotation = String::new();
            text(value, ".metadata.annotations", &mut annotation)?;
            self.annotations.insert(key.clone(), annotation);
        }
        Ok(())
    }
}

fn object<'v>(value: &'v Value, wanted: &str) -> Result<Option<&'v Map<String, Value>>, String> {
    match value {
        Value::Object(map) => Ok(Some(map)),
        Value::Null => Ok(None),
        other => Err(format!("{} into Go {wanted}", json_kind(other))),
    }
}

/// Null leaves the text as it is.
fn text(value: &Value, field: &str, target: &mut String) -> Result<(), String> {
    match value {
        Value::String(text) => target.clone_from(text),
        Value::Null => {}
        other => {
            return Err(format!(
                "{} into Go struct field {field} of type string",
                json_kind(other)
            ));
        }
    }
    Ok(())
}
