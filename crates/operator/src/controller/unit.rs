//! One watch of `watches.yaml` at run time: waits for its CRD, watches its custom resources, and works its queue.
//!
//! A unit can be started and stopped on its own; its failures do not affect other units.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use api_objects::CustomObject;
use futures::{FutureExt, StreamExt};
use kube::core::Selector;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cache::Cache;
use super::chart_crds::ChartCrdTask;
use super::queue::Queue;
use super::rollout;
use super::watches::stream::{WatchItem, watch};
use crate::cluster::discovery::Resource;
use crate::reconcile::{self, Context, CustomResource, ReconcileOutcome, Release, ResourceKey, RolloutGate, Unit};
use crate::telemetry::redact::{self, Secrets};
use chartwright_core::identity::GroupKind;
use chartwright_core::prune::deletion::End;
use chartwright_watches::Watch;
use chartwright_watches::names::is_built_in;
use helm_template::chart::stamp::Stamp;
use helm_template::render::Engine;

/// How long readiness waits for the first lists of the member watches.
const SYNC_WAIT: Duration = Duration::from_secs(15);
/// How long the workers wait for these lists before they start. After that each release waits for its own.
const FIRST_LISTS: Duration = Duration::from_secs(2);
/// How long changes of served kinds are collected before releases are woken: an installation adds many.
const GATHERED: Duration = Duration::from_millis(1500);
/// The pause after a panic: the same input will probably panic again.
const AFTER_PANIC: Duration = Duration::from_secs(60);

/// A unit before its CRD is served.
#[derive(Clone)]
pub struct Blueprint {
    pub watch: Watch,
    pub renderer: Result<Arc<Engine>, String>,
    /// The stamp of the chart's files when they were read.
    pub stamp: Stamp,
    pub siblings: Vec<Selector>,
}

/// Reports a namespace (`None`: all) and whether its custom resources were listed.
type Listed = tokio::sync::mpsc::UnboundedSender<(Option<String>, bool)>;

/// A unit whose CRD is served.
struct Serving {
    context: Arc<Context>,
    unit: Arc<Unit>,
    cache: Cache,
    queue: Arc<Queue<ResourceKey>>,
}

