//! Keeps one watch running for each scope that somebody needs: of members, and of what templates look up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::{children, lookups};
use crate::plan::members::Scope;

/// A watch that panics at once again must not spin.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// What a scope is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Members,
    Lookups,
}

type Running = HashMap<(Purpose, Scope), AbortHandle>;

/// Starts a watch for every scope that is wanted, and ends those of kinds that are no longer served. Runs until told to
/// stop.
pub async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    let mut running = Running::new();
    let mut served = shared.context.discovery.subscribe();
    // Those that found nothing to watch, though it was wanted a moment ago.
    let mut idle = HashSet::new();
    loop {
        end_unserved(&shared, &mut running);
        end_unread(&shared, &mut running);
        let members: Vec<Scope> = shared.context.members().wanted().cloned().collect();
        for scope in members {
            running
                .entry((Purpose::Members, scope))
                .or_insert_with_key(|(_, scope)| tasks.spawn(children::scope_watch(shared.clone(), scope.clone())));
        }
        for scope in served_lookups(&shared) {
            running
                .entry((Purpose::Lookups, scope))
                .or_insert_with_key(|(_, scope)| tasks.spawn(lookups::scope_watch(shared.clone(), scope.clone())));
        }
        let count = i64::try_from(running.len()).unwrap_or(i64::MAX);
        shared.context.metrics.watches.set(count);
        tokio::select! {
            () = stop.cancelled() => break,
            () = shared.context.wanted.notified() => {}
            changed = served.changed() => {
                if changed.is_err() {
                    break;
                }
                running.retain(|_, task| !idle.contains(&task.id()));
                idle.clear();
            }
            Some(ended) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                let panic = match ended {
                    Ok((id, ())) => {
                        idle.insert(id);
                        continue;
                    }
                    // It was ended on purpose and is no longer listed.
                    Err(error) if error.is_cancelled() => continue,
                    Err(panic) => panic,
                };
                running.retain(|(purpose, scope), task| {
                    let panicked = task.id() == panic.id();
                    if panicked {
                        tracing::error!(kind = %scope.group_kind, %panic, "a watch panicked; it starts anew");
                        fail(&shared, *purpose, scope);
                    }
                    !panicked
                });
                tokio::time::sleep(AFTER_PANIC).await;
            }
        }
    }
    tasks.shutdown().await;
}

fn fail(shared: &Shared, purpose: Purpose, scope: &Scope) {
    match purpose {
        Purpose::Members => shared.context.members().set_failing(scope, "it panicked".to_owned()),
        Purpose::Lookups => shared.context.looked_up().set_failing(scope),
    }
}

/// Looking up a kind that isn't served finds nothing, and there is nothing to watch until it comes.
fn served_lookups(shared: &Shared) -> Vec<Scope> {
    let snapshot = shared.context.discovery.snapshot();
    let looked_up = shared.context.looked_up();
    let served = looked_up
        .wanted()
        .filter(|scope| snapshot.preferred(&scope.group_kind).is_some());
    served.cloned().collect()
}

/// A kind that is gone from a complete discovery has no objects: its watch would fail for ever.
fn end_unserved(shared: &Shared, running: &mut Running) {
    let snapshot = shared.context.discovery.snapshot();
    if !snapshot.is_complete() {
        return;
    }
    running.retain(|(purpose, scope), task| {
        if snapshot.preferred(&scope.group_kind).is_some() {
            return true;
        }
        task.abort();
        let sets = match purpose {
            Purpose::Members => shared.context.members().forget(scope),
            Purpose::Lookups => shared.context.looked_up().listed(scope, &HashSet::new()),
        };
        tracing::info!(kind = %scope.group_kind, "no longer served: its watch ends");
        shared.router.notify(&sets);
        false
    });
}

/// What nobody looks up any more.
fn end_unread(shared: &Shared, running: &mut Running) {
    let wanted: HashSet<Scope> = shared.context.looked_up().wanted().cloned().collect();
    running.retain(|(purpose, scope), task| {
        let keep = *purpose == Purpose::Members || wanted.contains(scope);
        if !keep {
            task.abort();
        }
        keep
    });
}
