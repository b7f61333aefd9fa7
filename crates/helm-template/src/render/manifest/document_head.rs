//! The fields that Helm reads from every rendered document. Facts: Helm's `SimpleHead` in
//! `pkg/release/v1/util/manifest.go`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::chart::Error;
use crate::chart::metadata::{StructFields, undecodable};

/// A document's head.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub kind: String,
    pub annotations: BTreeMap<String, String>,
}

const METADATA_TYPE: &str =
    "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }";

impl Head {
    /// Reads the head of a document.
    ///
    /// # Errors
    /// Go's message for a field of the wrong type.
    pub fn read(document: &Value) -> Result<Self, Error> {
        let entries = match document {
            Value::Object(entries) => entries,
            Value::Null => return Ok(Head::default()),
            other => return Err(Error::Chart(undecodable(other, "value of type util.SimpleHead"))),
        };
        let at = StructFields::new(entries, "SimpleHead", "");
        at.text("apiVersion")?;
        let kind = at.text("kind")?;
        let mut annotations = None;
        if let Some(entries) = at.object("metadata", METADATA_TYPE)? {
            let at = StructFields::new(entries, "", "metadata.");
            annotations = at.string_map("annotations")?;
            at.text("name")?;
        }
        let annotations = annotations.unwrap_or_default();
        Ok(Head { kind, annotations })
    }
}
