//! Leader election over a Lease, so that of several replicas one works and the others wait.
//!
//! The rules are client-go's (`tools/leaderelection`), so that Chartwright and a Go program could even share a Lease.
//! A candidate trusts no clock but its own: it takes a Lease over when it has *seen no change* of it for the Lease's
//! duration, by its own monotonic clock; the times written in the Lease are for people. Every write carries the
//! resourceVersion that was read, so of two candidates one loses with a conflict.
//!
//! Where we are stricter than client-go: a leader counts its renew deadline from when it *sent* the last renewal that
//! succeeded, so that it stops before another candidate can have waited out the Lease, however slow the answers are; it stops
//! immediately when it reads that another candidate has the Lease, or had it since; and a [`Fence`] holds its writes back
//! from the deadline on, however late this code notices the loss.
//!
//! An operator that may read the Lease but not write it works as the only replica, as long as no other candidate holds the
//! Lease. So roles that were made for another operator are enough for one replica.
//!
//! [`election`] decides, [`LeaderElection::run`] sends the requests, and [`thread`] runs it where no work can delay it.

pub mod election;
#[cfg(test)]
mod tests;
pub mod thread;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

pub use self::election::Timing;
use self::election::{Election, LeaseFailure};
use crate::cluster::connection::fence::Fence;
use crate::telemetry::chain;
use crate::telemetry::metrics::Metrics;

/// A candidate. [`LeaderElection::run`] does the rest.
#[derive(Clone)]
pub struct LeaderElection {
    /// May `get`, `create` and `update` leases in `namespace`; no more is needed. With `get` alone it can lead without the
    /// Lease.
    pub client: kube::Client,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease: what all replicas of one operator have in common.
    pub name: String,
    /// What no other candidate has: see [`identity`].
    pub identity: String,
    /// Lease, deadline, retries.
    pub timing: Timing,
    /// Where `chartwright_leader` is set.
    pub metrics: Arc<Metrics>,
    /// Open while this candidate leads, for the client that the work uses. `client` must not be behind it.
    pub fence: Arc<Fence>,
}

/// How a candidacy ended.
#[derive(Debug, PartialEq, Eq)]
pub enum CandidacyEnd<T> {
    /// It was stopped before it led. The Lease isn't ours.
    NeverLed,
    /// The work ended, by itself or because of the stop, while we led; its result. The Lease was given back.
    Finished(T),
    /// Leadership was lost, and why. The work was stopped and, if it did not end in time, dropped. The process should
    /// exit: tasks that the work spawned may still believe that they lead.
    Lost(String),
}

/// `HOSTNAME_UUID`, as controller-runtime makes it; in a pod, the host's name is the pod's.
///
/// # Errors
/// When the system has no randomness.
pub fn identity() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no randomness: {error}")))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.as_deref().map_or("unknown", str::trim);
    Ok(format!(
        "{host}_{}",
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    ))
}

impl LeaderElection {
    /// A candidate with a fresh identity and the usual timing.
    ///
    /// # Errors
    /// When the system has no randomness for the identity.
    pub fn new(
        client: kube::Client,
        namespace: impl Into<String>,
        name: impl Into<String>,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let (namespace, name) = (namespace.into(), name.into());
        Ok(Self {
            client,
            namespace,
            name,
            identity: identity()?,
            timing: Timing::default(),
            metrics,
            fence: Arc::default(),
        })
    }

