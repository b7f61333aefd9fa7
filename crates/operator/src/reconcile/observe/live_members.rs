//! The live members of a release, whole, for the conditions and the status template that ask for more of them than the
//! watches keep. Each object is read once for each of its versions, and only for releases that ask.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::cluster::workloads::pods;
use crate::reconcile::release::Release;
use crate::reconcile::release::full_members::{KnownObject, Pods};
use crate::reconcile::release::schedule::{RECHECK, RequeueReason};
use crate::reconcile::render::pool::{Deadline, PoolError};
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::health::gates::{Gate, GateCondition, GateFacts};
use chartwright_core::health::pods::{is_of_workload, selector};
use chartwright_core::health::{Health, HealthStatus, cel_view};
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, owner_of, ownership};
use chartwright_watches::cel::CelData;
use helm_template::render::{on_large_stack, size_of_data};

/// Objects of one release that are read at the same time.
const AT_ONCE: usize = 4;

/// So many members are shown to conditions and templates, and so many workloads' pods.
const MEMBERS: usize = 500;

const WORKLOADS: usize = 20;

/// What members and pods may take that conditions and templates read, in bytes of memory as data.
const LARGEST: u64 = 48 << 20;

/// Conditions for which there was no time left are evaluated again after this.
const BUDGET_PERIOD: Duration = Duration::from_secs(10);

/// Pods are read no more often.
const PODS_PERIOD: Duration = Duration::from_secs(2);

/// Live members by kind and name, and pods: as JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveFacts {
    pub members: Value,
    pub pods: Value,
}

/// Compiled conditions, or what is wrong with them.
type CompiledGates = Vec<(ObjectId, Result<Gate, String>)>;

impl LiveFacts {
    /// The same for conditions. It takes as long as there is to be read.
    pub(crate) fn into_facts(self) -> GateFacts {
        GateFacts {
            members: CelData::from_json(&self.members),
            pods: CelData::from_json(&self.pods),
        }
    }
}

fn too_large() -> String {
    let limit = LARGEST >> 20;
    format!("the members and pods that conditions and the status template read take more than {limit} MiB together")
}

fn in_progress(message: String) -> Health {
    let status = HealthStatus::InProgress;
    Health { status, message }
}

/// Judges live members, and reads those that conditions and templates need complete.
pub(crate) struct MemberObserver<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> MemberObserver<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        MemberObserver { scope }
    }
}