impl Blueprint {
    /// True if a unit of the other one does the same.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        // The place in the file does not matter.
        let moved = Watch {
            line: other.watch.line,
            ..self.watch.clone()
        };
        moved == other.watch
            && self.stamp == other.stamp
            && self.siblings == other.siblings
            && self.renderer.as_ref().err() == other.renderer.as_ref().err()
    }

    /// True if the other one was made from the same reading of a chart.
    pub(super) fn has_chart_of(&self, other: &Self) -> bool {
        match (&self.renderer, &other.renderer) {
            (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.as_ref().err() == other.as_ref().err(),
        }
    }

    pub(crate) fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.watch.group, &self.watch.kind)
    }

    /// The unit at work, with the kind as the API server serves it.
    pub(crate) fn unit(&self, mut resource: Resource, reads_release_facts: bool) -> Unit {
        // The status of a built-in kind belongs to its controller.
        resource.status &= !is_built_in(&self.watch.group) && self.watch.decorator.is_none();
        let group_kind = self.group_kind();
        // Several decorators may have the same kind.
        let kind = match &self.watch.decorator {
            None => Arc::from(group_kind.kind.as_str()),
            Some(name) => Arc::from(format!("{}/{name}", group_kind.kind)),
        };
        Unit {
            labels: (Arc::from(group_kind.group.as_str()), kind),
            watch: self.watch.clone(),
            group_kind,
            resource,
            reads_release_facts,
            renderer: self.renderer.clone(),
            stamp: self.stamp.clone(),
            siblings: self.siblings.clone(),
            rollout: RolloutGate::new(self.watch.rollout),
            lossy: Default::default(),
            read_values: Default::default(),
        }
    }

    /// Runs until `stop`, and restarts after a panic. Calls `ready` when the custom resources are listed or the CRD is
    /// absent, perhaps more than once.
    pub async fn supervise(self, context: Arc<Context>, stop: CancellationToken, ready: impl Fn() + Send + Sync) {
        while let Err(panic) = AssertUnwindSafe(self.run(&context, &stop, &ready)).catch_unwind().await {
            context.metrics.process.panics.inc();
            let message = panic_text(panic.as_ref());
            tracing::error!(kind = %self.group_kind(), panic = message, "a watch panicked; it is restarted");
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AFTER_PANIC) => {}
            }
        }
    }

    async fn run(&self, context: &Arc<Context>, stop: &CancellationToken, ready: &(dyn Fn() + Send + Sync)) {
        let engine = self.renderer.as_ref().ok();
        let crds = ChartCrdTask::begin(context, &self.watch, engine).await;
        tokio::select! {
            () = self.serve(context, stop, ready) => {}
            () = crds.keep() => {}
        }
    }

    async fn serve(&self, context: &Arc<Context>, stop: &CancellationToken, ready: &(dyn Fn() + Send + Sync)) {
        let group_kind = self.group_kind();
        let mut served = context.discovery.subscribe();
        let mut is_reported = false;
        while !stop.is_cancelled() {
            let snapshot = context.discovery.snapshot();
            let Some(resource) = snapshot.resource(&group_kind, &self.watch.version).cloned() else {
                if !std::mem::replace(&mut is_reported, true) {
                    let served = snapshot.preferred(&group_kind).map(|other| other.api.version.as_str());
                    tracing::warn!(
                        kind = %group_kind, version = self.watch.version, served,
                        "the API server does not serve this version of the kind (yet): waiting for its \
                         CustomResourceDefinition; see watches.yaml"
                    );
                }
                // Records the group as missed if it does not answer.
                let _ = snapshot.has_answered(&group_kind.group);
                ready();
                tokio::select! {
                    () = stop.cancelled() => return,
                    changed = served.changed() => if changed.is_err() { return },
                }
                continue;
            };
            is_reported = false;
            Serving::new(self, context.clone(), resource).run(stop, ready).await;
        }
    }
}

impl Serving {
    fn new(blueprint: &Blueprint, context: Arc<Context>, resource: Resource) -> Arc<Self> {
        let renderer = blueprint.renderer.as_ref();
        let reads_release_facts = renderer.is_ok_and(|renderer| reconcile::reads_release_facts(renderer.chart()));
        let unit = Arc::new(blueprint.unit(resource, reads_release_facts));
        Arc::new(Serving {
            context,
            unit,
            cache: Cache::default(),
            queue: Arc::default(),
        })
    }

