//! What every reconcile of a process shares, and what those of one watch share.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, Semaphore};

use super::custom_resource::{CustomResource, Key as ResourceKey};
use super::record::Lossy;
use crate::chart::Chart;
use crate::chart::stamp::Stamp;
use crate::cluster::discovery::{Discovery, Resource};
use crate::cluster::events::Events;
use crate::cluster::looks::Looks;
use crate::cluster::lookup;
use crate::plan::digest::Key;
use crate::plan::grants::Baseline;
use crate::plan::identity::GroupKind;
use crate::plan::lookups::LookedUp;
use crate::plan::members::{Members, Scope};
use crate::plan::ownership::Ownership;
use crate::render::{LookupKey, Renderer};
use crate::telemetry::metrics::{Metrics, ReleaseLabels};
use crate::watches::Watch;
use crate::watches::selector::LabelSelector;

/// The process.
pub struct Context {
    pub discovery: Discovery,
    pub events: Events,
    pub metrics: Arc<Metrics>,
    /// The HMAC key of digests and of random results.
    pub key: Key,
    /// The operator's id: the value of the label `chartwright.dev/operator`.
    pub operator: String,
    /// The operator's own namespace: what it keeps for cluster-scoped custom resources lies there.
    pub own_namespace: String,
    /// The namespaces that this operator looks at; `None`: all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Bounds how many renders run at once: they use a core each.
    pub renders: Arc<Semaphore>,
    members: Mutex<Members>,
    looked_up: Mutex<LookedUp>,
    /// Shared by the reconciles that look for what is in the way of new members.
    pub looks: Looks,
    /// The custom resources of this process by their ApplySet id, as their watches saw them last.
    owners: Mutex<HashMap<String, Known>>,
    /// Told when a scope was wanted, or is no longer, so that its watch starts or ends.
    pub wanted: Notify,
}

/// What must be known of a custom resource while another, or it itself, is worked on.
struct Known {
    uid: String,
    /// Kind, namespace and name.
    name: String,
    version: u64,
    trigger: u64,
}

/// One watch of `watches.yaml` at work.
pub struct Unit {
    pub watch: Watch,
    pub group_kind: GroupKind,
    /// Group and kind as metric labels, shared by the series of all releases.
    pub labels: (Arc<str>, Arc<str>),
    /// The custom resource's own resource.
    pub resource: Resource,
    /// The chart, ready to render; or why it can't be read. Deletions work without.
    pub renderer: Result<Arc<Renderer>, String>,
    /// Of the chart's files, as they were when they were read.
    pub stamp: Stamp,
    /// What the chart's templates read besides their values.
    pub reads: Reads,
    /// Selectors of other watches of the same kind.
    pub siblings: Vec<LabelSelector>,
    /// Reconciles at a time.
    pub concurrency: usize,
    /// What the chart renders with nobody's values, by release namespace and digest of the capabilities.
    pub baselines: Mutex<HashMap<(String, String), Arc<Baseline>>>,
    /// What the status of its custom resources does not keep.
    pub lossy: Lossy,
}

/// What a chart's templates mention, and so may depend on. Found as text: it may be too much, and is never too little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// `.Capabilities`: a CRD that comes or goes may change the render.
    pub capabilities: bool,
    /// `.Release.Revision`, `.IsInstall`, `.IsUpgrade`: an upgrade may render differently from what it is compared with.
    pub release_facts: bool,
}

/// `tpl` makes code of values, so that they are searched as well.
const CAPABILITIES: &[&str] = &["Capabilities"];
pub(super) const RELEASE_FACTS: &[&str] = &["IsInstall", "IsUpgrade", "Revision"];

/// True if a text contains one of the words.
pub(super) fn mentions(text: &[u8], words: &[&str]) -> bool {
    let text = String::from_utf8_lossy(text);
    words.iter().any(|word| text.contains(word))
}

impl Reads {
    /// Searches a chart and its dependencies.
    pub fn of(chart: &Chart) -> Self {
        // Values and files can reach `tpl`, too.
        let files = chart
            .templates
            .iter()
            .chain(&chart.files)
            .map(|file| file.data.as_bytes());
        let values = serde_json::to_vec(&chart.values.to_json()).unwrap_or_default();
        let mut reads = Reads::default();
        for text in files.chain([values.as_slice()]) {
            reads.capabilities |= mentions(text, CAPABILITIES);
            reads.release_facts |= mentions(text, RELEASE_FACTS);
        }
        for dependency in chart.dependencies.iter().map(Reads::of) {
            reads.capabilities |= dependency.capabilities;
            reads.release_facts |= dependency.release_facts;
        }
        reads
    }
}

// === impl Context ===

