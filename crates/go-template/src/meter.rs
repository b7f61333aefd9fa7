//! How much one render may still make, counted across all functions: a small value can have very many paths and a
//! short template very large results, and functions such as `printf` or `deepEqual` have no context to ask.
//!
//! The meter belongs to the thread, as values do. Without an open [`Meter`] there is no bound but that of one text.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The longest text that one call may make: 64 MiB.
pub const MAX_TEXT: usize = 64 << 20;
/// The deepest nesting of maps and lists that functions follow.
pub const MAX_VALUE_DEPTH: usize = 1_000;
/// What visiting one element is charged with, in bytes: about what a copy of it takes.
pub const ELEMENT: u64 = 32;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static DEADLINE: Cell<Option<Duration>> = const { Cell::new(None) };
    static OVERRUN: Cell<Option<Overrun>> = const { Cell::new(None) };
}

/// What a function ran into. Its result is cut short then, and the evaluator fails the call.
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

/// A bound on what this thread makes while it lives.
#[derive(Debug)]
pub struct Meter {
    outer: (u64, Option<Duration>),
}

/// Counts `bytes`. False if there is no more: the caller stops, whatever it then returns is not used.
pub fn spend(bytes: u64) -> bool {
    LEFT.with(|left| match left.get().checked_sub(bytes) {
        Some(rest) => {
            left.set(rest);
            true
        }
        None => {
            report(Overrun::Memory);
            false
        }
    })
}

/// How much may still be made.
pub fn left() -> u64 {
    LEFT.with(Cell::get)
}

/// Whether there is room for `bytes`, of which nothing is counted yet. For what is made at once: the caller asks before.
pub fn has_room(bytes: u64) -> bool {
    let fits = bytes <= left();
    if !fits {
        report(Overrun::Memory);
    }
    fits
}

/// The longest text that a call may make now: [`MAX_TEXT`], or a quarter of what is left, since a text that grows is copied, and some
/// functions work on its characters one by one.
pub fn max_text() -> usize {
    usize::try_from(left() / 4).map_or(MAX_TEXT, |quarter| quarter.min(MAX_TEXT))
}

/// What a text longer than [`max_text`] ran into. It is reported.
pub fn text_overrun() -> Overrun {
    let overrun = match max_text() {
        MAX_TEXT => Overrun::Text,
        _ => Overrun::Memory,
    };
    report(overrun);
    overrun
}

/// The processor time that this thread has used. Unlike the time on a clock, it doesn't depend on what else the machine
/// does. Reading it takes some 300 ns.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Whether there is time left. For loops of which one turn may be long.
pub fn in_time() -> bool {
    let late = DEADLINE.with(|cell| cell.get().is_some_and(|deadline| cpu_time() > deadline));
    if late {
        report(Overrun::Time);
    }
    !late
}

/// Does what takes a time that chance decides, and counts none of it. For work that has its price in steps.
pub fn off_the_clock<T>(work: impl FnOnce() -> T) -> T {
    let start = cpu_time();
    let made = work();
    let took = cpu_time().saturating_sub(start);
    DEADLINE.with(|cell| cell.set(cell.get().and_then(|deadline| deadline.checked_add(took))));
    made
}

/// Counts one element at a depth of nesting. False if it is too deep, or there is no more.
pub fn visit(depth: usize) -> bool {
    if depth > MAX_VALUE_DEPTH {
        report(Overrun::Depth);
        return false;
    }
    spend(ELEMENT)
}

/// Notes that a result was cut short.
pub fn report(overrun: Overrun) {
    OVERRUN.with(|cell| cell.set(Some(cell.get().unwrap_or(overrun))));
}

/// Whether a result was cut short since [`take_overrun`] was called.
pub fn has_overrun() -> bool {
    OVERRUN.with(|cell| cell.get().is_some())
}

/// What was reported since the last call.
pub fn take_overrun() -> Option<Overrun> {
    OVERRUN.with(Cell::take)
}

// === impl Meter ===

impl Meter {
    /// From now on, `bytes` may be made, until the thread's processor time is `deadline`.
    pub fn open(bytes: u64, deadline: Option<Duration>) -> Self {
        OVERRUN.with(|cell| cell.set(None));
        Meter {
            outer: (
                LEFT.with(|left| left.replace(bytes)),
                DEADLINE.with(|cell| cell.replace(deadline)),
            ),
        }
    }

    /// What is left.
    pub fn left(&self) -> u64 {
        left()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let _ = LEFT.try_with(|left| left.set(self.outer.0));
        let _ = DEADLINE.try_with(|cell| cell.set(self.outer.1));
        let _ = OVERRUN.try_with(|cell| cell.set(None));
    }
}

// === impl Overrun ===

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
