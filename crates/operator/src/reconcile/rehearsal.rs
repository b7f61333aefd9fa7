//! A release without a cluster: what a reconcile would do with each member, as if every request went well and every member
//! became healthy.
//!
//! It prepares and checks as a reconcile does, and decides by the same plans. What only the API server could say is known
//! otherwise: what exists is what it is given and what it made, and what can't be changed is what `plan::immutable` knows.
//! Hooks are told and not run; what a release waits for isn't waited for.

use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::cluster::discovery::{Discovery, Resource, is_cluster_scoped};
use crate::cluster::events::Events;
use crate::cluster::objects;
use crate::cluster::objects::lookup::LookupAnswers;
use crate::cluster::offline::OfflineServer;
use crate::reconcile::check::Checker;
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::prune::Pruner;
use crate::reconcile::release::Release;
use crate::reconcile::render::job::prepare;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::takeover::claimant::claimant;
use crate::reconcile::unit::Unit;
use crate::telemetry::metrics::Metrics;
use chartwright_core::annotations::{self, ON_CREATE};
use chartwright_core::apply::{Seen, Step, content, step};
use chartwright_core::digest::{Key, Keyring};
use chartwright_core::hooks::{Operation, in_order};
use chartwright_core::identity::ownership::Ownership;
use chartwright_core::identity::{GroupKind, ObjectId, applyset};
use chartwright_core::index::members::Live;
use chartwright_core::members::desired::{Member, fold_string_data};
use chartwright_core::members::immutable_fields::{self, Kept, asks_for_renewal};
use chartwright_core::members::rollout;
use chartwright_core::plans;
use chartwright_core::prune::intent::Intent;
use chartwright_core::prune::{Purpose, Verdict, orphans, verdict};
use chartwright_core::record::Entry;
use chartwright_core::record::requests::Request;
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Phase, Reason};
use chartwright_core::takeover::{Claim, claim};
use helm_template::render::Capabilities;

/// The operator's id.
const OPERATOR: &str = "chartwright";
/// What templates take for the time: 2026-01-01T00:00:00Z.
const CLOCK: i64 = 1_767_225_600;
/// Random results are drawn from this, so that they are the same each time; all but keys and certificates.
const SEED: [u8; 32] = [7; 32];

/// One release, from its installation on.
#[derive(Default)]
pub struct Rehearsal {
    server: OfflineServer,
    release: Release,
    live: BTreeMap<ObjectId, RehearsedMember>,
    /// What was a member once.
    left: OtherObjects,
    /// How many objects were written: their versions.
    written: u64,
}

/// What is there when a reconcile begins.
pub struct Scene<'a> {
    pub unit: &'a Unit,
    pub resource: &'a CustomResource,
    pub capabilities: &'a Capabilities,
    /// Kinds of CustomResourceDefinitions. All others count as served as well, in namespaces unless Kubernetes has them
    /// without.
    pub served: &'a [Resource],
    /// What exists and isn't the release's. Without a namespace, where the kind has them, it lies in the custom resource's.
    pub others: &'a [Value],
}

/// A member that is live.
struct RehearsedMember {
    version: String,
    rendered: Value,
    /// As a lookup finds it.
    object: Value,
}

/// What a reconcile comes to.
pub struct Performed {
    pub prepared: PreparedRelease,
    /// What becomes of each member, in the order in which they are applied.
    pub members: Vec<(ObjectId, RehearsedOutcome)>,
    /// Deleted, since they aren't rendered any more.
    pub pruned: Vec<ObjectId>,
    /// Not rendered any more, and not deleted either.
    pub kept: Vec<ObjectId>,
    /// Workloads whose running pods are replaced.
    pub restarts: Vec<ObjectId>,
    /// The hooks that run, in their order, by their events.
    pub hooks: Vec<(String, Vec<ObjectId>)>,
    /// Why not all of it could be done.
    pub stopped: Option<(Reason, String)>,
}

/// What becomes of a member.
pub enum RehearsedOutcome {
    Created,
    /// As it was rendered before, or as somebody else made it, and as it is rendered now.
    Changed(Value, Value),
    /// Deleted and made anew, since these fields can't be changed.
    Recreated(String),
    Unchanged,
    /// It is somebody else's, which is all that the chart asks for.
    Yielded,
    Refused,
}

/// What exists, by what it is.
type OtherObjects = BTreeMap<ObjectId, (Resource, Value)>;

