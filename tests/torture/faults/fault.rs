//! Faults of requests, injected between an operator and a server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Response;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::faults::call::{ApiCall, CallAnswer, CallBody, CallServer, failure, full_body};
use crate::faults::watches::{WatchEnd, WatchFlow, disturbed};

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Answered with this status; the server behind never hears of it.
    Status(u16),
    /// Answered with 429 and a `Retry-After` of so many seconds; the server behind never hears of it.
    Busy(u64),
    /// Carried out, and answered with 504.
    Late,
    /// The connection ends before the request reaches the server.
    CutBefore,
    /// Carried out; the connection ends before the answer.
    CutAfter,
    /// Never answered and never carried out; the client has to give up by itself.
    Hang,
    /// Carried out, and answered two seconds later.
    Slow,
    /// Carried out two seconds later, and answered.
    Tardy,
    /// The operator dies before the request reaches the server.
    KillBefore,
    /// Carried out; the operator dies before the answer.
    KillAfter,
    /// All watches end.
    Watches(WatchEnd),
    /// From now on all watch events have this delay.
    WatchesLate(Duration),
    /// All watches end, and for this time each list or watch is answered with this status.
    WatchesBroken(u16, Duration),
}

/// When it goes wrong.
pub struct FaultPlan {
    pub fault: Fault,
    /// The first call that is hit, from 1, among those that `counts` takes.
    pub position: usize,
    /// How many of them are hit, one after the other.
    pub times: usize,
    pub counts: Box<dyn Fn(&ApiCall) -> bool + Send>,
}

impl FaultPlan {
    pub fn new(
        fault: Fault,
        position: usize,
        times: usize,
        counts: impl Fn(&ApiCall) -> bool + Send + 'static,
    ) -> Self {
        FaultPlan {
            fault,
            position,
            times,
            counts: Box::new(counts),
        }
    }

    /// Hits all of them.
    pub fn always(fault: Fault, counts: impl Fn(&ApiCall) -> bool + Send + 'static) -> Self {
        FaultPlan::new(fault, 1, usize::MAX / 2, counts)
    }
}

/// One call and how it ended.
#[derive(Clone, Debug)]
pub struct LoggedCall {
    pub call: ApiCall,
    /// What the client was answered; `None`: nothing.
    pub answered: Option<u16>,
    /// What the server behind answered; `None`: it never heard of it.
    pub done: Option<u16>,
}

#[derive(Default)]
struct FaultState {
    plan: Option<FaultPlan>,
    seen: usize,
    hit: Vec<String>,
    log: Vec<LoggedCall>,
    /// The API group that discovery shows as failed.
    missing_group: Option<&'static str>,
    /// With what status LISTs and watches fail, and until when.
    broken: Option<(u16, Instant)>,
    /// When requests that are never answered or silent watches began, and when the client has noticed that.
    waits: Vec<(Instant, Instant)>,
}

/// How long a client waits for an answer, and then before the next request.
const LONGEST_REQUEST: Duration = Duration::from_secs(40);
/// How long a client watches without an event, and then before the next watch.
const LONGEST_SILENCE: Duration = Duration::from_secs(140);
/// How long a client needs to watch again.
const REWATCH: Duration = Duration::from_secs(10);

/// A server with faults.
pub struct Faults {
    server: Box<dyn CallServer>,
    state: Mutex<FaultState>,
    /// Notified at a kill.
    pub killed: Notify,
    /// While true, nothing is answered any more: the client is dead, though its process may take a moment to end.
    dead: AtomicBool,
    flow: watch::Sender<WatchFlow>,
}

impl Faults {
    pub fn new(server: impl CallServer) -> Arc<Self> {
        Arc::new(Faults {
            server: Box::new(server),
            state: Mutex::default(),
            killed: Notify::new(),
            dead: AtomicBool::new(false),
            flow: watch::Sender::new(WatchFlow {
                ends: 0,
                how: WatchEnd::Cut,
                late: Duration::ZERO,
            }),
        })
    }

    /// Sets the fault and clears the log.
    pub fn arm(&self, plan: FaultPlan) {
        self.clear_log();
        self.state().hit.clear();
        self.set_plan(plan);
    }

