//! Index of the pods of workloads with leader election, as the watches saw them last, and of the releases to requeue when
//! one changes. It contains no client: the watches feed it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::index::members::{Scope, is_older};
use crate::leader::Pod;

/// A workload whose pods matter to a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

/// The index. One for all watches of a process.
#[derive(Default)]
pub struct PodIndex {
    /// The labels that watches give to leaders.
    pub labels: BTreeSet<String>,
    scopes: HashMap<Scope, SeenPods>,
    followers: HashMap<Workload, BTreeSet<String>>,
    of_sets: HashMap<String, BTreeSet<Workload>>,
}

/// What one watch shows: by namespace and name.
#[derive(Default)]
struct SeenPods {
    synced: bool,
    pods: BTreeMap<(String, String), Pod>,
}
impl Workload {
    /// Whose pods the pods of a controller may be: its own, or those of the Deployment that a ReplicaSet is named after.
    fn above(namespace: &str, pod: &Pod) -> impl Iterator<Item = Workload> {
        let [kind, name, _] = &pod.controller;
        let workload = |kind: &str, name: &str| Workload {
            namespace: namespace.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let deployment = name.rsplit_once('-').filter(|_| kind == "ReplicaSet");
        let deployment = deployment.map(|(name, _)| workload("Deployment", name));
        [Some(workload(kind, name)), deployment].into_iter().flatten()
    }
}
impl PodIndex {
    /// A release (by its ApplySet id) hears of the pods of these workloads, and of no others.
    pub fn follow(&mut self, set: &str, workloads: BTreeSet<Workload>) {
        if self.of_sets.get(set).is_some_and(|known| *known == workloads) {
            return;
        }
        for former in self.of_sets.remove(set).into_iter().flatten() {
            if let Some(sets) = self.followers.get_mut(&former) {
                sets.remove(set);
                if sets.is_empty() {
                    self.followers.remove(&former);
                }
            }
        }
        for workload in &workloads {
            let sets = self.followers.entry(workload.clone()).or_default();
            sets.insert(set.to_owned());
        }
        if !workloads.is_empty() {
            self.of_sets.insert(set.to_owned(), workloads);
        }
    }

    /// The watch of a scope begins. The methods below report its events and ignore other scopes.
    pub fn begin(&mut self, scope: &Scope) {
        self.scopes.insert(scope.clone(), SeenPods::default());
    }

    /// It has ended.
    pub fn lose(&mut self, scope: &Scope) {
        self.scopes.remove(scope);
    }

    /// Takes in what a watch shows. Returns the releases that must hear of it.
    pub fn observe(&mut self, scope: &Scope, namespace: &str, pod: &Pod) -> Vec<String> {
        let Some(seen) = self.scopes.get_mut(scope) else {
            return Vec::new();
        };
        let key = (namespace.to_owned(), pod.name.clone());
        let old = seen.pods.insert(key, pod.clone());
        let version = pod.resource_version.clone();
        let is_alike = |old: &Pod| {
            let old = Pod {
                resource_version: version.clone(),
                ..old.clone()
            };
            old == *pod
        };
        match &old {
            Some(old) if is_alike(old) => Vec::new(),
            old => self.affected_releases(namespace, old.iter().chain([pod])),
        }
    }

    /// Takes in what a request was answered, as far as the watches show that this pod is there and are not further already.
    pub fn learn(&mut self, namespace: &str, pod: &Pod) {
        let key = (namespace.to_owned(), pod.name.clone());
        let known = self.scopes.values_mut().filter_map(|seen| seen.pods.get_mut(&key));
        for known in known.filter(|known| known.uid == pod.uid) {
            if is_older(&known.resource_version, &pod.resource_version) {
                pod.clone_into(known);
            }
        }
    }

    /// A pod is gone. Returns the releases that must hear of it.
    pub fn remove(&mut self, scope: &Scope, namespace: &str, name: &str) -> Vec<String> {
        let seen = self.scopes.get_mut(scope);
        let old = seen.and_then(|seen| seen.pods.remove(&(namespace.to_owned(), name.to_owned())));
        self.affected_releases(namespace, old.iter())
    }

    /// A list is complete: what it did not contain is gone. `proven`: what comes after it will be shown, too. Returns the
    /// releases that must hear of it.
    pub fn listed(&mut self, scope: &Scope, listed: &HashSet<(String, String)>, proven: bool) -> Vec<String> {
        let Some(seen) = self.scopes.get_mut(scope) else {
            return Vec::new();
        };
        seen.pods.retain(|key, _| listed.contains(key));
        if proven { self.trust(scope) } else { Vec::new() }
    }

