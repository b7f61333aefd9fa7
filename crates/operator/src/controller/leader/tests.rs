//! The election against a Lease store with faults on request, on a clock that jumps.

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;

/// What the server does with requests.
#[derive(Clone, Copy, Default)]
enum Mood {
    #[default]
    Well,
    Forbids,
    /// Answers reads alone.
    ForbidsWrites,
    /// Does what it is asked, and never answers.
    SwallowsAnswers,
    /// Neither does nor answers.
    Hangs,
}

#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    mood: Mood,
    requests: Vec<Method>,
}

type Shared = Arc<Mutex<Server>>;
type Answer = (StatusCode, Value);

fn refusal(code: StatusCode, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
        "message": format!("the server says {reason}"),
    });
    (code, status)
}

impl Server {
    fn act(&mut self, method: &Method, body: &[u8]) -> Answer {
        match (self.mood, method) {
            (Mood::Hangs, _) => return refusal(StatusCode::OK, ""),
            (Mood::Forbids, _) => return refusal(StatusCode::FORBIDDEN, "Forbidden"),
            (Mood::ForbidsWrites, &Method::POST | &Method::PUT) => return refusal(StatusCode::FORBIDDEN, "Forbidden"),
            (_, &Method::GET) if self.lease.is_none() => return refusal(StatusCode::NOT_FOUND, "NotFound"),
            (_, &Method::GET) => {}
            (_, &Method::POST) if self.lease.is_some() => return refusal(StatusCode::CONFLICT, "AlreadyExists"),
            (_, &Method::PUT) if self.lease.is_none() => return refusal(StatusCode::NOT_FOUND, "NotFound"),
            (_, &Method::POST | &Method::PUT) => {
                let lease: Value = serde_json::from_slice(body).unwrap();
                let stored = self.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
                if stored.is_some_and(|version| *version != lease["metadata"]["resourceVersion"]) {
                    return refusal(StatusCode::CONFLICT, "Conflict");
                }
                self.store(lease);
            }
            _ => return refusal(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        }
        (StatusCode::OK, self.lease.clone().unwrap())
    }

    fn store(&mut self, mut lease: Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = Value::from(self.version.to_string());
        self.lease = Some(lease);
    }

    fn spec(&self) -> LeaseSpec {
        let lease: Lease = serde_json::from_value(self.lease.clone().unwrap()).unwrap();
        lease.spec.unwrap()
    }

    fn holder(&self) -> String {
        let holder = self.lease.as_ref().and_then(|_| self.spec().holder_identity);
        holder.unwrap_or_default()
    }

    fn set_holder(&mut self, holder: &str, transitions: i32) {
        let mut lease = self.lease.clone().unwrap_or(json!({"metadata": {"name": "op"}}));
        lease["spec"] = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
                               "renewTime": "2001-01-01T00:00:00.000000Z"});
        self.store(lease);
    }
}

/// A client that belongs to the runtime in which it is made.
fn client(server: &Shared) -> kube::Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let server = server.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let (mood, (code, answer)) = {
                let mut server = server.lock().unwrap();
                server.requests.push(head.method.clone());
                (server.mood, server.act(&head.method, &body))
            };
            if matches!(mood, Mood::Hangs | Mood::SwallowsAnswers) {
                std::future::pending::<()>().await;
            }
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    kube::Client::new(service, "ns")
}

/// A server and clients of it.
struct Bench {
    shared: Shared,
    client: kube::Client,
}

impl Bench {
    fn start() -> Self {
        let shared = Shared::default();
        let client = client(&shared);
        Self { shared, client }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Server) -> T) -> T {
        f(&mut self.shared.lock().unwrap())
    }

    fn candidate(&self, identity: &str) -> LeaderElection {
        let metrics = Arc::new(Metrics::new());
        let mut candidate = LeaderElection::new(self.client.clone(), "ns", "op", metrics).unwrap();
        candidate.identity = identity.to_owned();
        candidate
    }

    /// A candidate at work: its work lasts until its token.
    fn run(&self, identity: &str) -> Running {
        let candidate = self.candidate(identity);
        let (metrics, stop) = (candidate.metrics.clone(), CancellationToken::new());
        let task = tokio::spawn(candidate.run(stop.clone(), |token| async move {
            token.cancelled().await;
            "done"
        }));
        Running { metrics, stop, task }
    }

    async fn until(&self, what: &str, condition: impl Fn(&mut Server) -> bool) {
        until(what, || self.with(&condition)).await;
    }
}

struct Running {
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    task: JoinHandle<CandidacyEnd<&'static str>>,
}

impl Running {
    async fn leads(&self) {
        leads(&self.metrics).await;
    }