impl MemberObserver<'_> {
    /// Judges those of these members that have a condition of their own.
    pub(crate) async fn judge(&self, release: &mut Release, ids: &[ObjectId]) {
        if let Some(whole) = &mut release.observed.full_members {
            whole.gates.clear();
        }
        let conditions: Vec<(ObjectId, GateCondition)> = {
            let members = self.scope.context.members();
            let rules = &self.scope.unit.watch.health;
            let condition = |id: &ObjectId| GateCondition::of(id, members.get(id)?, rules);
            let condition = |id: &ObjectId| Some((id.clone(), condition(id)?));
            ids.iter().filter_map(condition).collect()
        };
        if conditions.is_empty() {
            return;
        }
        let gated: Vec<ObjectId> = conditions.iter().map(|(id, _)| id.clone()).collect();
        let mut reads_pods = false;
        let judged = match self.compile(conditions).await {
            Ok(gates) => {
                reads_pods = gates
                    .iter()
                    .any(|(_, gate)| gate.as_ref().is_ok_and(|gate| gate.reads("pods")));
                self.judge_gates(release, gates, &gated).await
            }
            Err(lost) => Err(lost.to_string()),
        };
        let judged = match judged {
            Ok(judged) => judged,
            Err(why) => gated.into_iter().map(|id| (id, in_progress(why.clone()))).collect(),
        };
        let over_budget = PoolError::OverBudget.to_string();
        if judged.iter().any(|(_, health)| health.message == over_budget) {
            release.schedule.at(BUDGET_PERIOD, RequeueReason::EvaluationBudget);
        }
        if reads_pods && judged.iter().any(|(_, health)| health.status != HealthStatus::Current) {
            self.await_pods(release);
        }
        release.observed.full_members.get_or_insert_default().gates = judged.into_iter().collect();
    }

    /// Pods are looked at again soon: what they say changes without their workloads.
    pub(crate) fn await_pods(&self, release: &mut Release) {
        if let Some(whole) = &mut release.observed.full_members {
            whole.forget_pods();
        }
        release.schedule.at(RECHECK, RequeueReason::PodsUnread);
    }

    /// Compiles conditions that are not compiled yet, on no async worker.
    ///
    /// # Errors
    /// The time for them is used up.
    async fn compile(&self, conditions: Vec<(ObjectId, GateCondition)>) -> Result<CompiledGates, PoolError> {
        let compile =
            |(id, condition): (ObjectId, GateCondition)| (id, condition.gate().map_err(|error| error.to_string()));
        if conditions.iter().all(|(_, condition)| condition.is_compiled()) {
            return Ok(conditions.into_iter().map(compile).collect());
        }
        let work = move |deadline: Deadline| {
            let compile = |one: (ObjectId, GateCondition)| {
                if deadline.is_over() && !one.1.is_compiled() {
                    (one.0, Err(PoolError::OverBudget.to_string()))
                } else {
                    compile(one)
                }
            };
            on_large_stack(|| conditions.into_iter().map(compile).collect())
        };
        self.scope.context.evaluate(&self.scope.owner.set, work).await
    }

    /// # Errors
    /// Why they can't be judged now.
    async fn judge_gates(
        &self,
        release: &mut Release,
        gates: CompiledGates,
        ids: &[ObjectId],
    ) -> Result<Vec<(ObjectId, Health)>, String> {
        let objects: HashMap<ObjectId, Arc<Value>> = self.read_all(release, ids).await?.into_iter().collect();
        let reads = |variable: &str| {
            gates
                .iter()
                .any(|(_, gate)| gate.as_ref().is_ok_and(|gate| gate.reads(variable)))
        };
        let pods = reads("pods");
        let ids = self.members_if(reads("members") || pods);
        let facts = self.live_facts(release, &ids, pods).await?;
        let judge = move |deadline: Deadline| {
            let facts = facts.into_facts();
            let judged = gates.into_iter().map(|(id, gate)| {
                let health = match (gate, objects.get(&id)) {
                    (Err(error), _) => in_progress(error),
                    (Ok(_), None) => in_progress("is not there".to_owned()),
                    (Ok(_), Some(_)) if deadline.is_over() => in_progress(PoolError::OverBudget.to_string()),
                    (Ok(gate), Some(object)) => gate.health(object, &facts),
                };
                (id, health)
            });
            on_large_stack(|| judged.collect())
        };
        let judged = self.scope.context.evaluate(&self.scope.owner.set, judge).await;
        judged.map_err(|lost| lost.to_string())
    }

    /// How an object that a hook made is by its condition.
    pub(crate) async fn judge_object(
        &self,
        release: &mut Release,
        gate: Gate,
        id: &ObjectId,
        mut object: Value,
    ) -> Health {
        cel_view::hide(&id.group_kind, &mut object);
        let pods = gate.reads("pods");
        let ids = self.members_if(gate.reads("members") || pods);
        let judged = match self.live_facts(release, &ids, pods).await {
            Ok(facts) => {
                let judge = move |_| gate.health(&object, &facts.into_facts());
                let judged = self.scope.context.evaluate(&self.scope.owner.set, judge).await;
                if judged.as_ref().is_err_and(|lost| *lost == PoolError::OverBudget) {
                    release.schedule.at(BUDGET_PERIOD, RequeueReason::EvaluationBudget);
                }
                judged.map_err(|lost| lost.to_string())
            }
            Err(why) => Err(why),
        };
        let health = judged.unwrap_or_else(in_progress);
        if pods && health.status != HealthStatus::Current {
            self.await_pods(release);
        }
        health
    }

    /// These members and the pods of their workloads. The release hears of every change from now on. Fails if one of
    /// them cannot be read: a part must not be taken for all.
    pub(crate) async fn live_facts(
        &self,
        release: &mut Release,
        ids: &[ObjectId],
        pods: bool,
    ) -> Result<LiveFacts, String> {
        self.attend(release);
        let mut found = self.read_all(release, ids).await?;
        let pods = if pods {
            Value::clone(&*self.pods_of(release, &found).await?)
        } else {
            Value::Null
        };
        // Of two with one name, that in the CR's namespace counts, and that of Kubernetes' own kind.
        let home = &self.scope.written.key.namespace;
        found.sort_by_key(|(id, _)| (id.namespace == *home, !id.group_kind.group.contains('.')));
        let mut kinds: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for (id, object) in &found {
            let kind = kinds.entry(id.group_kind.kind.as_str()).or_default();
            kind.insert(id.name.clone(), Value::clone(object));
        }
        let members = kinds
            .into_iter()
            .map(|(kind, objects)| (kind.to_owned(), objects.into()));
        Ok(LiveFacts {
            members: Value::Object(members.collect()),
            pods,
        })
    }

    /// Makes the release hear of every change of its members, because a condition or template needs them.
    pub(crate) fn attend(&self, release: &mut Release) {
        let whole = release.observed.full_members.get_or_insert_default();
        whole.is_used = true;
        whole.is_attentive = true;
        self.scope.context.members().attend(&self.scope.owner.set);
    }

    /// Ends the use of the members in this reconcile. What is kept is bounded, and nothing is kept without users.
    pub(crate) fn end_look(&self, release: &mut Release) {
        let full = release.observed.full_members.as_mut();
        let is_attentive = full.is_some_and(|whole| whole.end_look());
        let mut members = self.scope.context.members();
        // Each write of another client may change drift that stays.
        if is_attentive || release.record.tolerates_drift() {
            members.attend(&self.scope.owner.set);
        } else {
            members.ignore(&self.scope.owner.set);
        }
    }

    /// What the watches show of the release's own objects; those that hooks made are among them.
    fn own_members(&self) -> Vec<ObjectId> {
        let members = self.scope.context.members();
        let ids = members.of_set(&self.scope.owner.set).into_iter();
        let is_own = |id: &ObjectId| {
            let found = members.get(id).and_then(|live| owner_of(id, live));
            found.is_some_and(|found| found.uid == self.scope.owner.uid)
        };
        ids.filter(is_own).take(MEMBERS).collect()
    }

    /// The release's own objects if something reads them, else none.
    pub(crate) fn members_if(&self, reads: bool) -> Vec<ObjectId> {
        if reads { self.own_members() } else { Vec::new() }
    }

    /// What stands for the versions of these objects.
    pub(crate) fn versions(&self, ids: &[ObjectId]) -> Vec<String> {
        let members = self.scope.context.members();
        let version = |id: &ObjectId| members.get(id).map(|live| live.resource_version.clone());
        ids.iter()
            .map(|id| format!("{id}@{}", version(id).unwrap_or_default()))
            .collect()
    }

    /// These objects, as far as they are there.
    ///
    /// # Errors
    /// One that can't be read.
    async fn read_all(&self, release: &mut Release, ids: &[ObjectId]) -> Result<Vec<(ObjectId, Arc<Value>)>, String> {
        release.observed.full_members.get_or_insert_default().is_used = true;
        let unknown = ids.iter().filter(|id| self.known(release, id).is_none());
        let unknown: Vec<(ObjectId, Option<String>)> =
            unknown.map(|id| (id.clone(), version_of(release, id))).collect();
        let requests = unknown.into_iter().map(async |(id, version)| {
            let read = self.read_live(&id, version.as_deref()).await;
            (id, read)
        });
        let wanted: HashSet<&ObjectId> = ids.iter().collect();
        let known = ids.iter().filter(|id| self.known(release, id).is_some());
        let weight_of = |id: &ObjectId| Some(release.observed.full_members.as_ref()?.known.get(id)?.weight);
        let mut weight: u64 = known.filter_map(weight_of).sum();
        let whole = release.observed.full_members.get_or_insert_default();
        let mut read = stream::iter(requests).buffered(AT_ONCE);
        while let Some((id, read)) = read.next().await {
            match read {
                Ok(Some(found)) => {
                    weight += found.weight;
                    if weight > LARGEST {
                        whole.known.clear();
                        return Err(too_large());
                    }
                    whole.known.insert(id, found);
                }
                Ok(None) => drop(whole.known.remove(&id)),
                Err(error) => {
                    release.schedule.at(RECHECK, RequeueReason::MembersUnread);
                    return Err(format!("{id} can't be read: {error}"));
                }
            }
        }
        let known = whole.known.iter().filter(|(id, _)| wanted.contains(id));
        let mut found: Vec<_> = known.map(|(id, known)| (id.clone(), known.object.clone())).collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// A live object of the release as it is. `None` if it isn't there.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) async fn whole(&self, release: &mut Release, id: &ObjectId) -> Result<Option<Arc<Value>>, String> {
        let found = self.read_all(release, std::slice::from_ref(id)).await?;
        Ok(found.into_iter().next().map(|(_, object)| object))
    }

    /// What was read of an object, if the watch shows that it is still so.
    fn known(&self, release: &Release, id: &ObjectId) -> Option<Arc<Value>> {
        let known = release.observed.full_members.as_ref()?.known.get(id)?;
        let members = self.scope.context.members();
        (members.get(id)?.resource_version == known.version).then(|| known.object.clone())
    }

    /// Reads an object without the data of Secrets.
    async fn read_live(&self, id: &ObjectId, version: Option<&str>) -> Result<Option<KnownObject>, Error> {
        let snapshot = self.scope.context.discovery.snapshot();
        let resource = version.and_then(|version| snapshot.resource(&id.group_kind, version));
        let Some(resource) = resource.or_else(|| snapshot.preferred(&id.group_kind)) else {
            return Ok(None);
        };
        let Some((live, mut object)) = objects::read(&self.scope.client, resource, id).await? else {
            return Ok(None);
        };
        // Another object may have taken its name since its watch showed it, or a status may name it.
        if ownership(id, &live, &self.scope.owner) != Ownership::Ours {
            return Ok(None);
        }
        cel_view::hide(&id.group_kind, &mut object);
        Ok(Some(KnownObject {
            version: live.resource_version,
            size: object.to_string().len(),
            weight: size_of_data(&object),
            object: Arc::new(object),
        }))
    }

    /// The pods that the workloads among these objects control, by name. They are read again when one of those has changed.
    async fn pods_of(&self, release: &mut Release, found: &[(ObjectId, Arc<Value>)]) -> Result<Arc<Value>, String> {
        let workloads: Vec<(&ObjectId, &Arc<Value>, String)> = found
            .iter()
            .filter_map(|(id, object)| Some((id, object, selector(&id.group_kind, object)?)))
            .take(WORKLOADS)
            .collect();
        let ids: Vec<ObjectId> = workloads.iter().map(|(id, ..)| (*id).clone()).collect();
        let versions = self.versions(&ids);
        let known = release
            .observed
            .full_members
            .as_ref()
            .and_then(|whole| whole.pods.as_ref());
        if let Some(known) = known.filter(|known| known.versions == versions) {
            let left = PODS_PERIOD.saturating_sub(known.read.elapsed());
            if !known.is_stale || !left.is_zero() {
                if known.is_stale {
                    release.schedule.at(left, RequeueReason::PodsUnread);
                }
                return Ok(known.list.clone());
            }
        }
        let mut all: BTreeMap<String, Value> = BTreeMap::new();
        for (id, workload, selector) in &workloads {
            match pods::list_pods(&self.scope.context.client, &id.namespace, selector).await {
                Ok(pods) => {
                    // Its selector may find those of others.
                    let own = pods.into_iter().filter(|(_, pod)| is_of_workload(pod, id, workload));
                    all.extend(own.map(|(name, pod)| (name, seen_of_pod(pod))));
                }
                Err(error) => {
                    release.schedule.at(RECHECK, RequeueReason::PodsUnread);
                    return Err(format!("the pods of {id} can't be read: {error}"));
                }
            }
        }
        let list: Value = all.into_values().collect();
        if size_of_data(&list) > LARGEST {
            return Err(too_large());
        }
        let pods = Pods {
            versions,
            size: list.to_string().len(),
            list: Arc::new(list),
            read: Instant::now(),
            is_stale: false,
        };
        let list = pods.list.clone();
        release.observed.full_members.get_or_insert_default().pods = Some(pods);
        Ok(list)
    }
}

/// How a member is by its own condition, if it has one.
pub(crate) fn condition_health<'r>(release: &'r Release, id: &ObjectId) -> Option<&'r Health> {
    release.observed.full_members.as_ref()?.gates.get(id)
}

/// The API version in which the chart has an object.
fn version_of(release: &Release, id: &ObjectId) -> Option<String> {
    let rendered = release
        .observed
        .full_members
        .as_ref()
        .and_then(|whole| whole.versions.get(id).cloned());
    rendered.or_else(|| release.record.entry(id).map(|entry| entry.version.clone()))
}

/// What is shown of a pod: who it is, where it runs, and how it is.
fn seen_of_pod(mut pod: Value) -> Value {
    let mut take = |pointer: &str| pod.pointer_mut(pointer).map(Value::take).unwrap_or_default();
    let (metadata, status, node) = (take("/metadata"), take("/status"), take("/spec/nodeName"));
    let containers = take("/spec/containers");
    let containers = containers.as_array().into_iter().flatten();
    let containers: Value = containers
        .map(|container| json!({"name": container["name"], "image": container["image"], "resources": container["resources"]}))
        .collect();
    json!({"metadata": metadata, "spec": {"nodeName": node, "containers": containers}, "status": status})
}
