//! Events on custom resources, through kube's recorder, which counts repetitions instead of writing them anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::connect::bounded;
use super::error::Error;
use crate::telemetry::redact;

/// Event notes may have 1 kB; the API server refuses longer ones.
const NOTE_BYTES: usize = 1000;

/// How long a repetition counts as one; kube's recorder forgets as fast.
const WINDOW: Duration = Duration::from_secs(6 * 60);

/// Before an event is written a second time that the API server had no time for.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Writes events. A failed event is logged and never fails a reconcile.
#[derive(Clone)]
pub struct Events {
    client: Client,
    reporter: Reporter,
    last: Arc<Mutex<HashMap<(String, String), Last>>>,
    /// That they are forbidden was told.
    told: Arc<AtomicBool>,
}

/// The last event of an object (by UID) and a reason. A recorder takes events for repetitions whatever their notes say,
/// and the new note would be lost: so each text has a recorder of its own.
struct Last {
    note: String,
    at: Instant,
    recorder: Recorder,
}

// === impl Events ===

impl Events {
    /// `instance` tells replicas apart: the pod's name.
    pub fn new(client: Client, operator: &str, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: format!("chartwright.dev/{operator}"),
            instance,
        };
        Events {
            client,
            reporter,
            last: Arc::default(),
            told: Arc::default(),
        }
    }

    fn recorder(&self, about: &ObjectReference, reason: &str, note: &str) -> Recorder {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|_, last| last.at.elapsed() < WINDOW);
        let key = (about.uid.clone().unwrap_or_default(), reason.to_owned());
        let known = last.remove(&key).filter(|last| last.note == note);
        let recorder = known.map(|last| last.recorder);
        let recorder = recorder.unwrap_or_else(|| Recorder::new(self.client.clone(), self.reporter.clone()));
        let (note, at) = (note.to_owned(), Instant::now());
        last.insert(
            key,
            Last {
                note,
                at,
                recorder: recorder.clone(),
            },
        );
        recorder
    }

    pub async fn normal(&self, about: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Normal, about, reason, action, note).await;
    }

    pub async fn warning(&self, about: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Warning, about, reason, action, note).await;
    }

    async fn publish(&self, kind: EventType, about: &ObjectReference, reason: &str, action: &str, note: &str) {
        let note = redact::current(note);
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: Some(cut(&note)),
            secondary: None,
        };
        let recorder = self.recorder(about, reason, &note);
        let Err(error) = bounded(recorder.publish(&event, about)).await else {
            self.told.store(false, Ordering::Relaxed);
            return;
        };
        if matches!(error, Error::Forbidden(_)) && !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %error,
                "Events can't be written; the log and the conditions say the same. The operator needs the rights to \
                 create and patch events (events.k8s.io)"
            );
        }
        tracing::debug!(%reason, %error, "event was not recorded");
        if let Some(wait) = error.retry_after() {
            let about = about.clone();
            // Nobody waits for an event.
            tokio::spawn(async move {
                tokio::time::sleep(wait.clamp(SHORTEST_WAIT, WINDOW)).await;
                if let Err(error) = bounded(recorder.publish(&event, &about)).await {
                    tracing::debug!(reason = event.reason, %error, "event was not recorded the second time either");
                }
            });
        }
    }
}

fn cut(note: &str) -> String {
    if note.len() <= NOTE_BYTES {
        return note.to_owned();
    }
    let mut end = NOTE_BYTES - '…'.len_utf8();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &note[..end])
}

#[cfg(test)]
mod tests {
    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(super::cut("short"), "short");
        let long = super::cut(&"ä".repeat(800));
        assert!(long.len() <= super::NOTE_BYTES && long.ends_with('…'));
    }
}
