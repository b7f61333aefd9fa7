//! Liveness and readiness: what the operator knows of its own health, apart from how it is served.

use std::sync::{Arc, PoisonError, RwLock};

/// Shared health of the process: liveness is answered by whoever can answer at all, readiness is set by the operator.
///
/// Not ready at first. Ready means: the caches are synced, or another replica leads and this one waits its turn (an
/// idle replica that never became ready would block a rolling update for ever).
#[derive(Clone, Debug)]
pub struct Health {
    /// What is being waited for; `None` when ready.
    waiting_for: Arc<RwLock<Option<String>>>,
}

// === impl Health ===

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// The health of a process that has just started.
    pub fn new() -> Self {
        Self {
            waiting_for: Arc::new(RwLock::new(Some("the operator to start".to_owned()))),
        }
    }

    /// From now on `/readyz` says 200.
    pub fn set_ready(&self) {
        self.set(None);
    }

    /// From now on `/readyz` says 503 and `waiting_for`, e.g. `the caches of Memcached.cache.example.com`.
    pub fn set_waiting(&self, waiting_for: impl Into<String>) {
        self.set(Some(waiting_for.into()));
    }

    /// Ready, or what is being waited for.
    ///
    /// # Errors
    /// What the operator waits for, when it isn't ready.
    pub fn ready(&self) -> Result<(), String> {
        // A panic elsewhere can't leave an Option half-written: the poison says nothing.
        let waiting_for = self.waiting_for.read().unwrap_or_else(PoisonError::into_inner);
        waiting_for.as_ref().map_or(Ok(()), |what| Err(what.clone()))
    }

    fn set(&self, value: Option<String>) {
        *self.waiting_for.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_shared_by_clones_and_can_be_lost() {
        let health = Health::new();
        let clone = health.clone();
        assert_eq!(health.ready(), Err("the operator to start".to_owned()));
        clone.set_ready();
        assert_eq!(health.ready(), Ok(()));
        clone.set_waiting("caches");
        assert_eq!(health.ready(), Err("caches".to_owned()));
    }
}
