//! Receives the Events of a reconcile, which are not written.

use std::sync::{Arc, Mutex, PoisonError};

use fake_apiserver::call::{ApiCall, BoxError, answer};
use http::StatusCode;
use kube::Client;
use serde_json::Value;

/// Events that are kept; a reconcile writes few.
const MOST: usize = 100;

/// A warning that the operator would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreviewWarning {
    pub reason: String,
    pub note: String,
}

/// The warnings so far.
#[derive(Clone, Default)]
pub(crate) struct EventSink(Arc<Mutex<Vec<PreviewWarning>>>);

impl EventSink {
    /// A client for Events only. It sends nothing.
    pub(crate) fn client(&self, namespace: &str) -> Client {
        let sink = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let sink = sink.clone();
            async move {
                let call = ApiCall::read(request).await?;
                let event: Value = serde_json::from_slice(&call.body).unwrap_or_default();
                sink.receive(&event);
                Ok::<_, BoxError>(answer(StatusCode::CREATED, &event))
            }
        });
        Client::new(service, namespace)
    }

    fn receive(&self, event: &Value) {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        if event["type"] == "Warning" {
            self.warn(text("reason"), text("note"));
        }
    }

    /// Adds a warning that is no Event.
    pub(crate) fn warn(&self, reason: &str, note: &str) {
        let warning = PreviewWarning {
            reason: reason.to_owned(),
            note: note.to_owned(),
        };
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MOST && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    pub(crate) fn warnings(&self) -> Vec<PreviewWarning> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
