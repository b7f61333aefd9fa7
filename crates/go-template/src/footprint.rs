//! What an evaluation reads and changes. It decides whether a result may be reused instead of evaluating again.
//!
//! A template can change only maps. Each map has a serial number, its [`Birth`]. A [`Frame`] records, of the maps that
//! are older than the frame, the youngest one that was read and the oldest one that was changed. A result is valid
//! until a map changes that is as old as the youngest one read, or older. This can drop a result too early but never
//! too late, and it needs no list of the maps read.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Numbers from here on belong to maps that exist in one execution only.
const LOCAL: u64 = 1 << 62;
/// The number of changes that are recorded one by one.
const MAX_CHANGES: usize = 256;

/// The serial number of a map on its thread: a younger map has a larger number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
    /// Whether a [`Recorder`] runs.
    is_recorded: bool,
}

const NOTHING: FrameNotes = FrameNotes {
    start: 0,
    read: 0,
    changed: u64::MAX,
    local: false,
    impure: false,
    is_recorded: false,
};

/// What a [`Recorder`] notes of one map.
const READ: u8 = 1;
const CHANGED: u8 = 2;

/// The maps of a render's input, and what was done with each of them.
struct Recorded {
    /// The birth of the first of these maps.
    first: u64,
    /// What was done with each, by its distance from the first.
    flags: Vec<u8>,
    used: InputUse,
}

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
    static RECORDED: RefCell<Recorded> = RefCell::new(Recorded {
        first: 0,
        flags: Vec::new(),
        used: InputUse::default(),
    });
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

/// Lists which maps of a render's input are read and changed. There is one at a time on a thread.
#[must_use]
pub struct Recorder(());

/// What one execution did with the input of a render.
#[derive(Debug, Default)]
pub struct InputUse {
    /// The maps that it read, each once.
    pub read: Vec<Birth>,
    /// The entries that it read of other maps, by the hash of the key, and [`LEN`] for their number.
    pub read_parts: HashSet<(Birth, u64)>,
    /// The maps that it changed, each once.
    pub changed: Vec<Birth>,
    /// Whether it depends on chance or on the clock.
    pub is_impure: bool,
}

/// Stands for the number of a map's entries in [`InputUse::read_parts`].
pub const LEN: u64 = 0;

/// Stands for an entry in [`InputUse::read_parts`].
pub fn hash_key(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
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
            if notes.is_recorded {
                self.record(READ);
            }
        } else if self.0 >= LOCAL && !notes.local {
            FrameNotes::update(|notes| notes.local = true);
        }
    }

    /// Adds the map to the lists of the [`Recorder`], if it is one of the input.
    fn record(self, what: u8) {
        RECORDED.with_borrow_mut(|recorded| {
            let Some(at) = self.0.checked_sub(recorded.first) else {
                return;
            };
            let flags = usize::try_from(at).ok().and_then(|at| recorded.flags.get_mut(at));
            if let Some(flags) = flags.filter(|flags| **flags & what == 0) {
                *flags |= what;
                let used = &mut recorded.used;
                let list = if what == READ {
                    &mut used.read
                } else {
                    &mut used.changed
                };
                list.push(self);
            }
        });
    }

    /// Notes that one entry of the map is read, or that it is found not to be there.
    #[inline]
    pub fn read_entry(self, key: &[u8]) {
        self.read_part(|| hash_key(key));
    }

    /// Notes that the number of entries is read.
    #[inline]
    pub fn read_len(self) {
        self.read_part(|| LEN);
    }

    #[inline]
    fn read_part(self, part: impl FnOnce() -> u64) {
        let notes = NOTES.get();
        if notes.is_recorded && self.0 < notes.start {
            self.record_part(part());
            NOTES.set(FrameNotes {
                is_recorded: false,
                ..notes
            });
            self.read();
            FrameNotes::update(|notes| notes.is_recorded = true);
        } else {
            self.read();
        }
    }

    fn record_part(self, part: u64) {
        RECORDED.with_borrow_mut(|recorded| {
            let Some(at) = self.0.checked_sub(recorded.first) else {
                return;
            };
            let flags = usize::try_from(at).ok().and_then(|at| recorded.flags.get(at));
            if flags.is_some_and(|flags| flags & READ == 0) {
                recorded.used.read_parts.insert((self, part));
            }
        });
    }

    /// Records that an entry of the map is set or removed.
    pub fn changed(self) {
        if NOTES.get().is_recorded {
            self.record(CHANGED);
        }
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
        let outer = NOTES.get();
        NOTES.set(FrameNotes {
            start,
            is_recorded: outer.is_recorded,
            ..NOTHING
        });
        Frame { outer }
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

impl Recorder {
    /// Starts, for a render whose input are the maps that were made since `first`.
    pub fn start(first: Birth) -> Self {
        RECORDED.with_borrow_mut(|recorded| {
            recorded.first = first.0;
            recorded.flags.clear();
            let input = usize::try_from(NEXT.get() - first.0).unwrap_or_default();
            recorded.flags.resize(input, 0);
            recorded.used = InputUse::default();
        });
        Recorder(())
    }

    /// What `work` does with the input.
    pub fn observe<T>(&self, work: impl FnOnce() -> T) -> (T, InputUse) {
        let frame = Frame {
            outer: NOTES.replace(FrameNotes {
                start: NEXT.get(),
                is_recorded: true,
                ..NOTHING
            }),
        };
        let result = work();
        let is_impure = NOTES.get().impure;
        let _ = frame.close();
        let used = RECORDED.with_borrow_mut(|recorded| {
            let used = std::mem::take(&mut recorded.used);
            for birth in used.read.iter().chain(&used.changed) {
                let at = usize::try_from(birth.0 - recorded.first).unwrap_or_default();
                if let Some(flags) = recorded.flags.get_mut(at) {
                    *flags = 0;
                }
            }
            InputUse { is_impure, ..used }
        });
        (result, used)
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
