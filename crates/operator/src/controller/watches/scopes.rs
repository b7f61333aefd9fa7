//! Runs one watch per needed scope: of members, and of objects that templates look up.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::stream::REPORTED_AFTER;
use super::{dependencies, members};
use crate::cluster::discovery::Snapshot;
use crate::cluster::workloads::elect::pod_kind;
use crate::reconcile::Context;
use crate::telemetry::test_limit;
use chartwright_core::identity::GroupKind;
use chartwright_core::index::members::Scope;

/// The pause after a panic of a watch.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// A watch ends when it was not needed for one to two of these periods: it may be needed again soon.
const UNNEEDED: Duration = Duration::from_secs(30);

/// The purpose of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WatchPurpose {
    Members,
    Dependencies,
}

/// A running watch, or one that found nothing to watch.
struct ScopeWatch {
    task: AbortHandle,
    /// The watched API version; `None` if the kind is not served.
    version: Option<String>,
    is_idle: bool,
}

/// The watches of a process.
struct ScopeWatches {
    context: Arc<Context>,
    running: HashMap<(WatchPurpose, Scope), ScopeWatch>,
    tasks: JoinSet<()>,
    /// Member scopes that were not needed at the last tick.
    unneeded: BTreeSet<Scope>,
    /// The labels of leaders that the watches of pods look for.
    leader_labels: BTreeSet<String>,
}

/// Starts a watch for every wanted scope, and ends those of kinds that are no longer served. Runs until `stop`.
pub async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut served = context.discovery.subscribe();
    let mut watches = ScopeWatches {
        context: context.clone(),
        running: HashMap::new(),
        tasks: JoinSet::new(),
        unneeded: BTreeSet::new(),
        leader_labels: context.pod_index().labels.clone(),
    };
    let pause = test_limit("CHARTWRIGHT_TEST_UNNEEDED_MS").map_or(UNNEEDED, Duration::from_millis);
    let mut ticks = tokio::time::interval(pause);
    loop {
        watches.end_useless();
        watches.renew_leader_labels();
        watches.start_wanted();
        let count = i64::try_from(watches.running.len()).unwrap_or(i64::MAX);
        context.metrics.watches.open.set(count);
        tokio::select! {
            () = stop.cancelled() => break,
            () = context.wanted.notified() => {}
            _ = ticks.tick() => watches.end_unneeded(),
            changed = served.changed() => {
                if changed.is_err() {
                    break;
                }
                // Idle watches may find their kind now.
                watches.running.retain(|_, watch| !watch.is_idle);
            }
            Some(ended) = watches.tasks.join_next_with_id(), if !watches.tasks.is_empty() => {
                if watches.note_end(ended) {
                    tokio::time::sleep(AFTER_PANIC).await;
                }
            }
        }
    }
    watches.tasks.shutdown().await;
}

impl ScopeWatches {
    fn start_wanted(&mut self) {
        let snapshot = self.context.discovery.snapshot();
        let mut wanted: Vec<(WatchPurpose, Scope)> = Vec::new();
        wanted.extend(
            self.context
                .members()
                .wanted()
                .map(|scope| (WatchPurpose::Members, scope.clone())),
        );
        for scope in self.context.dependencies().wanted() {
            // A kind that is not served has nothing to watch.
            if snapshot.preferred(&scope.group_kind).is_some() {
                wanted.push((WatchPurpose::Dependencies, scope.clone()));
            }
        }
        for place in wanted {
            self.running.entry(place).or_insert_with_key(|(purpose, scope)| {
                let (context, scope) = (self.context.clone(), scope.clone());
                let resource = snapshot.preferred(&scope.group_kind).cloned();
                let version = resource.as_ref().map(|resource| resource.api.version.clone());
                let task = match purpose {
                    WatchPurpose::Members => self.tasks.spawn(members::scope_watch(context, scope, resource)),
                    WatchPurpose::Dependencies => self.tasks.spawn(dependencies::scope_watch(context, scope, resource)),
                };
                ScopeWatch {
                    task,
                    version,
                    is_idle: false,
                }
            });
        }
    }

