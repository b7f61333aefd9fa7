//! What an evaluation reads and changes. It decides whether a result may be reused instead of evaluating again.
//!
//! A template can change only maps. Each map has a serial number, its [`Birth`]. A [`Frame`] records, of the maps that
//! are older than the frame, the youngest one that was read and the oldest one that was changed. A result is valid
//! until a map changes that is as old as the youngest one read, or older. This can drop a result too early but never
//! too late, and it needs no list of the maps read.

use std::cell::{Cell, RefCell};

/// Numbers from here on belong to maps that exist in one execution only.
const LOCAL: u64 = 1 << 62;
/// The number of changes that are recorded one by one.
const MAX_CHANGES: usize = 256;

/// The serial number of a map on its thread: a younger map has a larger number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Birth(u64);

/// The reads and changes since the innermost frame was opened.
#[derive(Clone, Copy)]
struct FrameNotes {
    /// Maps with smaller numbers are older than the frame. 0 if no frame is open: then nothing is recorded.
    start: u64,
    /// The number of the youngest map that was read, plus one.
    read: u64,
    /// The number of the oldest map that was changed.
    changed: u64,
    /// Whether a map was read that exists only in the current execution.
    local: bool,
    impure: bool,
}

const NOTHING: FrameNotes = FrameNotes {
    start: 0,
    read: 0,
    changed: u64::MAX,
    local: false,
    impure: false,
};

// Invariant: this state belongs to the one render that runs on the thread; `reset` clears it when a render starts. It
// cannot be passed: a template value reads and changes its map through a handle, also in `Drop`, `PartialEq` and
// functions that get no context.
thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(1) };
    static NOTES: Cell<FrameNotes> = const { Cell::new(NOTHING) };
    /// The number of changes so far.
    static MOMENT: Cell<u64> = const { Cell::new(0) };
    /// The moment of each change and the number of the changed map, both ascending: a later change of an older map
    /// replaces all entries before it.
    static CHANGES: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// The maps that a result depends on.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    read: u64,
    local: bool,
    moment: u64,
}

/// Records reads and changes until it is closed. Frames nest.
#[must_use]
pub struct Frame {
    outer: FrameNotes,
}

/// Discards frames that a panic left open.
pub fn reset() {
    NOTES.set(NOTHING);
    CHANGES.with_borrow_mut(Vec::clear);
}

/// Records that the next evaluation may have another result, because of randomness or the clock.
pub fn impure() {
    FrameNotes::update(|notes| notes.impure = true);
}

impl Birth {
    /// The number of a map that is created now.
    pub fn now() -> Self {
        let next = NEXT.get();
        NEXT.set(next + 1);
        Birth(next)
    }

    /// The number of a map that exists only in the current execution. A result that reads it is valid for that
    /// execution only.
    pub fn local() -> Self {
        Birth(Birth::now().0 | LOCAL)
    }

    /// Records that the map's entries are read.
    #[inline]
    pub fn read(self) {
        let notes = NOTES.get();
        if self.0 < notes.start {
            if self.0 >= notes.read {
                FrameNotes::update(|notes| notes.read = self.0 + 1);
            }
        } else if self.0 >= LOCAL && !notes.local {
            FrameNotes::update(|notes| notes.local = true);
        }
    }

    /// Records that an entry of the map is set or removed.
    pub fn changed(self) {
        // A map of one execution may be as old as any other.
        let birth = if self.0 >= LOCAL { 0 } else { self.0 };
        FrameNotes::update(|notes| notes.changed = notes.changed.min(birth));
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

impl FrameNotes {
    fn update(change: impl FnOnce(&mut FrameNotes)) {
        let mut notes = NOTES.get();
        change(&mut notes);
        NOTES.set(notes);
    }

    /// Adds what an inner frame read.
    fn add(&mut self, read: u64, local: bool) {
        // A map that was created in this frame, and is older than the inner frame, may hide an older map.
        self.read = self.read.max(read.min(self.start));
        self.local |= local;
    }
}

impl Frame {
    /// Opens a frame. Maps that are created from now on belong to it.
    pub fn open() -> Self {
        let start = NEXT.get();
        Frame {
            outer: NOTES.replace(FrameNotes { start, ..NOTHING }),
        }
    }

    /// Ends the frame. Returns `None` if the evaluation has effects and must not be skipped.
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

impl Footprint {
    /// Whether no map has changed since that the result depends on.
    pub fn holds(&self) -> bool {
        CHANGES.with_borrow(|changes| {
            let later = changes.partition_point(|(moment, _)| *moment <= self.moment);
            // The oldest map that was changed later.
            changes.get(later).is_none_or(|(_, birth)| *birth >= self.read)
        })
    }

    /// Whether the result depends on the current execution.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Records the reads of this result in the open frame, because the result is reused there.
    pub fn used(&self) {
        FrameNotes::update(|notes| notes.add(self.read, self.local));
    }
}