    /// Waits for leadership, does `lead`, gives the Lease back.
    ///
    /// `lead` gets a token that is cancelled on `stop` and when leadership is lost. The Lease is renewed until `lead`
    /// has ended, so it should end soon after its token: on `stop` the bound is its own; on a loss it is what is left
    /// of the Lease, and nothing where another candidate has it; then `lead` is dropped. The fence is closed before. Failures
    /// of the API (no connection, no permission) are logged and tried again.
    pub async fn run<F, Fut, T>(self, stop: CancellationToken, lead: F) -> CandidacyEnd<T>
    where
        F: FnOnce(CancellationToken) -> Fut,
        Fut: Future<Output = T>,
    {
        let timing = self.timing;
        let leading = Leading {
            metrics: self.metrics.clone(),
            fence: self.fence.clone(),
        };
        let mut lock = LeaseLock::new(self);
        tracing::info!(lease = %lock.describe(), identity = lock.candidate.identity, "waiting to lead");
        if !lock.acquire(&stop).await {
            return CandidacyEnd::NeverLed;
        }
        tracing::info!(lease = %lock.describe(), "leading");
        leading.metrics.process.leader.set(1);

        // A task of its own, so that work which keeps this one busy doesn't cost the Lease; in a set, which aborts it
        // should `lead` panic.
        let end = CancellationToken::new();
        let mut renewal = JoinSet::new();
        renewal.spawn(lock.renew(end.clone()));

        let token = stop.child_token();
        let mut work = std::pin::pin!(lead(token.clone()));
        let renewed = tokio::select! {
            result = &mut work => {
                end.cancel();
                let renewed = joined(renewal.join_next().await);
                drop(leading);
                return match renewed {
                    Ok(mut lock) => {
                        lock.release().await;
                        CandidacyEnd::Finished(result)
                    }
                    Err((reason, _)) => CandidacyEnd::Lost(reason),
                };
            }
            renewed = renewal.join_next() => joined(renewed),
        };
        drop(leading);
        token.cancel();
        let (reason, has_other_holder) = match renewed {
            Err(lost) => lost,
            // Nothing but this function ends it.
            Ok(_) => ("the renewal ended".to_owned(), true),
        };
        // Another leader works already.
        let rest = timing.lease.saturating_sub(timing.renew_deadline);
        let grace = if has_other_holder { Duration::ZERO } else { rest };
        tracing::error!("leadership lost: {reason}");
        let _ = timeout(grace, work).await;
        CandidacyEnd::Lost(reason)
    }
}

/// Closes the fence and sets `chartwright_leader` back to 0, whichever way leadership ends.
struct Leading {
    metrics: Arc<Metrics>,
    fence: Arc<Fence>,
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.fence.close();
        self.metrics.process.leader.set(0);
    }
}

/// The end of renewing: the lock if it was stopped and still holds the Lease, else the reason and whether another
/// candidate has it.
type Renewal = Result<Box<LeaseLock>, (String, bool)>;

/// The renewal as its task returned it. A task that is gone without a word took the knowledge of the Lease along.
fn joined(joined: Option<Result<Renewal, JoinError>>) -> Renewal {
    match joined {
        Some(Ok(renewal)) => renewal,
        Some(Err(error)) => Err((format!("the renewal broke off: {error}"), false)),
        None => Err(("the renewal broke off".to_owned(), false)),
    }
}

/// The Lease on the server and what we know of it.
struct LeaseLock {
    api: Api<Lease>,
    candidate: LeaderElection,
    election: Election,
    /// As last read or written: its resourceVersion guards the next write.
    lease: Option<Lease>,
    /// When the last write that succeeded was sent: no other candidate can have seen it earlier.
    sent: Instant,
    /// Since when the Lease is free, and forbidden to be written.
    unwritable: Option<Instant>,
    /// A write is under way, or was broken off and may have arrived.
    in_doubt: bool,
    /// What was last said about why we don't lead, so that it is said once.
    said: String,
}

impl LeaseLock {
    fn new(candidate: LeaderElection) -> Self {
        let api = Api::namespaced(candidate.client.clone(), &candidate.namespace);
        let election = Election::new(candidate.identity.clone(), candidate.timing.lease);
        Self {
            api,
            candidate,
            election,
            lease: None,
            sent: Instant::now(),
            unwritable: None,
            in_doubt: false,
            said: String::new(),
        }
    }

    fn describe(&self) -> String {
        format!("{}/{}", self.candidate.namespace, self.candidate.name)
    }

