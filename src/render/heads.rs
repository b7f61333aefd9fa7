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
use crate::yaml;

/// How many documents are remembered; with one more all are forgotten.
const MAX_KNOWN: usize = 4096;

/// The heads of documents that could be read. Reading a document takes longer than rendering it, and most documents of a
/// chart are the same in the next render.
pub(super) struct Heads {
    known: Mutex<HashMap<Digest, Arc<Head>>>,
    /// Of this process alone, which shows no digest to anybody: nobody can make two documents of one digest.
    /// `None`: nothing is remembered.
    key: Option<LessSafeKey>,
}

/// What tells documents apart: GMAC, which is several times as fast as SHA-256.
type Digest = [u8; 16];

/// A document's head; or what Go says about text that isn't YAML, or whose head has the wrong types.
pub(super) type Read = Result<Arc<Head>, String>;

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
            let head = |digest: &Option<Digest>| known.get(digest.as_ref()?).cloned();
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
                if remembered.len() == MAX_KNOWN {
                    remembered.clear();
                }
                remembered.insert(digest, Arc::clone(head));
            }
            Some(read)
        });
        documents.collect()
    }
}

fn read(text: &str) -> Read {
    let wanted = |key: &str| FIELDS.iter().any(|field| key.eq_ignore_ascii_case(field));
    let document = match bytes::of_text(text) {
        Cow::Borrowed(text) => yaml::to_json_fields(text, wanted),
        Cow::Owned(text) => yaml::to_json(&text),
    };
    let document = document.map_err(|e| e.to_string())?;
    let head = Head::read(&document)
        .map_err(|text| format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {text}"))?;
    Ok(Arc::new(head))
}

/// What Helm reads of every document, with Go's leniency about the case of keys.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub kind: String,
    pub annotations: BTreeMap<String, String>,
}

/// The fields of a document that are part of its head.
const FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];
const METADATA_TYPE: &str =
    "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }";

impl Head {
    fn read(document: &Value) -> Result<Self, String> {
        let mut head = Head::default();
        let Some(fields) = object(document, || "value of type util.SimpleHead".to_owned())? else {
            return Ok(head);
        };
        text(fields, "apiVersion", "apiVersion")?;
        head.kind = text(fields, "kind", "kind")?;
        let Some(metadata) = field(fields, "metadata") else {
            return Ok(head);
        };
        let wanted = || format!("struct field SimpleHead.metadata of type {METADATA_TYPE}");
        let Some(metadata) = object(metadata, wanted)? else {
            return Ok(head);
        };
        text(metadata, "name", "metadata.name")?;
        let Some(annotations) = field(metadata, "annotations") else {
            return Ok(head);
        };
        let wanted = || "struct field .metadata.annotations of type map[string]string".to_owned();
        let Some(annotations) = object(annotations, wanted)? else {
            return Ok(head);
        };
        for key in annotations.keys() {
            head.annotations
                .insert(key.clone(), text(annotations, key, "metadata.annotations")?);
        }
        Ok(head)
    }
}

/// A field by its exact name or, failing that, without regard to case.
fn field<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    fields.get(name).or_else(|| {
        fields
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    })
}

fn object(value: &Value, wanted: impl Fn() -> String) -> Result<Option<&Map<String, Value>>, String> {
    match value {
        Value::Object(map) => Ok(Some(map)),
        Value::Null => Ok(None),
        other => Err(format!("{} into Go {}", json_kind(other), wanted())),
    }
}

fn text(fields: &Map<String, Value>, name: &str, path: &str) -> Result<String, String> {
    match field(fields, name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(value) => crate::chart::metadata::scalar_text(value).ok_or_else(|| {
            // Go names the outer type only for its own fields.
            let owner = if path.contains('.') { "" } else { "SimpleHead" };
            format!(
                "{} into Go struct field {owner}.{path} of type string",
                json_kind(value)
            )
        }),
    }
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
