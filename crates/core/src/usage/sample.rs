//! The pods and claims at one moment, and the releases that they belong to.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::Requests;
use crate::identity::{GroupKind, ObjectId};

/// What may stand between a pod and the member that made it.
pub const BETWEEN: [(&str, &str); 2] = [("apps", "ReplicaSet"), ("batch", "Job")];

/// Owners of owners that are followed: a claim, its pod, a Job, a CronJob.
const STEPS: usize = 4;

/// A pod or a claim.
#[derive(Clone, Debug)]
pub struct Consumer {
    namespace: String,
    name: String,
    uid: String,
    owners: Vec<OwnerReference>,
    requests: Requests,
}

/// All that was seen.
#[derive(Default)]
pub struct Sample {
    pub pods: Vec<Consumer>,
    pub claims: Vec<Consumer>,
    /// The owners of what stands [`BETWEEN`], by its UID.
    pub between: HashMap<String, Vec<OwnerReference>>,
}

/// Finds the release of a member: an object, and its UID where that is known.
type Find<'a, R> = &'a dyn Fn(&ObjectId, Option<&str>) -> Option<R>;

impl Consumer {
    pub fn new(metadata: ObjectMeta, requests: Requests) -> Self {
        Consumer {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            owners: metadata.owner_references.unwrap_or_default(),
            requests,
        }
    }

    fn id(&self, kind: &str) -> ObjectId {
        ObjectId::new(GroupKind::new("", kind), self.namespace.as_str(), self.name.as_str())
    }
}

impl Sample {
    /// True if one of the pods has an owner of this kind.
    pub fn has_owner(&self, kind: &GroupKind) -> bool {
        let mut owners = self.pods.iter().flat_map(|pod| &pod.owners);
        owners.any(|owner| kind_of(owner) == *kind)
    }

    /// What each release requests: the pods and claims that are members, and those that members made. `find` knows the
    /// members.
    pub fn by_release<R: Ord>(&self, find: Find<'_, R>) -> BTreeMap<R, Requests> {
        let mut owners: HashMap<&str, &[OwnerReference]> = HashMap::new();
        owners.extend(
            self.between
                .iter()
                .map(|(uid, owners)| (uid.as_str(), owners.as_slice())),
        );
        owners.extend(self.pods.iter().map(|pod| (pod.uid.as_str(), pod.owners.as_slice())));
        let made = |consumer: &Consumer| made_by(&owners, &consumer.namespace, &consumer.owners, find, STEPS);
        let mut found: BTreeMap<R, Requests> = BTreeMap::new();
        let mut add = |release: Option<R>, requests: Requests| {
            if let Some(release) = release {
                let sum = found.entry(release).or_default();
                *sum = *sum + requests;
            }
        };
        for pod in &self.pods {
            let release = find(&pod.id("Pod"), Some(&pod.uid)).or_else(|| made(pod));
            add(release, pod.requests);
        }
        for claim in &self.claims {
            let release = find(&claim.id("PersistentVolumeClaim"), Some(&claim.uid)).or_else(|| made(claim));
            add(release.or_else(|| by_name(claim, find)), claim.requests);
        }
        found
    }
}

/// The release of the member that is an owner, or an owner of an owner.
fn made_by<R>(
    known: &HashMap<&str, &[OwnerReference]>,
    namespace: &str,
    owners: &[OwnerReference],
    find: Find<'_, R>,
    steps: usize,
) -> Option<R> {
    owners.iter().filter(|_| steps > 0).find_map(|owner| {
        let id = ObjectId::new(kind_of(owner), namespace, owner.name.as_str());
        find(&id, Some(&owner.uid)).or_else(|| {
            let owners = known.get(owner.uid.as_str())?;
            made_by(known, namespace, owners, find, steps - 1)
        })
    })
}

/// The release of the StatefulSet for which a claim `<template>-<statefulset>-<ordinal>` was made. It has no owner unless
/// it is to go with the StatefulSet. The longest name of a StatefulSet counts: those of templates seldom have dashes.
fn by_name<R>(claim: &Consumer, find: Find<'_, R>) -> Option<R> {
    let (rest, ordinal) = claim.name.rsplit_once('-')?;
    if ordinal.is_empty() || !ordinal.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kind = GroupKind::new("apps", "StatefulSet");
    let names = rest.match_indices('-').map(|(dash, _)| &rest[dash + 1..]);
    names
        .filter(|name| !name.is_empty())
        .find_map(|name| find(&ObjectId::new(kind.clone(), claim.namespace.as_str(), name), None))
}

fn kind_of(owner: &OwnerReference) -> GroupKind {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    GroupKind::new(group, owner.kind.as_str())
}
