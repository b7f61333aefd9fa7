//! The interface between `lookup` and the host.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use go_template::meter::Meter;
use go_template::{CallError, Entries, Value as TemplateValue};
use serde_json::{Map, Value};

use crate::render::data_size;

/// The memory of a lookup besides its template value, in bytes.
const LOOKED_UP: u64 = 512;

/// The arguments of one `lookup`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupKey {
    pub api_version: String,
    pub kind: String,
    /// Empty for cluster-scoped kinds, and for a list over all namespaces.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
}

/// Answers `lookup` from a cluster or from a table.
pub trait Lookup: Send + Sync {
    /// An object, a list (for an empty name), or `{}` for what doesn't exist. `None`: not known yet. The template then
    /// gets `{}`, and the key is in [`Rendered::missing_lookups`](crate::Rendered::missing_lookups). The host renders
    /// again when it has the answer.
    ///
    /// # Errors
    /// The message with which the template fails.
    fn lookup(&self, key: &LookupKey) -> Result<Option<Cow<'_, Value>>, String>;
}

/// Every lookup finds nothing: `helm template` without a cluster.
pub struct NoCluster;

impl Lookup for NoCluster {
    fn lookup(&self, _: &LookupKey) -> Result<Option<Cow<'_, Value>>, String> {
        Ok(Some(Cow::Owned(Value::Object(Map::new()))))
    }
}

/// A table of the known answers.
impl Lookup for BTreeMap<LookupKey, Value> {
    fn lookup(&self, key: &LookupKey) -> Result<Option<Cow<'_, Value>>, String> {
        Ok(self.get(key).map(Cow::Borrowed))
    }
}

/// The lookups of one render.
pub(super) struct RenderLookups {
    source: Arc<dyn Lookup>,
    /// Those without an answer.
    pub(super) missing: BTreeSet<LookupKey>,
    pub(super) used: BTreeSet<LookupKey>,
}

impl RenderLookups {
    pub(super) fn new(source: Arc<dyn Lookup>) -> Self {
        RenderLookups {
            source,
            missing: BTreeSet::new(),
            used: BTreeSet::new(),
        }
    }

    /// Looks an object or a list up. Its memory is spent from the meter.
    pub(super) fn find(&mut self, key: LookupKey, meter: &Meter) -> Result<TemplateValue, CallError> {
        if self.used.insert(key.clone()) {
            meter.spend(LOOKED_UP)?;
        }
        let answer = self.source.lookup(&key).map_err(CallError::Text)?;
        meter.spend(answer.as_deref().map_or(0, data_size::of))?;
        match answer.map(|answer| TemplateValue::from_json(&answer)) {
            Some(answer) => Ok(answer),
            None => {
                self.missing.insert(key);
                Ok(TemplateValue::map(Entries::new()))
            }
        }
    }

    /// A hash of the answer to a lookup, if there is one. `None` if the lookup fails.
    pub(super) fn answer_hash(&self, key: &LookupKey) -> Option<Option<u64>> {
        let answer = self.source.lookup(key).ok()?;
        Some(answer.map(|answer| {
            let mut hasher = DefaultHasher::new();
            answer.to_string().hash(&mut hasher);
            hasher.finish()
        }))
    }

    /// The lookups that were made, each with the hash of its answer. `None` if one fails.
    pub(super) fn answer_hashes(&self) -> Option<Vec<(LookupKey, Option<u64>)>> {
        let hash = |key: &LookupKey| Some((key.clone(), self.answer_hash(key)?));
        self.used.iter().map(hash).collect()
    }
}