    async fn stop(self) -> CandidacyEnd<&'static str> {
        self.stop.cancel();
        self.end().await
    }

    async fn end(self) -> CandidacyEnd<&'static str> {
        self.task.await.unwrap()
    }
}

/// Waits until a candidate knows that it leads, which is a moment after the server does.
async fn leads(metrics: &Metrics) {
    until("leads", || metrics.process.leader.get() == 1).await;
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(start_paused = true)]
async fn one_leads_renews_and_gives_the_lease_back() {
    let bench = Bench::start();
    let a = bench.run("a");
    a.leads().await;
    let first = bench.with(|server| server.spec());
    assert_eq!(
        (first.lease_duration_seconds, first.lease_transitions),
        (Some(15), Some(0))
    );
    bench.until("three renewals", |server| server.version >= 4).await;
    let (renewed, requests) = bench.with(|server| (server.spec(), server.requests.clone()));
    assert!(renewed.renew_time > first.renew_time && renewed.acquire_time == first.acquire_time);
    assert_eq!(
        requests,
        [Method::GET, Method::POST, Method::PUT, Method::PUT, Method::PUT],
        "a renewal is one request"
    );
    let metrics = a.metrics.clone();
    assert_eq!(metrics.process.leader.get(), 1);
    assert_eq!(a.stop().await, CandidacyEnd::Finished("done"));
    let last = bench.with(|server| server.spec());
    assert_eq!(
        (last.holder_identity.as_deref(), last.lease_duration_seconds),
        (Some(""), Some(1))
    );
    assert_eq!(metrics.process.leader.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_one_leads() {
    let bench = Bench::start();
    let candidates: Vec<_> = (0..8).map(|i| bench.run(&format!("c{i}"))).collect();
    bench.until("renewals", |server| server.version > 20).await;
    let leaders = candidates
        .iter()
        .filter(|candidate| candidate.metrics.process.leader.get() == 1);
    assert_eq!(leaders.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_costs_the_lease_before_it_expires() {
    let bench = Bench::start();
    let candidate = bench.candidate("a");
    let metrics = candidate.metrics.clone();
    let cancelled = Arc::new(Mutex::new(None));
    let (stop, seen) = (CancellationToken::new(), cancelled.clone());
    let task = tokio::spawn(candidate.run(stop, |token| async move {
        token.cancelled().await;
        *seen.lock().unwrap() = Some(Instant::now());
        std::future::pending::<()>().await;
    }));
    leads(&metrics).await;
    bench.with(|server| server.mood = Mood::Hangs);
    let hung = Instant::now();
    // Work that ignores its token is dropped.
    let CandidacyEnd::Lost(reason) = task.await.unwrap() else {
        panic!("not lost")
    };
    assert!(reason.contains("ns/op") && reason.contains("no answer"), "{reason}");
    let cancelled = cancelled.lock().unwrap().expect("the token was cancelled") - hung;
    assert!(cancelled <= Timing::default().renew_deadline, "{cancelled:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_force_stops_the_work_at_once_and_one_deleted_is_made_again() {
    let bench = Bench::start();
    let a = bench.run("a");
    a.leads().await;
    bench.with(|server| server.lease = None);
    bench.until("a has it again", |server| server.holder() == "a").await;
    bench.with(|server| server.set_holder("thief", 1));
    let (metrics, stolen) = (a.metrics.clone(), Instant::now());
    assert_eq!(
        a.end().await,
        CandidacyEnd::Lost("lease ns/op is held by thief now".to_owned())
    );
    assert!(stolen.elapsed() <= Timing::default().retry, "{:?}", stolen.elapsed());
    assert_eq!(metrics.process.leader.get(), 0);
    assert_eq!(bench.with(|server| server.holder()), "thief");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_which_rights_are_needed_and_is_waited_out() {
    let bench = Bench::start();
    bench.with(|server| server.mood = Mood::Forbids);
    let Err(LeaseFailure::Call(why)) = LeaseLock::new(bench.candidate("a")).read().await else {
        panic!("not refused")
    };
    assert_eq!(
        why,
        "the server says Forbidden; leader election needs get, create and update on leases (coordination.k8s.io) in \
         namespace ns"
    );
    let a = bench.run("a");
    bench.until("a tries on", |server| server.requests.len() >= 4).await;
    bench.with(|server| server.mood = Mood::Well);
    a.leads().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_write_the_lease_one_works_while_no_other_has_it() {
    let bench = Bench::start();
    bench.with(|server| {
        server.mood = Mood::ForbidsWrites;
        server.set_holder("other", 3);
    });
    let begun = Instant::now();
    let a = bench.candidate("a");
    let (metrics, fence) = (a.metrics.clone(), a.fence.clone());
    let stop = CancellationToken::new();
    let task = tokio::spawn(a.run(stop, |token| async move { token.cancelled().await }));
    for _ in 0..20 {
        sleep(Duration::from_secs(1)).await;
        bench.with(|server| server.set_holder("other", 3 + i32::try_from(server.version).unwrap()));
    }
    assert!(
        metrics.process.leader.get() == 0 && !fence.is_open(),
        "the other one renews"
    );
    // It stops, and its Lease ends. Then it has to be free for as long again.
    leads(&metrics).await;
    assert!(begun.elapsed() > Duration::from_secs(20) + 2 * Timing::default().lease);
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        assert!(fence.is_open());
    }
    // No answers, no writes; answers again, and it goes on.
    bench.with(|server| server.mood = Mood::Hangs);
    sleep(Duration::from_secs(30)).await;
    assert!(!fence.is_open());
    bench.with(|server| server.mood = Mood::ForbidsWrites);
    sleep(Duration::from_secs(30)).await;
    assert!(fence.is_open() && metrics.process.leader.get() == 1);
    bench.with(|server| server.set_holder("thief", 1000));
    let ended = task.await.unwrap();
    assert_eq!(ended, CandidacyEnd::Lost("lease ns/op is held by thief now".to_owned()));
    assert!(!fence.is_open() && metrics.process.leader.get() == 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_the_lease_takes_it_when_it_may() {
    let bench = Bench::start();
    bench.with(|server| server.mood = Mood::ForbidsWrites);
    let a = bench.run("a");
    a.leads().await;
    assert!(bench.with(|server| server.lease.is_none()));
    bench.with(|server| server.mood = Mood::Well);
    bench.until("a has the lease", |server| server.holder() == "a").await;
    let version = bench.with(|server| server.version);
    sleep(Duration::from_secs(30)).await;
    assert!(bench.with(|server| server.version) > version + 5, "renewed");
    assert_eq!(a.stop().await, CandidacyEnd::Finished("done"));
    assert_eq!(bench.with(|server| server.holder()), "");

    bench.with(|server| server.mood = Mood::ForbidsWrites);
    let b = bench.run("b");
    b.leads().await;
    assert_eq!(b.stop().await, CandidacyEnd::Finished("done"));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_waits_stops_without_a_write() {
    let bench = Bench::start();
    bench.with(|server| server.set_holder("other", 0));
    let a = bench.run("a");
    bench.until("a looked", |server| !server.requests.is_empty()).await;
    assert_eq!(a.stop().await, CandidacyEnd::NeverLed);
    assert!(bench.with(|server| server.requests.iter().all(|method| method == Method::GET)));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_got_lost_is_taken_back_on_stop() {
    let bench = Bench::start();
    bench.with(|server| server.set_holder("", 0));
    let mut lock = LeaseLock::new(bench.candidate("a"));
    assert!(lock.read().await.is_ok());
    bench.with(|server| server.mood = Mood::SwallowsAnswers);
    assert!(lock.write().await.is_err());
    bench.with(|server| server.mood = Mood::Well);
    assert_eq!(bench.with(|server| server.holder()), "a", "the write had arrived");
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(!lock.acquire(&stop).await);
    assert_eq!(bench.with(|server| server.holder()), "");
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_by_itself_gives_the_lease_back() {
    let bench = Bench::start();
    let ended = bench
        .candidate("a")
        .run(CancellationToken::new(), |_| async { Err::<(), _>("broken") })
        .await;
    assert_eq!(ended, CandidacyEnd::Finished(Err("broken")));
    assert_eq!(bench.with(|server| server.holder()), "");
}

/// Short, in real time.
const SHORT: Timing = Timing {
    lease: Duration::from_secs(2),
    renew_deadline: Duration::from_secs(1),
    retry: Duration::from_millis(100),
};

/// Waits in real time, on a thread that no runtime needs.
fn await_true(what: &str, condition: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A candidate on a thread of its own for work that keeps every thread of its runtime busy until `until` is set.
struct Starved {
    shared: Shared,
    fence: Arc<Fence>,
    metrics: Arc<Metrics>,
    begun: Arc<AtomicBool>,
    until: Arc<AtomicBool>,
    unresponsive: Arc<AtomicBool>,
    /// What became of the election, and of a write of the work after the starvation.
    ended: std::thread::JoinHandle<(CandidacyEnd<()>, Option<String>)>,
}

impl Starved {
    /// `threads`: of the runtime; 0 for one that the caller needs itself.
    fn start(threads: usize) -> Self {
        let [begun, until, unresponsive] = <[Arc<AtomicBool>; 3]>::default();
        let (shared, fence, metrics) = (Shared::default(), Arc::<Fence>::default(), Arc::new(Metrics::new()));
        let candidate = {
            let (shared, fence, metrics) = (shared.clone(), fence.clone(), metrics.clone());
            move || {
                let client = client(&shared);
                let candidate = LeaderElection::new(client, "ns", "op", metrics)?;
                let (identity, timing) = ("a".to_owned(), SHORT);
                Ok(LeaderElection {
                    identity,
                    timing,
                    fence,
                    ..candidate
                })
            }
        };
        let written = Arc::new(Mutex::new(None));
        let lead = {
            let (begun, until, fence, written) = (begun.clone(), until.clone(), fence.clone(), written.clone());
            let shared = shared.clone();
            move |token: CancellationToken| async move {
                let client = crate::cluster::with_fence(client(&shared), fence);
                for _ in 1..threads {
                    let until = until.clone();
                    tokio::spawn(async move { block(&until) });
                }
                begun.store(true, Ordering::SeqCst);
                block(&until);
                // On its own: this task is aborted soon.
                tokio::spawn(async move {
                    let write = http::Request::delete("/api/v1/namespaces/ns/pods/a").body(Body::empty());
                    let error = client.send(write.unwrap()).await.err().map(|error| chain(&error));
                    *written.lock().unwrap() = Some(error.unwrap_or_else(|| "it was sent".to_owned()));
                });
                token.cancelled().await;
            }
        };
        let has_given_up = unresponsive.clone();
        let ended = std::thread::spawn(move || {
            let mut builder = match threads {
                0 => tokio::runtime::Builder::new_current_thread(),
                _ => tokio::runtime::Builder::new_multi_thread(),
            };
            let runtime = builder.worker_threads(threads.max(1)).enable_all().build().unwrap();
            let gave_up = move |_: &str| has_given_up.store(true, Ordering::SeqCst);
            let ended = thread::run(candidate, CancellationToken::new(), lead, gave_up);
            let ended = runtime.block_on(ended).unwrap();
            let text = || written.lock().unwrap().clone();
            runtime.block_on(async {
                for _ in 0..1000 {
                    if text().is_some() {
                        break;
                    }
                    sleep(Duration::from_millis(10)).await;
                }
            });
            (ended, text())
        });
        Self {
            shared,
            fence,
            metrics,
            begun,
            until,
            unresponsive,
            ended,
        }
    }

    fn version(&self) -> u64 {
        self.shared.lock().unwrap().version
    }

    fn writes(&self) -> usize {
        let server = self.shared.lock().unwrap();
        server
            .requests
            .iter()
            .filter(|method| *method == Method::DELETE)
            .count()
    }
}

/// Keeps a thread busy, as a computation without end does.
fn block(until: &AtomicBool) {
    while !until.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn work_that_starves_its_runtime_keeps_the_lease_and_cannot_write_after_its_loss() {
    let starved = Starved::start(2);
    await_true("the work begins", || starved.begun.load(Ordering::SeqCst));
    // Renewed for longer than a Lease that is not would last.
    let (since, version) = (std::time::Instant::now(), starved.version());
    while since.elapsed() < SHORT.lease + SHORT.renew_deadline {
        assert_eq!(starved.shared.lock().unwrap().holder(), "a");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(
        starved.version() > version + 2,
        "no renewals while every worker is busy"
    );
    assert!(starved.fence.is_open() && starved.metrics.process.leader.get() == 1);

    starved.shared.lock().unwrap().mood = Mood::Hangs;
    await_true("the loss is noticed while every worker is busy", || {
        !starved.fence.is_open() && starved.metrics.process.leader.get() == 0
    });
    starved.until.store(true, Ordering::SeqCst);
    assert_eq!(starved.writes(), 0);
    let unresponsive = starved.unresponsive.clone();
    let shared = starved.shared.clone();
    let (ended, written) = starved.ended.join().unwrap();
    assert!(matches!(ended, CandidacyEnd::Lost(_)), "{ended:?}");
    let written = written.expect("the work tried to write");
    assert!(written.contains("nothing is written"), "{written}");
    assert!(!unresponsive.load(Ordering::SeqCst), "the caller's thread was free");
    let requests = &shared.lock().unwrap().requests;
    assert!(!requests.contains(&Method::DELETE), "written after the loss");
}

#[test]
fn a_process_that_does_not_react_to_the_loss_is_given_up() {
    let starved = Starved::start(0);
    await_true("the work begins", || starved.begun.load(Ordering::SeqCst));
    starved.shared.lock().unwrap().set_holder("thief", 9);
    await_true("it is given up", || starved.unresponsive.load(Ordering::SeqCst));
    assert!(!starved.fence.is_open() && starved.metrics.process.leader.get() == 0);
    starved.until.store(true, Ordering::SeqCst);
    let (ended, _) = starved.ended.join().unwrap();
    assert_eq!(ended, CandidacyEnd::Lost("lease ns/op is held by thief now".to_owned()));
}