impl Context {
    pub fn new(
        discovery: Discovery,
        events: Events,
        metrics: Arc<Metrics>,
        key: Key,
        operator: String,
        own_namespace: String,
        namespaces: Option<BTreeSet<String>>,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Context {
            discovery,
            events,
            metrics,
            key,
            operator,
            own_namespace,
            namespaces,
            renders: Arc::new(Semaphore::new(cores)),
            members: Mutex::default(),
            looked_up: Mutex::default(),
            looks: Looks::default(),
            owners: Mutex::default(),
            wanted: Notify::new(),
        }
    }

    /// The index of live members. Never held across an await.
    pub fn members(&self) -> MutexGuard<'_, Members> {
        lock(&self.members)
    }

    /// The index of what releases look up. Never held across an await.
    pub fn looked_up(&self) -> MutexGuard<'_, LookedUp> {
        lock(&self.looked_up)
    }

    /// From now on, a release hears of changes of what it looks up, and of nothing that it looked up before.
    pub fn follow_lookups<'k>(&self, set: &str, keys: impl Iterator<Item = &'k LookupKey>) {
        let snapshot = self.discovery.snapshot();
        let targets = keys.map(|key| lookup::target(&snapshot, key)).collect();
        if self.looked_up().read(set, targets) {
            self.wanted.notify_one();
        }
    }

    /// Remembers whose set this is, so that others can be told, and how the custom resource is by now.
    pub fn register_owner(&self, group_kind: &GroupKind, resource: &CustomResource) {
        let known = Known {
            uid: resource.uid.clone(),
            name: format!("{group_kind} {}", resource.key),
            version: resource.version,
            trigger: resource.trigger(),
        };
        lock(&self.owners).insert(resource.set(group_kind), known);
    }

    /// True if the custom resource has changed since this state of it, in a way that starts a reconcile: what is
    /// under way for this state is in vain. `trigger` is that of the state.
    pub fn is_outdated(&self, set: &str, resource: &CustomResource, trigger: u64) -> bool {
        lock(&self.owners)
            .get(set)
            .is_some_and(|known| known.version > resource.version && known.trigger != trigger)
    }

    pub fn forget_owner(&self, set: &str) {
        lock(&self.owners).remove(set);
    }

    /// Names the release that an object belongs to, if it is one of this process.
    pub fn whose(&self, ownership: &Ownership) -> Option<String> {
        let Ownership::OtherRelease(other) = ownership else {
            return None;
        };
        let owners = lock(&self.owners);
        let by_set = owners.get(other);
        let owner = by_set.or_else(|| owners.values().find(|known| known.uid == *other))?;
        Some(format!("it belongs to another release, that of {}", owner.name))
    }

    /// The watch scope that shows objects of a kind in a namespace.
    pub fn scope(&self, group_kind: &GroupKind, namespace: &str) -> Scope {
        let narrow = self.namespaces.is_some() && !namespace.is_empty();
        Scope {
            group_kind: group_kind.clone(),
            namespace: narrow.then(|| namespace.to_owned()),
        }
    }

    /// Asks for watches, and wakes who starts them.
    pub fn want(&self, scopes: impl IntoIterator<Item = Scope>) {
        let mut members = self.members();
        let mut news = false;
        for scope in scopes {
            news |= members.want(scope);
        }
        drop(members);
        if news {
            self.wanted.notify_one();
        }
    }
}

/// A lock that a panic elsewhere does not poison: the data behind our locks is replaced whole, never half-written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

// === impl Unit ===

impl Unit {
    /// True if the chart on disk is still the one that was read. Looks at the metadata of its files.
    pub async fn is_chart_unchanged(&self) -> bool {
        let path = self.watch.chart.clone();
        let now = tokio::task::spawn_blocking(move || Stamp::of(&path)).await;
        now.is_ok_and(|now| now == self.stamp)
    }

    /// True if the render of a custom resource may depend on what the API server serves.
    pub fn reads_capabilities(&self, resource: &CustomResource) -> bool {
        self.reads.capabilities || mentions(resource.spec_bytes(), CAPABILITIES)
    }

    /// What identifies the metric series of a release.
    pub fn metric_labels(&self, key: &ResourceKey) -> ReleaseLabels {
        ReleaseLabels {
            group: self.labels.0.clone(),
            kind: self.labels.1.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }

    /// True if a custom resource is this unit's business: it matches the selector, or it did (our finalizer is on it)
    /// and no other watch of the kind has taken it over.
    pub fn is_ours(&self, labels: &std::collections::BTreeMap<String, String>, has_finalizer: bool) -> bool {
        self.watch.selector.matches(labels)
            || (has_finalizer && !self.siblings.iter().any(|sibling| sibling.matches(labels)))
    }
}