impl Scene<'_> {
    fn resource_of(&self, group_kind: &GroupKind, version: &str) -> Resource {
        let is_it = |known: &&Resource| known.api.group == group_kind.group && known.api.kind == group_kind.kind;
        let known = self.served.iter().find(is_it);
        let namespaced = known.map_or_else(|| !is_cluster_scoped(group_kind), |known| known.namespaced);
        Resource::offline(group_kind, version, namespaced)
    }

    fn others(&self) -> OtherObjects {
        let mut others = OtherObjects::new();
        for (number, object) in self.others.iter().enumerate() {
            let Some((group_kind, version)) = GroupKind::of(object) else {
                continue;
            };
            let resource = self.resource_of(&group_kind, &version);
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let namespace = match (resource.namespaced, text("namespace")) {
                (false, _) => "",
                (true, "") => &self.resource.key.namespace,
                (true, namespace) => namespace,
            };
            let id = ObjectId::new(group_kind, namespace, text("name"));
            let mut object = object.clone();
            if id.group_kind == GroupKind::new("", "Secret") {
                fold_string_data(&mut object);
            }
            if resource.namespaced {
                object["metadata"]["namespace"] = namespace.into();
            }
            let usual = [
                ("uid", format!("other-{number}")),
                ("resourceVersion", version_of(&object)),
            ];
            for (field, value) in usual {
                if object["metadata"][field].is_null() {
                    object["metadata"][field] = value.into();
                }
            }
            others.insert(id, (resource, object));
        }
        others
    }
}

/// Another one for another content.
fn version_of(object: &Value) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    object.to_string().hash(&mut hash);
    (hash.finish() >> 1).to_string()
}

impl Rehearsal {
    /// Does what a reconcile would do. Whatever can be done is done, and is there when the next one begins.
    ///
    /// # Errors
    /// The phase of a release for which nothing is done.
    pub async fn perform(&mut self, scene: &Scene<'_>) -> Result<Performed, Phase> {
        if annotations::is_suspended(&scene.resource.annotations) {
            return Err(Phase::Suspended);
        }
        let mut others = self.left.clone();
        others.extend(scene.others());
        let context = self.context(scene, &others);
        let mut answers = LookupAnswers::new();
        let prepared = match prepare(&context, scene.unit, scene.resource, &mut self.release, &mut answers).await {
            Continue(prepared) => prepared,
            Break(phase) => return Err(phase),
        };
        let scope = ReleaseScope::new(&context, scene.unit, scene.resource);
        if let Break(phase) = Checker::new(&scope)
            .check_release(&mut self.release, &prepared, &mut answers)
            .await
        {
            return Err(phase);
        }
        let recorded = self.release.record.revision;
        let is_first = recorded == 0 && self.release.record.entries.is_empty();
        self.release.note_intent(&prepared, is_first);
        let handled = &self.release.record.handled;
        let forced = handled
            .pending(Request::Force, &scene.resource.annotations)
            .map(str::to_owned);
        let mut members = Vec::with_capacity(prepared.desired.members.len());
        let mut failures: Vec<(Reason, String)> = Vec::new();
        let mut entries = mem::take(&mut self.release.record.entries);
        let mut reached = Vec::with_capacity(members.capacity());
        for member in &prepared.desired.members {
            let at = entries.iter().position(|entry| entry.id == member.id);
            let entry = at.map(|at| entries.remove(at));
            let task = (member, entry.as_ref(), forced.is_some());
            let outcome = self.member(scene, &prepared, &others, task).unwrap_or_else(|failure| {
                failures.push(failure);
                RehearsedOutcome::Refused
            });
            reached.extend(self.entry(member, entry, &outcome));
            members.push((member.id.clone(), outcome));
        }
        reached.extend(entries);
        self.release.record.entries = reached;
        let is_applied = |outcome: &RehearsedOutcome| {
            !matches!(
                outcome,
                RehearsedOutcome::Unchanged | RehearsedOutcome::Yielded | RehearsedOutcome::Refused
            )
        };
        let any_applied = members.iter().any(|(_, outcome)| is_applied(outcome));
        let is_rendered_otherwise = any_applied && prepared.stay.is_empty();
        self.release
            .learn_lookups(&prepared.inputs.lookups, &prepared.inputs.seen, is_rendered_otherwise);
        self.release.retry.cache.kept = Some(prepared.generated_values.written(failures.is_empty()));
        let stopped = failures.first().map(|(reason, _)| *reason);
        let stopped = stopped.map(|reason| (reason, short_list(failures.into_iter().map(|(_, message)| message))));
        let (mut pruned, mut kept) = (Vec::new(), Vec::new());
        if stopped.is_some() {
            self.release.record.upgrading |= any_applied && prepared.revision > recorded;
        } else {
            (pruned, kept) = self.prune(scene, &context, &scope, &prepared);
            self.release.record.renewal = prepared.generated_values.renewal();
            if let Some(token) = &forced {
                self.release.record.handled.set(Request::Force, token);
            }
        }
        Ok(Performed {
            restarts: restarts(&members),
            hooks: hooks(&prepared, recorded),
            prepared,
            members,
            pruned,
            kept,
            stopped,
        })
    }

