//! Who hears of news about a member: the release whose ApplySet id the member's label carries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::queue::Queue;
use crate::reconcile::{Key, lock};

/// Where a release waits for work.
#[derive(Clone)]
pub struct Address {
    pub queue: Arc<Queue<Key>>,
    pub key: Key,
}

/// Sets to releases. One for the process: a member's watch serves the releases of every unit.
#[derive(Default)]
pub struct Router {
    sets: Mutex<HashMap<String, Address>>,
}

// === impl Router ===

impl Router {
    pub fn register(&self, set: String, address: Address) {
        self.lock().insert(set, address);
    }

    /// Forgets a release, unless another queue has taken it over: the watch that a custom resource left may hear of it
    /// after the one that it went to. True if none has.
    pub fn unregister(&self, set: &str, queue: &Arc<Queue<Key>>) -> bool {
        let mut sets = self.lock();
        let taken = sets.get(set).is_some_and(|address| !Arc::ptr_eq(&address.queue, queue));
        if !taken {
            sets.remove(set);
        }
        !taken
    }

    /// Queues the releases of these sets. A set that no release claims (a custom resource that is not listed yet, or
    /// one of another operator with our id) is nobody's news.
    pub fn notify(&self, sets: &[String]) {
        let addresses = self.lock();
        for address in sets.iter().filter_map(|set| addresses.get(set)) {
            address.queue.wake(address.key.clone());
        }
    }

    /// True if somebody hears of news about a set.
    pub fn knows(&self, set: &str) -> bool {
        self.lock().contains_key(set)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Address>> {
        lock(&self.sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn news_reach_the_release_that_owns_the_set() {
        let router = Router::default();
        let queue = Arc::new(Queue::default());
        let key = Key {
            namespace: "shop".into(),
            name: "web".into(),
        };
        router.register(
            "set-a".into(),
            Address {
                queue: queue.clone(),
                key: key.clone(),
            },
        );
        assert!(router.knows("set-a") && !router.knows("set-b"));
        router.notify(&["set-b".into()]);
        assert_eq!(queue.depth(), 0);
        router.notify(&["set-a".into(), "set-a".into()]);
        assert_eq!(queue.next().await, key);
        router.unregister("set-a", &Arc::default());
        queue.done(key.clone(), None, false).await;
        router.notify(&["set-a".into()]);
        assert_eq!(queue.next().await, key, "only its own queue gives a release up");
        router.unregister("set-a", &queue);
        queue.done(key, None, false).await;
        router.notify(&["set-a".into()]);
        assert_eq!(queue.depth(), 0);
    }
}
