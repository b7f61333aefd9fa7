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
    /// Somebody asked for something in this reconcile.
    pub(crate) is_asked: bool,
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
    /// Pods are to be read anew: what is waited for doesn't show in their workloads.
    pub(crate) fn forget_pods(&mut self) {
        if let Some(pods) = &mut self.pods {
            pods.is_stale = true;
        }
    }

    /// The chart has these objects in these API versions.
    pub(crate) fn learn_versions<'v>(&mut self, versions: impl Iterator<Item = (&'v ObjectId, &'v String)>) {
        self.versions = versions.map(|(id, version)| (id.clone(), version.clone())).collect();
    }

    /// The reconcile is over. True if nobody asks any more: nothing is kept, and nothing needs to be heard of.
    pub(crate) fn end_look(&mut self) -> bool {
        let is_asked = std::mem::take(&mut self.is_asked);
        let size =
            self.known.values().map(|known| known.size).sum::<usize>() + self.pods.as_ref().map_or(0, |pods| pods.size);
        if !is_asked || size > KEPT {
            *self = FullMembers {
                gates: std::mem::take(&mut self.gates),
                is_attentive: self.is_attentive,
                ..FullMembers::default()
            };
        }
        !is_asked && std::mem::take(&mut self.is_attentive)
    }
}