    /// A process whose cluster has the release's members, and what else there is.
    fn context(&self, scene: &Scene<'_>, others: &OtherObjects) -> Context {
        let made = self.live.iter().map(|(id, made)| {
            let resource = scene.resource_of(&id.group_kind, &made.version);
            (resource, &made.object)
        });
        let others = others.values().map(|(resource, object)| (resource.clone(), object));
        let objects: Vec<(Resource, &Value)> = others.chain(made).collect();
        self.server
            .replace(objects.iter().map(|(resource, object)| (resource, *object)));
        let served = objects.into_iter().map(|(resource, _)| resource);
        let served = served.chain(scene.served.iter().cloned());
        let client = self.server.client();
        let mut context = Context::new(
            client.clone(),
            Discovery::offline(client.clone(), scene.capabilities.clone(), served),
            Events::new(client, OPERATOR, None),
            Arc::new(Metrics::new()),
            Keyring::new(Key::new([0; 32]), Vec::new()),
            OPERATOR.to_owned(),
            scene.resource.key.namespace.clone(),
        );
        for (id, made) in &self.live {
            context.members().observe(id, live(&made.object));
        }
        context.settings.random = Some(Arc::new(SEED));
        context.settings.clock = Timestamp::from_second(CLOCK).ok();
        context
    }

    /// Does what is to be done about one member: with what is recorded of it, and whether it is asked for that what can't be
    /// changed is made anew.
    ///
    /// # Errors
    /// Why it stays as it is.
    fn member(
        &mut self,
        scene: &Scene<'_>,
        prepared: &PreparedRelease,
        others: &OtherObjects,
        (member, entry, forced): (&Member, Option<&Entry>, bool),
    ) -> Result<RehearsedOutcome, (Reason, String)> {
        let owner = &prepared.identity.owner;
        let made = self.live.get(&member.id);
        let other = others.get(&member.id).map(|(_, object)| object);
        let object = made.map(|made| &made.object).or(other);
        let known = object.map(live);
        let seen = known.as_ref().map_or(Seen::Absent, Seen::Present);
        let left = |why: &str| {
            let text = format!("{} ({}) is left untouched: {why}", member.id, member.source);
            (Reason::Collision, text)
        };
        match step(member, entry, &seen, owner) {
            Step::Unchanged | Step::Leave | Step::Satisfied | Step::Look | Step::AwaitDeletion => {
                return Ok(RehearsedOutcome::Unchanged);
            }
            Step::Yield => return Ok(RehearsedOutcome::Yielded),
            Step::Refuse(Ownership::Foreign | Ownership::Inherited) => {
                let claimant = claimant(scene.unit, scene.resource, &prepared.identity.namespace);
                let metadata = object.map(metadata).unwrap_or_default();
                if let Claim::Refused(why) = claim(&metadata, &claimant) {
                    return Err(left(&why));
                }
            }
            Step::Refuse(ownership) => return Err(left(&ownership.to_string())),
            Step::Apply { .. } => {}
        }
        let before = match (made, other) {
            (Some(made), _) => Some(made.rendered.clone()),
            (None, Some(other)) => Some(other.clone()),
            (None, None) => None,
        };
        let fields = before
            .as_ref()
            .map(|before| immutable_fields::changed(&member.id.group_kind, before, &member.object).join(", "))
            .filter(|fields| !fields.is_empty());
        if let (Some(fields), Some(known), Some(object)) = (&fields, &known, object) {
            let kept = if !asks_for_renewal(member, known, forced) {
                Some(Kept::NotAsked)
            } else {
                let takes = immutable_fields::takes_data(&member.id, object) && !known.prune_allowed;
                takes.then_some(Kept::TakesData)
            };
            if let Some(kept) = kept {
                return Err((Reason::Immutable, kept.told(member, fields)));
            }
        }
        self.write(member, known.as_ref().filter(|_| fields.is_none()));
        Ok(match (before, fields) {
            (None, _) => RehearsedOutcome::Created,
            (_, Some(fields)) => RehearsedOutcome::Recreated(fields),
            (Some(before), None) => RehearsedOutcome::Changed(before, member.object.clone()),
        })
    }

    /// Applies a member, to what is live of it or as a new object.
    fn write(&mut self, member: &Member, onto: Option<&Live>) {
        self.written += 1;
        let mut object = content(member, onto);
        let uid = onto.map_or_else(|| format!("made-{}", self.written), |live| live.uid.clone());
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["resourceVersion"] = self.written.to_string().into();
        let made = RehearsedMember {
            version: member.version.clone(),
            rendered: member.object.clone(),
            object,
        };
        self.live.insert(member.id.clone(), made);
    }

