//! The work queue of a watch: each release at most once in it, never two reconciles of one release at a time, first in
//! first out, with delays. The rules are client-go's workqueue; the clock is tokio's, so tests can turn it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::reconcile::lock;

/// A queue of keys.
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    /// When each key is due; the number keeps keys of the same instant in order.
    due: BTreeMap<(Instant, u64), K>,
    scheduled: HashMap<K, (Instant, u64)>,
    running: HashSet<K>,
    /// Keys that were added while they ran.
    again: HashMap<K, Instant>,
    /// Those that were only woken then.
    woken: HashSet<K>,
    /// Until when waking is no reason to work on a key.
    put_off: HashMap<K, Instant>,
    counter: u64,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            due: BTreeMap::new(),
            scheduled: HashMap::new(),
            running: HashSet::new(),
            again: HashMap::new(),
            woken: HashSet::new(),
            put_off: HashMap::new(),
            counter: 0,
        };
        Queue {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }
}

// === impl Queue ===

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Adds a key, due now. A key that is being worked on runs again afterwards.
    pub fn add(&self, key: K) {
        self.add_at(key, Instant::now());
    }

    /// Adds a key of which it is to be seen whether it can go on: due now, or when the time is over for which it was put
    /// off. One that is being worked on runs again afterwards, unless it is put off then.
    pub fn wake(&self, key: K) {
        let mut state = self.lock();
        if state.running.contains(&key) {
            state.woken.insert(key);
            return;
        }
        let now = Instant::now();
        let when = state.put_off.get(&key).map_or(now, |until| now.max(*until));
        state.schedule(key, when);
        drop(state);
        self.changed.notify_one();
    }

    /// Adds a key, due at a time; an earlier time that it has already stands.
    fn add_at(&self, key: K, when: Instant) {
        let mut state = self.lock();
        if state.running.contains(&key) {
            let earliest = state.again.get(&key).map_or(when, |known| when.min(*known));
            state.again.insert(key, earliest);
            return;
        }
        state.schedule(key, when);
        drop(state);
        self.changed.notify_one();
    }

    /// The next key that is due, marked as running until [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let wait = {
                let mut state = self.lock();
                match state.due.first_key_value().map(|(at, _)| *at) {
                    Some((when, _)) if when <= Instant::now() => {
                        if let Some((_, key)) = state.due.pop_first() {
                            state.scheduled.remove(&key);
                            state.running.insert(key.clone());
                            if !state.due.is_empty() {
                                // One wake-up may stand for several keys.
                                self.changed.notify_one();
                            }
                            return key;
                        }
                        continue;
                    }
                    Some((when, _)) => Some(when),
                    None => None,
                }
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

    /// The work on a key ended. It is due again after `delay` if one is given, or sooner if it was added meanwhile. If it
    /// is put off, waking it doesn't count until then.
    pub fn done(&self, key: K, delay: Option<Duration>, put_off: bool) {
        let mut state = self.lock();
        state.running.remove(&key);
        let delayed = delay.map(|delay| Instant::now() + delay);
        let until = delayed.filter(|_| put_off);
        match until {
            Some(until) => state.put_off.insert(key.clone(), until),
            None => state.put_off.remove(&key),
        };
        let woken = state.woken.remove(&key).then(|| until.unwrap_or_else(Instant::now));
        let asked = state.again.remove(&key).or(woken);
        let next = match (asked, delayed) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if let Some(when) = next {
            state.schedule(key, when);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Keys that are due now, waiting for a worker.
    pub fn depth(&self) -> usize {
        let now = Instant::now();
        self.lock().due.range(..=(now, u64::MAX)).count()
    }

    /// Takes a key out, unless it is running.
    pub fn forget(&self, key: &K) {
        let mut state = self.lock();
        if let Some(at) = state.scheduled.remove(key) {
            state.due.remove(&at);
        }
        state.again.remove(key);
        state.woken.remove(key);
        state.put_off.remove(key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<K>> {
        lock(&self.state)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn schedule(&mut self, key: K, when: Instant) {
        match self.scheduled.get(&key) {
            Some((known, _)) if *known <= when => return,
            Some(at) => {
                let at = *at;
                self.due.remove(&at);
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

    fn add_after(queue: &Queue<&'static str>, key: &'static str, delay: Duration) {
        queue.add_at(key, Instant::now() + delay);
    }

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
        queue.done("a", None, false);
        assert_eq!(next_within(&queue, SOON).await, Some("a"), "it was added meanwhile");
        queue.done("a", None, false);
        queue.done("b", None, false);
        assert_eq!(next_within(&queue, SOON).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_wins() {
        let queue = Queue::default();
        add_after(&queue, "a", Duration::from_secs(60));
        assert_eq!(next_within(&queue, Duration::from_secs(1)).await, None);
        add_after(&queue, "a", Duration::from_secs(5));
        add_after(&queue, "a", Duration::from_secs(90));
        assert_eq!(next_within(&queue, Duration::from_secs(6)).await, Some("a"));
        add_after(&queue, "a", Duration::from_secs(2));
        queue.done("a", Some(Duration::from_secs(30)), false);
        assert_eq!(next_within(&queue, Duration::from_secs(3)).await, Some("a"));
        queue.done("a", None, false);
        add_after(&queue, "a", SOON);
        queue.forget(&"a");
        assert_eq!(next_within(&queue, Duration::from_secs(600)).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_put_off_is_not_woken_before_its_time() {
        let queue = Queue::default();
        let second = Duration::from_secs(1);
        queue.wake("a");
        assert_eq!(next_within(&queue, SOON).await, Some("a"));
        queue.wake("a");
        queue.done("a", Some(8 * second), true);
        queue.wake("a");
        assert_eq!(next_within(&queue, 7 * second).await, None);
        assert_eq!(next_within(&queue, 2 * second).await, Some("a"));
        queue.done("a", Some(8 * second), true);
        queue.add("a");
        assert_eq!(
            next_within(&queue, SOON).await,
            Some("a"),
            "its custom resource changed"
        );
        queue.wake("a");
        queue.done("a", Some(8 * second), false);
        assert_eq!(next_within(&queue, SOON).await, Some("a"), "it was woken meanwhile");
        queue.done("a", None, false);
        queue.wake("a");
        assert_eq!(next_within(&queue, SOON).await, Some("a"), "it isn't put off any more");
    }

    #[tokio::test(start_paused = true)]
    async fn several_workers_share_it() {
        let queue = std::sync::Arc::new(Queue::default());
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await })
            })
            .collect();
        tokio::task::yield_now().await;
        for key in ["a", "b", "c", "d"] {
            queue.add(key);
        }
        let mut keys = Vec::new();
        for worker in workers {
            keys.push(tokio::time::timeout(SOON, worker).await.unwrap().unwrap());
        }
        keys.sort();
        assert_eq!(keys, ["a", "b", "c", "d"]);
    }
}
