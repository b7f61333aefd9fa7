//! How the memory of the process is shared out to renders: what one may take is put aside before it begins, and given
//! back but for what it made. Who would take more than there is waits.

use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, Semaphore};

use super::context::lock;
use helm_template::render::Limits;

/// What part of the process's memory renders, and what they made, may take together. The rest is the program's, the charts',
/// the caches' and what requests take.
const RENDERS: u64 = 2;
/// What part of it one render may take: two run at a time however little there is.
const ONE: u64 = 4;
/// The most that one render may take, if there is memory without end: 15 times what the largest public charts take.
const MOST: u64 = 256 << 20;

/// The memory for renders.
pub struct Budget {
    /// The limit of the process, in bytes. `None`: there is none.
    limit: Option<u64>,
    /// What a render puts aside.
    share: u64,
    taken: Mutex<Taken>,
    /// Told when something was given back.
    freed: Notify,
    /// Those who wait for their first share, in their order.
    turn: Semaphore,
}

#[derive(Default)]
struct Taken {
    bytes: u64,
    /// How many shares.
    shares: u64,
}

/// What is put aside for a release. It is given back when this is dropped.
pub struct Share {
    budget: Arc<Budget>,
    bytes: u64,
    is_whole: bool,
}

// === impl Budget ===

impl Budget {
    /// For a process that may take so many bytes.
    pub fn new(limit: Option<u64>) -> Arc<Self> {
        Arc::new(Budget {
            limit,
            share: limit.map_or(MOST, |limit| (limit / ONE).clamp(1, MOST)),
            taken: Mutex::default(),
            freed: Notify::new(),
            turn: Semaphore::new(1),
        })
    }

    /// What one render may take.
    pub fn limits(&self) -> Limits {
        Limits::within(self.share)
    }

    /// Why a render was not given more.
    pub fn why(&self) -> String {
        match self.limit {
            Some(limit) => format!(
                "; the operator may take {} MiB (--memory-limit, else the container's limit), a render a quarter of it and \
                 at most {} MiB",
                limit >> 20,
                MOST >> 20,
            ),
            None => String::new(),
        }
    }

    /// Waits until there is a share, for a release that has none.
    pub async fn share(self: &Arc<Self>) -> Share {
        // It is never closed.
        let _turn = self.turn.acquire().await;
        self.wait(|taken| self.fits(taken)).await
    }

    /// Waits for a share for a release that holds what it rendered. If all that is left is held by such, one of them gets a
    /// share all the same: else each would wait for the others.
    pub async fn another(self: &Arc<Self>) -> Share {
        self.wait(|taken| self.fits(taken) || taken.shares == 0).await
    }

    fn fits(&self, taken: &Taken) -> bool {
        self.limit
            .is_none_or(|limit| taken.bytes + self.share <= limit / RENDERS)
    }

    async fn wait(self: &Arc<Self>, fits: impl Fn(&Taken) -> bool) -> Share {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on nothing is missed.
            freed.as_mut().enable();
            {
                let mut taken = lock(&self.taken);
                if fits(&taken) {
                    taken.bytes += self.share;
                    taken.shares += 1;
                    return Share {
                        budget: self.clone(),
                        bytes: self.share,
                        is_whole: true,
                    };
                }
            }
            freed.await;
        }
    }
}

// === impl Share ===

impl Share {
    /// Keeps so many bytes of it, for what was made.
    pub fn keep(&mut self, bytes: u64) {
        let kept = bytes.min(self.bytes);
        self.give_back(self.bytes - kept);
        self.bytes = kept;
    }

    fn give_back(&mut self, bytes: u64) {
        let mut taken = lock(&self.budget.taken);
        taken.bytes = taken.bytes.saturating_sub(bytes);
        taken.shares = taken.shares.saturating_sub(u64::from(self.is_whole));
        drop(taken);
        self.is_whole = false;
        self.budget.freed.notify_waiters();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn waits<T>(future: impl Future<Output = T>) -> bool {
        tokio::time::timeout(Duration::from_secs(1), future).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn who_would_take_more_than_there_is_waits() {
        let budget = Budget::new(Some(400 << 20));
        assert_eq!(budget.limits().memory, 100 << 20);
        let mut one = budget.share().await;
        let two = budget.share().await;
        let third = budget.clone();
        let third = tokio::spawn(async move { third.share().await });
        assert!(waits(budget.share()).await);
        drop(two);
        let mut third = third.await.unwrap();
        // What was rendered stays counted.
        one.keep(60 << 20);
        third.keep(60 << 20);
        assert!(waits(budget.share()).await, "80 MiB are left");
        // One of those who hold something goes on, one at a time.
        let again = budget.another().await;
        assert!(waits(budget.another()).await);
        drop(again);
        third.keep(20 << 20);
        assert!(!waits(budget.share()).await);
        drop((one, third));
        let taken = lock(&budget.taken);
        assert_eq!((taken.bytes, taken.shares), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nobody_waits() {
        let budget = Budget::new(None);
        let shares = futures::future::join_all((0..1000).map(|_| budget.share()));
        assert!(!waits(shares).await);
        assert_eq!((budget.limits().memory, budget.why().as_str()), (MOST, ""));
    }

    #[test]
    fn the_shipped_limit_leaves_room_for_the_largest_charts() {
        // The most that a public chart took (docs/templates.md), in bytes: of memory and of output.
        let (memory, output) = (18 << 20, 2 << 20);
        let manager = include_str!("../../config/manager/manager.yaml");
        let limits = manager.split_once("limits:").unwrap().1;
        let limit = limits.split_once("memory: ").unwrap().1.lines().next().unwrap();
        let limit = limit.strip_suffix("Mi").unwrap().parse::<u64>().unwrap() << 20;
        let limits = Budget::new(Some(limit)).limits();
        assert!(limits.memory >= 7 * memory && limits.output >= 8 * output, "{limits:?}");
    }
}
