//! Shares the memory of the process among renders. A render reserves its maximum before it starts. Afterwards it keeps
//! the size of its result and returns the rest. A render that finds too little memory waits.
//!
//! A render has a small share at first, which is more than public charts need. One that does not fit gets a whole
//! share, and is done again in the long lane of the [pool](crate::reconcile::render::pool). Each kind of share always
//! leaves memory for the other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use crate::reconcile::render::pool::PoolLane;
use crate::sync::lock;
use helm_template::render::Limits;

/// The fraction of the process's memory for renders and their results. The rest is for the program, charts, caches and
/// requests.
const RENDERS: u64 = 2;
/// The fraction of that memory for one render.
const ONE: u64 = 4;
/// The upper limit for one render: 7 times the need of the largest public charts.
const MOST: u64 = 128 << 20;
/// The first share of a render: nearly twice the need of the largest public charts, in memory and in processor time.
const FIRST: u64 = 32 << 20;
const FIRST_TIME: Duration = Duration::from_secs(1);

/// The memory for renders.
pub struct MemoryBudget {
    /// The limit of the process, in bytes. `None`: no limit.
    limit: Option<u64>,
    taken: Mutex<ReservedMemory>,
    /// Notified when memory is returned.
    freed: Notify,
    /// The releases that wait for a first share, in order, by lane.
    turns: [Semaphore; 2],
}

/// By lane.
#[derive(Default)]
struct ReservedMemory {
    bytes: [u64; 2],
    /// How many whole shares.
    shares: [u64; 2],
}

/// The memory that is reserved for a release. Dropping it returns the memory.
pub struct MemoryShare {
    budget: Arc<MemoryBudget>,
    lane: PoolLane,
    bytes: u64,
    is_whole: bool,
}

impl MemoryBudget {
    /// Returns the budget of a process with this limit in bytes.
    pub fn new(limit: Option<u64>) -> Arc<Self> {
        Arc::new(MemoryBudget {
            limit,
            taken: Mutex::default(),
            freed: Notify::new(),
            turns: [Semaphore::new(1), Semaphore::new(1)],
        })
    }

    /// Returns how many bytes a render in a lane reserves.
    fn size(&self, lane: PoolLane) -> u64 {
        let whole = self.limit.map_or(MOST, |limit| (limit / ONE).clamp(1, MOST));
        match lane {
            PoolLane::Short => whole.min(FIRST),
            PoolLane::Long => whole,
        }
    }

    /// Returns the limits of one render in a lane.
    pub fn limits(&self, lane: PoolLane) -> Limits {
        let limits = Limits::within(self.size(lane));
        match lane {
            PoolLane::Short => Limits {
                time: limits.time.min(FIRST_TIME),
                ..limits
            },
            PoolLane::Long => limits,
        }
    }

    /// Returns the message for a render that exceeds its share.
    pub fn why(&self) -> String {
        match self.limit {
            Some(limit) => format!(
                "; the operator may take {} MiB (--memory-limit, else the container's limit, else what the machine has), \
                 a render a quarter of it and at most {} MiB",
                limit >> 20,
                MOST >> 20,
            ),
            None => String::new(),
        }
    }

    /// Waits for the first share of a release.
    pub async fn share(self: &Arc<Self>, lane: PoolLane) -> MemoryShare {
        // The semaphore is never closed.
        let _turn = self.turns[lane as usize].acquire().await;
        self.wait(lane, |taken| self.fits(lane, taken)).await
    }

    /// Waits for a share for a release that holds what it rendered. If all that is left is held by such, one of them
    /// gets a share all the same: else each would wait for the others.
    pub async fn another(self: &Arc<Self>, lane: PoolLane) -> MemoryShare {
        let is_alone = |taken: &ReservedMemory| taken.shares[lane as usize] == 0;
        self.wait(lane, |taken| self.fits(lane, taken) || is_alone(taken)).await
    }

    /// True if a share is free and another one remains for the other lane.
    fn fits(&self, lane: PoolLane, taken: &ReservedMemory) -> bool {
        let Some(limit) = self.limit else { return true };
        let (own, size) = (taken.bytes[lane as usize], self.size(lane));
        let others = match lane {
            PoolLane::Short => PoolLane::Long,
            PoolLane::Long => PoolLane::Short,
        };
        let others = taken.bytes[others as usize].max(self.size(others));
        own + size + others <= limit / RENDERS
    }

