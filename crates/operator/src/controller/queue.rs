//! The work queue of a watch: each release at most once in it, never two reconciles of one release at a time, first in
//! first out, with delays. The rules are client-go's workqueue; the clock is tokio's, so tests can turn it.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::sync::lock;

/// A queue of keys.
pub struct Queue<K> {
    state: Mutex<QueueState<K>>,
    changed: Notify,
}

struct QueueState<K> {
    /// Keys that were due at the last [`QueueState::look`]. The number orders keys of the same instant.
    ready: BTreeMap<(Instant, u64), K>,
    /// When each of the others is due.
    due: BTreeMap<(Instant, u64), K>,
    scheduled: HashMap<K, (Instant, u64)>,
    /// Running keys, with the requests that arrived since.
    running: HashMap<K, RunRequests>,
    /// Keys that ignore wake-ups until this time.
    put_off: HashMap<K, Instant>,
    counter: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RunRequests {
    Nothing,
    Woken,
    Added,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = QueueState {
            ready: BTreeMap::new(),
            due: BTreeMap::new(),
            scheduled: HashMap::new(),
            running: HashMap::new(),
            put_off: HashMap::new(),
            counter: 0,
        };
        Queue {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Adds a key, due now. A running key runs again afterwards.
    pub fn add(&self, key: K) {
        self.request(key, RunRequests::Added);
    }

    /// Adds a key that may be able to continue: due now, or when its put-off time ends. A running key runs again afterwards,
    /// unless it is then put off.
    pub fn wake(&self, key: K) {
        self.request(key, RunRequests::Woken);
    }

    fn request(&self, key: K, request: RunRequests) {
        let mut state = self.lock();
        if let Some(requests) = state.running.get_mut(&key) {
            *requests = request.max(*requests);
            return;
        }
        let now = Instant::now();
        let until = state.put_off.get(&key).filter(|_| request == RunRequests::Woken);
        let when = until.map_or(now, |until| now.max(*until));
        state.schedule(key, when);
        drop(state);
        self.changed.notify_one();
    }

    /// The next key that is due, marked as running until [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let wait = {
                let mut state = self.lock();
                state.look(Instant::now());
                if let Some((_, key)) = state.ready.pop_first() {
                    state.scheduled.remove(&key);
                    state.running.insert(key.clone(), RunRequests::Nothing);
                    if !state.scheduled.is_empty() {
                        // One wake-up may stand for several keys.
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.due.first_key_value().map(|((when, _), _)| *when)
            };
            match wait {
                Some(when) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(when) => {}
                        () = self.changed.notified() => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Ends the run of a key. It is due again after `delay`, or now if it was added during the run. If `put_off`, wake-ups
    /// are ignored until then.
    ///
    /// Yields to other tasks. Otherwise a key that is always due and never waits would block a thread, and with it timers,
    /// sockets and signals.
    pub async fn done(&self, key: K, delay: Option<Duration>, put_off: bool) {
        {
            let mut state = self.lock();
            let requests = state.running.remove(&key).unwrap_or(RunRequests::Nothing);
            let now = Instant::now();
            let delayed = delay.map(|delay| now + delay);
            let until = delayed.filter(|_| put_off);
            match until {
                Some(until) => state.put_off.insert(key.clone(), until),
                None => state.put_off.remove(&key),
            };
            let next = match requests {
                RunRequests::Nothing => delayed,
                RunRequests::Woken => until.or(Some(now)),
                RunRequests::Added => Some(now),
            };
            if let Some(when) = next {
                state.schedule(key, when);
            }
        }
        self.changed.notify_one();
        tokio::task::yield_now().await;
    }

    /// The number of keys that are due now.
    pub fn depth(&self) -> usize {
        let mut state = self.lock();
        state.look(Instant::now());
        state.ready.len()
    }

    /// Removes a key, unless it is running.
    pub fn forget(&self, key: &K) {
        let mut state = self.lock();
        if let Some(at) = state.scheduled.remove(key) {
            state.take(&at);
        }
        if let Some(requests) = state.running.get_mut(key) {
            *requests = RunRequests::Nothing;
        }
        state.put_off.remove(key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, QueueState<K>> {
        lock(&self.state)
    }
}

impl<K: Clone + Eq + Hash> QueueState<K> {
    /// Moves the keys whose time has come; each is moved once.
    fn look(&mut self, now: Instant) {
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) {
            let (at, key) = first.remove_entry();
            self.ready.insert(at, key);
        }
    }

    fn take(&mut self, at: &(Instant, u64)) {
        if self.due.remove(at).is_none() {
            self.ready.remove(at);
        }
    }

    fn schedule(&mut self, key: K, when: Instant) {
        match self.scheduled.get(&key) {
            Some((known, _)) if *known <= when => return,
            Some(at) => {
                let at = *at;
                self.take(&at);
            }
            None => {}
        }
        self.counter += 1;
        self.scheduled.insert(key.clone(), (when, self.counter));
        self.due.insert((when, self.counter), key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next_within(queue: &Queue<&'static str>, limit: Duration) -> Option<&'static str> {
        tokio::time::timeout(limit, queue.next()).await.ok()
    }

    const SOON: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_runs_alone() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.depth(), 2);
        assert_eq!(next_within(&queue, SOON).await, Some("a"));
        queue.add("a");
        assert_eq!(next_within(&queue, SOON).await, Some("b"));
        assert_eq!(next_within(&queue, SOON).await, None, "a is still running");
        queue.done("a", None, false).await;
        assert_eq!(
            next_within(&queue, SOON).await,
            Some("a"),
            "it was added during the run"
        );
        queue.done("a", None, false).await;
        queue.done("b", None, false).await;
        assert_eq!(next_within(&queue, SOON).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_wins() {
        let queue = Queue::default();
        let second = Duration::from_secs(1);
        queue.add("a");
        assert_eq!(next_within(&queue, SOON).await, Some("a"));
        queue.done("a", Some(60 * second), false).await;
        assert_eq!(next_within(&queue, 59 * second).await, None);
        assert_eq!(next_within(&queue, 2 * second).await, Some("a"));
        queue.done("a", Some(60 * second), false).await;
        queue.add("a");
        assert_eq!(next_within(&queue, SOON).await, Some("a"));
        queue.done("a", Some(SOON), false).await;
        queue.forget(&"a");
        assert_eq!(next_within(&queue, 600 * second).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_put_off_is_not_woken_before_its_time() {
        let queue = Queue::default();
        let second = Duration::from_secs(1);
        queue.wake("a");
        assert_eq!(next_within(&queue, SOON).await, Some("a"));
        queue.wake("a");
        queue.done("a", Some(8 * second), true).await;
        queue.wake("a");
        assert_eq!(next_within(&queue, 7 * second).await, None);
        assert_eq!(next_within(&queue, 2 * second).await, Some("a"));
        queue.done("a", Some(8 * second), true).await;
        queue.add("a");
        assert_eq!(next_within(&queue, SOON).await, Some("a"), "it changed");
        queue.wake("a");
        queue.done("a", Some(8 * second), false).await;
        assert_eq!(next_within(&queue, SOON).await, Some("a"), "woken during the run");
        queue.done("a", None, false).await;
        queue.wake("a");
        assert_eq!(next_within(&queue, SOON).await, Some("a"), "not put off any more");
    }

    #[tokio::test]
    async fn a_key_that_is_always_due_starves_nobody() {
        const TOO_OFTEN: usize = 100_000;
        let queue = std::sync::Arc::new(Queue::default());
        let rounds = std::sync::Arc::new(Mutex::new(BTreeMap::new()));
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (queue, rounds) = (queue.clone(), rounds.clone());
            workers.spawn(async move {
                // What would never end fails instead.
                while lock(&rounds).values().sum::<usize>() < TOO_OFTEN {
                    let key = queue.next().await;
                    *lock(&rounds).entry(key).or_default() += 1;
                    queue.done(key, Some(Duration::ZERO), false).await;
                }
            });
        }
        for key in ["a", "b", "c", "d", "e"] {
            queue.add(key);
        }
        // Like an incoming signal, which the driver of the runtime reports.
        tokio::time::sleep(Duration::from_millis(20)).await;
        workers.abort_all();
        let rounds = lock(&rounds).clone();
        assert!(
            rounds.len() == 5 && rounds.values().sum::<usize>() < TOO_OFTEN,
            "{rounds:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_of_rounds_leave_nothing_and_the_depth_is_not_counted() {
        let queue = Queue::default();
        const KEYS: u32 = 30_000;
        for key in 0..KEYS {
            queue.add(key);
        }
        for round in 0..KEYS {
            assert_eq!(queue.depth(), (KEYS - round) as usize);
            let key = queue.next().await;
            queue.wake(key);
            queue.done(key, Some(Duration::from_secs(60)), true).await;
        }
        assert_eq!(queue.depth(), 0, "all of them wait");
        for _ in 0..KEYS {
            let key = queue.next().await;
            queue.add(key);
            queue.forget(&key);
            queue.done(key, None, false).await;
        }
        let state = queue.lock();
        assert!(state.ready.is_empty() && state.due.is_empty() && state.scheduled.is_empty());
        assert!(state.running.is_empty() && state.put_off.is_empty());
    }
}
