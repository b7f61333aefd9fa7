//! What another thread begins with while a chart is still being read: it is asked for later, in the order in which Helm
//! does it all.

use super::{Purpose, Schemas};
use crate::template::go::parallel::{Helper, Promise};

/// How many bytes of a schema or of values are worth the other thread.
pub(super) const WORTH: usize = 16 << 10;

/// What the other thread is given.
pub(super) struct Ahead {
    helper: Helper,
    compiles: bool,
}

// === impl Ahead ===

impl Ahead {
    pub fn new(purpose: &Purpose) -> Self {
        Ahead {
            helper: purpose.helper.clone(),
            compiles: purpose.schemas == Schemas::AtOnce,
        }
    }

    /// Whether schemas are to be compiled.
    pub fn compiles(&self) -> bool {
        self.compiles
    }

    /// The other thread.
    pub fn helper(&self) -> &Helper {
        &self.helper
    }

    /// Has the other thread work out results, the last one first: whoever asks for them meanwhile starts with the first.
    pub fn fulfil<T: Send + Sync + 'static>(&self, promises: Vec<Promise<T>>) {
        if promises.is_empty() {
            return;
        }
        self.helper.send(move || {
            for promise in promises.iter().rev() {
                promise.get();
            }
        });
    }
}
