//! The election against a Lease store that speaks HTTP and can be told to fail.

use std::sync::Mutex;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;

/// Short, but such that a busy machine's hiccup of a second doesn't cost a lease.
const TIMING: Timing = Timing {
    lease: Duration::from_secs(3),
    renew_deadline: Duration::from_millis(2200),
    retry: Duration::from_millis(200),
};

/// What the server does with requests.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    Forbids,
    /// Does what it is asked, and never answers.
    SwallowsAnswers,
    /// Neither does nor answers.
    Hangs,
}

struct Server {
    lease: Option<Value>,
    version: u64,
    mood: Mood,
    requests: Vec<Method>,
}

type Shared = Arc<Mutex<Server>>;

fn refusal(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
        "message": format!("the server says {reason}"),
    });
    (code, [(header::CONTENT_TYPE, "application/json")], status.to_string()).into_response()
}

async fn answer(State(shared): State<Shared>, method: Method, body: Bytes) -> Response {
    let (mood, response) = {
        let mut server = shared.lock().unwrap();
        server.requests.push(method.clone());
        (server.mood, server.act(&method, &body))
    };
    if matches!(mood, Mood::Hangs | Mood::SwallowsAnswers) {
        std::future::pending::<()>().await;
    }
    response
}

impl Server {
    fn act(&mut self, method: &Method, body: &[u8]) -> Response {
        match (self.mood, method) {
            (Mood::Hangs, _) => return StatusCode::OK.into_response(),
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
        let lease = self.lease.as_ref().unwrap().to_string();
        ([(header::CONTENT_TYPE, "application/json")], lease).into_response()
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
        self.lease
            .as_ref()
            .map(|_| self.spec().holder_identity.unwrap_or_default())
            .unwrap_or_default()
    }

    fn set_holder(&mut self, holder: &str, transitions: i32) {
        let mut lease = self.lease.clone().unwrap_or_else(|| {
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                   "metadata": {"name": "op", "namespace": "ns", "labels": {"team": "blue"}}, "spec": {}})
        });
        lease["spec"] = json!({"holderIdentity": holder, "leaseDurationSeconds": 3, "leaseTransitions": transitions,
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
    async fn start() -> Self {
        let server = Server {
            lease: None,
            version: 0,
            mood: Mood::Well,
            requests: Vec::new(),
        };
        let shared = Arc::new(Mutex::new(server));
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        Self { shared, client }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Server) -> T) -> T {
        f(&mut self.shared.lock().unwrap())
    }

    fn candidate(&self, identity: &str) -> LeaderElection {
        let metrics = Arc::new(Metrics::new());
        let mut candidate = LeaderElection::new(self.client.clone(), "ns", "op", metrics).unwrap();
        candidate.identity = identity.to_owned();
        candidate.timing = TIMING;
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
        for _ in 0..500 {
            if self.with(&condition) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("never: {what}");
    }
}

struct Running {
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    task: JoinHandle<Result<Ended<&'static str>, InvalidTiming>>,
}

impl Running {
    /// Waits until it knows that it leads, which is a moment after the server does.
    async fn leads(&self) {
        leads(&self.metrics).await;
    }

    async fn stop(self) -> Ended<&'static str> {
        self.stop.cancel();
        self.end().await
    }

    async fn end(self) -> Ended<&'static str> {
        timeout(Duration::from_secs(10), self.task)
            .await
            .expect("ends")
            .unwrap()
            .unwrap()
    }
}

