//! Reads that are correct and old: what a client gets that changes to another API server of the cluster, or that watches a
//! slow one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::store::{ObjectKey, Store, StoreChange};

#[cfg(feature = "stale-reads")]
/// How the reads of a store are wrong. Kinds are named by [`crate::ServedKind::key`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Stale {
    /// LISTs, GETs and watches know nothing newer than this version.
    pub at: Option<u64>,
    /// The watches of this kind (empty: all) send every event so much later.
    pub late: Option<(&'static str, Duration)>,
    /// Late watches send one event per object: an object that was deleted and recreated is MODIFIED.
    pub gathers: bool,
    /// The next event of this kind is lost.
    pub loses: Option<&'static str>,
}

#[cfg(feature = "stale-reads")]
impl Store {
    /// The delay of the watches of a kind.
    pub(crate) fn delay(&self, key: &str) -> Duration {
        let late = self.stale.late.filter(|(late, _)| late.is_empty() || *late == key);
        late.map_or(Duration::ZERO, |(_, delay)| delay)
    }

    /// Whether the watches of a kind lose an event now.
    pub(crate) fn loses_event(&mut self, key: &str) -> bool {
        let loses = self.stale.loses == Some(key);
        if loses {
            self.stale.loses = None;
        }
        loses
    }

    /// From now on reads answer as of this version; `None`: with the current objects.
    pub fn read_at(&mut self, version: Option<u64>) {
        self.stale.at = version;
        // Watches look again.
        self.latest.send_modify(|_| {});
    }

    /// The version of the answers to reads.
    pub fn read_version(&self) -> u64 {
        self.stale.at.unwrap_or(u64::MAX).min(self.version)
    }

    /// Whether watches send one event per object.
    fn gathers(&self) -> bool {
        self.stale.gathers
    }
}

#[cfg(not(feature = "stale-reads"))]
impl Store {
    pub(crate) fn delay(&self, _: &str) -> Duration {
        Duration::ZERO
    }

    pub(crate) fn loses_event(&mut self, _: &str) -> bool {
        false
    }

    /// The version of the answers to reads.
    pub fn read_version(&self) -> u64 {
        self.version
    }

    fn gathers(&self) -> bool {
        false
    }
}

impl Store {
    /// The objects as reads find them.
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

    /// The changes that a watch at this version has to send.
    pub fn news(&self, from: u64) -> Vec<StoreChange> {
        let until = self.read_version();
        let is_new = |change: &&StoreChange| change.version > from && change.version <= until;
        let news = self.changes.iter().filter(is_new);
        if !self.gathers() {
            return news.cloned().collect();
        }
        let mut gathered: BTreeMap<ObjectKey, StoreChange> = BTreeMap::new();
        for change in news {
            let before = match gathered.remove(&change.key) {
                None => change.before.clone(),
                // An object that came and went is DELETED: its creator knows it from the answer.
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
