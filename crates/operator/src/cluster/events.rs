//! Events on custom resources, through kube's recorder, which counts repetitions instead of writing them anew.
//!
//! What goes wrong is told at once. What went well is told when there is time, one Event after the other with pauses: while
//! many releases are worked on, the API server's time is theirs, and their conditions say the same.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::{mpsc, oneshot};

use crate::cluster::connection::bounded;
use crate::cluster::error::{Error, Result};
use crate::cluster::events::core_api::CoreRecorder;
use crate::telemetry::{cut, redact};

mod core_api;

/// Event notes may have 1 kB; the API server refuses longer ones.
const NOTE_BYTES: usize = 1000;

/// How long a repetition counts as one; kube's recorder forgets as fast.
const WINDOW: Duration = Duration::from_secs(6 * 60);

/// Before an event is written a second time that the API server had no time for.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// So many Events may wait for their time; whoever has one more writes it at once.
const MAX_WAITING: usize = 2048;

/// How much longer than an Event took to write the pause before the next is: a busy API server is asked more seldom.
const PAUSE: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Writes events. A failed event is logged and never fails a reconcile.
#[derive(Clone)]
pub struct Events {
    writer: Arc<Writer>,
    queue: Arc<OnceLock<mpsc::Sender<Deferred>>>,
}

/// What is done when there is time.
enum Deferred {
    Write(Arc<Message>),
    /// Tells that everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// An Event that is to be written, and what it is about.
struct Message {
    event: Event,
    about: ObjectReference,
}

struct Writer {
    client: Client,
    reporter: Reporter,
    told: Mutex<Told>,
    core: CoreRecorder,
    /// The core API took the last Event, where `events.k8s.io` is forbidden.
    prefers_core: AtomicBool,
    /// That they are forbidden was told.
    forbidden: AtomicBool,
    /// There will be no better time.
    hurries: AtomicBool,
}

/// What was told lately, by object, reason and note: a recorder takes events for repetitions whatever their notes say, and
/// the new note would be lost, so each text has a recorder of its own.
struct Told {
    last: HashMap<u64, Last>,
    swept: Instant,
}

struct Last {
    at: Instant,
    /// What went well is rarely told twice: its first time is only remembered.
    recorder: Option<Recorder>,
}

// === impl Events ===

impl Events {
    /// `instance` tells replicas apart: the pod's name.
    pub fn new(client: Client, operator: &str, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: format!("chartwright.dev/{operator}"),
            instance,
        };
        let writer = Writer {
            core: CoreRecorder::new(client.clone(), reporter.clone(), WINDOW),
            prefers_core: AtomicBool::new(false),
            client,
            reporter,
            told: Mutex::new(Told {
                last: HashMap::new(),
                swept: Instant::now(),
            }),
            forbidden: AtomicBool::new(false),
            hurries: AtomicBool::new(false),
        };
        Events {
            writer: Arc::new(writer),
            queue: Arc::default(),
        }
    }

    /// Tells what went well, as soon as there is time.
    pub async fn normal(&self, about: &ObjectReference, reason: &str, action: &str, note: &str) {
        let message = Message::new(EventType::Normal, about, reason, action, note);
        if self.queue().try_send(Deferred::Write(message.clone())).is_err() {
            self.writer.write(message).await;
        }
    }

    /// Tells what is wrong, now.
    pub async fn warning(&self, about: &ObjectReference, reason: &str, action: &str, note: &str) {
        let message = Message::new(EventType::Warning, about, reason, action, note);
        self.writer.write(message).await;
    }

    /// Waits until everything that was told so far is written, without pauses: the work is at its end.
    pub async fn flush(&self) {
        self.writer.hurries.store(true, Ordering::Relaxed);
        let Some(queue) = self.queue.get() else {
            return;
        };
        let (done, flushed) = oneshot::channel();
        if queue.send(Deferred::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }

    fn queue(&self) -> &mpsc::Sender<Deferred> {
        self.queue.get_or_init(|| {
            let (sender, mut waiting) = mpsc::channel(MAX_WAITING);
            let writer = self.writer.clone();
            tokio::spawn(async move {
                while let Some(next) = waiting.recv().await {
                    match next {
                        Deferred::Write(message) => writer.write_and_pause(message).await,
                        Deferred::Flush(done) => drop(done.send(())),
                    }
                }
            });
            sender
        })
    }
}

// === impl Message ===

impl Message {
    fn new(kind: EventType, about: &ObjectReference, reason: &str, action: &str, note: &str) -> Arc<Self> {
        Arc::new(Message {
            event: Event {
                type_: kind,
                reason: reason.to_owned(),
                action: action.to_owned(),
                note: Some(cut(&redact::current(note), NOTE_BYTES)),
                secondary: None,
            },
            about: about.clone(),
        })
    }

