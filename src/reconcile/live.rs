//! The live members of a release, whole, for the conditions and the status template that ask for more of them than the
//! watches keep. Each object is read once for each of its versions, and only for releases that ask.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use serde_json::{Map, Value};

use super::release::Release;
use super::{RECHECK, Run};
use crate::cluster::error::Error;
use crate::cluster::{objects, pods};
use crate::plan::gates::{Facts, Gate};
use crate::plan::health::pods::selector;
use crate::plan::health::{Health, Status};
use crate::plan::identity::ObjectId;
use crate::plan::ownership::owner_of;

/// Objects of one release that are read at the same time.
const AT_ONCE: usize = 4;
/// So many members are shown to conditions and templates, and so many workloads' pods.
const MEMBERS: usize = 500;
const WORKLOADS: usize = 20;

/// What was read of the members of one release.
#[derive(Debug, Default)]
pub struct WholeMembers {
    /// By their versions.
    known: HashMap<ObjectId, (String, Arc<Value>)>,
    /// The pods, and the versions of the workloads that they were read for.
    pods: Option<(Vec<String>, Arc<Value>)>,
    /// How those members are that have a condition of their own.
    gates: HashMap<ObjectId, Health>,
}

// === impl WholeMembers ===

impl WholeMembers {
    /// They are read anew.
    pub(super) fn forget_pods(&mut self) {
        self.pods = None;
    }

    /// How a member is by its own condition, if it has one.
    pub(super) fn health(&self, id: &ObjectId) -> Option<&Health> {
        self.gates.get(id)
    }
}

fn in_progress(message: String) -> Health {
    let status = Status::InProgress;
    Health { status, message }
}

