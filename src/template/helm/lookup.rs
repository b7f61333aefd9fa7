//! The table behind `lookup`: rendering asks no network, it says what it would have asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

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

/// Answers to `lookup`: an object, a list (for an empty name), or `{}` for what doesn't exist. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Lookups {
    /// `None` is Helm's mode without a cluster.
    table: Option<Arc<BTreeMap<LookupKey, Value>>>,
}

impl Lookups {
    /// Every lookup finds nothing, and none is reported as missing: `helm template` without a cluster.
    pub fn none() -> Self {
        Lookups { table: None }
    }

    /// Lookups are answered from the table; what it lacks is reported as missing.
    pub fn table(table: BTreeMap<LookupKey, Value>) -> Self {
        Lookups {
            table: Some(Arc::new(table)),
        }
    }

    /// Whether there is a table at all.
    pub fn is_live(&self) -> bool {
        self.table.is_some()
    }

    /// The table's answer.
    pub fn get(&self, key: &LookupKey) -> Option<&Value> {
        self.table.as_ref()?.get(key)
    }
}
