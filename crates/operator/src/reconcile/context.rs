//! Holds the state that all reconciles of a process share.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};

use crate::cluster::discovery::{Discovery, Snapshot};
use crate::cluster::events::Events;
use crate::cluster::objects::lookup;
use crate::cluster::storage::keys;
use crate::cluster::workloads::elect::pod_kind;
use crate::cluster::workloads::pods::PodTroubles;
use crate::reconcile::chart_crd_index::ChartCrdIndex;
use crate::reconcile::custom_resource::{CustomResource, ResourceKey};
use crate::reconcile::load::release_dependencies::{ReleaseDependency, as_dependency, needs};
use crate::reconcile::render::memo::{PermitCache, RenderMemo};
use crate::reconcile::render::memory_budget::MemoryBudget;
use crate::reconcile::render::pool::{Deadline, PoolError, WorkerPool};
use crate::reconcile::schemas::Schemas;
use crate::reconcile::unit::Unit;
use crate::sync::lock;
use crate::telemetry::metrics::Metrics;
use chartwright_core::crds::live::InstalledCrds;
use chartwright_core::digest::Keyring;
use chartwright_core::identity::ownership::{Owner, Ownership};
use chartwright_core::identity::{GroupKind, ObjectId, applyset, decorator};
use chartwright_core::index::dependencies::{Dependencies, ObjectDependency};
use chartwright_core::index::members::{Members, Scope};
use chartwright_core::leader::pod_index::{PodIndex, Workload};
use chartwright_core::prune::intent::HOLD;
use helm_template::render::{LookupKey, Random};

/// Requests for what templates look up that are under way in the process.
const LOOKUPS_AT_ONCE: usize = 16;

/// The state that all reconciles of a process share.
pub struct Context {
    pub client: kube::Client,
    pub discovery: Discovery,
    pub events: Events,
    pub metrics: Arc<Metrics>,
    /// The HMAC keys of digests and signatures.
    pub keys: Keyring,
    pub settings: OperatorSettings,
    pub(super) render: RenderResources,
    /// Notified when the schemas of a group have changed: the API server may judge its objects differently.
    pub schemas: Schemas,
    /// Shared by the reconciles that read the pods of workloads.
    pub pods: PodTroubles,
    indexes: Indexes,
    /// Notified when a scope is needed, or no longer, so that its watch starts or ends.
    pub wanted: Notify,
    /// Notified when a watch of members or looked-up objects has its first complete list.
    pub synced: Notify,
    /// The installed CustomResourceDefinitions. `None` before the first list.
    pub crds: watch::Sender<Option<Arc<InstalledCrds>>>,
    /// What the charts of the watches have in `crds/`.
    pub chart_crds: ChartCrdIndex,
}

/// The operator's identity and its watched namespaces.
pub struct OperatorSettings {
    /// The operator's id: the value of the label `chartwright.dev/operator`.
    pub operator: String,
    /// The operator's own objects: its keys and its Lease. No release may have them.
    pub own_objects: Vec<ObjectId>,
    /// The operator's own namespace. Secrets of cluster-scoped custom resources are stored there.
    pub own_namespace: String,
    /// The watched namespaces. `None`: all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Selects the custom resources of this process, in the API server's notation. `None`: all.
    pub watch_labels: Option<String>,
    /// The source of new random results. `None`: the operating system.
    pub random: Option<Arc<dyn Random>>,
    /// The time for templates. `None`: the system's time.
    pub clock: Option<jiff::Timestamp>,
    /// How long members stay that only another answer of a lookup removes from the render.
    pub lookup_hold: Duration,
}

/// Threads, memory and requests that the renders of all releases share. A clone shares the same.
#[derive(Clone)]
pub struct RenderResources {
    /// Evaluates renders and conditions.
    pub(super) pool: Arc<WorkerPool>,
    /// Bounds the lookup requests in flight: one release may need many.
    pub(super) lookups: Arc<Semaphore>,
    /// The memory of renders and their results.
    pub(super) budget: Arc<MemoryBudget>,
    /// The renders of one preview. `None`: each render is made.
    pub(super) memo: Option<Arc<RenderMemo>>,
    /// The permits of other previews. `None`: each release has its own only.
    pub(super) permits: Option<Arc<PermitCache>>,
}

