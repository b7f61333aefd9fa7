//! Reads that are right, and late: what the API servers of a cluster may tell who asks another one than before, or who
//! listens to a slow one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::store::{ObjectKey, Store, StoreChange};

/// How the reads of a store are wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stale {
    /// LISTs, GETs and watches know nothing that is newer.
    pub at: Option<u64>,
    /// The watches of this plural (empty: all) tell everything so much later.
    pub late: Option<(&'static str, Duration)>,
    /// And then only what came of it: what was deleted and made anew has changed.
    pub gathers: bool,
    /// The next event of this plural is lost.
    pub loses: Option<&'static str>,
}

impl Stale {
    /// The delay of the watches of a plural.
    pub fn delay(&self, plural: &str) -> Duration {
        let late = self.late.filter(|(late, _)| late.is_empty() || *late == plural);
        late.map_or(Duration::ZERO, |(_, delay)| delay)
    }
}

impl Store {
    /// From now on everything is read as it was; `None`: as it is.
    pub fn read_at(&mut self, version: Option<u64>) {
        self.stale.at = version;
        // Who watches looks again.
        self.latest.send_modify(|_| {});
    }

    /// The version of what is read.
    pub fn read_version(&self) -> u64 {
        self.stale.at.unwrap_or(u64::MAX).min(self.version)
    }

    /// What is read.
    pub fn read(&self) -> BTreeMap<ObjectKey, Arc<Value>> {
        if self.read_version() == self.version {
            return self.objects.clone();
        }
        let mut objects = BTreeMap::new();
        let until = self.read_version();
        for change in self.changes.iter().take_while(|change| change.version <= until) {
            match &change.after {
                Some(object) => drop(objects.insert(change.key.clone(), object.clone())),
                None => drop(objects.remove(&change.key)),
            }
        }
        objects
    }

    /// What a watch that is at a version has to tell now.
    pub fn news(&self, from: u64) -> Vec<StoreChange> {
        let until = self.read_version();
        let is_new = |change: &&StoreChange| change.version > from && change.version <= until;
        let news = self.changes.iter().filter(is_new);
        if !self.stale.gathers {
            return news.cloned().collect();
        }
        let mut gathered: BTreeMap<ObjectKey, StoreChange> = BTreeMap::new();
        for change in news {
            let before = match gathered.remove(&change.key) {
                None => change.before.clone(),
                // What came and went is told to have gone: who made it knows it from the answer.
                Some(earlier) => {
                    let gone = || change.before.clone().filter(|_| change.after.is_none());
                    earlier.before.or_else(gone)
                }
            };
            let change = StoreChange {
                before,
                ..change.clone()
            };
            gathered.insert(change.key.clone(), change);
        }
        let mut gathered: Vec<StoreChange> = gathered.into_values().collect();
        gathered.sort_by_key(|change| change.version);
        gathered
    }
}
