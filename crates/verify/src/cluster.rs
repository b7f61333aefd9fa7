//! A release on a fake API server. The operator's own pipeline reconciles it; the controllers of Kubernetes are imitated: hooks
//! end, and members are healthy.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use fake_apiserver::{BUILT_IN, FakeServer, ObjectKey, ServedKind, Store, StoreChange, fields};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::outcome::{DoneStep, MemberChange, Performed, Stopped, restarts};
use chartwright_core::annotations::{self, DEPENDS_ON, HOOK_RUN};
use chartwright_core::digest::{Key, Keyring};
use chartwright_core::health::{Health, HealthStatus, has_health};
use chartwright_core::hooks::stand_in;
use chartwright_core::identity::applyset::{OPERATOR_LABEL, TRACKING_ANNOTATION};
use chartwright_core::identity::cluster_scoped::is_cluster_scoped;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::live::Live;
use chartwright_core::index::members::Scope;
use chartwright_core::members::desired::{Member, fold_string_data};
use chartwright_core::members::immutable_fields;
use chartwright_core::status::{Phase, conditions};
use chartwright_operator::cluster::discovery::{Discovery, Resource};
use chartwright_operator::cluster::events::Events;
use chartwright_operator::cluster::objects;
use chartwright_operator::reconcile::{
    Context, CustomResource, LookupAnswers, PreparedRelease, Release, Unit, prepare, reconcile,
};
use chartwright_operator::telemetry::metrics::Metrics;
use helm_template::render::Capabilities;

/// The operator's id.
const OPERATOR: &str = "chartwright";
/// What templates take for the time: 2026-01-01T00:00:00Z.
const CLOCK: i64 = 1_767_225_600;
/// Random results are drawn from this, so that they are the same each time; all but keys and certificates.
const SEED: [u8; 32] = [7; 32];
/// The UID of each custom resource.
const UID: &str = "00000000-0000-4000-8000-000000000000";
/// The key of the kind of Events.
const EVENTS: &str = "events.events.k8s.io";
/// The most reconciles of a step. Each run of a hook and each wave needs one.
const MAX_RECONCILES: usize = 500;

/// One release and its cluster, from the installation on.
pub struct FakeCluster {
    server: FakeServer,
    release: Release,
    /// The members as they were rendered when they were last applied.
    rendered: BTreeMap<ObjectId, Value>,
    /// The objects of the case beside the custom resource, as it states them.
    stated: BTreeMap<ObjectKey, Value>,
}

/// What there is when a step begins.
pub struct Scene<'a> {
    pub unit: &'a Arc<Unit>,
    /// The custom resource as its author writes it.
    pub object: &'a Value,
    pub capabilities: &'a Capabilities,
    /// Objects that exist and are not the release's. Namespaced ones without a namespace are in the custom resource's.
    pub others: &'a [Value],
}

/// Reasons of a release that stops before its first write.
const BEFORE_WRITES: [&str; 5] = ["ManifestInvalid", "PatchFailed", "Refused", "Takeover", "Claim"];

impl FakeCluster {
    pub fn new() -> Self {
        let server = FakeServer::with_kinds(BUILT_IN);
        server.store().immutable_fields = Some(|kind, live, written| {
            let group_kind = GroupKind::new(kind.group, kind.kind);
            immutable_fields::changed(&group_kind, live, written)
        });
        FakeCluster {
            server,
            release: Release::default(),
            rendered: BTreeMap::new(),
            stated: BTreeMap::new(),
        }
    }

    /// Serves a kind, unless the server has it. Returns it as the server has it.
    pub fn serve(&self, resource: &Resource) -> Resource {
        to_resource(&serve(&mut self.server.store(), resource))
    }

