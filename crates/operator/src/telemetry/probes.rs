//! Liveness and readiness of the operator, independent of the HTTP server.

use tokio::sync::watch;

/// Shared health of the process: liveness is answered by whoever can answer at all, readiness is set by the operator.
///
/// Not ready at first. Ready means: the caches are synced, or another replica leads and this one waits its turn (an
/// idle replica that never became ready would block a rolling update for ever).
#[derive(Clone, Debug)]
pub struct Health(watch::Sender<Option<&'static str>>);

impl Default for Health {
    fn default() -> Self {
        Health(watch::Sender::new(Some("the operator to start")))
    }
}

impl Health {
    /// From now on `/readyz` says 200.
    pub fn set_ready(&self) {
        self.0.send_replace(None);
    }

    /// From now on `/readyz` says 503 and `waiting_for`.
    pub fn set_waiting(&self, waiting_for: &'static str) {
        self.0.send_replace(Some(waiting_for));
    }

    /// What is being waited for; `None` when ready.
    pub fn waiting_for(&self) -> Option<&'static str> {
        *self.0.borrow()
    }
}