    async fn wait(self: &Arc<Self>, lane: PoolLane, fits: impl Fn(&ReservedMemory) -> bool) -> MemoryShare {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on no notification is missed.
            freed.as_mut().enable();
            {
                let mut taken = lock(&self.taken);
                if fits(&taken) {
                    let bytes = self.size(lane);
                    taken.bytes[lane as usize] += bytes;
                    taken.shares[lane as usize] += 1;
                    return MemoryShare {
                        budget: self.clone(),
                        lane,
                        bytes,
                        is_whole: true,
                    };
                }
            }
            freed.await;
        }
    }
}

impl MemoryShare {
    /// Reduces the reservation to the size of the result, in bytes.
    pub fn keep(&mut self, bytes: u64) {
        let kept = bytes.min(self.bytes);
        self.give_back(self.bytes - kept);
        self.bytes = kept;
    }

    pub fn lane(&self) -> PoolLane {
        self.lane
    }

    fn give_back(&mut self, bytes: u64) {
        let lane = self.lane as usize;
        let mut taken = lock(&self.budget.taken);
        taken.bytes[lane] = taken.bytes[lane].saturating_sub(bytes);
        taken.shares[lane] = taken.shares[lane].saturating_sub(u64::from(self.is_whole));
        drop(taken);
        self.is_whole = false;
        self.budget.freed.notify_waiters();
    }
}

impl Drop for MemoryShare {
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
        // 600 MiB are for renders, 128 for one in the long lane, and 32 for one in the short lane.
        let budget = MemoryBudget::new(Some(1200 << 20));
        assert_eq!(budget.limits(PoolLane::Long).memory, 128 << 20);
        let mut long: Vec<MemoryShare> = Vec::new();
        for _ in 0..4 {
            long.push(budget.share(PoolLane::Long).await);
        }
        let fifth = budget.clone();
        let fifth = tokio::spawn(async move { fifth.share(PoolLane::Long).await });
        assert!(waits(budget.share(PoolLane::Long)).await);
        // However many there are, and however long they take: there is one for what is short.
        assert!(!waits(budget.share(PoolLane::Short)).await);
        drop(long.pop());
        let fifth = fifth.await.unwrap();
        // What was rendered stays counted.
        for share in &mut long {
            share.keep(120 << 20);
        }
        assert!(waits(budget.share(PoolLane::Long)).await, "80 MiB are left");
        drop(fifth);
        // One of those that hold something goes on, one at a time.
        let again = budget.another(PoolLane::Long).await;
        assert!(!waits(budget.share(PoolLane::Short)).await);
        long.iter_mut().for_each(|share| share.keep(0));
        drop((long, again));
        let taken = lock(&budget.taken);
        assert_eq!((taken.bytes, taken.shares), ([0, 0], [0, 0]));
    }

    #[tokio::test(start_paused = true)]
    async fn short_work_leaves_a_share_for_long_work() {
        for limit in [64 << 20, 128 << 20, 512 << 20, 4 << 30] {
            let budget = MemoryBudget::new(Some(limit));
            let mut short = Vec::new();
            while let Ok(share) = tokio::time::timeout(Duration::from_secs(1), budget.share(PoolLane::Short)).await {
                short.push(share);
            }
            assert!(!short.is_empty(), "{limit}");
            let long = budget.share(PoolLane::Long).await;
            let taken = lock(&budget.taken).bytes.iter().sum::<u64>();
            assert!(taken <= limit / RENDERS, "{limit}");
            // If all is held, one goes on.
            short
                .iter_mut()
                .for_each(|share| share.keep(budget.size(PoolLane::Short)));
            drop(budget.another(PoolLane::Short).await);
            drop(long);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nobody_waits() {
        let budget = MemoryBudget::new(None);
        let shares = futures::future::join_all((0..1000).map(|_| budget.share(PoolLane::Long)));
        assert!(!waits(shares).await);
        assert_eq!(
            (budget.limits(PoolLane::Long).memory, budget.why().as_str()),
            (MOST, "")
        );
    }

    #[test]
    fn the_shipped_limit_leaves_room_for_the_largest_charts() {
        // The most that a public chart took (docs/reference/templates.md), in bytes: of memory and of output.
        let (memory, output) = (18 << 20, 2 << 20);
        let manager = include_str!("../../../../../config/manager/manager.yaml");
        let limits = manager.split_once("limits:").unwrap().1;
        let limit = limits.split_once("memory: ").unwrap().1.lines().next().unwrap();
        let limit = limit.strip_suffix("Mi").unwrap().parse::<u64>().unwrap() << 20;
        let budget = MemoryBudget::new(Some(limit));
        let limits = budget.limits(PoolLane::Long);
        assert!(limits.memory >= 7 * memory && limits.output >= 8 * output, "{limits:?}");
        let limits = budget.limits(PoolLane::Short);
        assert!(limits.memory >= memory && limits.output >= output, "{limits:?}");
    }
}
