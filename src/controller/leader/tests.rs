//! The election against a Lease store that can be told to fail, on a clock that jumps.

use std::convert::Infallible;
use std::sync::Mutex;

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

/// A server and clients of it.
struct Bench {
    shared: Shared,
    client: kube::Client,
}

impl Bench {
    fn start() -> Self {
        let shared = Shared::default();
        let server = shared.clone();
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
        let client = kube::Client::new(service, "ns");
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
    task: JoinHandle<Ended<&'static str>>,
}

impl Running {
    async fn leads(&self) {
        leads(&self.metrics).await;
    }

    async fn stop(self) -> Ended<&'static str> {
        self.stop.cancel();
        self.end().await
    }

    async fn end(self) -> Ended<&'static str> {
        self.task.await.unwrap()
    }
}

/// Waits until a candidate knows that it leads, which is a moment after the server does.
async fn leads(metrics: &Metrics) {
    until("leads", || metrics.leader.get() == 1).await;
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
    assert_eq!(metrics.leader.get(), 1);
    assert_eq!(a.stop().await, Ended::Finished("done"));
    let last = bench.with(|server| server.spec());
    assert_eq!(
        (last.holder_identity.as_deref(), last.lease_duration_seconds),
        (Some(""), Some(1))
    );
    assert_eq!(metrics.leader.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_one_leads() {
    let bench = Bench::start();
    let candidates: Vec<_> = (0..8).map(|i| bench.run(&format!("c{i}"))).collect();
    bench.until("renewals", |server| server.version > 20).await;
    let leaders = candidates
        .iter()
        .filter(|candidate| candidate.metrics.leader.get() == 1);
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
    let Ended::Lost(reason) = task.await.unwrap() else {
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
        Ended::Lost("lease ns/op is held by thief now".to_owned())
    );
    assert!(stolen.elapsed() <= Timing::default().retry, "{:?}", stolen.elapsed());
    assert_eq!(metrics.leader.get(), 0);
    assert_eq!(bench.with(|server| server.holder()), "thief");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_which_rights_are_needed_and_is_waited_out() {
    let bench = Bench::start();
    bench.with(|server| server.mood = Mood::Forbids);
    let Err(Failure::Call(why)) = Lock::new(bench.candidate("a")).read().await else {
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
async fn a_candidate_that_waits_stops_without_a_write() {
    let bench = Bench::start();
    bench.with(|server| server.set_holder("other", 0));
    let a = bench.run("a");
    bench.until("a looked", |server| !server.requests.is_empty()).await;
    assert_eq!(a.stop().await, Ended::NeverLed);
    assert!(bench.with(|server| server.requests.iter().all(|method| method == Method::GET)));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_got_lost_is_taken_back_on_stop() {
    let bench = Bench::start();
    bench.with(|server| server.set_holder("", 0));
    let mut lock = Lock::new(bench.candidate("a"));
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
    assert_eq!(ended, Ended::Finished(Err("broken")));
    assert_eq!(bench.with(|server| server.holder()), "");
}
