//! Threads for work that needs a processor for long: renders and conditions. The async workers serve requests, watches
//! and the Lease.
//!
//! Fairness: there are two lanes. Work of a release begins in the short lane, with little time and memory. Work that
//! exceeds them is repeated in the long lane, which never takes the last thread of the pool. The pool remembers for
//! some minutes which releases needed it. So a release with short work waits for other short work only. Releases with
//! long work wait in turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::sync::lock;
use go_template::meter::cpu_time;

/// The processor time that a release may use before it moves to the long lane, and how much used time expires per
/// second.
const BURST: Duration = Duration::from_secs(2);
const FORGOTTEN: f64 = 0.1;
/// The maximum of remembered processor time: it keeps a release in the long lane for five minutes.
const MOST: Duration = Duration::from_secs(32);
/// Processor time that the conditions of a release may use in one go, and the share of it that is added each second.
const CONDITIONS: Duration = Duration::from_secs(1);
const REFILLED: f64 = 0.1;
/// Conditions do not start with less time than this.
const LEAST: Duration = Duration::from_millis(100);
/// Empty accounts are removed when there are this many accounts.
const ACCOUNTS: usize = 1000;

/// The lanes of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolLane {
    /// Work that takes up to a second.
    Short,
    /// Work of releases that recently needed more.
    Long,
}

/// Why work has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PoolError {
    #[error("the operator is stopping")]
    Stopping,
    #[error("it could not be evaluated: this is a defect of chartwright; see its log")]
    Panicked,
    #[error(
        "the conditions of this release are over their budget of {} s of processor time, and {REFILLED} s more in each \
         second: use fewer or simpler conditions, or smaller objects",
        CONDITIONS.as_secs()
    )]
    OverBudget,
}

/// Runs long work on its own threads.
pub struct WorkerPool {
    all: Arc<Semaphore>,
    long: Arc<Semaphore>,
    used: CpuAccounts,
    conditions: CpuAccounts,
}

/// Processor time that releases used lately, by the id of their ApplySet.
struct CpuAccounts {
    /// How many seconds of used time expire per second.
    leak: f64,
    most: f64,
    seconds: Mutex<HashMap<String, (f64, Instant)>>,
}

/// How long the conditions of a release may still be evaluated, in processor time of the thread.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Duration);

impl WorkerPool {
    /// Returns a pool for this number of processors.
    pub fn new(cores: usize) -> Self {
        let threads = cores.max(2);
        WorkerPool {
            all: Arc::new(Semaphore::new(threads)),
            long: Arc::new(Semaphore::new(threads - 1)),
            used: CpuAccounts::new(FORGOTTEN, MOST),
            conditions: CpuAccounts::new(REFILLED, CONDITIONS),
        }
    }

    /// Returns the lane for the next work of a release.
    pub fn lane(&self, release: &str) -> PoolLane {
        if self.used.level(release) > BURST.as_secs_f64() {
            PoolLane::Long
        } else {
            PoolLane::Short
        }
    }

    /// Moves the next work of this release to the long lane, too.
    pub fn expect_long(&self, release: &str) {
        self.used.raise(release, 2.0 * BURST.as_secs_f64());
    }

    /// Runs work on a thread of the pool when one is free. The work runs to its end even if its task is cancelled.
    /// Fails if the operator is stopping or the work panics.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        release: &str,
        lane: PoolLane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let long = match lane {
            PoolLane::Short => None,
            PoolLane::Long => Some(
                self.long
                    .clone()
                    .acquire_owned()
                    .await
                    .map_err(|_| PoolError::Stopping)?,
            ),
        };
        let permit = self
            .all
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| PoolError::Stopping)?;
        let (pool, release) = (self.clone(), release.to_owned());
        let job = move || {
            let _permits = (long, permit);
            let _charge = CpuCharge {
                accounts: &pool.used,
                release: &release,
                start: cpu_time(),
            };
            work()
        };
        tokio::task::spawn_blocking(job).await.map_err(|_| PoolError::Panicked)
    }

    /// Evaluates conditions of a release within their budget. `work` must stop at its deadline. Fails as
    /// [`WorkerPool::run`] does, or if the budget is used up.
    pub async fn evaluate<T: Send + 'static>(
        self: &Arc<Self>,
        release: &str,
        work: impl FnOnce(Deadline) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let pool = self.clone();
        let owner = release.to_owned();
        let job = move || {
            // Read the budget here: other conditions of this release may have used it while this work waited for a
            // thread.
            let left = pool.left_for_conditions(&owner);
            if left < LEAST {
                return Err(PoolError::OverBudget);
            }
            let start = cpu_time();
            let _charge = CpuCharge {
                accounts: &pool.conditions,
                release: &owner,
                start,
            };
            Ok(work(Deadline(start + left)))
        };
        if self.left_for_conditions(release) < LEAST {
            return Err(PoolError::OverBudget);
        }
        self.run(release, self.lane(release), job).await?
    }

    fn left_for_conditions(&self, release: &str) -> Duration {
        let used = self.conditions.level(release);
        Duration::from_secs_f64((CONDITIONS.as_secs_f64() - used).max(0.0))
    }
}