    /// As [`Faults::arm`], and the log goes on.
    pub fn set_plan(&self, plan: FaultPlan) {
        let mut state = self.state();
        (state.plan, state.seen) = (Some(plan), 0);
    }

    pub fn clear_log(&self) {
        self.state().log.clear();
    }

    /// Nothing goes wrong any more. Gives what was hit: empty if the position was never reached.
    pub fn disarm(&self) -> Vec<String> {
        self.flow.send_modify(|flow| flow.late = Duration::ZERO);
        let mut state = self.state();
        (state.plan, state.missing_group, state.broken) = (None, None, None);
        std::mem::take(&mut state.hit)
    }

    /// Since when the client may wait for answers or events that never come, one after the other: now, if it does not.
    pub fn waiting_since(&self) -> Instant {
        let state = self.state();
        let earlier = state.waits.iter().rev();
        earlier.fold(
            Instant::now(),
            |since, (begun, ends)| if *ends > since { *begun } else { since },
        )
    }

    fn note_wait(&self, longest: Duration) {
        let now = Instant::now();
        self.state().waits.push((now, now + longest));
    }

    /// True if something went wrong by now.
    pub fn has_hit(&self) -> bool {
        !self.state().hit.is_empty()
    }

    /// A new client takes the dead one's place.
    pub fn revive(&self) {
        self.dead.store(false, Ordering::SeqCst);
    }

    /// All calls since the log began, in the order in which they were ended.
    pub fn log(&self) -> Vec<LoggedCall> {
        self.state().log.clone()
    }

    /// Discovery says that the API server of a group does not answer.
    pub fn set_missing_group(&self, group: &'static str) {
        self.state().missing_group = Some(group);
    }

    /// The status with which a LIST or a watch fails.
    fn breaks(&self, call: &ApiCall) -> Option<u16> {
        let (code, until) = self.state().broken?;
        let looks = matches!(call.verb(), "list" | "watch");
        (looks && Instant::now() < until).then_some(code)
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault that this call is hit by.
    fn due(&self, call: &ApiCall) -> Option<Fault> {
        let mut state = self.state();
        let plan = state.plan.as_ref()?;
        if !(plan.counts)(call) {
            return None;
        }
        let (fault, first, last) = (plan.fault, plan.position, plan.position + plan.times);
        state.seen += 1;
        if state.seen < first || state.seen >= last {
            return None;
        }
        state.hit.push(call.to_string());
        Some(fault)
    }

    pub fn answer(self: &Arc<Self>, call: ApiCall) -> BoxFuture<'static, CallAnswer> {
        let faults = self.clone();
        async move {
            if faults.dead.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            let due = faults.due(&call);
            let mut entry = LoggedCall {
                call: call.clone(),
                answered: None,
                done: None,
            };
            let answer = faults.carry_out(call, due, &mut entry).await;
            faults.state().log.push(entry);
            if faults.dead.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            answer
        }
        .boxed()
    }

    async fn carry_out(&self, call: ApiCall, due: Option<Fault>, entry: &mut LoggedCall) -> CallAnswer {
        if let Some(Fault::WatchesBroken(code, how_long)) = due {
            self.state().broken = Some((code, Instant::now() + how_long));
            self.end_watches(WatchEnd::Cut);
        }
        let mut reply = |code, seconds| {
            entry.answered = Some(code);
            Ok(status(code, seconds))
        };
        if let Some(code) = self.breaks(&call) {
            return reply(code, 1);
        }
        match due {
            Some(Fault::Status(code)) => return reply(code, 1),
            Some(Fault::Busy(seconds)) => return reply(429, seconds),
            Some(Fault::CutBefore) => return Err("cut before the request".into()),
            Some(Fault::Tardy) => tokio::time::sleep(Duration::from_secs(2)).await,
            Some(Fault::Hang) => {
                self.note_wait(LONGEST_REQUEST);
                return std::future::pending().await;
            }
            Some(Fault::KillBefore) => {
                self.kill();
                return Err("dead".into());
            }
            Some(Fault::Watches(how)) => self.end_watches(how),
            Some(Fault::WatchesLate(how_late)) => self.flow.send_modify(|flow| flow.late = how_late),
            _ => {}
        }
        let answer = self.forward(call, entry).await;
        match due {
            Some(Fault::Late) => entry.answered = Some(504),
            Some(Fault::CutAfter | Fault::KillAfter) => entry.answered = None,
            _ => {}
        }
        match due {
            Some(Fault::Late) => return Ok(status(504, 1)),
            Some(Fault::CutAfter) => return Err("cut before the answer".into()),
            Some(Fault::KillAfter) => {
                self.kill();
                return Err("dead".into());
            }
            Some(Fault::Slow) => tokio::time::sleep(Duration::from_secs(2)).await,
            _ => {}
        }
        answer
    }