async fn leads(metrics: &Metrics) {
    for _ in 0..500 {
        if metrics.leader.get() == 1 {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("never leads");
}

#[tokio::test]
async fn one_leads_and_gives_the_lease_back() {
    let bench = Bench::start().await;
    let a = bench.run("a");
    a.leads().await;
    let first = bench.with(|server| server.spec());
    assert_eq!(
        (first.lease_duration_seconds, first.lease_transitions),
        (Some(3), Some(0))
    );
    bench
        .until("a renews", |server| server.spec().renew_time > first.renew_time)
        .await;
    assert_eq!(a.metrics.leader.get(), 1);
    assert_eq!(bench.with(|server| server.spec()).acquire_time, first.acquire_time);

    let metrics = a.metrics.clone();
    assert_eq!(a.stop().await, Ended::Finished("done"));
    let last = bench.with(|server| server.spec());
    assert_eq!(
        (last.holder_identity.as_deref(), last.lease_duration_seconds),
        (Some(""), Some(1))
    );
    assert_eq!(metrics.leader.get(), 0);
}

#[tokio::test]
async fn renewing_is_one_request() {
    let bench = Bench::start().await;
    let a = bench.run("a");
    bench.until("three renewals", |server| server.version >= 4).await;
    let requests = bench.with(|server| server.requests.clone());
    assert_eq!(
        requests[..5],
        [Method::GET, Method::POST, Method::PUT, Method::PUT, Method::PUT]
    );
    a.stop().await;
}

#[tokio::test]
async fn the_next_one_takes_over_without_waiting() {
    let bench = Bench::start().await;
    let a = bench.run("a");
    a.leads().await;
    let b = bench.run("b");
    sleep(TIMING.lease).await;
    assert_eq!(bench.with(|server| server.holder()), "a", "b waits as long as a renews");
    assert_eq!(a.stop().await, Ended::Finished("done"));
    let freed = Instant::now();
    b.leads().await;
    assert!(freed.elapsed() < TIMING.lease, "{:?}", freed.elapsed());
    assert_eq!(bench.with(|server| server.spec().lease_transitions), Some(1));
    assert_eq!(b.stop().await, Ended::Finished("done"));
}

#[tokio::test]
async fn a_dead_holder_is_waited_out_by_our_clock() {
    let bench = Bench::start().await;
    bench.with(|server| server.set_holder("dead", 5));
    let started = Instant::now();
    let a = bench.run("a");
    a.leads().await;
    assert!(
        started.elapsed() >= TIMING.lease,
        "its renewTime of 2001 proves nothing: {:?}",
        started.elapsed()
    );
    assert_eq!(bench.with(|server| server.spec().lease_transitions), Some(6));
    let labels = bench.with(|server| server.lease.as_ref().unwrap()["metadata"]["labels"].clone());
    assert_eq!(labels, json!({"team": "blue"}), "labels stay");
    a.stop().await;
}

#[tokio::test]
async fn of_many_candidates_one_leads() {
    let bench = Bench::start().await;
    let candidates: Vec<_> = (0..8).map(|i| bench.run(&format!("c{i}"))).collect();
    bench.until("renewals", |server| server.version > 5).await;
    let leading: i64 = candidates.iter().map(|candidate| candidate.metrics.leader.get()).sum();
    assert_eq!(leading, 1);
    for candidate in candidates {
        candidate.stop.cancel();
        candidate.end().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_costs_the_lease_before_it_expires() {
    let bench = Bench::start().await;
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
    let ended = timeout(Duration::from_secs(10), task)
        .await
        .expect("work that ignores its token is dropped");
    let Ended::Lost(reason) = ended.unwrap().unwrap() else {
        panic!("not lost")
    };
    assert!(reason.contains("ns/op") && reason.contains("no answer"), "{reason}");
    let cancelled = cancelled.lock().unwrap().expect("the token was cancelled");
    assert!(
        cancelled - hung < TIMING.lease - Duration::from_millis(300),
        "{:?}",
        cancelled - hung
    );
}

#[tokio::test]
async fn a_lease_taken_by_force_stops_the_work_at_once() {
    let bench = Bench::start().await;
    let a = bench.run("a");
    a.leads().await;
    bench.with(|server| server.set_holder("thief", 1));
    let metrics = a.metrics.clone();
    let stolen = Instant::now();
    assert_eq!(
        a.end().await,
        Ended::Lost("lease ns/op is held by thief now".to_owned())
    );
    assert!(stolen.elapsed() < TIMING.renew_deadline, "{:?}", stolen.elapsed());
    assert_eq!(metrics.leader.get(), 0);
    assert_eq!(bench.with(|server| server.holder()), "thief");
}

#[tokio::test]
async fn a_lease_deleted_under_a_leader_is_made_again() {
    let bench = Bench::start().await;
    let a = bench.run("a");
    a.leads().await;
    bench.with(|server| server.lease = None);
    bench.until("a has it again", |server| server.holder() == "a").await;
    assert_eq!(a.stop().await, Ended::Finished("done"));
}

#[tokio::test]
async fn a_refusal_is_waited_out() {
    let bench = Bench::start().await;
    bench.with(|server| server.mood = Mood::Forbids);
    let a = bench.run("a");
    bench.until("a tries on", |server| server.requests.len() >= 3).await;
    bench.with(|server| server.mood = Mood::Well);
    a.leads().await;
    assert_eq!(a.stop().await, Ended::Finished("done"));
}

#[tokio::test]
async fn a_refusal_says_which_rights_are_needed() {
    let bench = Bench::start().await;
    bench.with(|server| server.mood = Mood::Forbids);
    let Err(Failure::Call(why)) = Lock::new(bench.candidate("a")).read().await else {
        panic!("not refused")
    };
    assert_eq!(
        why,
        "the server says Forbidden; leader election needs get, create and update on leases (coordination.k8s.io) in \
         namespace ns"
    );
}

#[tokio::test]
async fn a_candidate_that_waits_stops_without_a_write() {
    let bench = Bench::start().await;
    bench.with(|server| server.set_holder("other", 0));
    let a = bench.run("a");
    bench.until("a looked", |server| !server.requests.is_empty()).await;
    assert_eq!(a.stop().await, Ended::NeverLed);
    assert!(bench.with(|server| server.requests.iter().all(|method| method == Method::GET)));
}

#[tokio::test]
async fn a_write_whose_answer_got_lost_is_taken_back_on_stop() {
    let bench = Bench::start().await;
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

#[tokio::test]
async fn work_that_ends_by_itself_gives_the_lease_back() {
    let bench = Bench::start().await;
    let ended = bench
        .candidate("a")
        .run(CancellationToken::new(), |_| async { Err::<(), _>("broken") })
        .await;
    assert_eq!(ended, Ok(Ended::Finished(Err("broken"))));
    assert_eq!(bench.with(|server| server.holder()), "");
}

#[tokio::test]
async fn impossible_timing_is_refused() {
    let bench = Bench::start().await;
    let mut candidate = bench.candidate("a");
    candidate.timing.renew_deadline = candidate.timing.lease;
    let error = candidate.run(CancellationToken::new(), |_| async {}).await.unwrap_err();
    assert!(error.to_string().contains("renew deadline (3s)"), "{error}");
}

#[test]
fn identities_differ_and_name_the_host() {
    let (a, b) = (identity().unwrap(), identity().unwrap());
    assert_ne!(a, b);
    let (host, id) = a.rsplit_once('_').unwrap();
    assert!(!host.is_empty() && !host.contains(char::is_whitespace), "{a}");
    assert_eq!(id.parse::<uuid::Uuid>().unwrap().get_version_num(), 4);
}
