//! The same work on many texts, by as many threads as there are cores to run them.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread::{Builder, ScopedJoinHandle, available_parallelism, scope};

/// How many bytes of text are worth a thread.
const BYTES: usize = 128 << 10;
/// The most threads.
const MAX_THREADS: usize = 8;
/// The stack of a thread, in bytes: parsers recurse, each with a limit of its own.
const STACK: usize = 64 << 20;

/// What [`helper`] is given to do.
pub type Task = Box<dyn FnOnce() + Send>;

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

/// A thread that does what it is sent, in order, and ends when nobody can send any more; `None` without a core for it.
pub fn helper() -> Option<mpsc::Sender<Task>> {
    if cores() < 2 {
        return None;
    }
    let (sender, tasks) = mpsc::channel::<Task>();
    let builder = Builder::new().name("helper".to_owned()).stack_size(STACK);
    let spawned = builder.spawn(move || tasks.into_iter().for_each(|task| task()));
    spawned.ok().map(|_| sender)
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
    #[should_panic(expected = "seven")]
    fn a_panic_is_the_callers() {
        map(&[1, 7, 1], |_| BYTES, |item| assert_ne!(*item, 7, "seven"));
    }
}
