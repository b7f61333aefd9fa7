//! What Helm reads of every document that a template made, and a memory of the documents that were read before.
//! Facts: Helm's `SimpleHead` in `pkg/release/v1/util/manifest.go`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde_json::{Map, Value};

use super::bytes;
use crate::chart::metadata::json_kind;
use crate::template::go::parallel;
use crate::yaml::{self, GoType};

/// What is remembered of documents, in bytes; with more all are forgotten.
const MAX_KNOWN: usize = 1 << 20;

/// The heads of documents that could be read. Reading a document takes longer than rendering it, and most documents of a
/// chart are the same in the next render.
pub(super) struct Heads {
    known: Mutex<Known>,
    /// Of this process alone, which shows no digest to anybody: nobody can make two documents of one digest.
    /// `None`: nothing is remembered.
    key: Option<LessSafeKey>,
}

#[derive(Default)]
struct Known {
    heads: HashMap<Digest, Arc<Head>>,
    /// What they take.
    bytes: usize,
}

/// What tells documents apart: GMAC, which is several times as fast as SHA-256.
type Digest = [u8; 16];

/// A document's head; or what Go says about text that isn't YAML, or whose head has the wrong types.
pub(super) type Read = Result<Arc<Head>, String>;

// === impl Known ===

impl Known {
    fn insert(&mut self, digest: Digest, head: &Arc<Head>) {
        let bytes = head.size();
        if bytes > MAX_KNOWN {
            return;
        }
        if self.bytes + bytes > MAX_KNOWN {
            *self = Known::default();
        }
        if self.heads.insert(digest, Arc::clone(head)).is_none() {
            self.bytes += bytes;
        }
    }
}

// === impl Heads ===

impl Default for Heads {
    fn default() -> Self {
        let mut key = [0; 32];
        // The crypto library's own generator takes a tenth of a second to start: longer than most renders.
        let random = getrandom::fill(&mut key).ok();
        let key = random.and_then(|()| UnboundKey::new(&AES_256_GCM, &key).ok());
        Heads {
            known: Mutex::default(),
            key: key.map(LessSafeKey::new),
        }
    }
}

impl Heads {
    /// Remembers nothing.
    pub(super) fn forgetful() -> Self {
        Heads {
            known: Mutex::default(),
            key: None,
        }
    }

    fn digest(&self, text: &str) -> Option<Digest> {
        // One nonce for all would give away the key to those who see digests; as a hash it is as good as any.
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let tag = self
            .key
            .as_ref()?
            .seal_in_place_separate_tag(nonce, Aad::from(text), &mut []);
        tag.ok()?.as_ref().try_into().ok()
    }

    /// Reads the documents, in their order.
    pub(super) fn read(&self, texts: &[&str]) -> Vec<Read> {
        let digests: Vec<Option<Digest>> = texts.iter().map(|text| self.digest(text)).collect();
        let known: Vec<Option<Arc<Head>>> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let head = |digest: &Option<Digest>| known.heads.get(digest.as_ref()?).cloned();
            digests.iter().map(head).collect()
        };
        let unknown = texts.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<&str> = unknown.map(|(text, _)| *text).collect();
        let depth = yaml::max_depth();
        let read = |text: &&str| yaml::with_max_depth(depth, || read(text));
        let mut read = parallel::map(&unknown, |text| text.len(), read).into_iter();
        let mut remembered = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let documents = digests.into_iter().zip(known).filter_map(|(digest, known)| {
            if let Some(head) = known {
                return Some(Ok(head));
            }
            let read = read.next()?;
            if let (Ok(head), Some(digest)) = (&read, digest) {
                remembered.insert(digest, head);
            }
            Some(read)
        });
        documents.collect()
    }
}

fn read(text: &str) -> Read {
    let wanted = |key: &str| !yaml::field(key, &FIELDS).is_empty();
    let document = match bytes::of_text(text) {
        Cow::Borrowed(text) => yaml::to_json_fields(text, wanted, &HEAD),
        Cow::Owned(text) => yaml::to_json_of(&text, &HEAD),
    };
    let document = document.map_err(|e| e.to_string())?;
    let head = Head::read(&document)
        .map_err(|text| format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {text}"))?;
    Ok(Arc::new(head))
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
    /// About what it takes in a memory, in bytes.
    fn size(&self) -> usize {
        const HEAD: usize = 160;
        const ANNOTATION: usize = 96;
        let annotations = self.annotations.iter();
        let annotations = annotations.map(|(key, value)| ANNOTATION + key.len() + value.len());
        HEAD + self.kind.len() + annotations.sum::<usize>()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_once_is_not_read_again() {
        let heads = Heads::default();
        let texts = ["kind: A\nmetadata: {annotations: {x: y}}\n", "kind: [", "kind: B"];
        let first = heads.read(&texts);
        let second = heads.read(&texts);
        let kind = |read: &Read| read.as_ref().map(|head| head.kind.clone()).unwrap_or_default();
        for read in [&first, &second] {
            assert_eq!(read.iter().map(kind).collect::<Vec<_>>(), ["A", "", "B"]);
            assert!(read[1].is_err());
        }
        let read = Heads::forgetful().read(&texts);
        assert_eq!(read.iter().map(kind).collect::<Vec<_>>(), ["A", "", "B"]);
        let is_same = |(a, b): (&Read, &Read)| matches!((a, b), (Ok(a), Ok(b)) if Arc::ptr_eq(a, b));
        let same: Vec<bool> = first.iter().zip(&second).map(is_same).collect();
        assert_eq!(same, [true, false, true]);
    }
}