    /// Tries until it has the Lease (true) or is stopped (false).
    async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                acquired = self.try_acquire() => match acquired {
                    Ok(()) => {
                        self.said.clear();
                        return true;
                    }
                    Err(failure) => {
                        self.say(&failure);
                        if self.may_do_without(&failure) {
                            return true;
                        }
                    }
                },
            }
            let mut random = [0; 1];
            // Without randomness there is no jitter. That costs a few conflicts.
            let _ = getrandom::fill(&mut random);
            let [random] = random;
            tokio::select! {
                () = sleep(self.candidate.timing.jittered_retry(random)) => {}
                () = stop.cancelled() => break,
            }
        }
        if self.in_doubt {
            self.release().await;
        }
        false
    }

    /// Renews until it is stopped, or the Lease is lost.
    async fn renew(mut self, end: CancellationToken) -> Renewal {
        let timing = self.candidate.timing;
        if self.unwritable.is_some() {
            self.do_without(&end).await?;
        }
        if end.is_cancelled() {
            return Ok(Box::new(self));
        }
        loop {
            let deadline = self.sent + timing.renew_deadline;
            tokio::select! {
                () = sleep_until(deadline.min(Instant::now() + timing.retry)) => {}
                () = end.cancelled() => return Ok(Box::new(self)),
            }
            if Instant::now() >= deadline {
                let (lease, within) = (self.describe(), timing.renew_deadline);
                let why = &self.said;
                return Err((
                    format!("lease {lease} couldn't be renewed within {within:?}: {why}"),
                    false,
                ));
            }
            let renewed = tokio::select! {
                renewed = timeout_at(deadline, self.try_renew()) => renewed,
                () = end.cancelled() => return Ok(Box::new(self)),
            };
            match renewed {
                Ok(Ok(())) => self.said.clear(),
                Ok(Err(LeaseFailure::Lost)) => {
                    let holder = self.election.holder().unwrap_or("no candidate");
                    return Err((format!("lease {} is held by {holder} now", self.describe()), true));
                }
                Ok(Err(failure)) => self.say(&failure),
                Err(_) => self.say(&self.no_answer()),
            }
        }
    }

    /// True once the Lease was free, and forbidden to be written, for as long as a Lease lasts. An API server that starts
    /// forbids what it has not read the roles for.
    fn may_do_without(&mut self, failure: &LeaseFailure) -> bool {
        if !matches!(failure, LeaseFailure::Unwritable(_)) {
            self.unwritable = None;
            return false;
        }
        let since = *self.unwritable.get_or_insert_with(Instant::now);
        if since.elapsed() < self.candidate.timing.lease {
            return false;
        }
        tracing::warn!(
            lease = %self.describe(),
            "working without the Lease, as the only replica: it may not be written, and no other process holds it; run one \
             replica, or grant the rights"
        );
        self.extend_fence(Instant::now());
        true
    }

    /// Works without the Lease until it is available (`Ok`), it is stopped, or another candidate has it.
    async fn do_without(&mut self, end: &CancellationToken) -> Result<(), (String, bool)> {
        loop {
            tokio::select! {
                () = sleep(self.candidate.timing.retry) => {}
                () = end.cancelled() => return Ok(()),
            }
            let read = Instant::now();
            let acquired = tokio::select! {
                acquired = self.try_acquire() => acquired,
                () = end.cancelled() => return Ok(()),
            };
            let another = self
                .election
                .holder()
                .filter(|holder| *holder != self.candidate.identity);
            match (acquired, another) {
                (Ok(()), _) => {
                    tracing::info!(lease = %self.describe(), "leading, now with the Lease");
                    self.said.clear();
                    return Ok(());
                }
                (Err(LeaseFailure::Unwritable(_)), _) => self.extend_fence(read),
                (Err(LeaseFailure::Held), Some(holder)) => {
                    return Err((format!("lease {} is held by {holder} now", self.describe()), true));
                }
                // Without answers there are no writes either: the fence closes by itself.
                (Err(failure), _) => self.say(&failure),
            }
        }
    }

    fn extend_fence(&self, sent: Instant) {
        self.candidate.fence.extend(sent + self.candidate.timing.renew_deadline);
    }

    async fn try_acquire(&mut self) -> Result<(), LeaseFailure> {
        self.read().await?;
        self.write().await
    }

    /// First on top of what we wrote last, in one request; if that fails, on top of what is really there.
    async fn try_renew(&mut self) -> Result<(), LeaseFailure> {
        if self.lease.is_some() && self.write().await.is_ok() {
            return Ok(());
        }
        self.try_acquire().await
    }

    async fn read(&mut self) -> Result<(), LeaseFailure> {
        let read = timeout(self.candidate.timing.call(), self.api.get_opt(&self.candidate.name)).await;
        self.lease = read
            .map_err(|_| self.no_answer())?
            .map_err(|error| self.failure("get", error))?;
        let spec = self.lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        self.election.observe(spec, Instant::now());
        Ok(())
    }

    /// Creates, takes or renews the Lease if what was seen allows it.
    async fn write(&mut self) -> Result<(), LeaseFailure> {
        let spec = self.election.next(Instant::now(), micro_now())?;
        let sent = Instant::now();
        self.send(&spec).await?;
        self.sent = sent;
        self.unwritable = None;
        self.extend_fence(sent);
        self.election.wrote(spec, Instant::now());
        Ok(())
    }

    /// Gives the Lease back, if it is ours, so that the next leader needn't wait until it expires.
    async fn release(&mut self) {
        let mut outcome = self.try_release().await;
        // A renewal that was broken off may arrive between our read and our write.
        if matches!(outcome, Err(LeaseFailure::Held)) {
            outcome = self.try_release().await;
        }
        match outcome {
            Ok(true) => tracing::info!(lease = %self.describe(), "gave leadership back"),
            Ok(false) => {}
            Err(failure) => {
                let why = match failure {
                    LeaseFailure::Call(why) | LeaseFailure::Unwritable(why) => why,
                    LeaseFailure::Held | LeaseFailure::Lost => "it changed at the same time".to_owned(),
                };
                tracing::warn!(lease = %self.describe(), "can't give leadership back, it will expire: {why}");
            }
        }
    }

    async fn try_release(&mut self) -> Result<bool, LeaseFailure> {
        self.read().await?;
        match self.election.release(micro_now()) {
            Some(spec) => self.send(&spec).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Writes `spec` over the version that was read last.
    async fn send(&mut self, spec: &LeaseSpec) -> Result<(), LeaseFailure> {
        let LeaderElection { name, namespace, .. } = &self.candidate;
        let params = PostParams::default();
        let spec = Some(spec.clone());
        self.in_doubt = true;
        let write = async {
            match &self.lease {
                // Labels and annotations stay as they are.
                Some(lease) => {
                    let lease = Lease { spec, ..lease.clone() };
                    ("update", self.api.replace(name, &params, &lease).await)
                }
                None => {
                    let metadata = ObjectMeta {
                        name: Some(name.clone()),
                        namespace: Some(namespace.clone()),
                        ..ObjectMeta::default()
                    };
                    ("create", self.api.create(&params, &Lease { metadata, spec }).await)
                }
            }
        };
        let written = timeout(self.candidate.timing.call(), write).await;
        let (verb, written) = written.map_err(|_| self.no_answer())?;
        // An answer, even a refusal, ends the doubt; a broken connection doesn't.
        self.in_doubt = !matches!(written, Ok(_) | Err(kube::Error::Api(_)));
        self.lease = Some(written.map_err(|error| self.failure(verb, error))?);
        Ok(())
    }

    fn no_answer(&self) -> LeaseFailure {
        LeaseFailure::Call(format!("no answer within {:?}", self.candidate.timing.call()))
    }

    fn failure(&self, verb: &str, error: kube::Error) -> LeaseFailure {
        match error {
            kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() => LeaseFailure::Held,
            kube::Error::Api(status) if status.is_forbidden() => {
                let why = format!(
                    "{}; leader election needs get, create and update on leases (coordination.k8s.io) in namespace {}",
                    status.message, self.candidate.namespace
                );
                match verb {
                    "get" => LeaseFailure::Call(why),
                    _ => LeaseFailure::Unwritable(why),
                }
            }
            kube::Error::Api(status) => LeaseFailure::Call(format!("can't {verb} it: {}", status.message)),
            error => LeaseFailure::Call(format!("can't {verb} it: {}", chain(&error))),
        }
    }

    /// Says why we don't lead, or can't renew, when that is news.
    fn say(&mut self, failure: &LeaseFailure) {
        let news = match failure {
            LeaseFailure::Call(why) | LeaseFailure::Unwritable(why) => why.clone(),
            LeaseFailure::Held | LeaseFailure::Lost => match self.election.holder() {
                Some(holder) if holder != self.candidate.identity => format!("held by {holder}"),
                // Another candidate was faster. The next read shows which one.
                _ => return,
            },
        };
        if news == self.said {
            return;
        }
        match failure {
            LeaseFailure::Call(_) | LeaseFailure::Unwritable(_) => {
                tracing::warn!(lease = %self.describe(), "lease trouble: {news}")
            }
            LeaseFailure::Held | LeaseFailure::Lost => tracing::info!(lease = %self.describe(), "not leading: {news}"),
        }
        self.said = news;
    }
}

/// The Lease's time stamps have microseconds; a finer one would differ from itself once it is read back.
fn micro_now() -> MicroTime {
    let now = jiff::Timestamp::now();
    MicroTime(jiff::Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
}
