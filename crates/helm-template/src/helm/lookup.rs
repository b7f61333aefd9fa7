//! The interface between `lookup` and the host.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

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