    /// What is recorded of a member after what was done to it.
    fn entry(&self, member: &Member, previous: Option<Entry>, outcome: &RehearsedOutcome) -> Option<Entry> {
        match outcome {
            RehearsedOutcome::Yielded => None,
            RehearsedOutcome::Refused => previous,
            _ => {
                let live = self.live.get(&member.id).map(|made| live(&made.object))?;
                Some(Entry {
                    uid: live.uid,
                    digest: member.digest.clone(),
                    fingerprint: live.fingerprint,
                    ..Entry::of(member)
                })
            }
        }
    }

    /// Deletes what isn't rendered any more; what goes, and what stays all the same.
    fn prune(
        &mut self,
        scene: &Scene<'_>,
        context: &Context,
        scope: &ReleaseScope<'_>,
        prepared: &PreparedRelease,
    ) -> (Vec<ObjectId>, Vec<ObjectId>) {
        for (id, made) in &self.live {
            context.members().observe(id, live(&made.object));
        }
        let owner = &prepared.identity.owner;
        let desired: HashSet<&ObjectId> = prepared.ids().chain(prepared.hook_ids()).collect();
        let orphans = orphans(&context.members(), &self.release.record, &desired, owner);
        let is_guarded = Pruner::new(scope).intent(&self.release, prepared, &orphans) == Intent::Guarded;
        self.release.note_applied(prepared, context.keys.current().id());
        if !is_guarded {
            self.release.note_decided(prepared);
        }
        let (mut pruned, mut kept) = (Vec::new(), Vec::new());
        for id in orphans {
            let Some(made) = self.live.get(&id) else { continue };
            let known = Live {
                takes_data: immutable_fields::takes_data(&id, &made.object),
                ..live(&made.object)
            };
            let stays = match verdict(&id, &known, owner, Purpose::Prune) {
                Verdict::Delete if !is_guarded => {
                    pruned.push(id.clone());
                    false
                }
                // It isn't the release's any more.
                Verdict::Release if !is_guarded => {
                    let resource = scene.resource_of(&id.group_kind, &made.version);
                    let mut object = made.object.clone();
                    applyset::unmark(&mut object);
                    self.left.insert(id.clone(), (resource, object));
                    kept.push(id.clone());
                    false
                }
                _ => {
                    kept.push(id.clone());
                    true
                }
            };
            if !stays {
                self.live.remove(&id);
                self.release.record.entries.retain(|entry| entry.id != id);
            }
        }
        (pruned, kept)
    }
}

fn metadata(object: &Value) -> ObjectMeta {
    serde_json::from_value(object["metadata"].clone()).unwrap_or_default()
}

/// What a watch would show. Whatever is ours is as we left it.
fn live(object: &Value) -> Live {
    Live {
        fingerprint: Some(0),
        ..objects::live(&metadata(object))
    }
}

fn restarts(members: &[(ObjectId, RehearsedOutcome)]) -> Vec<ObjectId> {
    let has_pods = |id: &ObjectId| {
        let GroupKind { group, kind } = &id.group_kind;
        let workloads = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"];
        group == "apps" && workloads.contains(&kind.as_str()) || group.is_empty() && kind == "Pod"
    };
    let restarts = members.iter().filter(|(id, outcome)| match outcome {
        RehearsedOutcome::Changed(before, after) => rollout::restarts(&id.group_kind, before, after),
        RehearsedOutcome::Recreated(_) => has_pods(id),
        _ => false,
    });
    restarts.map(|(id, _)| id.clone()).collect()
}

/// The hooks around an installation or an upgrade; none if the render is that of the recorded revision.
fn hooks(prepared: &PreparedRelease, recorded: i64) -> Vec<(String, Vec<ObjectId>)> {
    let operation = match recorded {
        0 => Operation::Install,
        recorded if prepared.revision > recorded => Operation::Upgrade,
        _ => return Vec::new(),
    };
    let hooks = &prepared.desired.hooks;
    let plans = match operation {
        Operation::Install => plans::marked(hooks, ON_CREATE),
        _ => Vec::new(),
    };
    let plans = plans.iter().map(|plan| plans::event(plan));
    let own = [operation.before(), operation.after()].map(str::to_owned);
    let runs = plans.chain(own).map(|event| {
        let ids = in_order(hooks, &event).into_iter().map(|hook| hook.member.id.clone());
        let ids = ids.collect::<Vec<_>>();
        (event, ids)
    });
    runs.filter(|(_, ids)| !ids.is_empty()).collect()
}
