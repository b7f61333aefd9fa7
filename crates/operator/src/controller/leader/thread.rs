//! Leader election on an OS thread of its own, with a small async runtime and a client of its own: renewals and the end of
//! leadership come in time, however busy the threads are that do the work.
//!
//! A process that does not react to the end of its leadership is ended.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{CandidacyEnd, LeaderElection};

/// How long the process may take to react to the end of its leadership.
const REACTION: Duration = Duration::from_secs(2);

/// Runs an election on a thread of its own, and the work in the runtime of the caller. See [`LeaderElection::run`].
///
/// `candidate` is called on that thread, so that the client belongs to its runtime. `unresponsive` is called with the reason
/// when leadership is lost and the caller's runtime does not take note of it within 2 s.
///
/// # Errors
/// When there is no thread, no runtime or no candidate; or when the work panics.
pub async fn run<F, Fut, T>(
    candidate: impl FnOnce() -> anyhow::Result<LeaderElection> + Send + 'static,
    stop: CancellationToken,
    lead: F,
    unresponsive: impl FnOnce(&str) + Send + 'static,
) -> anyhow::Result<CandidacyEnd<T>>
where
    F: FnOnce(CancellationToken) -> Fut + Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let workers = Handle::current();
    let stop = stop.child_token();
    // Who drops this future drops the candidacy.
    let _stop_when_dropped = stop.clone().drop_guard();
    let (report, reported) = oneshot::channel();
    let elect = move || {
        let ended = elect(candidate, stop, lead, &workers);
        let lost = match &ended {
            Ok(CandidacyEnd::Lost(reason)) => Some(reason.clone()),
            _ => None,
        };
        let (reaction, reacted) = channel::<()>();
        // An error means that the caller is gone: then there is no one to wait for.
        if report.send((ended, reaction)).is_err() {
            return;
        }
        let Some(reason) = lost else { return };
        if reacted.recv_timeout(REACTION) == Err(RecvTimeoutError::Timeout) {
            unresponsive(&reason);
        }
    };
    std::thread::Builder::new()
        .name("leader".to_owned())
        .spawn(elect)
        .context("the thread of leader election")?;
    // Dropping the other half of this channel is the reaction.
    let (ended, _reaction) = reported.await.context("the thread of leader election ended early")?;
    ended
}

/// The election, from beginning to end, on the current thread.
fn elect<F, Fut, T>(
    candidate: impl FnOnce() -> anyhow::Result<LeaderElection>,
    stop: CancellationToken,
    lead: F,
    workers: &Handle,
) -> anyhow::Result<CandidacyEnd<T>>
where
    F: FnOnce(CancellationToken) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let candidate = candidate()?;
        let work = |token| {
            let lead = lead(token);
            async move {
                // In a set, which aborts it when it is dropped.
                let mut work = JoinSet::new();
                work.spawn_on(lead, workers);
                work.join_next().await
            }
        };
        anyhow::Ok(candidate.run(stop, work).await)
    })?;
    Ok(match ended {
        CandidacyEnd::NeverLed => CandidacyEnd::NeverLed,
        CandidacyEnd::Lost(reason) => CandidacyEnd::Lost(reason),
        CandidacyEnd::Finished(Some(result)) => CandidacyEnd::Finished(result.context("the operator's work")?),
        CandidacyEnd::Finished(None) => anyhow::bail!("the operator's work did not begin"),
    })
}