    /// The same for repetitions.
    fn key(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        (&self.about.uid, &self.event.reason, &self.event.note).hash(&mut hash);
        hash.finish()
    }
}

// === impl Writer ===

impl Writer {
    fn recorder(&self, message: &Message) -> Recorder {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let key = message.key();
        let known = told.recall(key);
        let repeats = known.is_some() || message.event.type_ == EventType::Warning;
        let new = || Recorder::new(self.client.clone(), self.reporter.clone());
        let recorder = known.flatten().unwrap_or_else(new);
        let last = Last {
            at: Instant::now(),
            recorder: repeats.then(|| recorder.clone()),
        };
        told.last.insert(key, last);
        recorder
    }

    async fn write_and_pause(self: &Arc<Self>, message: Arc<Message>) {
        let begun = tokio::time::Instant::now();
        self.write(message).await;
        if !self.hurries.load(Ordering::Relaxed) {
            let pause = begun.elapsed() * PAUSE;
            tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
        }
    }

    async fn write(self: &Arc<Self>, message: Arc<Message>) {
        let recorder = self.recorder(&message);
        let Err(error) = self.publish(&recorder, &message).await else {
            self.forbidden.store(false, Ordering::Relaxed);
            return;
        };
        if matches!(error, Error::Forbidden(_)) && !self.forbidden.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %error,
                "Events can't be written; the log and the conditions say the same. The operator needs the rights to \
                 create and patch events (events.k8s.io)"
            );
        }
        tracing::debug!(reason = message.event.reason, %error, "event was not recorded");
        if let Some(wait) = error.retry_after() {
            let writer = self.clone();
            // Nobody waits for an event.
            tokio::spawn(async move {
                tokio::time::sleep(wait.clamp(SHORTEST_WAIT, WINDOW)).await;
                if let Err(error) = writer.publish(&recorder, &message).await {
                    let reason = &message.event.reason;
                    tracing::debug!(reason, %error, "event was not recorded the second time either");
                }
            });
        }
    }

    /// Writes an Event through the API that took the last one, and through the other one where that is forbidden: a role of
    /// operator-sdk names `events` of the core group only.
    async fn publish(&self, recorder: &Recorder, message: &Message) -> Result<()> {
        let (event, about) = (&message.event, &message.about);
        let through_core = || bounded(self.core.publish(message.key(), event, about));
        let through_events = || bounded(recorder.publish(event, about));
        let core_first = self.prefers_core.load(Ordering::Relaxed);
        let first = match core_first {
            true => through_core().await,
            false => through_events().await,
        };
        let Err(error @ Error::Forbidden(_)) = first else {
            return first;
        };
        let second = match core_first {
            true => through_events().await,
            false => through_core().await,
        };
        match second {
            Err(Error::Forbidden(_)) => Err(error),
            Ok(()) => {
                self.prefers_core.store(!core_first, Ordering::Relaxed);
                if !core_first {
                    tracing::info!(
                        "Events are written through the core API, since those of events.k8s.io are forbidden"
                    );
                }
                Ok(())
            }
            failed => failed,
        }
    }
}

// === impl Told ===

impl Told {
    /// What was told by this key within the window; `Some(None)`: once, and nothing of it was kept.
    fn recall(&mut self, key: u64) -> Option<Option<Recorder>> {
        if self.swept.elapsed() > WINDOW {
            self.last.retain(|_, last| last.at.elapsed() < WINDOW);
            self.swept = Instant::now();
        }
        let last = self.last.get(&key).filter(|last| last.at.elapsed() < WINDOW)?;
        Some(last.recorder.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicUsize;

    use kube::client::Body;

    use super::*;

    /// A server that takes a second for each request, and notes what it is asked.
    fn slow(asked: Arc<Mutex<Vec<String>>>, most: Arc<AtomicUsize>) -> Client {
        let running = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (asked, most, running) = (asked.clone(), most.clone(), running.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                let method = request.method().to_string();
                let body = request.into_body().collect_bytes().await.unwrap_or_default();
                let event: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
                asked
                    .lock()
                    .unwrap()
                    .push(format!("{method} {}", event["note"].as_str().unwrap_or("-")));
                Ok::<_, Infallible>(http::Response::new(Body::from(body.to_vec())))
            }
        });
        Client::new(service, "shop")
    }

