//! Work for other threads, as many as there are cores to run them: the same on many texts, or what will be wanted later.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, mpsc};
use std::thread::{Builder, ScopedJoinHandle, available_parallelism, scope};

/// How many bytes of text are worth a thread.
const BYTES: usize = 128 << 10;
/// How many are worth sending them to one that is there.
const LITTLE: usize = 32 << 10;
/// The most threads.
const MAX_THREADS: usize = 8;
/// The stack of a thread, in bytes: parsers recurse, each with a limit of its own.
const STACK: usize = 64 << 20;

/// Another thread, which does what it is sent, in order. It is there from the first task on until nobody can send any more.
#[derive(Clone, Default)]
pub struct Helper(Arc<OnceLock<Option<mpsc::Sender<Task>>>>);

type Task = Box<dyn FnOnce() + Send>;

impl Helper {
    /// Has it do something after all else that it was given. Without a core for it, nobody does.
    pub fn send(&self, task: impl FnOnce() + Send + 'static) {
        if let Some(sender) = self.0.get_or_init(Self::spawn) {
            let _ = sender.send(Box::new(task));
        }
    }

    /// Has it work out results in their order, but for those that somebody has begun with by then.
    pub fn fulfil<T: Send + Sync + 'static>(&self, promises: Vec<Promise<T>>) {
        if promises.is_empty() {
            return;
        }
        self.send(move || {
            for promise in &promises {
                promise.begin();
            }
        });
    }

    /// Whether it is there already, so that it takes little to be worth it.
    pub fn is_running(&self) -> bool {
        matches!(self.0.get(), Some(Some(_)))
    }

    fn spawn() -> Option<mpsc::Sender<Task>> {
        if cores() < 2 {
            return None;
        }
        let (sender, tasks) = mpsc::channel::<Task>();
        let builder = Builder::new().name("helper".to_owned()).stack_size(STACK);
        let spawned = builder.spawn(move || tasks.into_iter().for_each(|task| task()));
        spawned.ok().map(|_| sender)
    }
}

/// A result that is worked out by the thread that asks for it first. Others wait for that.
pub struct Promise<T>(Arc<Promised<T>>);

struct Promised<T> {
    /// Whether somebody has asked for it.
    begun: AtomicBool,
    result: LazyLock<T, Work<T>>,
}

type Work<T> = Box<dyn FnOnce() -> T + Send>;

impl<T> Promise<T> {
    /// The result of `work`, which nobody has begun.
    pub fn new(work: impl FnOnce() -> T + Send + 'static) -> Self {
        Promise(Arc::new(Promised {
            begun: AtomicBool::new(false),
            result: LazyLock::new(Box::new(work)),
        }))
    }

    /// The result.
    pub fn get(&self) -> &T {
        self.0.begun.store(true, Ordering::Relaxed);
        &self.0.result
    }

    /// Works it out, unless somebody has begun with that. Gives whether it did.
    pub fn begin(&self) -> bool {
        let begins = !self.0.begun.load(Ordering::Relaxed) && !self.0.begun.swap(true, Ordering::Relaxed);
        if begins {
            self.get();
        }
        begins
    }

    /// Whether asking for the result takes no time.
    pub fn is_done(&self) -> bool {
        LazyLock::get(&self.0.result).is_some()
    }
}

impl<T> Clone for Promise<T> {
    fn clone(&self) -> Self {
        Promise(Arc::clone(&self.0))
    }
}

/// `work` on each item, in the items' order. Little text is worked on by the calling thread alone; `size` is an item's, in
/// bytes.
pub fn map<T: Sync, R: Send>(items: &[T], size: impl Fn(&T) -> usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads(items.iter().map(size).sum());
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let mut done = scope(|scope| {
        let spawn = |_| {
            let builder = Builder::new().name("parse".to_owned()).stack_size(STACK);
            // Without another thread this one does it all.
            builder.spawn_scoped(scope, run).ok()
        };
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut done = run();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Does `work`, and beside it on another thread what will be asked for afterwards; without a core for that, it is left out.
pub fn beside<R>(prepare: impl FnOnce() + Send, work: impl FnOnce() -> R) -> R {
    if cores() < 2 {
        return work();
    }
    scope(|scope| {
        let builder = Builder::new().name("prepare".to_owned()).stack_size(STACK);
        let prepared = builder.spawn_scoped(scope, prepare).ok();
        let result = work();
        if let Some(Err(panic)) = prepared.map(ScopedJoinHandle::join) {
            resume_unwind(panic);
        }
        result
    })
}

/// Threads that help the calling one with work on so many bytes of text, as many as are worth it. `ready` is one of them, if
/// any is.
pub fn helpers(bytes: usize, ready: Option<&Helper>) -> Vec<Helper> {
    let wanted = threads(bytes).saturating_sub(1);
    let is_worth_it = |ready: &&Helper| wanted > 0 || ready.is_running() && bytes >= LITTLE;
    let mut helpers: Vec<Helper> = ready.filter(is_worth_it).cloned().into_iter().collect();
    helpers.resize_with(wanted.max(helpers.len()), Helper::default);
    helpers
}

fn threads(bytes: usize) -> usize {
    let wanted = (bytes / BYTES).min(MAX_THREADS);
    if wanted < 2 { wanted } else { wanted.min(cores()) }
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(1, NonZero::get))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        for size in [1, BYTES] {
            let squares = map(&items, |_| size, |item| item * item);
            assert!(squares.iter().enumerate().all(|(i, square)| *square == i * i));
        }
        assert!(map(&[], |_: &usize| 1, |item| *item).is_empty());
    }

    #[test]
    fn promises_are_kept_once() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let promises: Vec<_> = (0..100)
            .map(|i| {
                Promise::new(move || {
                    COUNT.fetch_add(1, Ordering::Relaxed);
                    i
                })
            })
            .collect();
        let helper = Helper::default();
        assert!(!helper.is_running());
        helper.fulfil(promises.iter().rev().cloned().collect());
        assert_eq!(helper.is_running(), cores() > 1);
        let mine = promises.iter().filter(|promise| promise.begin()).count();
        assert!(mine <= 100);
        for (i, promise) in promises.iter().enumerate() {
            assert_eq!(*promise.get(), i);
            assert!(promise.is_done() && !promise.begin());
        }
        assert_eq!(COUNT.load(Ordering::Relaxed), 100);
    }

    #[test]
    fn helpers_come_for_much_work() {
        let ready = Helper::default();
        let count = |bytes, ready| helpers(bytes, ready).len();
        assert_eq!(count(2 * BYTES - 1, Some(&ready)), 0);
        assert_eq!(count(2 * BYTES, None), cores().min(2) - 1);
        assert_eq!(count(usize::MAX, Some(&ready)), cores().min(MAX_THREADS) - 1);
        ready.send(|| {});
        assert_eq!(count(LITTLE - 1, Some(&ready)), 0);
        assert_eq!(count(LITTLE, Some(&ready)), cores().min(2) - 1);
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_is_the_callers() {
        map(&[1, 7, 1], |_| BYTES, |item| assert_ne!(*item, 7, "seven"));
    }
}