    /// Writes the custom resource and reconciles until nothing changes.
    ///
    /// # Errors
    /// Why nothing is done.
    pub async fn perform(&mut self, scene: &Scene<'_>) -> DoneStep {
        let namespace = scene.object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.state_objects(scene.others, namespace);
        let began = self.server.store().changes.len();
        let key = self.write_custom_resource(scene)?;
        let context = self.context(scene, namespace);
        let resource = self.custom_resource(scene.unit, &key)?;
        if annotations::is_suspended(&resource.annotations) {
            self.converge(&context, scene.unit, &key).await?;
            return Err(Phase::Suspended.into());
        }
        let before: BTreeSet<ObjectId> = self
            .release
            .record
            .entries
            .iter()
            .map(|entry| entry.id.clone())
            .collect();
        self.serve_unknown_kinds(&context, scene.unit, &resource).await;
        let resource = self.converge(&context, scene.unit, &key).await?;
        // Once more, with the random results that are stored by now.
        let mut answers = LookupAnswers::new();
        let prepared = prepare(&context, scene.unit, &resource, &mut self.release, &mut answers).await;
        let conditions = conditions::of(&resource.status());
        let ready = conditions::get(&conditions, "Ready").filter(|ready| ready.status != "True");
        let stopped = ready.map(|ready| Stopped {
            reason: ready.reason.clone(),
            message: ready.message.clone(),
        });
        match (prepared, stopped) {
            (Break(phase), stopped) => {
                let own = Stopped::from(phase);
                // The release may have been rolled back since.
                Err(stopped.filter(|stopped| stopped.reason != own.reason).unwrap_or(own))
            }
            (_, Some(stopped)) if BEFORE_WRITES.contains(&stopped.reason.as_str()) => Err(stopped),
            (Continue(prepared), stopped) => Ok(self.performed(prepared, stopped, &before, began)),
        }
    }

    /// Reconciles until neither the operator nor a controller changes anything. Returns the custom resource.
    async fn converge(
        &mut self,
        context: &Context,
        unit: &Arc<Unit>,
        key: &ObjectKey,
    ) -> Result<CustomResource, Stopped> {
        for _ in 0..MAX_RECONCILES {
            let began = self.server.store().changes.len();
            let resource = self.custom_resource(unit, key)?;
            context.register_owner(unit, &resource, || ());
            reconcile(context, unit, &resource, &mut self.release).await;
            self.run_controllers();
            let is_notified = self.observe(context);
            let has_written = self.changes_since(began).iter().any(|change| matters(change, key));
            if !is_notified && !has_written {
                break;
            }
        }
        self.custom_resource(unit, key)
    }

    fn changes_since(&self, began: usize) -> Vec<StoreChange> {
        self.server.store().changes.get(began..).unwrap_or_default().to_vec()
    }

    fn custom_resource(&self, unit: &Unit, key: &ObjectKey) -> Result<CustomResource, Stopped> {
        let object = self.server.store().objects.get(key).cloned();
        let object = object.as_deref().cloned().unwrap_or_default();
        Ok(unit.take_in(readable(object)?))
    }

    /// Server-side apply of the custom resource by its author.
    fn write_custom_resource(&self, scene: &Scene<'_>) -> Result<ObjectKey, Stopped> {
        readable(scene.object.clone())?;
        let mut store = self.server.store();
        let kind = serve(&mut store, &scene.unit.resource);
        let text = |field: &str| scene.object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (kind.key, text("namespace"), text("name"));
        let author = ("author".to_owned(), "Apply".to_owned(), String::new());
        let mut applied = scene.object.clone();
        if let Some(object) = applied.as_object_mut() {
            object.remove("status");
        }
        // No controller creates dependencies here.
        if let Some(annotations) = applied["metadata"]["annotations"].as_object_mut() {
            annotations.remove(DEPENDS_ON);
        }
        let live = store.objects.get(&key).cloned();
        let base = live.as_deref().cloned().unwrap_or_else(|| bare(&kind));
        let now = store.now();
        let object = fields::apply(&base, &applied, &author, true, kind.custom, &now);
        let object = object.map_err(|managers| Stopped::by_api_server(managers.join(", ")))?;
        match live {
            Some(_) => drop(store.put(&kind, key.clone(), object)),
            None => store.create_with_uid(&kind, key.clone(), object, UID),
        }
        Ok(key)
    }