impl Deadline {
    /// True if the deadline has passed.
    pub fn is_over(self) -> bool {
        cpu_time() > self.0
    }
}

impl CpuAccounts {
    fn new(leak: f64, most: Duration) -> Self {
        CpuAccounts {
            leak,
            most: most.as_secs_f64(),
            seconds: Mutex::default(),
        }
    }

    fn now(&self, (seconds, at): (f64, Instant)) -> f64 {
        (seconds - self.leak * at.elapsed().as_secs_f64()).max(0.0)
    }

    /// Returns the processor time that a release recently used, in seconds.
    fn level(&self, release: &str) -> f64 {
        let known = lock(&self.seconds).get(release).copied();
        known.map_or(0.0, |known| self.now(known))
    }

    fn add(&self, release: &str, seconds: f64) {
        self.change(release, |level| level + seconds);
    }

    fn raise(&self, release: &str, seconds: f64) {
        self.change(release, |level| level.max(seconds));
    }

    fn change(&self, release: &str, change: impl FnOnce(f64) -> f64) {
        let mut all = lock(&self.seconds);
        if all.len() >= ACCOUNTS {
            all.retain(|_, known| self.now(*known) > 0.0);
        }
        let level = all.get(release).map_or(0.0, |known| self.now(*known));
        all.insert(release.to_owned(), (change(level).min(self.most), Instant::now()));
    }
}

/// Charges an account with the processor time of the thread since its start, also if the work panics.
struct CpuCharge<'a> {
    accounts: &'a CpuAccounts,
    release: &'a str,
    start: Duration,
}

impl Drop for CpuCharge<'_> {
    fn drop(&mut self) {
        let took = cpu_time().saturating_sub(self.start);
        self.accounts.add(self.release, took.as_secs_f64());
    }
}

/// Data of an author of at least this size, in bytes of memory, must not be processed on an async worker.
const LARGE: u64 = 64 << 10;

/// Runs work on data of this size, away from the async workers if the data are large. For small data, moving to another
/// thread costs more than it saves.
pub fn off_worker_if_large<T>(size: u64, work: impl FnOnce() -> T) -> T {
    if size > LARGE { off_worker(work) } else { work() }
}

/// Runs short work that is too long for an async worker with the largest data that the API server accepts. The other
/// tasks of this worker move to another worker.
pub fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    let has_workers = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_workers {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn long_work_never_has_the_last_thread() {
        let pool = Arc::new(WorkerPool::new(3));
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let hostile: Vec<_> = (0..20)
            .map(|number| {
                let (pool, ended) = (pool.clone(), ended.clone());
                let work = move || {
                    let _ = lock(&ended).recv();
                };
                tokio::spawn(async move { pool.run(&format!("hostile-{number}"), PoolLane::Long, work).await })
            })
            .collect();
        // As many as there may be have begun.
        while pool.long.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        for number in 0..50 {
            let release = format!("quick-{number}");
            assert_eq!(
                pool.run(&release, pool.lane(&release), move || number).await,
                Ok(number)
            );
        }
        drop(end);
        for hostile in hostile {
            assert_eq!(hostile.await.unwrap(), Ok(()));
        }
    }

    #[tokio::test]
    async fn a_release_that_used_much_is_long_until_that_is_forgotten() {
        tokio::time::pause();
        let pool = WorkerPool::new(2);
        pool.used.add("a", 1.9);
        assert_eq!(pool.lane("a"), PoolLane::Short);
        pool.used.add("a", 1000.0);
        assert_eq!((pool.lane("a"), pool.lane("b")), (PoolLane::Long, PoolLane::Short));
        tokio::time::advance(Duration::from_secs(290)).await;
        assert_eq!(pool.lane("a"), PoolLane::Long);
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(pool.lane("a"), PoolLane::Short);
        pool.expect_long("b");
        assert_eq!(pool.lane("b"), PoolLane::Long);
        // What is forgotten takes no memory.
        for number in 0..5000 {
            pool.used.add(&number.to_string(), 0.001);
            tokio::time::advance(Duration::from_millis(20)).await;
        }
        assert!(lock(&pool.used.seconds).len() <= ACCOUNTS);
    }

    #[tokio::test]
    async fn conditions_have_a_budget_of_their_own() {
        let pool = Arc::new(WorkerPool::new(2));
        let endless = |deadline: Deadline| while !deadline.is_over() {};
        assert_eq!(pool.evaluate("a", endless).await, Ok(()));
        assert_eq!(pool.evaluate("a", |_| ()).await, Err(PoolError::OverBudget));
        assert_eq!(pool.evaluate("b", |_| 1).await, Ok(1));
        let message = PoolError::OverBudget.to_string();
        assert!(
            message.contains("1 s of processor time, and 0.1 s more in each second"),
            "{message}"
        );
    }
}
