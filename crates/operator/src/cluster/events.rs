//! Events on custom resources, through kube's recorder, which counts repetitions instead of writing new Events.
//!
//! Warnings are written immediately. Normal Events are queued and written one by one with pauses, so that they do not slow
//! reconciles down; the conditions contain the same facts.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::{mpsc, oneshot};

use crate::cluster::connection::bounded;
use crate::cluster::error::{Error, Result};
use crate::cluster::events::core_api::CoreRecorder;
use crate::sync::lock;
use crate::telemetry::redact;
use chartwright_watches::text::cut;

mod core_api;

/// The longest note that the API server accepts, in bytes.
const NOTE_BYTES: usize = 1000;

/// How long an Event counts as a repetition, as in kube's recorder.
const WINDOW: Duration = Duration::from_secs(6 * 60);

/// The shortest wait before a throttled Event is written again.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The most queued Events; further ones are written immediately.
const MAX_WAITING: usize = 2048;

/// The pause before the next Event, as a multiple of the time that the last one took: slower for a busy API server.
const PAUSE: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Writes events. A failed event is logged and never fails a reconcile.
#[derive(Clone)]
pub struct Events {
    writer: Arc<EventWriter>,
    queue: Arc<OnceLock<mpsc::Sender<DeferredEvent>>>,
}

