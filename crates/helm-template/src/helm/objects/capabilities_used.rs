//! The queries that a render makes on `.Capabilities`. The render depends on their answers and on no other API of the
//! cluster.

use std::any::Any;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::helm::objects::capabilities::{Capabilities, KubeVersionObject};
use go_template::{Field, Object, Value};

/// The query for the version of Kubernetes.
const KUBE_VERSION: &str = "KubeVersion";
/// The query for all served APIs.
const API_VERSIONS: &str = "APIVersions";
/// A render with more single queries than this depends on all served APIs.
const MOST: usize = 50;
/// No API version with its kind is longer than this, in bytes.
const LONGEST: usize = 320;

/// Collects the queries of one render. Clones are cheap and share one collection.
#[derive(Clone, Default)]
pub struct CapabilityQueries(Arc<Mutex<BTreeSet<String>>>);

impl CapabilityQueries {
    /// The version of Kubernetes.
    pub fn kube_version(&self) {
        self.lock().insert(KUBE_VERSION.to_owned());
    }

    /// Whether this is served: `batch/v1`, `batch/v1/Job`.
    pub(crate) fn has(&self, api_version: &[u8]) {
        match std::str::from_utf8(api_version) {
            Ok(text) if is_api_version(text) => drop(self.lock().insert(text.to_owned())),
            // The text may be anything, even a password, and the queries are stored.
            _ => self.api_versions(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api_versions(&self) {
        self.lock().insert(API_VERSIONS.to_owned());
    }

    /// Removes and returns all queries so far.
    pub(crate) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.lock())
    }

    /// Adds queries.
    pub(crate) fn extend(&self, queries: impl IntoIterator<Item = String>) {
        self.lock().extend(queries);
    }

    /// The queries in order, for [`Capabilities::answer`].
    pub fn list(&self) -> Vec<String> {
        let mut queries = self.lock().clone();
        if queries.len() > MOST || queries.contains(API_VERSIONS) {
            queries.retain(|question| question == KUBE_VERSION);
            queries.insert(API_VERSIONS.to_owned());
        }
        queries.into_iter().collect()
    }
}

/// `v1`, `batch/v1`, `batch/v1/Job`
fn is_api_version(text: &str) -> bool {
    let is_kind = |part: &str| part.is_ascii() && part.starts_with(|c: char| c.is_ascii_uppercase());
    let is_version = |part: &str| part.starts_with('v') && part[1..].starts_with(|c: char| c.is_ascii_digit());
    let is_name = |part: &&str| {
        let is_fine = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        part.bytes().all(is_fine)
    };
    let api = match text.rsplit_once('/') {
        Some((api, kind)) if is_kind(kind) => api,
        _ => text,
    };
    let parts: Vec<&str> = api.split('/').collect();
    let has_version = matches!(parts.as_slice(), [version] | [_, version] if is_version(version));
    text.len() <= LONGEST && has_version && parts.iter().all(is_name)
}

/// Whether a query covers all served APIs.
pub fn is_about_all(question: &str) -> bool {
    question == API_VERSIONS
}

impl Capabilities {
    /// The answer to a query, as a text that changes when the answer changes. `all` is the answer for all served APIs.
    pub fn answer<'a>(&'a self, question: &str, all: &'a str) -> &'a str {
        match question {
            KUBE_VERSION => &self.kube_version.version,
            API_VERSIONS => all,
            api_version => {
                if self.api_versions.iter().any(|served| served == api_version) {
                    "served"
                } else {
                    ""
                }
            }
        }
    }

    /// Returns `.Capabilities` for one render. Its queries are added to `queries`.
    pub(crate) fn recording(&self, queries: &CapabilityQueries) -> Value {
        Value::Object(Rc::new(Asking {
            capabilities: self.clone(),
            queries: queries.clone(),
        }))
    }
}

/// [`Capabilities`] that record the queries on them.
struct Asking {
    capabilities: Capabilities,
    queries: CapabilityQueries,
}

impl Object for Asking {
    fn type_name(&self) -> &'static str {
        "*common.Capabilities"
    }

    fn kind(&self) -> &'static str {
        "ptr"
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            KUBE_VERSION => {
                self.queries.kube_version();
                let version = self.capabilities.kube_version.clone();
                Value::Object(Rc::new(KubeVersionObject {
                    version,
                    is_copy: false,
                }))
            }
            API_VERSIONS => {
                self.queries.api_versions();
                self.capabilities.api_versions()
            }
            "HelmVersion" => Capabilities::helm_version(),
            _ => return None,
        })
    }

    fn field_before(&self, name: &str, next: &str) -> Option<Value> {
        match (name, next) {
            // `Has` records its own query.
            (API_VERSIONS, "Has") => Some(self.capabilities.api_versions()),
            _ => self.field(name),
        }
    }

    fn structure(&self) -> Option<Vec<Field>> {
        let names = [KUBE_VERSION, API_VERSIONS, "HelmVersion"].into_iter();
        let field = |name| {
            Some(Field {
                name,
                value: self.field(name)?,
            })
        };
        names.map(field).collect()
    }

    fn is_stringer(&self) -> bool {
        false
    }

    fn json_fields(&self) -> Option<Vec<Field>> {
        self.structure()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