    /// From now on what a scope does not show is gone. Returns the releases that must hear of it.
    pub fn trust(&mut self, scope: &Scope) -> Vec<String> {
        let Some(seen) = self.scopes.get_mut(scope) else {
            return Vec::new();
        };
        seen.synced = true;
        let is_here = |workload: &&Workload| scope.namespace.as_ref().is_none_or(|here| *here == workload.namespace);
        let here = self
            .of_sets
            .iter()
            .filter(|(_, all)| all.iter().any(|one| is_here(&one)));
        here.map(|(set, _)| set.clone()).collect()
    }

    /// The watch broke: what it showed may be old.
    pub fn doubt(&mut self, scope: &Scope) {
        if let Some(seen) = self.scopes.get_mut(scope) {
            seen.synced = false;
        }
    }

    fn affected_releases<'p>(&self, namespace: &str, pods: impl Iterator<Item = &'p Pod>) -> Vec<String> {
        let workloads = pods.flat_map(|pod| Workload::above(namespace, pod));
        let sets: BTreeSet<&String> = workloads
            .filter_map(|workload| self.followers.get(&workload))
            .flatten()
            .collect();
        sets.into_iter().cloned().collect()
    }

    /// The pods that may be those of a workload; `None` if no watch knows.
    pub fn pods(&self, workload: &Workload) -> Option<Vec<Pod>> {
        let here = workload.namespace.as_str();
        let is_of = |scope: &Scope| scope.namespace.as_ref().is_none_or(|namespace| namespace == here);
        let mut scopes = self.scopes.iter().filter(|(scope, seen)| seen.synced && is_of(scope));
        let (_, seen) = scopes.next()?;
        let pods = seen.pods.range((here.to_owned(), String::new())..);
        let pods = pods.take_while(|((namespace, _), _)| namespace == here);
        let pods = pods.map(|(_, pod)| pod);
        let own = pods.filter(|pod| Workload::above(here, pod).any(|above| above == *workload));
        Some(own.cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::GroupKind;

    fn pod(name: &str, kind: &str, owner: &str, version: u32) -> Pod {
        Pod {
            name: name.into(),
            uid: format!("u-{name}"),
            resource_version: version.to_string(),
            controller: [kind.into(), owner.into(), "c".into()],
            ..Pod::default()
        }
    }

    fn workload(kind: &str, name: &str) -> Workload {
        Workload {
            namespace: "shop".into(),
            kind: kind.into(),
            name: name.into(),
        }
    }

    fn names(pods: Option<Vec<Pod>>) -> Option<Vec<String>> {
        pods.map(|pods| pods.into_iter().map(|pod| pod.name).collect())
    }

    #[test]
    fn who_follows_a_workload_hears_of_its_pods() {
        let scope = Scope::of(&GroupKind::new("", "Pod"), "shop");
        let mut index = PodIndex::default();
        let web = workload("Deployment", "my-web");
        index.follow("a", [web.clone()].into());
        index.follow("b", [workload("StatefulSet", "db")].into());
        let one = pod("my-web-1-x", "ReplicaSet", "my-web-1", 5);
        assert!(
            index.observe(&scope, "shop", &one.clone()).is_empty(),
            "it is not watched"
        );
        index.begin(&scope);
        assert_eq!(index.observe(&scope, "shop", &one.clone()), ["a"]);
        assert_eq!(
            index.observe(&scope, "shop", &pod("db-0", "StatefulSet", "db", 6)),
            ["b"]
        );
        assert!(
            index
                .observe(&scope, "shop", &pod("y", "DaemonSet", "db", 7))
                .is_empty()
        );
        assert_eq!(index.pods(&web), None, "the list goes on");
        let listed = ["my-web-1-x", "db-0"].map(|name| ("shop".to_owned(), name.to_owned()));
        assert_eq!(index.listed(&scope, &listed.into(), true).len(), 2);
        assert_eq!(names(index.pods(&web)), Some(vec!["my-web-1-x".to_owned()]));
        assert_eq!(names(index.pods(&workload("DaemonSet", "db"))), Some(vec![]));

        let newer = Pod {
            resource_version: "8".into(),
            ..one.clone()
        };
        assert!(index.observe(&scope, "shop", &newer).is_empty(), "nothing that matters");
        let ready = Pod {
            ready: true,
            resource_version: "9".into(),
            ..one.clone()
        };
        assert_eq!(index.observe(&scope, "shop", &ready.clone()), ["a"]);
        index.learn("shop", &one);
        assert_eq!(index.pods(&web), Some(vec![ready.clone()]), "that is older");
        index.doubt(&scope);
        assert_eq!(index.pods(&web), None);
        assert_eq!(index.trust(&scope).len(), 2);
        assert_eq!(index.remove(&scope, "shop", "my-web-1-x"), ["a"]);
        index.learn("shop", &ready);
        assert_eq!(index.pods(&web), Some(vec![]), "no answer brings it back");
        index.follow("b", BTreeSet::new());
        assert!(index.remove(&scope, "shop", "db-0").is_empty());
        index.lose(&scope);
        assert_eq!(index.pods(&web), None);
    }
}