/// A job of the queue.
enum DeferredEvent {
    Write(Arc<EventMessage>),
    /// Signals that everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// An Event to write, and the object that it is about.
struct EventMessage {
    event: Event,
    about: ObjectReference,
}

struct EventWriter {
    client: Client,
    reporter: Reporter,
    recent: Mutex<RecentEvents>,
    core: CoreRecorder,
    /// True if `events.k8s.io` is forbidden and the core API accepted the last Event.
    prefers_core: AtomicBool,
    /// True once the log has reported that Events are forbidden.
    forbidden: AtomicBool,
    /// True at shutdown: no pauses.
    hurries: AtomicBool,
}

/// Recent Events by object, reason and note. A recorder ignores the note when it looks for repetitions and would lose a new
/// note, so each text has its own recorder.
struct RecentEvents {
    last: HashMap<u64, RecentEvent>,
    swept: Instant,
}

struct RecentEvent {
    at: Instant,
    /// `None` for the first Normal Event: they rarely repeat.
    recorder: Option<Recorder>,
}

impl Events {
    /// `instance` identifies the replica: the pod's name.
    pub fn new(client: Client, operator: &str, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: format!("chartwright.dev/{operator}"),
            instance,
        };
        let writer = EventWriter {
            core: CoreRecorder::new(client.clone(), reporter.clone(), WINDOW),
            prefers_core: AtomicBool::new(false),
            client,
            reporter,
            recent: Mutex::new(RecentEvents {
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

    /// Queues a Normal Event.
    pub async fn normal(&self, about: &ObjectReference, reason: &str, action: &str, note: &str) {
        let message = EventMessage::new(EventType::Normal, about, reason, action, note);
        if self.queue().try_send(DeferredEvent::Write(message.clone())).is_err() {
            self.writer.write(message).await;
        }
    }

    /// Writes a Warning immediately.
    pub async fn warning(&self, about: &ObjectReference, reason: &str, action: &str, note: &str) {
        let message = EventMessage::new(EventType::Warning, about, reason, action, note);
        self.writer.write(message).await;
    }

    /// Writes all queued Events without pauses, at shutdown.
    pub async fn flush(&self) {
        self.writer.hurries.store(true, Ordering::Relaxed);
        let Some(queue) = self.queue.get() else {
            return;
        };
        let (done, flushed) = oneshot::channel();
        if queue.send(DeferredEvent::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }

    fn queue(&self) -> &mpsc::Sender<DeferredEvent> {
        self.queue.get_or_init(|| {
            let (sender, mut waiting) = mpsc::channel(MAX_WAITING);
            let writer = self.writer.clone();
            tokio::spawn(async move {
                while let Some(next) = waiting.recv().await {
                    match next {
                        DeferredEvent::Write(message) => writer.write_and_pause(message).await,
                        DeferredEvent::Flush(done) => drop(done.send(())),
                    }
                }
            });
            sender
        })
    }
}

impl EventMessage {
    fn new(kind: EventType, about: &ObjectReference, reason: &str, action: &str, note: &str) -> Arc<Self> {
        Arc::new(EventMessage {
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

    /// Equal for repetitions.
    fn key(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        (&self.about.uid, &self.event.reason, &self.event.note).hash(&mut hash);
        hash.finish()
    }
}

impl EventWriter {
    fn recorder(&self, message: &EventMessage) -> Recorder {
        let mut recent = lock(&self.recent);
        let key = message.key();
        let known = recent.recall(key);
        let repeats = known.is_some() || message.event.type_ == EventType::Warning;
        let new = || Recorder::new(self.client.clone(), self.reporter.clone());
        let recorder = known.flatten().unwrap_or_else(new);
        let last = RecentEvent {
            at: Instant::now(),
            recorder: repeats.then(|| recorder.clone()),
        };
        recent.last.insert(key, last);
        recorder
    }

    async fn write_and_pause(self: &Arc<Self>, message: Arc<EventMessage>) {
        let begun = tokio::time::Instant::now();
        self.write(message).await;
        if !self.hurries.load(Ordering::Relaxed) {
            let pause = begun.elapsed() * PAUSE;
            tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
        }
    }

    async fn write(self: &Arc<Self>, message: Arc<EventMessage>) {
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
            // No caller waits for an Event.
            tokio::spawn(async move {
                tokio::time::sleep(wait.clamp(SHORTEST_WAIT, WINDOW)).await;
                if let Err(error) = writer.publish(&recorder, &message).await {
                    let reason = &message.event.reason;
                    tracing::debug!(reason, %error, "event was not recorded the second time either");
                }
            });
        }
    }

    /// Writes an Event through the API that accepted the last one, or through the other if that is forbidden. Roles of
    /// operator-sdk allow `events` of the core group only.
    async fn publish(&self, recorder: &Recorder, message: &EventMessage) -> Result<()> {
        let (event, about) = (&message.event, &message.about);
        let through_core = || bounded(self.core.publish(message.key(), event, about));
        let through_events = || bounded(recorder.publish(event, about));
        let core_first = self.prefers_core.load(Ordering::Relaxed);
        let first = if core_first {
            through_core().await
        } else {
            through_events().await
        };
        let Err(error @ Error::Forbidden(_)) = first else {
            return first;
        };
        let second = if core_first {
            through_events().await
        } else {
            through_core().await
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

impl RecentEvents {
    /// The recorder of a recent Event with this key. `Some(None)`: written once, without a recorder.
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

    /// A server that takes a second for each request, and logs the requests.
    fn slow(sent: Arc<Mutex<Vec<String>>>, most: Arc<AtomicUsize>) -> Client {
        let running = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (sent, most, running) = (sent.clone(), most.clone(), running.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                let method = request.method().to_string();
                let body = request.into_body().collect_bytes().await.unwrap_or_default();
                let event: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
                sent.lock()
                    .unwrap()
                    .push(format!("{method} {}", event["note"].as_str().unwrap_or("-")));
                Ok::<_, Infallible>(http::Response::new(Body::from(body.to_vec())))
            }
        });
        Client::new(service, "shop")
    }

    #[tokio::test(start_paused = true)]
    async fn normal_events_are_queued_and_warnings_are_not() {
        let (sent, most) = (Arc::default(), Arc::default());
        let events = Events::new(slow(Arc::clone(&sent), Arc::clone(&most)), "test", None);
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
        assert_eq!(begun.elapsed(), Duration::ZERO, "no caller waits");
        events.warning(&about, "Failed", "Reconcile", "broken").await;
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(sent.lock().unwrap().len(), 2, "a pause after the first");
        events.flush().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(4), "no other pause");
        assert_eq!(most.load(Ordering::SeqCst), 2, "one that can wait at a time");
        let sorted = |requests: &Mutex<Vec<String>>| {
            let mut requests = std::mem::take(&mut *requests.lock().unwrap());
            requests.sort();
            requests
        };
        assert_eq!(sorted(&sent), ["POST 0", "POST 1", "POST 2", "POST broken"]);

        // A repetition is counted from the second time on; a Warning from the first.
        for _ in 0..2 {
            events.normal(&about, "Installed", "Reconcile", "2").await;
        }
        events.warning(&about, "Failed", "Reconcile", "broken").await;
        events.flush().await;
        let requests = sorted(&sent);
        assert_eq!(
            requests.iter().filter(|text| *text == "POST 2").count(),
            1,
            "{requests:?}"
        );
        assert_eq!(
            requests.iter().filter(|text| text.starts_with("PATCH")).count(),
            2,
            "{requests:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn events_beyond_the_queue_are_written_immediately() {
        let (sent, most) = (Arc::default(), Arc::default());
        let events = Events::new(slow(Arc::clone(&sent), Arc::clone(&most)), "test", None);
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
        assert_eq!(sent.lock().unwrap().len(), MAX_WAITING + 2, "none is lost");
    }

    #[tokio::test]
    async fn an_old_role_gets_events_of_the_core_api() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = sent.clone();
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
                let (code, answer) = if forbidden {
                    (403, refused.to_string().into_bytes())
                } else {
                    (201, body.to_vec())
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
        let sent = sent.lock().unwrap();
        // The last one is a repetition, which this role may not count.
        assert_eq!(*sent, ["POST apis one", "POST api one", "POST api two", "PATCH api "]);
    }
}
