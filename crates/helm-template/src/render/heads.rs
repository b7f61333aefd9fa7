//! What Helm reads of every document that a template made.
//! Facts: Helm's `SimpleHead` in `pkg/release/v1/util/manifest.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::chart::metadata::json_kind;

/// A document's head. As in `encoding/json` keys match without regard to case, those that match the same field all count, in
/// their order, and the first value of a wrong type in that order is the error.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub kind: String,
    pub annotations: BTreeMap<String, String>,
}

const METADATA_TYPE: &str =
    "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }";

impl Head {
    /// Reads the head of a document.
    ///
    /// # Errors
    /// What Go says of a field of the wrong type.
    pub fn read(document: &Value) -> Result<Self, String> {
        let mut head = Head::default();
        head.read_document(document)
            .map_err(|text| format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {text}"))?;
        Ok(head)
    }

    fn read_document(&mut self, document: &Value) -> Result<(), String> {
        for (key, value) in object(document, "value of type util.SimpleHead")?.into_iter().flatten() {
            match key.to_ascii_lowercase().as_str() {
                "apiversion" => text(value, "SimpleHead.apiVersion", &mut String::new())?,
                "kind" => text(value, "SimpleHead.kind", &mut self.kind)?,
                "metadata" => self.read_metadata(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_metadata(&mut self, value: &Value) -> Result<(), String> {
        let wanted = format!("struct field SimpleHead.metadata of type {METADATA_TYPE}");
        let Some(fields) = object(value, &wanted)? else {
            self.annotations.clear();
            return Ok(());
        };
        for (key, value) in fields {
            match key.to_ascii_lowercase().as_str() {
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
    if !value.is_null() {
        *target = go_yaml::text(value)
            .ok_or_else(|| format!("{} into Go struct field {field} of type string", json_kind(value)))?;
    }
    Ok(())
}