impl RenderResources {
    /// `memory`: the memory limit of the process in bytes. `None`: no limit.
    pub fn new(memory: Option<u64>) -> Self {
        Self::within_budget(MemoryBudget::new(memory))
    }

    /// Returns the same memory for many previews, with threads and requests of their own, so that they do not delay reconciles.
    #[must_use]
    pub fn for_previews(&self) -> Self {
        RenderResources {
            permits: Some(Arc::default()),
            ..Self::within_budget(self.budget.clone())
        }
    }

    /// Returns the same for one preview, which renders nothing twice.
    #[must_use]
    pub fn for_preview(&self) -> Self {
        RenderResources {
            memo: Some(Arc::default()),
            ..self.clone()
        }
    }

    fn within_budget(budget: Arc<MemoryBudget>) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        RenderResources {
            pool: Arc::new(WorkerPool::new(cores)),
            lookups: Arc::new(Semaphore::new(LOOKUPS_AT_ONCE)),
            budget,
            memo: None,
            permits: None,
        }
    }
}

/// The state that the watches have shown. No lock is held across an await.
struct Indexes {
    members: Mutex<Members>,
    dependencies: Mutex<Dependencies>,
    pod_index: Mutex<PodIndex>,
    /// The custom resources of this process by their ApplySet id, as their watches saw them last.
    owners: Mutex<HashMap<String, RegisteredOwner>>,
}

/// Suffix of an ApplySet id in the index of dependencies. It separates the objects that a release waits for from the
/// objects that it looks up.
const AWAITED: &str = "/awaited";

/// How many ancestors of a custom resource are followed. Marks of other clients may form a cycle.
const LONGEST_LINE: usize = 1000;

/// The facts about a custom resource that reconciles and watch events need.
struct RegisteredOwner {
    unit: Arc<Unit>,
    key: ResourceKey,
    uid: String,
    version: u64,
    trigger: u64,
    /// The release that created the custom resource, if any.
    parent: Option<Box<Owner>>,
    /// Its known dependencies.
    needs: Arc<[ReleaseDependency]>,
    wake: WakeFn,
}

/// Starts a reconcile of a release.
type WakeFn = Box<dyn Fn() + Send + Sync>;

impl RegisteredOwner {
    fn name(&self) -> String {
        format!("{} {}", self.unit.group_kind, self.key)
    }
}

/// The Secret with the operator's keys, and the usual Lease of its leader.
fn own_objects(operator: &str, namespace: &str) -> Vec<ObjectId> {
    let secret = GroupKind::new("", "Secret");
    vec![
        ObjectId::new(secret, namespace, keys::secret_name(operator)),
        ObjectId::new(lease_kind(), namespace, operator),
    ]
}

pub(crate) fn lease_kind() -> GroupKind {
    GroupKind::new("coordination.k8s.io", "Lease")
}

impl Context {
    pub fn new(
        client: kube::Client,
        discovery: Discovery,
        events: Events,
        metrics: Arc<Metrics>,
        keys: Keyring,
        operator: String,
        own_namespace: String,
    ) -> Self {
        Context {
            client,
            discovery,
            events,
            metrics,
            keys,
            settings: OperatorSettings {
                own_objects: own_objects(&operator, &own_namespace),
                operator,
                own_namespace,
                namespaces: None,
                watch_labels: None,
                random: None,
                clock: None,
                lookup_hold: HOLD,
            },
            render: RenderResources::new(None),
            schemas: Schemas::default(),
            pods: PodTroubles::default(),
            indexes: Indexes {
                members: Mutex::default(),
                dependencies: Mutex::new(Dependencies::of_all_namespaces()),
                pod_index: Mutex::default(),
                owners: Mutex::default(),
            },
            wanted: Notify::new(),
            synced: Notify::new(),
            crds: watch::Sender::default(),
            chart_crds: ChartCrdIndex::default(),
        }
    }

