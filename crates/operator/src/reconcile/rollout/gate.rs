//! Where the releases of a watch stand in the rollout of a new chart.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::reconcile::custom_resource::ResourceKey;
use crate::sync::lock;
use chartwright_core::rollout::{ReleaseRollout, Rollout, RolloutCounts};
use chartwright_watches::RolloutLimits;

/// Where the releases of a watch stand, shared by its reconciles.
pub struct RolloutGate {
    rollout: Mutex<Rollout<ResourceKey>>,
    /// Notified after each change.
    pub(crate) changed: Notify,
}

impl RolloutGate {
    pub(crate) fn new(limits: RolloutLimits) -> Self {
        RolloutGate {
            rollout: Mutex::new(Rollout::new(limits)),
            changed: Notify::new(),
        }
    }

    pub(super) fn set(&self, key: &ResourceKey, part: Option<&ReleaseRollout>) {
        if lock(&self.rollout).set(key, part) {
            self.changed.notify_one();
        }
    }

    pub(super) fn admit(&self, key: &ResourceKey) -> bool {
        let is_admitted = lock(&self.rollout).admit(key);
        self.changed.notify_one();
        is_admitted
    }

    /// A custom resource is gone, or no longer of this watch.
    pub(crate) fn forget(&self, key: &ResourceKey) {
        self.set(key, None);
    }

    pub(crate) fn counts(&self) -> RolloutCounts {
        lock(&self.rollout).counts()
    }

    /// Releases that may begin now.
    pub(crate) fn next(&self) -> Vec<ResourceKey> {
        lock(&self.rollout).next()
    }

    /// Releases that failed and count.
    pub(crate) fn failed(&self) -> Vec<ResourceKey> {
        lock(&self.rollout).failed().cloned().collect()
    }
}
