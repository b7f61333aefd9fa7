//! The memory and time budget of one execution, across all functions. A small value can have very many paths, and a
//! short template can have very large results.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The longest text that one call may make: 64 MiB.
pub const MAX_TEXT: usize = 64 << 20;
/// The deepest nesting of maps and lists that functions follow.
pub const MAX_VALUE_DEPTH: usize = 1_000;
/// The charge for visiting one element, in bytes: about the size of a copy.
pub const ELEMENT: u64 = 32;

/// The limit that a function exceeded. Its result is not used: the evaluator fails the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overrun {
    /// The render's memory.
    Memory,
    /// [`MAX_TEXT`].
    Text,
    /// [`MAX_VALUE_DEPTH`]
    Depth,
    /// The render's time.
    Time,
    /// The size of a regular expression times that of its text.
    Regex,
}

/// The budget of an execution, owned by its [`Host`](super::Host). The default bounds only each text.
#[derive(Debug)]
pub struct Meter {
    left: Cell<u64>,
    deadline: Cell<Option<Duration>>,
    overrun: Cell<Option<Overrun>>,
    depth: Cell<usize>,
    /// Steps that functions have used and the host has not counted yet.
    steps: Cell<u64>,
    /// Hashes of the data that [`is_first`](Self::is_first) was called with.
    seen: RefCell<HashSet<u64>>,
}

/// The processor time that this thread has used. Unlike the time on a clock, it doesn't depend on what else the machine
/// does. Reading it takes some 300 ns.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Default for Meter {
    fn default() -> Self {
        Meter::new(u64::MAX, None)
    }
}

impl Meter {
    /// Allows `bytes` of memory, until the thread's processor time is `deadline`.
    ///
    /// ```
    /// let meter = go_template::Meter::new(100, None);
    /// assert!(meter.spend(60).is_ok());
    /// assert!(meter.spend(60).is_err() && meter.has_overrun());
    /// ```
    pub fn new(bytes: u64, deadline: Option<Duration>) -> Self {
        Meter {
            left: Cell::new(bytes),
            deadline: Cell::new(deadline),
            overrun: Cell::new(None),
            depth: Cell::new(0),
            steps: Cell::new(0),
            seen: RefCell::default(),
        }
    }

    /// Counts `bytes`. Returns and reports an error if the budget is exceeded. The results of a function that continues
    /// are not used.
    pub fn spend(&self, bytes: u64) -> Result<(), Overrun> {
        self.has_room(bytes)?;
        self.left.set(self.left.get() - bytes);
        Ok(())
    }

    /// The remaining bytes.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Checks that `bytes` remain, without counting them. For one large allocation: call it before.
    pub fn has_room(&self, bytes: u64) -> Result<(), Overrun> {
        if bytes <= self.left() {
            Ok(())
        } else {
            Err(self.report(Overrun::Memory))
        }
    }

    /// The longest text that a call may make now: [`MAX_TEXT`], or a quarter of what is left, since a text that grows is
    /// copied, and some functions work on its characters one by one.
    pub fn max_text(&self) -> usize {
        usize::try_from(self.left() / 4).map_or(MAX_TEXT, |quarter| quarter.min(MAX_TEXT))
    }

    /// Checks that a text may have `len` bytes. Otherwise the overrun is reported.
    pub fn text(&self, len: usize) -> Result<(), Overrun> {
        match self.max_text() {
            most if len <= most => Ok(()),
            MAX_TEXT => Err(self.report(Overrun::Text)),
            _ => Err(self.report(Overrun::Memory)),
        }
    }

    /// The number of evaluation levels that are open on the native stack: template calls, bodies of control structures and
    /// parenthesised pipelines, of nested executions too.
    pub fn depth(&self) -> usize {
        self.depth.get()
    }

    pub(super) fn set_depth(&self, depth: usize) {
        self.depth.set(depth);
    }

    /// Whether there is time left. For loops whose single iterations may be long.
    pub fn in_time(&self) -> bool {
        let late = self.deadline.get().is_some_and(|deadline| cpu_time() > deadline);
        if late {
            self.report(Overrun::Time);
        }
        !late
    }

    /// Adds steps, for a function whose work is not in proportion to its arguments. The host counts them after the call.
    pub fn add_steps(&self, steps: u64) {
        self.steps.set(self.steps.get().saturating_add(steps));
    }

    /// Returns the steps added since the last call.
    pub fn take_steps(&self) -> u64 {
        self.steps.take()
    }

    /// Whether this is the first call with `data` in this execution. The cost of a function must not depend on caches
    /// that other executions filled.
    pub fn is_first(&self, data: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        self.seen.borrow_mut().insert(hasher.finish())
    }

    /// Runs `work` without counting its processor time. For work of random duration that has a price in steps.
    pub fn off_the_clock<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = cpu_time();
        let made = work();
        let took = cpu_time().saturating_sub(start);
        let deadline = self.deadline.get();
        self.deadline
            .set(deadline.and_then(|deadline| deadline.checked_add(took)));
        made
    }

    /// Counts one element at a nesting depth. Returns an error if it is too deep or the budget is exceeded.
    pub fn visit(&self, depth: usize) -> Result<(), Overrun> {
        if depth > MAX_VALUE_DEPTH {
            Err(self.report(Overrun::Depth))
        } else {
            self.spend(ELEMENT)
        }
    }

    /// Records that a result was cut short.
    pub fn report(&self, overrun: Overrun) -> Overrun {
        self.overrun.set(Some(self.overrun.get().unwrap_or(overrun)));
        overrun
    }

    /// Whether a result was cut short since [`take_overrun`](Self::take_overrun) was called.
    pub fn has_overrun(&self) -> bool {
        self.overrun.get().is_some()
    }

    /// Returns the overrun reported since the last call.
    pub fn take_overrun(&self) -> Option<Overrun> {
        self.overrun.take()
    }
}

impl From<Overrun> for String {
    fn from(overrun: Overrun) -> Self {
        overrun.to_string()
    }
}

impl std::fmt::Display for Overrun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Overrun::Memory => write!(f, "over the limit of memory of one render"),
            Overrun::Regex => write!(f, "the regular expression is too large for so long a text"),
            Overrun::Time => write!(f, "over the limit of time of one render"),
            Overrun::Text => write!(f, "the result is over the limit of {MAX_TEXT} bytes"),
            Overrun::Depth => write!(
                f,
                "the value is nested deeper than the limit of {MAX_VALUE_DEPTH} levels, or contains itself"
            ),
        }
    }
}