    /// Returns the same with these namespaces (`None`: all), and with this label selector of custom resources.
    pub fn within(mut self, namespaces: Option<BTreeSet<String>>, watch_labels: Option<String>) -> Self {
        self.settings.watch_labels = watch_labels;
        if namespaces.is_some() {
            self.indexes.dependencies = Mutex::default();
        }
        self.settings.namespaces = namespaces;
        self
    }

    /// Returns the same with these threads and this memory.
    #[must_use]
    pub fn rendering_with(mut self, render: RenderResources) -> Self {
        self.render = render;
        self
    }

    /// Returns the same with more objects of the operator's own, which no release may have.
    #[must_use]
    pub fn owning(mut self, objects: impl IntoIterator<Item = ObjectId>) -> Self {
        self.settings.own_objects.extend(objects);
        self
    }

    /// Returns the time for templates.
    pub(super) fn now(&self) -> jiff::Timestamp {
        self.settings.clock.unwrap_or_else(jiff::Timestamp::now)
    }

    /// The index of live members. Never held across an await.
    pub fn members(&self) -> MutexGuard<'_, Members> {
        lock(&self.indexes.members)
    }

    /// The index of what releases depend on. Never held across an await.
    pub fn dependencies(&self) -> MutexGuard<'_, Dependencies> {
        lock(&self.indexes.dependencies)
    }

    /// The index of pods among which leaders are elected. Never held across an await.
    pub fn pod_index(&self) -> MutexGuard<'_, PodIndex> {
        lock(&self.indexes.pod_index)
    }

    /// Wakes a release for changes of the pods of these workloads only. Does nothing if the release is gone.
    pub fn follow_pods(&self, applyset_id: &str, workloads: BTreeSet<Workload>) {
        let owners = lock(&self.indexes.owners);
        if owners.contains_key(applyset_id) {
            self.need_pods(applyset_id, workloads);
        }
    }

    fn need_pods(&self, applyset_id: &str, workloads: BTreeSet<Workload>) {
        let watch = |workload: &Workload| ObjectDependency::watch(pod_kind(), &workload.namespace);
        let watches = workloads.iter().map(watch).collect();
        self.pod_index().follow(applyset_id, workloads);
        if self.dependencies().need(applyset_id, watches) {
            self.wanted.notify_one();
        }
    }

    /// Wakes a release for changes of these looked-up objects only. Does nothing if the release is gone.
    pub fn follow_lookups<'k>(&self, applyset_id: &str, keys: impl Iterator<Item = &'k LookupKey>) {
        let snapshot = self.discovery.snapshot();
        let targets = keys.map(|key| lookup::dependency(&snapshot, key)).collect();
        let owners = lock(&self.indexes.owners);
        if owners.contains_key(applyset_id) && self.dependencies().depend_on(applyset_id, targets) {
            self.wanted.notify_one();
        }
    }

    /// Registers a custom resource by its ApplySet id, in its present state, so that events can wake its release.
    /// `wake` is called when its members or looked-up objects have changed.
    pub fn register_owner(&self, unit: &Arc<Unit>, resource: &CustomResource, wake: impl Fn() + Send + Sync + 'static) {
        let (applyset_id, trigger) = (resource.applyset_id(&unit.group_kind), resource.trigger());
        let before = lock(&self.indexes.owners)
            .get(&applyset_id)
            .map(|known| (known.trigger, known.needs.clone()));
        let (needs, changed) = match before {
            Some((before, needs)) if before == trigger => (needs, false),
            before => {
                let needs: Arc<[ReleaseDependency]> = needs(unit, resource).unwrap_or_default().into();
                let changed = before.is_some_and(|(_, before)| before != needs);
                (needs, changed)
            }
        };
        let known = RegisteredOwner {
            unit: unit.clone(),
            key: resource.key.clone(),
            uid: resource.uid.clone(),
            version: resource.version,
            trigger,
            parent: resource.parent(&unit.group_kind).map(Box::new),
            needs,
            wake: Box::new(wake),
        };
        lock(&self.indexes.owners).insert(applyset_id, known);
        if changed {
            self.notify_dependents(unit, &resource.key);
        }
    }

    /// Wakes the releases with these ids, if they watch their members. Ignores ids that no release claims: custom
    /// resources that are not listed yet, or those of another operator with our id.
    pub fn notify(&self, sets: &[String]) {
        let owners = lock(&self.indexes.owners);
        for applyset_id in sets {
            let (applyset_id, awaits) = match applyset_id.strip_suffix(AWAITED) {
                Some(applyset_id) => (applyset_id, true),
                None => (applyset_id.as_str(), false),
            };
            let Some(known) = owners.get(applyset_id) else { continue };
            if awaits || known.unit.watch.watch_dependent_resources {
                (known.wake)();
            }
        }
    }

    /// Replaces the objects whose changes wake a waiting release.
    pub(super) fn follow_awaited(&self, applyset_id: &str, targets: BTreeSet<ObjectDependency>) {
        let owners = lock(&self.indexes.owners);
        if owners.contains_key(applyset_id)
            && self
                .dependencies()
                .depend_on(&format!("{applyset_id}{AWAITED}"), targets)
        {
            self.wanted.notify_one();
        }
    }

    /// Wakes the dependents of a custom resource. A watch event may have woken them before this state was registered.
    fn notify_dependents(&self, unit: &Unit, key: &ResourceKey) {
        let followers = self.dependencies().followers(&as_dependency(unit, key));
        self.notify(&followers);
    }

    /// Returns the dependencies of a custom resource of this process.
    pub(super) fn needs_of(&self, at: &ObjectDependency, snapshot: &Snapshot) -> Vec<ObjectDependency> {
        let GroupKind { group, kind } = &at.group_kind;
        let applyset_id = applyset::id(&at.name, &at.namespace, kind, group);
        let needs = lock(&self.indexes.owners)
            .get(&applyset_id)
            .map(|known| known.needs.clone());
        let needs = needs.unwrap_or_default();
        needs.iter().map(|need| need.target(snapshot)).collect()
    }

    pub fn knows(&self, applyset_id: &str) -> bool {
        lock(&self.indexes.owners).contains_key(applyset_id)
    }

    /// How many custom resources of its own kind stand above this one, each made by the release of the one before, and
    /// what made it. A mark of a release that this process doesn't know proves nothing and ends the count.
    pub fn depth(&self, group_kind: &GroupKind, resource: &CustomResource) -> (usize, String) {
        let owners = lock(&self.indexes.owners);
        let above = |parent: Option<&Owner>| {
            let parent = parent?;
            owners
                .get(&parent.set)
                .filter(|known| known.uid == decorator::object_uid(&parent.uid))
        };
        let first = resource.parent(group_kind);
        let mut known = above(first.as_ref());
        let maker = known.map(RegisteredOwner::name).unwrap_or_default();
        let (mut steps, mut depth) = (0, 0);
        while let Some(ancestor) = known.filter(|_| steps < LONGEST_LINE) {
            depth += usize::from(ancestor.unit.group_kind == *group_kind);
            steps += 1;
            known = above(ancestor.parent.as_deref());
        }
        (depth, maker)
    }

    /// True if the custom resource is gone, or has changed since this state in a way that starts another reconcile.
    /// Work for this state is then useless. `trigger` is the trigger of the state.
    pub fn is_outdated(&self, applyset_id: &str, resource: &CustomResource, trigger: u64) -> bool {
        lock(&self.indexes.owners).get(applyset_id).is_none_or(|known| {
            known.uid != resource.uid || known.version > resource.version && known.trigger != trigger
        })
    }

    /// Ends all watches for a custom resource that is gone, also while a reconcile runs. Returns false if another watch
    /// of `watches.yaml` has taken the custom resource over.
    pub fn forget_owner(&self, unit: &Arc<Unit>, applyset_id: &str) -> bool {
        let mut owners = lock(&self.indexes.owners);
        if owners
            .get(applyset_id)
            .is_some_and(|known| !Arc::ptr_eq(&known.unit, unit))
        {
            return false;
        }
        let gone = owners.remove(applyset_id);
        self.members().need_only(applyset_id, BTreeSet::new());
        self.members().take_finished(applyset_id);
        self.need_pods(applyset_id, BTreeSet::new());
        let sets = [applyset_id.to_owned(), format!("{applyset_id}{AWAITED}")];
        let changed = sets.map(|applyset_id| self.dependencies().depend_on(&applyset_id, BTreeSet::new()));
        if changed.contains(&true) {
            self.wanted.notify_one();
        }
        drop(owners);
        if let Some(known) = gone.filter(|known| !known.needs.is_empty()) {
            self.notify_dependents(unit, &known.key);
        }
        true
    }

    /// Returns the watched members of custom resources that no watch has shown.
    pub fn leftovers(&self) -> Vec<ObjectId> {
        let known: HashSet<String> = lock(&self.indexes.owners).keys().cloned().collect();
        self.members().leftovers(|applyset_id| known.contains(applyset_id))
    }

    /// Names the release that an object belongs to, if it is one of this process.
    pub fn whose(&self, ownership: &Ownership) -> Option<String> {
        let Ownership::OtherRelease(other) = ownership else {
            return None;
        };
        let owners = lock(&self.indexes.owners);
        let by_set = owners.get(other);
        let owner = by_set.or_else(|| owners.values().find(|known| known.uid == *other))?;
        Some(format!("it belongs to another release, that of {}", owner.name()))
    }

    /// Returns kind and name of the custom resource with this owner identity, if it is one of this process.
    pub fn release(&self, owner: &Owner) -> Option<(GroupKind, ResourceKey)> {
        let owners = lock(&self.indexes.owners);
        let known = owners.get(&owner.set).filter(|known| known.uid == owner.uid)?;
        Some((known.unit.group_kind.clone(), known.key.clone()))
    }

    /// Returns the watch scope of a kind in a namespace.
    pub fn scope(&self, group_kind: &GroupKind, namespace: &str) -> Scope {
        let narrow = self.settings.namespaces.is_some() && !namespace.is_empty();
        Scope {
            group_kind: group_kind.clone(),
            namespace: narrow.then(|| namespace.to_owned()),
        }
    }

    /// Requests watches in addition to those that a release has. Does nothing if the release is gone.
    pub fn want(&self, applyset_id: &str, scopes: impl IntoIterator<Item = Scope>) {
        let owners = lock(&self.indexes.owners);
        if owners.contains_key(applyset_id) && self.members().need(applyset_id, scopes) {
            self.wanted.notify_one();
        }
    }

    pub fn want_only(&self, applyset_id: &str, scopes: BTreeSet<Scope>) {
        let owners = lock(&self.indexes.owners);
        if owners.contains_key(applyset_id) {
            self.members().need_only(applyset_id, scopes);
        }
    }

    /// Evaluates conditions of a release within their budget. `work` must stop at its deadline. Fails if the operator
    /// is stopping, the work panics, or the budget is used up.
    pub(super) async fn evaluate<T: Send + 'static>(
        &self,
        applyset_id: &str,
        work: impl FnOnce(Deadline) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        self.count_panics(self.render.pool.evaluate(applyset_id, work).await)
    }

    pub(super) fn count_panics<T>(&self, done: Result<T, PoolError>) -> Result<T, PoolError> {
        if matches!(done, Err(PoolError::Panicked)) {
            self.metrics.process.panics.inc();
        }
        done
    }

    /// Reports how many watches of a kind fail at present.
    pub fn count_failing(&self, group_kind: &GroupKind) {
        let kind = &group_kind.kind;
        let members = self.members().count_failing(kind);
        let dependencies = self.dependencies().count_failing(kind);
        self.metrics.watches.set_failing(kind, members + dependencies);
    }

    /// Reads discovery again. Returns false if the API server does not answer.
    pub async fn refresh_discovery(&self) -> bool {
        let read = self.discovery.refresh().await;
        if let Err(error) = &read {
            tracing::warn!(%error, "the API server's discovery could not be read");
        }
        read.is_ok()
    }
}
