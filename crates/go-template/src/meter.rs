//! How much one execution may still make, counted across all functions: a small value can have very many paths and a
//! short template very large results.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The longest text that one call may make: 64 MiB.
pub const MAX_TEXT: usize = 64 << 20;
/// The deepest nesting of maps and lists that functions follow.
pub const MAX_VALUE_DEPTH: usize = 1_000;
/// What visiting one element is charged with, in bytes: about what a copy of it takes.
pub const ELEMENT: u64 = 32;

/// What a function ran into. Its result is not used: the evaluator fails the call.
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

/// A bound on what an execution makes, owned by its [`Host`](super::Host). The default bounds only each text.
#[derive(Debug)]
pub struct Meter {
    left: Cell<u64>,
    deadline: Cell<Option<Duration>>,
    overrun: Cell<Option<Overrun>>,
    depth: Cell<usize>,
    /// Steps that functions have used and the host has not counted yet.
    steps: Cell<u64>,
    /// Hashes of what [`is_first`](Self::is_first) has seen.
    seen: RefCell<HashSet<u64>>,
}

/// The processor time that this thread has used. Unlike the time on a clock, it doesn't depend on what else the machine
/// does. Reading it takes some 300 ns.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

// === impl Meter ===

impl Default for Meter {
    fn default() -> Self {
        Meter::new(u64::MAX, None)
    }
}

impl Meter {
    /// `bytes` may be made, until the thread's processor time is `deadline`.
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

    /// Counts `bytes`. An error, which is reported, if there is no more: who goes on makes nothing that is used.
    pub fn spend(&self, bytes: u64) -> Result<(), Overrun> {
        self.has_room(bytes)?;
        self.left.set(self.left.get() - bytes);
        Ok(())
    }

    /// How much may still be made.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Whether there is room for `bytes`, of which nothing is counted yet. For what is made at once: the caller asks before.
    pub fn has_room(&self, bytes: u64) -> Result<(), Overrun> {
        match bytes <= self.left() {
            true => Ok(()),
            false => Err(self.report(Overrun::Memory)),
        }
    }

    /// The longest text that a call may make now: [`MAX_TEXT`], or a quarter of what is left, since a text that grows is
    /// copied, and some functions work on its characters one by one.
    pub fn max_text(&self) -> usize {
        usize::try_from(self.left() / 4).map_or(MAX_TEXT, |quarter| quarter.min(MAX_TEXT))
    }

    /// Whether a text may be so long, in bytes. If not, that is reported.
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

    /// Whether there is time left. For loops of which one turn may be long.
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

    /// The steps that were added since the last call.
    pub fn take_steps(&self) -> u64 {
        self.steps.take()
    }

    /// Whether this execution sees `data` for the first time: what other executions left in a cache must not decide what
    /// a function costs.
    pub fn is_first(&self, data: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        self.seen.borrow_mut().insert(hasher.finish())
    }

    /// Does what takes a time that chance decides, and counts none of it. For work that has its price in steps.
    pub fn off_the_clock<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = cpu_time();
        let made = work();
        let took = cpu_time().saturating_sub(start);
        let deadline = self.deadline.get();
        self.deadline
            .set(deadline.and_then(|deadline| deadline.checked_add(took)));
        made
    }

    /// Counts one element at a depth of nesting. An error if it is too deep, or there is no more.
    pub fn visit(&self, depth: usize) -> Result<(), Overrun> {
        match depth > MAX_VALUE_DEPTH {
            true => Err(self.report(Overrun::Depth)),
            false => self.spend(ELEMENT),
        }
    }

    /// Notes that a result was cut short.
    pub fn report(&self, overrun: Overrun) -> Overrun {
        self.overrun.set(Some(self.overrun.get().unwrap_or(overrun)));
        overrun
    }

    /// Whether a result was cut short since [`take_overrun`](Self::take_overrun) was called.
    pub fn has_overrun(&self) -> bool {
        self.overrun.get().is_some()
    }

    /// What was reported since the last call.
    pub fn take_overrun(&self) -> Option<Overrun> {
        self.overrun.take()
    }
}

// === impl Overrun ===

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
