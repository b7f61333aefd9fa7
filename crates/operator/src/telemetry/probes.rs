//! Liveness and readiness of the operator, independent of the HTTP server.

use tokio::sync::watch;

/// Shared health of the process. Liveness means that the process responds at all. The operator sets readiness.
///
/// Not ready at first. Ready means that the caches are synced, or that another replica leads and this one waits (an
/// idle replica that never became ready would block a rolling update for ever).
#[derive(Clone, Debug)]
pub struct ProcessHealth(watch::Sender<Option<&'static str>>);

impl Default for ProcessHealth {
    fn default() -> Self {
        ProcessHealth(watch::Sender::new(Some("the operator to start")))
    }
}

impl ProcessHealth {
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
