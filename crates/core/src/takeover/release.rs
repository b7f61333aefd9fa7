//! Reads Helm's release Secrets. Facts: Helm's `pkg/storage/driver/util.go` and `pkg/release/v1/release.go`.

use std::io::Read;

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::Value;

use go_yaml as yaml;
use helm_template::render::size_to_read;

/// The memory that it may take to see whether a release has objects, in bytes.
const MAX_LOOK: u64 = 32 << 20;
const GZIP: &[u8] = b"\x1f\x8b\x08";

/// A release as far as it matters to who takes it over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct StoredRelease {
    /// Its revision.
    #[serde(default)]
    pub version: i64,
    #[serde(default)]
    pub manifest: String,
    #[serde(default)]
    info: Info,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Info {
    #[serde(default)]
    status: String,
}

/// Why a stored release can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    #[error("its `release` is not base64")]
    Base64,
    #[error("its `release` can't be unpacked: {0}")]
    Gzip(String),
    #[error("its `release` is not a Helm release: {0}")]
    Json(String),
    #[error("its manifest is not YAML: {0}")]
    Manifest(String),
}

impl StoredRelease {
    /// Reads `data.release` of a Secret: base64 of gzipped JSON (or of bare JSON, from early versions of Helm 3).
    ///
    /// # Errors
    /// It is none of these, or unpacks to more than `most` bytes.
    pub fn decode(data: &[u8], most: u64) -> Result<Self, ReleaseError> {
        let packed = BASE64.decode(data).map_err(|_| ReleaseError::Base64)?;
        let mut json = Vec::new();
        if packed.starts_with(GZIP) {
            let gzip = |text: String| ReleaseError::Gzip(text);
            flate2::read::GzDecoder::new(packed.as_slice())
                .take(most.saturating_add(1))
                .read_to_end(&mut json)
                .map_err(|error| gzip(error.to_string()))?;
            if json.len() as u64 > most {
                return Err(gzip(format!("it is larger than {most} bytes")));
            }
        } else {
            json = packed;
        }
        // The text of serde's error could quote the release, values and all.
        serde_json::from_slice(&json)
            .map_err(|error| ReleaseError::Json(format!("{:?} at column {}", error.classify(), error.column())))
    }

    /// A release of which only the manifest is known.
    pub fn of_manifest(manifest: &str) -> Self {
        StoredRelease {
            version: 1,
            manifest: manifest.to_owned(),
            info: Info::default(),
        }
    }

    /// True if its manifest has any object.
    pub fn has_objects(&self) -> bool {
        // One that is too large to be looked into has some.
        let is_large = size_to_read(self.manifest.as_bytes()) > MAX_LOOK;
        is_large || objects(&self.manifest, MAX_LOOK).is_ok_and(|objects| !objects.is_empty())
    }

    /// True for the revision that is live.
    pub fn is_deployed(&self) -> bool {
        self.info.status == "deployed"
    }
}

/// The objects of a release's manifest, lists flattened.
///
/// # Errors
/// A document that isn't YAML, or documents that may take more than `most` bytes in memory.
pub fn objects(manifest: &str, most: u64) -> Result<Vec<Value>, ReleaseError> {
    let broken = |_| ReleaseError::Manifest("a document can't be parsed".into());
    if size_to_read(manifest.as_bytes()) > most {
        return Err(ReleaseError::Manifest(format!(
            "it would take more than {most} bytes of memory"
        )));
    }
    let mut found = Vec::new();
    for document in yaml::documents(manifest).map_err(broken)? {
        flatten(yaml::to_json(document.as_bytes()).map_err(broken)?, &mut found);
    }
    Ok(found)
}

fn flatten(object: Value, found: &mut Vec<Value>) {
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match object {
        Value::Object(mut fields) if is_list && fields.get("items").is_some_and(Value::is_array) => {
            if let Some(Value::Array(items)) = fields.remove("items") {
                items.into_iter().for_each(|item| flatten(item, found));
            }
        }
        Value::Object(fields) if !fields.is_empty() => found.push(Value::Object(fields)),
        _ => {}
    }
}