    /// Ends watches that would fail forever, and those of objects that are no longer looked up.
    fn end_useless(&mut self) {
        let context = &self.context;
        let snapshot = context.discovery.snapshot();
        let looked_up: HashSet<Scope> = context.dependencies().wanted().cloned().collect();
        self.running.retain(|(purpose, scope), watch| {
            let kind = &scope.group_kind;
            let is_wanted = *purpose == WatchPurpose::Members || looked_up.contains(scope);
            if snapshot.is_gone(kind) {
                // It has no objects.
                let sets = match purpose {
                    WatchPurpose::Members => context.members().forget(scope),
                    WatchPurpose::Dependencies => context.dependencies().listed(scope, &HashSet::new()),
                };
                tracing::info!(%kind, "no longer served: its watch ends");
                context.notify(&sets);
            } else if let Some((former, now)) = watch.superseded(kind, &snapshot) {
                tracing::info!(%kind, former, now, "this version is no longer served: watching another");
                let error = format!("version {former} is no longer served");
                fail(context, *purpose, scope, error, None);
            } else if is_wanted {
                return true;
            }
            watch.task.abort();
            if *purpose == WatchPurpose::Dependencies {
                context.pod_index().lose(scope);
            }
            context.count_failing(kind);
            false
        });
    }

    /// Ends the watches of pods if a watch elects leaders by another label. They list the pods again.
    fn renew_leader_labels(&mut self) {
        let labels = self.context.pod_index().labels.clone();
        if labels == self.leader_labels {
            return;
        }
        self.leader_labels = labels;
        let context = &self.context;
        self.running.retain(|(purpose, scope), watch| {
            if *purpose != WatchPurpose::Dependencies || scope.group_kind != pod_kind() {
                return true;
            }
            watch.task.abort();
            context.pod_index().lose(scope);
            false
        });
    }

    /// Ends the member watches that were not needed for a complete period.
    fn end_unneeded(&mut self) {
        let mut members = self.context.members();
        let unneeded = members.unneeded();
        for scope in unneeded.intersection(&self.unneeded) {
            members.release(scope);
            if let Some(watch) = self.running.get(&(WatchPurpose::Members, scope.clone())) {
                watch.task.abort();
            }
        }
        self.unneeded = unneeded;
    }

    /// True if it panicked.
    fn note_end(&mut self, ended: Result<(tokio::task::Id, ()), JoinError>) -> bool {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        let Some((place, watch)) = self.running.iter_mut().find(|(_, watch)| watch.task.id() == id) else {
            return false;
        };
        let Err(error) = ended else {
            watch.is_idle = true;
            return false;
        };
        let (purpose, scope) = place.clone();
        self.running.remove(&(purpose, scope.clone()));
        if error.is_cancelled() {
            // It was not needed. Its state is outdated from now on.
            self.context.members().lose(&scope);
            return false;
        }
        tracing::error!(kind = %scope.group_kind, panic = %error, "a watch panicked; it is restarted");
        fail(&self.context, purpose, &scope, "it panicked".to_owned(), None);
        true
    }
}

impl ScopeWatch {
    /// The watched version, if it is no longer served, and the version that replaces it.
    fn superseded(&self, kind: &GroupKind, snapshot: &Snapshot) -> Option<(&str, String)> {
        let former = self.version.as_deref()?;
        if snapshot.resource(kind, former).is_some() {
            return None;
        }
        // If the group does not answer, the version may still be served.
        let now = snapshot.preferred(kind)?;
        snapshot.has_answered(&kind.group).ok()?;
        Some((former, now.api.version.clone()))
    }
}

/// Marks a scope as failing. `refused`: how long the API server has refused its watch. Returns the ApplySets to notify.
pub(super) fn fail(
    context: &Context,
    purpose: WatchPurpose,
    scope: &Scope,
    error: String,
    refused: Option<Duration>,
) -> Vec<String> {
    let is_reportable = refused.is_some_and(|refused| refused >= REPORTED_AFTER);
    let sets = match purpose {
        WatchPurpose::Members => {
            let mut members = context.members();
            members.set_failing(scope, error, Timestamp::now());
            is_reportable.then(|| members.report_failing(scope))
        }
        WatchPurpose::Dependencies => {
            let mut dependencies = context.dependencies();
            if dependencies.set_refused(scope, &error, Timestamp::now()) {
                context.wanted.notify_one();
            }
            context.synced.notify_waiters();
            is_reportable.then(|| dependencies.report_failing(scope))
        }
    };
    context.count_failing(&scope.group_kind);
    let sets = sets.unwrap_or_default();
    if !sets.is_empty() {
        context.discovery.request_reread();
    }
    sets
}
