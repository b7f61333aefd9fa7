//! Caches the complete members of a release for conditions and templates.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use chartwright_core::health::Health;
use chartwright_core::identity::ObjectId;

/// The maximum size of the cache of one release, in bytes of JSON.
pub(crate) const KEPT: usize = 512 << 10;

/// The complete members of one release.
#[derive(Debug, Default)]
pub struct FullMembers {
    pub(crate) known: HashMap<ObjectId, KnownObject>,
    pub(crate) pods: Option<Pods>,
    /// The health of the members with their own condition.
    pub(crate) gates: HashMap<ObjectId, Health>,
    /// The API versions in which the chart has its objects.
    pub(crate) versions: HashMap<ObjectId, String>,
    /// True if a condition or template used the members in this reconcile.
    pub(crate) is_used: bool,
    /// True if every change of a member starts a reconcile.
    pub(crate) is_attentive: bool,
}

/// An object in one of its versions.
#[derive(Clone, Debug)]
pub(crate) struct KnownObject {
    pub(crate) version: String,
    pub(crate) object: Arc<Value>,
    pub(crate) size: usize,
    /// Its size in memory.
    pub(crate) weight: u64,
}

/// The pods of workloads, and the versions of these workloads at the read.
#[derive(Debug)]
pub(crate) struct Pods {
    pub(crate) versions: Vec<String>,
    pub(crate) list: Arc<Value>,
    pub(crate) size: usize,
    pub(crate) read: Instant,
    /// True if a condition waits for the pods, which may change without their workloads.
    pub(crate) is_stale: bool,
}

impl FullMembers {
    /// Marks the pods as outdated: the workloads do not show what their release waits for.
    pub(crate) fn forget_pods(&mut self) {
        if let Some(pods) = &mut self.pods {
            pods.is_stale = true;
        }
    }

    /// The chart has these objects in these API versions.
    pub(crate) fn learn_versions<'v>(&mut self, versions: impl Iterator<Item = (&'v ObjectId, &'v String)>) {
        self.versions = versions.map(|(id, version)| (id.clone(), version.clone())).collect();
    }

    /// Ends the reconcile. Returns true if every change of a member still starts a reconcile. Without users, nothing is kept.
    pub(crate) fn end_look(&mut self) -> bool {
        let is_used = std::mem::take(&mut self.is_used);
        let size =
            self.known.values().map(|known| known.size).sum::<usize>() + self.pods.as_ref().map_or(0, |pods| pods.size);
        if !is_used || size > KEPT {
            *self = FullMembers {
                gates: std::mem::take(&mut self.gates),
                is_attentive: self.is_attentive,
                ..FullMembers::default()
            };
        }
        self.is_attentive &= is_used;
        self.is_attentive
    }
}
