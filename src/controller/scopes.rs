//! Keeps one watch running for each scope that somebody needs: of members, and of what templates look up.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::{children, dependencies};
use crate::plan::members::Scope;
use crate::telemetry::test_limit;

/// A watch that panics at once again must not spin.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// What nobody needs for so long, or twice as long, is watched no more: somebody may need it again in a moment.
const UNNEEDED: Duration = Duration::from_secs(30);

/// What a scope is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Members,
    Dependencies,
}

type Running = HashMap<(Purpose, Scope), Watch>;

/// One that runs.
struct Watch {
    task: AbortHandle,
    /// The API version that it watches; `None` while the kind isn't served.
    version: Option<String>,
}

/// Starts a watch for every scope that is wanted, and ends those of kinds that are no longer served. Runs until told to
/// stop.
pub async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    let mut running = Running::new();
    let mut served = shared.context.discovery.subscribe();
    // Those that found nothing to watch, though it was wanted a moment ago.
    let mut idle = HashSet::new();
    // Those that nobody needed a while ago, and those that end for it.
    let mut unneeded = BTreeSet::new();
    let mut ending = HashMap::new();
    let pause = test_limit("CHARTWRIGHT_TEST_UNNEEDED_MS").map_or(UNNEEDED, Duration::from_millis);
    let mut ticks = tokio::time::interval(pause);
    loop {
        end_unserved(&shared, &mut running);
        end_former_versions(&shared, &mut running);
        end_unread(&shared, &mut running);
        let snapshot = shared.context.discovery.snapshot();
        let members: Vec<Scope> = shared.context.members().wanted().cloned().collect();
        let members = members.into_iter().map(|scope| (Purpose::Members, scope));
        let wanted = served_dependencies(&shared).into_iter();
        for place in members.chain(wanted.map(|scope| (Purpose::Dependencies, scope))) {
            running.entry(place).or_insert_with_key(|(purpose, scope)| {
                let (shared, scope) = (shared.clone(), scope.clone());
                let resource = snapshot.preferred(&scope.group_kind).cloned();
                let version = resource.as_ref().map(|resource| resource.api.version.clone());
                let task = match purpose {
                    Purpose::Members => tasks.spawn(children::scope_watch(shared, scope, resource)),
                    Purpose::Dependencies => tasks.spawn(dependencies::scope_watch(shared, scope, resource)),
                };
                Watch { task, version }
            });
        }
        let count = i64::try_from(running.len()).unwrap_or(i64::MAX);
        shared.context.metrics.watches.set(count);
        tokio::select! {
            () = stop.cancelled() => break,
            () = shared.context.wanted.notified() => {}
            _ = ticks.tick() => {
                let mut members = shared.context.members();
                let now = members.unneeded();
                for scope in now.intersection(&unneeded) {
                    members.release(scope);
                    if let Some(watch) = running.get(&(Purpose::Members, scope.clone())) {
                        ending.insert(watch.task.id(), scope.clone());
                        watch.task.abort();
                    }
                }
                unneeded = now;
            }
            changed = served.changed() => {
                if changed.is_err() {
                    break;
                }
                running.retain(|_, watch| !idle.contains(&watch.task.id()));
                idle.clear();
            }
            Some(ended) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                let panic = match ended {
                    Ok((id, ())) => {
                        idle.insert(id);
                        continue;
                    }
                    // It was ended on purpose. Until now it may have told something.
                    Err(error) if error.is_cancelled() => {
                        if let Some(scope) = ending.remove(&error.id()) {
                            shared.context.members().lose(&scope);
                            running.retain(|_, watch| watch.task.id() != error.id());
                        }
                        continue;
                    }
                    Err(panic) => panic,
                };
                running.retain(|(purpose, scope), watch| {
                    let panicked = watch.task.id() == panic.id();
                    if panicked {
                        tracing::error!(kind = %scope.group_kind, %panic, "a watch panicked; it starts anew");
                        fail(&shared, *purpose, scope, "it panicked".to_owned());
                    }
                    !panicked
                });
                tokio::time::sleep(AFTER_PANIC).await;
            }
        }
    }
    tasks.shutdown().await;
}

fn fail(shared: &Shared, purpose: Purpose, scope: &Scope, error: String) {
    match purpose {
        Purpose::Members => shared.context.members().set_failing(scope, error, Timestamp::now()),
        Purpose::Dependencies => drop(shared.context.dependencies().set_failing(scope, false)),
    }
}

/// Looking up a kind that isn't served finds nothing, and there is nothing to watch until it comes.
fn served_dependencies(shared: &Shared) -> Vec<Scope> {
    let snapshot = shared.context.discovery.snapshot();
    let dependencies = shared.context.dependencies();
    let served = dependencies
        .wanted()
        .filter(|scope| snapshot.preferred(&scope.group_kind).is_some());
    served.cloned().collect()
}

/// A kind that is gone has no objects: its watch would fail for ever.
fn end_unserved(shared: &Shared, running: &mut Running) {
    let snapshot = shared.context.discovery.snapshot();
    running.retain(|(purpose, scope), watch| {
        if !snapshot.is_gone(&scope.group_kind) {
            return true;
        }
        watch.task.abort();
        let sets = match purpose {
            Purpose::Members => shared.context.members().forget(scope),
            Purpose::Dependencies => shared.context.dependencies().listed(scope, &HashSet::new()),
        };
        tracing::info!(kind = %scope.group_kind, "no longer served: its watch ends");
        shared.count_failing(&scope.group_kind);
        shared.router.notify(&sets);
        false
    });
}

/// A kind lives on though one of its versions is no longer served: a watch of that one would fail for ever. It begins
/// anew with another version.
fn end_former_versions(shared: &Shared, running: &mut Running) {
    let snapshot = shared.context.discovery.snapshot();
    running.retain(|(purpose, scope), watch| {
        let kind = &scope.group_kind;
        let version = watch.version.as_deref();
        let Some(former) = version.filter(|version| snapshot.resource(kind, version).is_none()) else {
            return true;
        };
        // One that does not answer may be served all the same.
        let Some(now) = snapshot
            .preferred(kind)
            .filter(|_| snapshot.has_answered(&kind.group).is_ok())
        else {
            return true;
        };
        watch.task.abort();
        tracing::info!(%kind, former, now = now.api.version, "this version is no longer served: watching another");
        fail(shared, *purpose, scope, format!("version {former} is no longer served"));
        false
    });
}

/// What nobody looks up any more.
fn end_unread(shared: &Shared, running: &mut Running) {
    let wanted: HashSet<Scope> = shared.context.dependencies().wanted().cloned().collect();
    running.retain(|(purpose, scope), watch| {
        let keep = *purpose == Purpose::Members || wanted.contains(scope);
        if !keep {
            watch.task.abort();
            shared.count_failing(&scope.group_kind);
        }
        keep
    });
}