    /// Runs until `stop`, or until the kind is no longer served.
    async fn run(self: Arc<Self>, stop: &CancellationToken, ready: &(dyn Fn() + Send + Sync)) {
        let kind = &self.unit.group_kind;
        tracing::info!(%kind, version = self.unit.watch.version, chart = %self.unit.watch.chart.display(), "watching");
        let ended = stop.child_token();
        let (listed, mut lists) = tokio::sync::mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        let namespaces: Vec<Option<String>> = match &self.context.settings.namespaces {
            Some(namespaces) if self.unit.resource.namespaced => namespaces.iter().cloned().map(Some).collect(),
            _ => vec![None],
        };
        let expected = namespaces.len();
        for namespace in namespaces {
            watches.spawn(self.clone().follow(namespace, listed.clone()));
        }
        drop(listed);
        let mut workers = JoinSet::new();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.unserved() => {}
            () = rollout::follow(&self.context, &self.unit, |key| self.queue.add(key)) => {}
            () = async {
                // Wait for every namespace to be listed or to fail, and for at least one list.
                let (mut answers, mut lists_that_ended) = (HashSet::new(), 0);
                while answers.len() < expected || lists_that_ended == 0 {
                    match lists.recv().await {
                        Some((namespace, ended)) => {
                            answers.insert(namespace);
                            lists_that_ended += usize::from(ended);
                        }
                        None => std::future::pending().await,
                    }
                }
                self.want_members();
                let _ = tokio::time::timeout(FIRST_LISTS, self.await_sync()).await;
                // From now on each release waits for its own watches.
                for _ in 0..self.unit.watch.max_concurrent_reconciles.unwrap_or(1) {
                    workers.spawn(self.clone().work(ended.clone()));
                }
                self.await_sync().await;
                ready();
                std::future::pending::<()>().await;
            } => {}
        }
        ended.cancel();
        watches.shutdown().await;
        // Running reconciles end by themselves; the manager limits the time.
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%kind, %error, "a worker ended unexpectedly");
            }
        }
        for resource in self.cache.all() {
            self.forget(&resource.key);
        }
    }

    /// Ends when the kind is no longer served. Until then wakes releases that read `.Capabilities` when served kinds
    /// change, and incomplete releases, which may wait for a CRD or a watch.
    async fn unserved(&self) {
        let mut served = self.context.discovery.subscribe();
        let mut synced = std::pin::pin!(self.context.synced.notified());
        loop {
            let snapshot = self.context.discovery.snapshot();
            let resource = snapshot.resource(&self.unit.group_kind, &self.unit.watch.version);
            // While its group does not answer, the kind may still be served.
            if resource.is_none() && snapshot.has_answered(&self.unit.group_kind.group).is_ok() {
                tracing::warn!(kind = %self.unit.group_kind, "the API server no longer serves this kind");
                return;
            }
            // A newly synced watch may complete the knowledge that a prune needs.
            let kinds_changed = tokio::select! {
                changed = served.changed() => match changed {
                    Ok(()) => {
                        tokio::time::sleep(GATHERED).await;
                        served.mark_unchanged();
                        true
                    }
                    Err(_) => return std::future::pending().await,
                },
                () = synced.as_mut() => {
                    // Subscribe before the loop below, or a notification during it would be missed.
                    synced.set(self.context.synced.notified());
                    false
                }
            };
            for resource in self.cache.all() {
                let needs_render = kinds_changed && self.cache.reads_cluster(&resource.key);
                // A deletion may wait for a kind that was not served.
                if needs_render || resource.deleting || !self.cache.is_complete(&resource.key) {
                    self.queue.wake(resource.key.clone());
                }
            }
        }
    }

    /// Before the first reconcile: requests watches for all recorded members of the custom resources.
    fn want_members(&self) {
        for resource in self.cache.all() {
            reconcile::watch_recorded(&self.context, &self.unit, &resource);
        }
    }

    async fn await_sync(&self) {
        let deadline = tokio::time::Instant::now() + SYNC_WAIT;
        loop {
            let synced = self.context.synced.notified();
            let unsynced = self.context.members().unsynced();
            if unsynced.iter().all(|(_, error)| error.is_some()) {
                return;
            }
            if tokio::time::timeout_at(deadline, synced).await.is_err() {
                for (scope, error) in unsynced {
                    let error = error.unwrap_or_else(|| "no answer yet".to_owned());
                    tracing::warn!(kind = %scope.group_kind, namespace = scope.namespace, %error, "not synced: ready without");
                }
                return;
            }
        }
    }

    /// Watches the custom resources of one namespace, or of all. Sends the results of the first attempts to list them.
    async fn follow(self: Arc<Self>, namespace: Option<String>, listed: Listed) {
        let api = self
            .unit
            .resource
            .api_in::<CustomObject>(&self.context.client, namespace.as_deref());
        let mut stream = std::pin::pin!(watch(api, self.context.settings.watch_labels.as_deref(), false));
        let mut seen = HashSet::new();
        let mut listed = Some(listed);
        let mut failed = false;
        while let Some(news) = stream.next().await {
            match news {
                WatchItem::Steady => {}
                WatchItem::ListStarts => {
                    seen.clear();
                    self.cache.list_starts(namespace.as_deref());
                }
                WatchItem::Listed(object) => {
                    let resource = self.unit.take_in(object);
                    seen.insert(resource.key.clone());
                    self.observe(resource, |cache, resource| cache.listed(namespace.as_deref(), resource));
                }
                WatchItem::Changed(object) => self.observe(self.unit.take_in(object), Cache::observe),
                WatchItem::Deleted(object) => {
                    let resource = self.unit.take_in(object);
                    self.note_deletion(&resource.key.clone(), Some(resource));
                }
                WatchItem::Unreadable(unreadable) => {
                    seen.insert(ResourceKey::of(&unreadable));
                    self.context
                        .metrics
                        .watch_errors
                        .count_unreadable(&self.unit.group_kind.kind);
                }
                WatchItem::ListEnds { .. } => {
                    self.cache.list_ends(namespace.as_deref());
                    for key in self.cache.missing_from(namespace.as_deref(), &seen) {
                        self.note_deletion(&key, None);
                    }
                    seen = HashSet::new();
                    if let Some(listed) = listed.take() {
                        if failed {
                            // The workers may have started without this namespace.
                            self.want_members();
                        }
                        let _ = listed.send((namespace.clone(), true));
                    }
                }
                WatchItem::Failed { error, .. } => {
                    if let Some(listed) = listed.as_ref().filter(|_| !failed) {
                        let _ = listed.send((namespace.clone(), false));
                    }
                    failed = true;
                    self.context
                        .metrics
                        .watch_errors
                        .count_failure(&self.unit.group_kind.kind);
                    tracing::warn!(kind = %self.unit.group_kind, namespace, %error, "watch failed; trying again");
                }
            }
        }
    }

    /// Updates the cache by `observe`, which returns true if the change can start a reconcile.
    fn observe(&self, resource: CustomResource, observe: impl FnOnce(&Cache, CustomResource) -> bool) {
        // A new object of the same name: the watch missed the deletion.
        if self
            .cache
            .get(&resource.key)
            .is_some_and(|known| known.uid != resource.uid)
        {
            self.note_deletion(&resource.key, None);
        }
        if !self.unit.is_ours(&resource.labels, resource.is_marked()) {
            self.forget(&resource.key);
            return;
        }
        let key = resource.key.clone();
        let (queue, woken) = (self.queue.clone(), resource.key.clone());
        let wake = move || queue.wake(woken.clone());
        self.context.register_owner(&self.unit, &resource, wake);
        if observe(&self.cache, resource) {
            self.queue.add(key);
        }
    }

    /// Drops a custom resource that this watch no longer selects.
    fn forget(&self, key: &ResourceKey) {
        if let Some(resource) = self.cache.remove(key) {
            self.queue.forget(key);
            self.unregister(&resource);
            if self.cache.has_deleted(key) {
                self.queue.add(key.clone());
            }
        }
    }

    /// Handles a deleted custom resource. If its release was not uninstalled, a worker does that.
    fn note_deletion(&self, key: &ResourceKey, last_state: Option<CustomResource>) {
        let Some((resource, matters)) = self.cache.note_deletion(key, last_state) else {
            return;
        };
        self.queue.forget(key);
        self.unregister(&resource);
        if matters {
            self.queue.add(key.clone());
        }
    }

    fn unregister(&self, resource: &CustomResource) {
        let key = &resource.key;
        self.unit.rollout.forget(key);
        let set = resource.applyset_id(&self.unit.group_kind);
        if self.context.forget_owner(&self.unit, &set) {
            // Labels name the kind, not the watch.
            let labels = self.unit.metric_labels(key);
            self.context.metrics.forget_release(&labels);
        }
    }

    /// One worker: reconciles releases from the queue until `stop`.
    async fn work(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let key = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                key = self.queue.next() => key,
            };
            let kind = &self.unit.group_kind;
            self.context
                .metrics
                .releases
                .set_queue_depth(&kind.group, &kind.kind, self.queue.depth());
            let (again, put_off) = self.reconcile(&key).await;
            self.queue.done(key, again, put_off).await;
        }
    }

    /// Returns the delay of the next reconcile, and whether wake-ups are ignored until then.
    async fn reconcile(&self, key: &ResourceKey) -> (Option<Duration>, bool) {
        let again = self.see_to_deleted(key).await;
        let Some(resource) = self.cache.get(key) else {
            return (again, false);
        };
        let mut release = self.cache.take_release(key);
        let context = &self.context;
        let secrets = release.secrets.clone();
        let work = reconcile::reconcile(context, &self.unit, &resource, &mut release);
        let outcome = match self.caught(key, &secrets, work).await {
            Some(outcome) => outcome,
            None => {
                // The in-memory state is lost; the status contains the last one.
                let report = reconcile::report_panic(context, &self.unit, &resource, &mut release);
                let Some(outcome) = self.caught(key, &secrets, redact::scope(&secrets, report)).await else {
                    let nothing = Some(Release::default());
                    self.cache.put_release(key, &resource.uid, nothing, None);
                    return (Some(AFTER_PANIC), false);
                };
                ReconcileOutcome {
                    again: outcome.again.max(Some(AFTER_PANIC)),
                    ..outcome
                }
            }
        };
        // The watch may lag behind.
        let is_known = || self.cache.get(key).is_some_and(|known| known.uid == resource.uid);
        if outcome.missing && is_known() && reconcile::is_gone(context, &self.unit, &resource).await && is_known() {
            self.note_deletion(key, None);
        }
        // Deletion is learned from the watch only.
        let written = outcome.written.filter(|written| resource.deleting || !written.deleting);
        if let Some(written) = &written {
            // The later watch event of a concurrent user edit will not differ from the cache.
            let changed = written.author_digest() != resource.author_digest();
            if self.cache.learn(written.clone()) && changed {
                self.queue.add(key.clone());
            }
        }
        let release = (!outcome.finished).then_some(release);
        self.cache.put_release(key, &resource.uid, release, written);
        if self.cache.get(key).is_none() {
            // The work may have set metrics after the deletion.
            self.unregister(&resource);
        }
        (outcome.again.into_iter().chain(again).min(), outcome.put_off)
    }

    /// `None` if the work on a custom resource panicked.
    async fn caught<T>(&self, key: &ResourceKey, secrets: &Arc<Secrets>, work: impl Future<Output = T>) -> Option<T> {
        let done = AssertUnwindSafe(work).catch_unwind().await;
        done.inspect_err(|panic| {
            self.context.metrics.process.panics.inc();
            let (kind, panic) = (&self.unit.group_kind, panic_text(panic.as_ref()));
            redact::during(
                secrets,
                || tracing::error!(%kind, resource = %key, panic, "the work on it panicked"),
            );
        })
        .ok()
    }

    /// Uninstalls the releases of deleted custom resources with this name. Returns the delay if something is left.
    async fn see_to_deleted(&self, key: &ResourceKey) -> Option<Duration> {
        let context = &self.context;
        let mut again = None;
        for mut deleted in self.cache.take_deleted(key) {
            let resource = deleted.resource().clone();
            if self.cache.get(key).is_none() {
                // A reconcile may have registered it again.
                self.unregister(&resource);
            }
            match deleted.end() {
                End::Released => continue,
                End::Freed => {
                    // The list may be from a server that lags behind.
                    if reconcile::is_gone(context, &self.unit, &resource).await {
                        reconcile::warn_finalizer_removed(context, &self.unit, &resource).await;
                    }
                    continue;
                }
                End::Vanished => {}
            }
            let secrets = deleted.release.secrets.clone();
            let work = reconcile::uninstall(context, &self.unit, &resource, &mut deleted.release);
            let wait = match self.caught(key, &secrets, work).await {
                Some(outcome) if outcome.finished => continue,
                outcome => outcome.and_then(|outcome| outcome.again).unwrap_or(AFTER_PANIC),
            };
            again = again.into_iter().chain([wait]).min();
            self.cache.put_back(key, deleted);
        }
        again
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("?")
}