    #[tokio::test(start_paused = true)]
    async fn what_went_well_waits_for_its_turn_and_what_is_wrong_does_not() {
        let (asked, most) = (Arc::default(), Arc::default());
        let events = Events::new(slow(Arc::clone(&asked), Arc::clone(&most)), "test", None);
        let about = ObjectReference {
            namespace: Some("shop".into()),
            uid: Some("u".into()),
            ..ObjectReference::default()
        };
        let begun = tokio::time::Instant::now();
        for number in 0..3 {
            events
                .normal(&about, "Installed", "Reconcile", &number.to_string())
                .await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "nobody waits for it");
        events.warning(&about, "Failed", "Reconcile", "broken").await;
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(asked.lock().unwrap().len(), 2, "a pause after the first");
        events.flush().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(4), "no other pause");
        assert_eq!(most.load(Ordering::SeqCst), 2, "one that can wait at a time");
        let told = |asked: &Mutex<Vec<String>>| {
            let mut told = std::mem::take(&mut *asked.lock().unwrap());
            told.sort();
            told
        };
        assert_eq!(told(&asked), ["POST 0", "POST 1", "POST 2", "POST broken"]);

        // A repetition is counted from the second time on; an Event that went wrong is counted at once.
        for _ in 0..2 {
            events.normal(&about, "Installed", "Reconcile", "2").await;
        }
        events.warning(&about, "Failed", "Reconcile", "broken").await;
        events.flush().await;
        let told = told(&asked);
        assert_eq!(told.iter().filter(|told| *told == "POST 2").count(), 1, "{told:?}");
        assert_eq!(
            told.iter().filter(|told| told.starts_with("PATCH")).count(),
            2,
            "{told:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_finds_no_room_writes_at_once() {
        let (asked, most) = (Arc::default(), Arc::default());
        let events = Events::new(slow(Arc::clone(&asked), Arc::clone(&most)), "test", None);
        let begun = tokio::time::Instant::now();
        for number in 0..MAX_WAITING + 2 {
            events
                .normal(
                    &ObjectReference::default(),
                    "Installed",
                    "Reconcile",
                    &number.to_string(),
                )
                .await;
        }
        // Two are one more than the one under way takes out of the channel.
        assert!(begun.elapsed() > Duration::ZERO && begun.elapsed() <= Duration::from_secs(2));
        events.flush().await;
        assert_eq!(asked.lock().unwrap().len(), MAX_WAITING + 2, "none is lost");
    }

    #[tokio::test]
    async fn an_old_role_gets_events_of_the_core_api() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let log = log.clone();
            async move {
                let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
                let body = request.into_body().collect_bytes().await.unwrap_or_default();
                let event: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
                let forbidden = path.starts_with("/apis/events.k8s.io/") || method == "PATCH";
                let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
                let api = path.split('/').nth(1).unwrap_or_default();
                log.lock()
                    .unwrap()
                    .push(format!("{method} {api} {}{}", text("note"), text("message")));
                let refused = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                    "reason": "Forbidden", "message": "no"});
                let (code, answer) = match forbidden {
                    true => (403, refused.to_string().into_bytes()),
                    false => (201, body.to_vec()),
                };
                let answer = http::Response::builder().status(code).body(Body::from(answer));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        let events = Events::new(Client::new(service, "shop"), "test", None);
        let about = ObjectReference {
            name: Some("ü".repeat(200)),
            ..ObjectReference::default()
        };
        for note in ["one", "two", "two"] {
            events.warning(&about, "Failed", "Reconcile", note).await;
        }
        let asked = asked.lock().unwrap();
        // The last one is a repetition, which this role may not count.
        assert_eq!(*asked, ["POST apis one", "POST api one", "POST api two", "PATCH api "]);
    }
}