impl Run<'_> {
    /// Judges those of these members that have a condition of their own.
    pub(super) async fn judge(&self, release: &mut Release, ids: &[ObjectId]) {
        let gates: Vec<_> = {
            let members = self.context.members();
            let gate = |id: &ObjectId| Gate::of(id, members.get(id)?, &self.unit.watch.health);
            ids.iter().filter_map(|id| Some((id.clone(), gate(id)?))).collect()
        };
        release.whole.gates.clear();
        if gates.is_empty() {
            return;
        }
        let valid: Vec<&Gate> = gates.iter().filter_map(|(_, gate)| gate.as_ref().ok()).collect();
        let facts = self.facts(release, &valid).await;
        for (id, gate) in gates {
            let health = match gate {
                Err(error) => in_progress(error.to_string()),
                Ok(gate) => self.judge_by(release, &gate, &id, &facts).await,
            };
            release.whole.gates.insert(id, health);
        }
    }

    async fn judge_by(&self, release: &mut Release, gate: &Gate, id: &ObjectId, facts: &Facts) -> Health {
        match self.whole(release, id).await {
            Ok(Some(object)) => gate.health(&object, facts),
            Ok(None) => in_progress("is not there".to_owned()),
            Err(error) => {
                release.contests.wait_for(RECHECK);
                in_progress(format!("can't be read: {error}"))
            }
        }
    }

    /// What these conditions may read beside the object that they are of. From now on the release hears of every change.
    pub(super) async fn facts(&self, release: &mut Release, gates: &[&Gate]) -> Facts {
        let reads = |variable: &str| gates.iter().any(|gate| gate.reads(variable));
        let (members, pods) = (reads("members"), reads("pods"));
        self.live_facts(release, members, pods).await
    }

    /// The members and pods, as far as they are asked for.
    pub(super) async fn live_facts(&self, release: &mut Release, members: bool, pods: bool) -> Facts {
        let set = self.written.set(&self.unit.group_kind);
        self.context.members().attend(&set);
        if !members && !pods {
            return Facts::default();
        }
        let ids = self.own_members(&set);
        let found = self.read_all(release, &ids).await;
        release.whole.known.retain(|id, _| ids.contains(id));
        let pods = match pods {
            true => self.pods_of(release, &found).await,
            false => Arc::default(),
        };
        let mut kinds: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for (id, object) in &found {
            let kind = kinds.entry(id.group_kind.kind.as_str()).or_default();
            kind.insert(id.name.clone(), Value::clone(object));
        }
        let members = kinds
            .into_iter()
            .map(|(kind, objects)| (kind.to_owned(), objects.into()));
        Facts {
            members: Value::Object(members.collect()),
            pods: Value::clone(&pods),
        }
    }

    /// What the watches show of the release's own objects; those that hooks made are among them.
    pub(super) fn own_members(&self, set: &str) -> Vec<ObjectId> {
        let members = self.context.members();
        let ids = members.of_set(set).into_iter();
        let is_own = |id: &ObjectId| {
            let owner = members.get(id).and_then(|live| owner_of(id, live));
            owner.is_some_and(|owner| owner.uid == self.written.uid)
        };
        ids.filter(is_own).take(MEMBERS).collect()
    }

    /// What stands for the versions of these objects.
    pub(super) fn versions(&self, ids: &[ObjectId]) -> Vec<String> {
        let members = self.context.members();
        let version = |id: &ObjectId| members.get(id).map(|live| live.resource_version.clone());
        ids.iter()
            .map(|id| format!("{id}@{}", version(id).unwrap_or_default()))
            .collect()
    }

    async fn read_all(&self, release: &mut Release, ids: &[ObjectId]) -> Vec<(ObjectId, Arc<Value>)> {
        let unknown = ids.iter().filter(|id| self.known(release, id).is_none());
        let unknown = unknown.map(|id| (id.clone(), release.record.entry(id).map(|entry| entry.version.clone())));
        let unknown: Vec<(ObjectId, Option<String>)> = unknown.collect();
        let requests = unknown.into_iter().map(async |(id, version)| {
            let read = self.read_live(&id, version.as_deref()).await;
            (id, read)
        });
        let read: Vec<_> = stream::iter(requests).buffered(AT_ONCE).collect().await;
        for (id, read) in read {
            match read {
                Ok(Some(found)) => drop(release.whole.known.insert(id, found)),
                Ok(None) => drop(release.whole.known.remove(&id)),
                Err(error) => {
                    release.contests.wait_for(RECHECK);
                    tracing::info!(resource = %self.written.key, object = %id, %error, "a member can't be read");
                }
            }
        }
        let found = |id: &ObjectId| Some((id.clone(), release.whole.known.get(id)?.1.clone()));
        ids.iter().filter_map(found).collect()
    }

    /// A live object of the release as it is. `None` if it isn't there.
    pub(super) async fn whole(&self, release: &mut Release, id: &ObjectId) -> Result<Option<Arc<Value>>, Error> {
        if let Some(known) = self.known(release, id) {
            return Ok(Some(known));
        }
        let version = release.record.entry(id).map(|entry| entry.version.clone());
        let Some(found) = self.read_live(id, version.as_deref()).await? else {
            release.whole.known.remove(id);
            return Ok(None);
        };
        let object = found.1.clone();
        release.whole.known.insert(id.clone(), found);
        Ok(Some(object))
    }

    /// What was read of an object, if the watch shows that it is still so.
    fn known(&self, release: &Release, id: &ObjectId) -> Option<Arc<Value>> {
        let (version, object) = release.whole.known.get(id)?;
        let members = self.context.members();
        (members.get(id)?.resource_version == *version).then(|| object.clone())
    }

    /// Reads an object in the version that the chart has it in, without what nobody should see.
    async fn read_live(&self, id: &ObjectId, version: Option<&str>) -> Result<Option<(String, Arc<Value>)>, Error> {
        let snapshot = self.context.discovery.snapshot();
        let resource = version.and_then(|version| snapshot.resource(&id.group_kind, version));
        let Some(resource) = resource.or_else(|| snapshot.preferred(&id.group_kind)) else {
            return Ok(None);
        };
        let Some((live, mut object)) = objects::read(&self.context.client, resource, id).await? else {
            return Ok(None);
        };
        let is_secret = id.group_kind.group.is_empty() && id.group_kind.kind == "Secret";
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|field, _| !is_secret || !["data", "stringData"].contains(&field.as_str()));
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Ok(Some((live.resource_version, Arc::new(object))))
    }

    /// The pods of the workloads among these objects, by name. They are read anew when one of those has changed.
    async fn pods_of(&self, release: &mut Release, found: &[(ObjectId, Arc<Value>)]) -> Arc<Value> {
        let workloads: Vec<(&ObjectId, String)> = found
            .iter()
            .filter_map(|(id, object)| Some((id, selector(&id.group_kind, object)?)))
            .take(WORKLOADS)
            .collect();
        let ids: Vec<ObjectId> = workloads.iter().map(|(id, _)| (*id).clone()).collect();
        let versions = self.versions(&ids);
        if let Some((_, pods)) = release.whole.pods.as_ref().filter(|(known, _)| *known == versions) {
            return pods.clone();
        }
        let mut all: BTreeMap<String, Value> = BTreeMap::new();
        for (id, selector) in &workloads {
            match pods::all(&self.context.client, &id.namespace, selector).await {
                Ok(pods) => all.extend(pods),
                Err(error) => {
                    release.contests.wait_for(RECHECK);
                    tracing::info!(resource = %self.written.key, object = %id, %error, "its pods can't be read");
                }
            }
        }
        let pods: Arc<Value> = Arc::new(all.into_values().collect());
        release.whole.pods = Some((versions, pods.clone()));
        pods
    }
}