    /// The client is dead: nothing that it still asks is heard.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.killed.notify_one();
    }

    /// All watches that are open end like that.
    pub fn end_watches(&self, how: WatchEnd) {
        match how {
            WatchEnd::Silent(long) => self.note_wait(long + REWATCH),
            WatchEnd::Mute => self.note_wait(LONGEST_SILENCE),
            WatchEnd::Gone | WatchEnd::Cut => {}
        }
        self.flow.send_modify(|flow| {
            flow.ends += 1;
            flow.how = how;
        });
    }

    /// Asks the server. Answers other than watches are read whole, so that "carried out" is true.
    async fn forward(&self, call: ApiCall, entry: &mut LoggedCall) -> CallAnswer {
        let is_watch = call.is_watch();
        let is_groups = call.path == "/apis";
        let response = self.server.answer(call).await?;
        entry.done = Some(response.status().as_u16());
        entry.answered = entry.done;
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(http::header::TRANSFER_ENCODING);
        parts.headers.remove(http::header::CONNECTION);
        if is_watch && parts.status.is_success() {
            return Ok(Response::from_parts(parts, disturbed(body, self.flow.subscribe())));
        }
        parts.headers.remove(http::header::CONTENT_LENGTH);
        let mut bytes = body.collect().await?.to_bytes();
        let missing = self.state().missing_group;
        if let Some(missing) = missing.filter(|_| is_groups) {
            bytes = without_group(&bytes, missing);
        }
        Ok(Response::from_parts(parts, full_body(bytes)))
    }
}

/// What the API server answers with a status; with 429, that it may be asked again in so many seconds.
fn status(code: u16, seconds: u64) -> Response<CallBody> {
    let answered = match code {
        403 => "Forbidden|forbidden: the rights of who asks don't reach that far",
        // As of a kind that isn't served: no object is named.
        404 => "NotFound|the server could not find the requested resource",
        409 => "Conflict|Operation cannot be fulfilled: the object has been modified",
        410 => "Expired|the provided continue parameter is too old",
        413 => "RequestEntityTooLarge|Request entity too large: limit is 3145728",
        422 => "Invalid|is invalid: metadata: Invalid value: on purpose",
        429 => "TooManyRequests|too many requests, please try again later",
        503 => "ServiceUnavailable|the server is currently unable to handle the request",
        504 => "Timeout|request did not complete within the allotted timeout",
        _ => "InternalError|an error on the server has prevented the request from succeeding",
    };
    let (reason, message) = answered.split_once('|').unwrap_or_default();
    let mut response = failure(code, reason, message);
    if code == 429 {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

/// What aggregated discovery answers while the API server of a group is down: the group version without resources,
/// marked stale.
fn without_group(bytes: &[u8], missing: &str) -> Bytes {
    let Ok(mut groups) = serde_json::from_slice::<Value>(bytes) else {
        return Bytes::copy_from_slice(bytes);
    };
    let groups_there = groups["items"].as_array_mut().into_iter().flatten();
    for group in groups_there.filter(|group| group["metadata"]["name"] == missing) {
        for version in group["versions"].as_array_mut().into_iter().flatten() {
            version["freshness"] = "Stale".into();
            version["resources"] = Value::Array(Vec::new());
        }
    }
    Bytes::from(groups.to_string())
}