    /// Brings the objects beside the release to what the case states. Objects that the release has taken over stay.
    fn state_objects(&mut self, others: &[Value], home: &str) {
        let mut store = self.server.store();
        let mut stated: BTreeMap<ObjectKey, Value> = BTreeMap::new();
        for object in others {
            let Some((group_kind, version)) = GroupKind::of(object) else {
                continue;
            };
            if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
                continue;
            }
            let guess = Resource::offline(&group_kind, &version, !is_cluster_scoped(&group_kind));
            let kind = serve(&mut store, &guess);
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let namespace = match (kind.namespaced, text("namespace")) {
                (false, _) => "",
                (true, "") => home,
                (true, namespace) => namespace,
            };
            let key = (kind.key, namespace.to_owned(), text("name").to_owned());
            let mut object = object.clone();
            if kind.group.is_empty() && kind.kind == "Secret" {
                fold_string_data(&mut object);
            }
            stated.insert(key, object);
        }
        let is_member = |object: &Value| object["metadata"]["annotations"][TRACKING_ANNOTATION].is_string();
        for key in self.stated.keys().filter(|key| !stated.contains_key(key)) {
            if store.objects.get(key).is_some_and(|live| !is_member(live)) {
                store.remove(key.clone());
            }
        }
        let other = ("other".to_owned(), "Update".to_owned(), String::new());
        let now = store.now();
        for (key, object) in &stated {
            let live = store.objects.get(key).cloned();
            let is_same = live.is_some() && self.stated.get(key) == Some(object);
            let kind = store.kind_by_key(key.0);
            let Some(kind) = kind.filter(|_| !is_same && !live.as_deref().is_some_and(is_member)) else {
                continue;
            };
            let base = live.as_deref().cloned().unwrap_or_else(|| bare(&kind));
            let mut written = object.clone();
            for field in ["uid", "creationTimestamp", "managedFields"] {
                if !base["metadata"][field].is_null() {
                    written["metadata"][field] = base["metadata"][field].clone();
                }
            }
            let written = fields::update(&base, &written, &other, &now);
            match (live.is_none(), object["metadata"]["uid"].as_str()) {
                (true, Some(uid)) => store.create_with_uid(&kind, key.clone(), written, uid),
                _ => drop(store.put(&kind, key.clone(), written)),
            }
        }
        drop(store);
        self.stated = stated;
    }

    /// An operator of this cluster that has seen everything.
    fn context(&self, scene: &Scene<'_>, namespace: &str) -> Context {
        let client = self.server.client(namespace);
        let served: Vec<Resource> = self.server.store().kinds.iter().map(to_resource).collect();
        let mut context = Context::new(
            client.clone(),
            Discovery::offline(client.clone(), scene.capabilities.clone(), served),
            Events::new(client, OPERATOR, None),
            Arc::new(Metrics::new()),
            Keyring::new(Key::new([0; 32]), Vec::new()),
            OPERATOR.to_owned(),
            namespace.to_owned(),
        );
        context.settings.random = Some(Arc::new(SEED));
        context.settings.clock = Timestamp::from_second(CLOCK).ok();
        context.settings.lookup_hold = std::time::Duration::ZERO;
        let store = self.server.store();
        let mut members = context.members();
        for kind in &store.kinds {
            members.set_synced(&Scope::everywhere(&GroupKind::new(kind.group, kind.kind)));
        }
        drop((members, store));
        self.observe(&context);
        context
    }

    /// Shows the operator all members, as its watches do. True if that is news to the release.
    fn observe(&self, context: &Context) -> bool {
        let store = self.server.store();
        let mut members = context.members();
        let mut seen: BTreeMap<GroupKind, HashSet<ObjectId>> = BTreeMap::new();
        let mut is_notified = false;
        for kind in &store.kinds {
            seen.entry(GroupKind::new(kind.group, kind.kind)).or_default();
        }
        for (key, object) in store.objects.iter().filter(|(_, object)| is_marked(object)) {
            let Some(id) = id_of(&store, key) else { continue };
            is_notified |= !members.observe(&id, healthy(&id, object)).is_empty();
            seen.entry(id.group_kind.clone()).or_default().insert(id);
        }
        for (group_kind, ids) in &seen {
            is_notified |= !members.retain(&Scope::everywhere(group_kind), ids).is_empty();
        }
        is_notified
    }

    /// Serves kinds of members that neither Kubernetes nor a CustomResourceDefinition has.
    async fn serve_unknown_kinds(&mut self, context: &Context, unit: &Unit, resource: &CustomResource) {
        let mut answers = LookupAnswers::new();
        let prepared = prepare(context, unit, resource, &mut self.release, &mut answers).await;
        // The reconcile reports why it can't be rendered.
        let Continue(prepared) = prepared else { return };
        let hooks = prepared.desired.hooks.iter().map(|hook| &hook.member);
        for member in prepared.desired.members.iter().chain(hooks) {
            let group_kind = &member.id.group_kind;
            let snapshot = context.discovery.snapshot();
            if snapshot.resource(group_kind, &member.version).is_none() {
                let resource = Resource::offline(group_kind, &member.version, !member.id.namespace.is_empty());
                context.discovery.add_kind(self.serve(&resource));
                context.members().set_synced(&Scope::everywhere(group_kind));
            }
        }
    }

    /// Does what controllers and kubelets do with the objects of hooks: Jobs and Pods succeed, conditions of readiness hold.
    fn run_controllers(&self) {
        let mut store = self.server.store();
        let hooks = store.objects.iter().filter(|(_, object)| stand_in::is_of_hook(object));
        let hooks: Vec<(ObjectKey, Arc<Value>)> = hooks.map(|(key, object)| (key.clone(), object.clone())).collect();
        let manager = ("controllers".to_owned(), "Update".to_owned(), String::new());
        for (key, object) in hooks {
            if let Some(changed) = stand_in::completed(&object)
                && let Some(kind) = store.kind_by_key(key.0)
            {
                let changed = fields::update(&object, &changed, &manager, &store.now());
                store.put(&kind, key, changed);
            }
        }
    }

    /// What the reconciles of a step came to. `before`: what the release had.
    fn performed(
        &mut self,
        prepared: PreparedRelease,
        stopped: Option<Stopped>,
        before: &BTreeSet<ObjectId>,
        began: usize,
    ) -> Performed {
        let changes = self.changes_since(began);
        let desired = &prepared.desired;
        let mut members = Vec::with_capacity(desired.members.len());
        for member in &desired.members {
            let change = self.member_change(member, stopped.is_some(), &changes);
            if !matches!(change, MemberChange::Unchanged | MemberChange::Refused) {
                self.rendered.insert(member.id.clone(), member.object.clone());
            }
            members.push((member.id.clone(), change));
        }
        let store = self.server.store();
        let is_there = |id: &&ObjectId| key_of(&store, id).is_some_and(|key| store.objects.contains_key(&key));
        let hooks = desired.hooks.iter().map(|hook| &hook.member.id);
        let rendered: BTreeSet<&ObjectId> = desired.members.iter().map(|member| &member.id).chain(hooks).collect();
        let dropped = before.iter().filter(|id| !rendered.contains(id));
        let (kept, pruned): (Vec<&ObjectId>, Vec<&ObjectId>) = dropped.partition(is_there);
        let kept = match stopped {
            // It is not decided.
            Some(_) => Vec::new(),
            None => kept.into_iter().cloned().collect(),
        };
        let pruned = pruned.into_iter().cloned().collect();
        let hooks = hook_runs(&store, &changes);
        drop(store);
        Performed {
            restarts: restarts(&members),
            hooks,
            members,
            pruned,
            kept,
            stopped,
            prepared,
        }
    }

    fn member_change(&self, member: &Member, is_stopped: bool, changes: &[StoreChange]) -> MemberChange {
        let entry = self.release.record.entry(&member.id);
        if is_stopped && entry.is_none_or(|entry| entry.digest != member.digest) {
            return MemberChange::Refused;
        }
        let key = key_of(&self.server.store(), &member.id);
        let own: Vec<&StoreChange> = changes
            .iter()
            .filter(|change| Some(&change.key) == key.as_ref())
            .collect();
        let Some(first) = own.first() else {
            return MemberChange::Unchanged;
        };
        match &first.before {
            None => MemberChange::Created,
            Some(_) if own.iter().any(|change| change.after.is_none()) => MemberChange::Recreated,
            Some(live) => {
                let stated = || key.as_ref().and_then(|key| self.stated.get(key));
                let before = self.rendered.get(&member.id).or_else(stated).unwrap_or(live);
                MemberChange::Changed(before.clone(), member.object.clone())
            }
        }
    }
}

