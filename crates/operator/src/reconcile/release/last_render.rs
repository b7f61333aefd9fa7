//! Remembers the inputs of the last render of a release for the next one.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

use chartwright_core::identity::ObjectId;
use chartwright_core::record::Record;

/// The inputs of the last render of a release.
#[derive(Debug, Default)]
pub struct LastRender {
    /// The inputs of the recorded revision, also while something is left to do. Empty if unknown.
    pub inputs: String,
    /// The queries of `.Capabilities` in that render.
    pub capabilities: Vec<String>,
    /// The lookups of that render, with the versions that were seen last.
    pub lookups: Vec<String>,
    /// True if answers of lookups changed since all orphans were decided.
    pub answers_changed: bool,
    /// Members that a changed answer of a lookup removed from the render, and since when.
    pub dropped: BTreeMap<ObjectId, Instant>,
}

impl LastRender {
    pub(crate) fn of_record(record: &Record) -> Self {
        LastRender {
            inputs: match record.fallback {
                None => record.done_for.clone().unwrap_or_default(),
                Some(_) => String::new(),
            },
            capabilities: record.capabilities.clone(),
            lookups: record.lookups.clone(),
            ..LastRender::default()
        }
    }

    /// True if something that was looked up before has another answer now.
    pub fn has_other_answers(&self, lookups: &[String]) -> bool {
        let known: HashMap<&str, &str> = self.lookups.iter().map(|lookup| split(lookup)).collect();
        let mut lookups = lookups.iter().map(|lookup| split(lookup));
        lookups.any(|(text, version)| known.get(text).is_some_and(|known| *known != version))
    }
}

/// A recorded lookup: what was looked up, and the version that was found.
pub(crate) fn split(lookup: &str) -> (&str, &str) {
    lookup.rsplit_once('@').unwrap_or((lookup, ""))
}
