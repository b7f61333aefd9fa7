//! What an evaluation reads and changes: whether its result may be used again instead of evaluating anew.
//!
//! Maps are all that a template can change. Each has its birth, a number that grows; a [`Frame`] notes the youngest map
//! that was read while it was open and the oldest that was changed, of those that are older than the frame. A result
//! holds for as long as no map as old as the youngest that it read is changed: that may forget results too early, never
//! too late, and asks for no list of what was read.

use std::cell::{Cell, RefCell};

/// Births from here on are those of maps that only one execution has.
const LOCAL: u64 = 1 << 62;
/// How many changes are remembered one by one.
const MAX_CHANGES: usize = 256;

/// When a map was made, on its thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Birth(u64);

/// What happened since the innermost frame was opened.
#[derive(Clone, Copy)]
struct Notes {
    /// Maps born before are older than the frame. 0 if no frame is open: then nothing is noted.
    start: u64,
    /// The birth of the youngest that was read, plus one.
    read: u64,
    /// The birth of the oldest that was changed.
    changed: u64,
    /// Whether a map was read that only the execution at hand has.
    local: bool,
    impure: bool,
}

const NOTHING: Notes = Notes {
    start: 0,
    read: 0,
    changed: u64::MAX,
    local: false,
    impure: false,
};

// Maps are read and changed through handles that know no context.
thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(1) };
    static NOTES: Cell<Notes> = const { Cell::new(NOTHING) };
    /// How many changes there were.
    static MOMENT: Cell<u64> = const { Cell::new(0) };
    /// Moment and birth of what was changed, both growing: an older map that is changed later stands for all before it.
    static CHANGES: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// What a result depends on.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    read: u64,
    local: bool,
    moment: u64,
}

/// Notes what is read and changed until it is closed. Frames nest.
#[must_use]
pub struct Frame {
    outer: Notes,
}

/// Forgets frames that a panic left open.
pub fn reset() {
    NOTES.set(NOTHING);
    CHANGES.with_borrow_mut(Vec::clear);
}

/// Notes something that makes the next evaluation different: chance, the clock.
pub fn impure() {
    Notes::update(|notes| notes.impure = true);
}

// === impl Birth ===

impl Birth {
    /// That of a map that is made now.
    pub fn now() -> Self {
        let next = NEXT.get();
        NEXT.set(next + 1);
        Birth(next)
    }

    /// That of a map that only the execution at hand has: results that read it hold for that one.
    pub fn local() -> Self {
        Birth(Birth::now().0 | LOCAL)
    }

    /// Notes that the map's entries are read.
    #[inline]
    pub fn read(self) {
        let notes = NOTES.get();
        if self.0 < notes.start {
            if self.0 >= notes.read {
                Notes::update(|notes| notes.read = self.0 + 1);
            }
        } else if self.0 >= LOCAL && !notes.local {
            Notes::update(|notes| notes.local = true);
        }
    }

    /// Notes that an entry of the map is set or removed.
    pub fn changed(self) {
        // What only an execution has may be as old as anything.
        let birth = if self.0 >= LOCAL { 0 } else { self.0 };
        Notes::update(|notes| notes.changed = notes.changed.min(birth));
        let moment = MOMENT.get() + 1;
        MOMENT.set(moment);
        CHANGES.with_borrow_mut(|changes| {
            while changes.last().is_some_and(|(_, other)| *other >= birth) {
                changes.pop();
            }
            let mut oldest = birth;
            if changes.len() >= MAX_CHANGES {
                oldest = changes.first().map_or(birth, |(_, oldest)| *oldest);
                changes.clear();
            }
            changes.push((moment, oldest));
        });
    }
}

// === impl Notes ===

impl Notes {
    fn update(change: impl FnOnce(&mut Notes)) {
        let mut notes = NOTES.get();
        change(&mut notes);
        NOTES.set(notes);
    }

    /// Adds what an inner frame read.
    fn add(&mut self, read: u64, local: bool) {
        // What was made in this frame, and is older than the inner one, may hide something older.
        self.read = self.read.max(read.min(self.start));
        self.local |= local;
    }
}

// === impl Frame ===

impl Frame {
    /// Opens a frame: maps that are made from now on are its own.
    pub fn open() -> Self {
        let start = NEXT.get();
        Frame {
            outer: NOTES.replace(Notes { start, ..NOTHING }),
        }
    }

    /// Ends the frame. `None` if what was done can't be left out another time.
    pub fn close(mut self) -> Option<Footprint> {
        let inner = NOTES.get();
        self.outer.add(inner.read, inner.local);
        self.outer.changed = self.outer.changed.min(inner.changed);
        self.outer.impure |= inner.impure;
        NOTES.set(self.outer);
        let is_pure = !inner.impure && inner.changed >= inner.start;
        is_pure.then(|| Footprint {
            read: inner.read,
            local: inner.local,
            moment: MOMENT.get(),
        })
    }
}

// === impl Footprint ===

impl Footprint {
    /// Whether nothing was changed since that the result depends on.
    pub fn holds(&self) -> bool {
        CHANGES.with_borrow(|changes| {
            let later = changes.partition_point(|(moment, _)| *moment <= self.moment);
            // The oldest of those that were changed later.
            changes.get(later).is_none_or(|(_, birth)| *birth >= self.read)
        })
    }

    /// Whether the result depends on the execution at hand.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Notes, in the open frame, what was read for the result.
    pub fn used(&self) {
        Notes::update(|notes| notes.add(self.read, self.local));
    }
}
