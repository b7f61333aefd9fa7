//! The members of a release that were read complete, for conditions and templates.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use chartwright_core::health::Health;
use chartwright_core::identity::ObjectId;

/// What was read of a release is kept for its next look up to so many bytes of JSON.
pub(crate) const KEPT: usize = 512 << 10;

/// What was read of the members of one release.
#[derive(Debug, Default)]
pub struct FullMembers {
    pub(crate) known: HashMap<ObjectId, KnownObject>,
    pub(crate) pods: Option<Pods>,
    /// How those members are that have a condition of their own.
    pub(crate) gates: HashMap<ObjectId, Health>,
    /// The API versions in which the chart has its objects.
    pub(crate) versions: HashMap<ObjectId, String>,
    /// A condition or template used the members in this reconcile.
    pub(crate) is_used: bool,
    /// The release hears of every change of its members.
    pub(crate) is_attentive: bool,
}

/// An object in one of its versions.
#[derive(Clone, Debug)]
pub(crate) struct KnownObject {
    pub(crate) version: String,
    pub(crate) object: Arc<Value>,
    pub(crate) size: usize,
    /// What it takes in memory.
    pub(crate) weight: u64,
}

/// The pods of workloads, and the versions of those that they were read for.
#[derive(Debug)]
pub(crate) struct Pods {
    pub(crate) versions: Vec<String>,
    pub(crate) list: Arc<Value>,
    pub(crate) size: usize,
    pub(crate) read: Instant,
    /// Something waits for what they say, which changes without their workloads.
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

    /// Ends the reconcile. Returns true if nothing uses the members any more: then nothing is kept or watched.
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
        !is_used && std::mem::take(&mut self.is_attentive)
    }
}
