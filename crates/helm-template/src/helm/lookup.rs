//! The table behind `lookup`: rendering asks no network, it says what it would have asked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
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

/// What answers a lookup: an object, a list (for an empty name), or `{}` for what doesn't exist. An error's text is
/// what the template fails with.
pub type Answer = dyn Fn(&LookupKey) -> Result<Value, String> + Send + Sync;

/// Answers to `lookup`: an object, a list (for an empty name), or `{}` for what doesn't exist. Cheap to clone.
#[derive(Clone, Default)]
pub struct Lookups(Source);

#[derive(Clone, Default)]
enum Source {
    /// Helm's mode without a cluster.
    #[default]
    None,
    Table(Arc<BTreeMap<LookupKey, Value>>),
    Live(Arc<Answer>),
}

impl Lookups {
    /// Every lookup finds nothing, and none is reported as missing: `helm template` without a cluster.
    pub fn none() -> Self {
        Lookups(Source::None)
    }

    /// Lookups are answered from the table; what it lacks is reported as missing.
    pub fn table(table: BTreeMap<LookupKey, Value>) -> Self {
        Lookups(Source::Table(Arc::new(table)))
    }

    /// Lookups are answered as they are made, as by `helm template --dry-run=server`. The render then does I/O, and
    /// waits for it: only for a command line.
    pub fn live(answer: Arc<Answer>) -> Self {
        Lookups(Source::Live(answer))
    }

    /// Whether anything answers at all.
    pub fn is_live(&self) -> bool {
        !matches!(self.0, Source::None)
    }

    /// The answer; `None` if the table lacks it.
    ///
    /// # Errors
    /// What the template fails with.
    pub fn get(&self, key: &LookupKey) -> Result<Option<Cow<'_, Value>>, String> {
        match &self.0 {
            Source::None => Ok(None),
            Source::Table(table) => Ok(table.get(key).map(Cow::Borrowed)),
            Source::Live(answer) => answer(key).map(|value| Some(Cow::Owned(value))),
        }
    }
}

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::None => f.write_str("Lookups(none)"),
            Source::Table(table) => f.debug_tuple("Lookups").field(table).finish(),
            Source::Live(_) => f.write_str("Lookups(live)"),
        }
    }
}