fn readable(object: Value) -> Result<DynamicObject, Stopped> {
    serde_json::from_value(object)
        .map_err(|error| Stopped::by_api_server(format!("the custom resource can't be read: {error}")))
}

/// The hooks that ran, in their order, by their events.
fn hook_runs(store: &Store, changes: &[StoreChange]) -> Vec<(String, Vec<ObjectId>)> {
    let run_of = |object: &Option<Arc<Value>>| {
        let object = object.as_deref()?;
        object["metadata"]["annotations"][HOOK_RUN].as_str().map(str::to_owned)
    };
    let mut runs: Vec<(String, Vec<ObjectId>)> = Vec::new();
    for change in changes {
        let Some(run) = run_of(&change.after).filter(|run| run_of(&change.before).as_ref() != Some(run)) else {
            continue;
        };
        // Event, revision, attempt and digest.
        let event = run.rsplitn(4, '.').last().unwrap_or_default();
        let Some(id) = id_of(store, &change.key) else { continue };
        match runs.last_mut().filter(|(last, _)| last == event) {
            Some((_, ids)) => ids.push(id),
            None => runs.push((event.to_owned(), vec![id])),
        }
    }
    runs
}

/// A change after which the operator may have more to do.
fn matters(change: &StoreChange, custom_resource: &ObjectKey) -> bool {
    change.key != *custom_resource && change.key.0 != EVENTS
}

