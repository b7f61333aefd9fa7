//! What a render asked of `.Capabilities`: it depends on these answers, and on nothing else that a cluster serves.

use std::any::Any;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::capabilities::Capabilities;
use go_template::{Field, Object, Param, Value};

/// As a question: the version of Kubernetes.
const KUBE_VERSION: &str = "KubeVersion";
/// As a question: all that is served.
const API_VERSIONS: &str = "APIVersions";
/// Whoever asks for more of these one by one depends on all.
const MOST: usize = 50;
/// Names of API groups have at most so many bytes.
const LONGEST: usize = 253;

/// Collects the questions of one render. Cheap to clone; all clones collect the same.
#[derive(Clone, Default)]
pub struct Asked(Arc<Mutex<BTreeSet<String>>>);

// === impl Asked ===

impl Asked {
    /// The version of Kubernetes.
    pub fn kube_version(&self) {
        self.lock().insert(KUBE_VERSION.to_owned());
    }

    /// Whether this is served: `batch/v1`, `batch/v1/Job`.
    pub(super) fn has(&self, api_version: &[u8]) {
        match std::str::from_utf8(api_version) {
            Ok(text) if is_api_version(text) => drop(self.lock().insert(text.to_owned())),
            // It may be anything, a password even, and the questions are written down.
            _ => self.api_versions(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api_versions(&self) {
        self.lock().insert(API_VERSIONS.to_owned());
    }

    fn all(&self) {
        self.kube_version();
        self.api_versions();
    }

    /// The questions in order, for [`Capabilities::answer`].
    pub fn list(&self) -> Vec<String> {
        let mut asked = self.lock().clone();
        if asked.len() > MOST || asked.contains(API_VERSIONS) {
            asked.retain(|question| question == KUBE_VERSION);
            asked.insert(API_VERSIONS.to_owned());
        }
        asked.into_iter().collect()
    }
}

/// `v1`, `batch/v1`, `batch/v1/Job`
fn is_api_version(text: &str) -> bool {
    let mut parts = text.rsplit('/').collect::<Vec<_>>();
    let is_version = |part: &str| part.starts_with('v') && part[1..].starts_with(|c: char| c.is_ascii_digit());
    if parts
        .first()
        .is_some_and(|kind| kind.starts_with(|c: char| c.is_ascii_uppercase()))
    {
        parts.remove(0);
    }
    let is_name = |part: &&str| {
        part.len() <= LONGEST
            && part
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
    };
    let is_kind = |text: &str| {
        text.rsplit('/')
            .next()
            .is_some_and(|kind| kind.len() <= LONGEST && kind.is_ascii())
    };
    matches!(parts.as_slice(), [version] | [version, _] if is_version(version))
        && parts.iter().all(is_name)
        && is_kind(text)
}

/// True if a question is about all that is served.
pub fn is_about_all(question: &str) -> bool {
    question == API_VERSIONS
}

impl Capabilities {
    /// The answer to a question of a render, as a text that changes with it. `all` stands for all that is served.
    pub fn answer<'a>(&'a self, question: &str, all: &'a str) -> &'a str {
        match question {
            KUBE_VERSION => &self.kube_version.version,
            API_VERSIONS => all,
            api_version => match self.api_versions.iter().any(|served| served == api_version) {
                true => "served",
                false => "",
            },
        }
    }

    /// `.Capabilities` for one render, which tells what is asked of them.
    pub(crate) fn asked(&self, asked: &Asked) -> Value {
        Value::Object(Rc::new(Asking {
            capabilities: self.clone(),
            asked: asked.clone(),
        }))
    }
}

/// [`Capabilities`] that listen.
struct Asking {
    capabilities: Capabilities,
    asked: Asked,
}

impl Asking {
    /// To be asked for all of it.
    fn whole(&self) -> &Capabilities {
        self.asked.all();
        &self.capabilities
    }
}

impl Object for Asking {
    fn type_name(&self) -> &'static str {
        self.capabilities.type_name()
    }

    fn kind(&self) -> &'static str {
        self.capabilities.kind()
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            KUBE_VERSION => self.asked.kube_version(),
            API_VERSIONS => self.asked.api_versions(),
            _ => {}
        }
        self.capabilities.field(name)
    }

    fn field_before(&self, name: &str, next: &str) -> Option<Value> {
        match (name, next) {
            // What it is asked is told by who answers.
            (API_VERSIONS, "Has") => self.capabilities.field(name),
            _ => self.field(name),
        }
    }

    fn has_unexported(&self, name: &str) -> bool {
        self.capabilities.has_unexported(name)
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        self.capabilities.params(method)
    }

    fn call(&self, method: &str, _args: &[Value]) -> Option<Result<Value, String>> {
        (method == "Copy").then(|| Ok(self.capabilities.asked(&self.asked)))
    }

    fn structure(&self) -> Option<Vec<Field>> {
        self.whole().structure()
    }

    fn is_stringer(&self) -> bool {
        self.capabilities.is_stringer()
    }

    fn json_fields(&self) -> Option<Vec<Field>> {
        self.whole().json_fields()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
