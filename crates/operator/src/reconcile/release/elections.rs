//! Caches the owners of ReplicaSets for the elections of a release.

use std::collections::BTreeMap;

use chartwright_core::leader::Pod;

/// The cache for the elections of a release.
#[derive(Debug, Default)]
pub struct Elections {
    /// UIDs of ReplicaSets and of their controllers.
    pub(crate) replica_sets: BTreeMap<String, String>,
}

impl Elections {
    /// Whether a pod belongs to a workload with this kind and UID. `None` if its ReplicaSet is unknown.
    pub(crate) fn is_of(&self, workload_kind: &str, workload_uid: &str, pod: &Pod) -> Option<bool> {
        let [kind, _, uid] = &pod.controller;
        match (workload_kind, kind.as_str()) {
            ("Deployment", "ReplicaSet") => Some(*self.replica_sets.get(uid)? == workload_uid),
            _ => Some(*uid == workload_uid),
        }
    }
}