fn is_marked(object: &Value) -> bool {
    object["metadata"]["labels"][OPERATOR_LABEL] == OPERATOR
}

/// What a watch shows of a member, as if it were healthy.
fn healthy(id: &ObjectId, object: &Value) -> Live {
    let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
    let has_health = has_health(&id.group_kind.group, &id.group_kind.kind);
    let mut live = objects::live(&metadata);
    live.state.health = has_health.then(|| Health {
        status: HealthStatus::Current,
        message: String::new(),
    });
    live.ready_when = None;
    live
}

fn bare(kind: &ServedKind) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {}})
}

fn serve(store: &mut Store, resource: &Resource) -> ServedKind {
    let api = &resource.api;
    let kind = ServedKind::defined(&api.group, &api.version, &api.kind, &api.plural, resource.namespaced);
    store.serve(kind);
    let is_it =
        |known: &&ServedKind| known.group == api.group && known.kind == api.kind && known.version == api.version;
    store.kinds.iter().find(is_it).copied().unwrap_or(kind)
}

fn to_resource(kind: &ServedKind) -> Resource {
    let group_kind = GroupKind::new(kind.group, kind.kind);
    let mut resource = Resource::offline(&group_kind, kind.version, kind.namespaced);
    kind.plural.clone_into(&mut resource.api.plural);
    resource
}

fn key_of(store: &Store, id: &ObjectId) -> Option<ObjectKey> {
    let GroupKind { group, kind } = &id.group_kind;
    let mut kinds = store.kinds.iter();
    let kind = kinds.find(|known| known.group == group && known.kind == kind)?;
    Some((kind.key, id.namespace.clone(), id.name.clone()))
}

fn id_of(store: &Store, key: &ObjectKey) -> Option<ObjectId> {
    let kind = store.kind_by_key(key.0)?;
    Some(ObjectId::new(
        GroupKind::new(kind.group, kind.kind),
        key.1.as_str(),
        key.2.as_str(),
    ))
}
