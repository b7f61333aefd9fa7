//! What another thread begins with while a chart is still being read: it is asked for later, in the order in which Helm
//! does it all.

use std::sync::{Arc, LazyLock, mpsc};

use super::Schemas;
use crate::template::go::parallel::{self, Task};

/// How many bytes of a schema or of values are worth the other thread.
pub(super) const WORTH: usize = 16 << 10;

/// The other thread, which is there once there is something to do.
#[derive(Default)]
pub(super) struct Ahead {
    thread: Thread,
    compiles: bool,
}

#[derive(Default)]
enum Thread {
    #[default]
    Unneeded,
    Refused,
    Running(mpsc::Sender<Task>),
}

/// A result that is worked out by the thread that asks for it first. Others wait for that.
pub(super) struct Promise<T>(Arc<LazyLock<T, Work<T>>>);

type Work<T> = Box<dyn FnOnce() -> T + Send>;

// === impl Ahead ===

impl Ahead {
    pub fn new(schemas: Schemas) -> Self {
        Ahead {
            compiles: schemas == Schemas::AtOnce,
            ..Ahead::default()
        }
    }

    /// Whether schemas are to be compiled.
    pub fn compiles(&self) -> bool {
        self.compiles
    }

    /// Whether the other thread is there already, so that it takes little to be worth it.
    pub fn is_running(&self) -> bool {
        matches!(self.thread, Thread::Running(_))
    }

    /// Has the other thread do something after all else that it was given. Without one, nobody does it.
    pub fn send(&mut self, task: impl FnOnce() + Send + 'static) {
        if matches!(self.thread, Thread::Unneeded) {
            self.thread = parallel::helper().map_or(Thread::Refused, Thread::Running);
        }
        if let Thread::Running(sender) = &self.thread {
            let _ = sender.send(Box::new(task));
        }
    }

    /// Has the other thread work out results, the last one first: whoever asks for them meanwhile starts with the first.
    pub fn fulfil<T: Send + Sync + 'static>(&mut self, promises: Vec<Promise<T>>) {
        if promises.is_empty() {
            return;
        }
        self.send(move || {
            for promise in promises.iter().rev() {
                promise.get();
            }
        });
    }
}

// === impl Promise ===

impl<T> Promise<T> {
    pub fn new(work: impl FnOnce() -> T + Send + 'static) -> Self {
        Promise(Arc::new(LazyLock::new(Box::new(work))))
    }

    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Promise<T> {
    fn clone(&self) -> Self {
        Promise(Arc::clone(&self.0))
    }
}
