//! What Go's `regexp/syntax` knows of the tree of an expression: what a repetition operator repeats, how often things are
//! repeated in all, and how high the tree is.

/// How often anything may be repeated, repetitions in one another multiplied.
pub(super) const MAX_REPEAT: u32 = 1000;
/// Go's `maxHeight`.
const MAX_HEIGHT: u32 = 1000;

/// The tree is higher than Go allows.
pub(super) struct TooHigh;

/// A part of the expression.
#[derive(Clone, Copy)]
struct Part {
    height: u32,
    /// The product of repetitions in it.
    repeats: u32,
    is_literal: bool,
    /// Whether it is several parts in a row, which become parts of a row around it.
    is_row: bool,
    /// Where its translation starts, and whether that ends in a repetition operator.
    start: usize,
    is_repeated: bool,
}

/// A group, or the whole expression, as far as it was read.
#[derive(Default)]
struct Level {
    start: usize,
    is_captured: bool,
    /// The part that an operator would repeat.
    top: Option<Part>,
    /// The parts before it since the last `|`: how many (literals in a row are one), and the height of the highest.
    count: u32,
    height: u32,
    ends_literally: bool,
    /// The same of what stands between `|`.
    branches: u32,
    highest: u32,
    repeats: u32,
}

impl Level {
    /// Takes the top: no operator can follow it any more.
    fn settle(&mut self) {
        let Some(top) = self.top.take() else { return };
        if !(top.is_literal && self.ends_literally) {
            self.count += 1 + u32::from(top.is_row);
        }
        self.height = self.height.max(top.height - u32::from(top.is_row));
        self.repeats = self.repeats.max(top.repeats);
        self.ends_literally = top.is_literal;
    }

    fn row_height(&self) -> u32 {
        self.height.max(1) + u32::from(self.count > 1)
    }

    fn end_branch(&mut self) {
        self.settle();
        self.branches += 1;
        self.highest = self.highest.max(self.row_height());
        (self.count, self.height, self.ends_literally) = (0, 0, false);
    }

    /// The group as a part of what is around it.
    fn close(mut self) -> Part {
        self.settle();
        let is_row = self.branches == 0 && self.count > 1;
        let height = match self.branches {
            0 => self.row_height(),
            _ => self.highest.max(self.row_height()) + 1,
        };
        Part {
            height: height + u32::from(self.is_captured),
            repeats: self.repeats.max(1),
            is_literal: false,
            is_row: is_row && !self.is_captured,
            start: self.start,
            is_repeated: false,
        }
    }
}

/// The expression as far as it was read.
#[derive(Default)]
pub(super) struct Tree {
    outer: Vec<Level>,
    level: Level,
}

impl Tree {
    /// A character, a class or an assertion, whose translation starts at `start`.
    pub(super) fn push(&mut self, start: usize, is_literal: bool) {
        self.level.settle();
        self.level.top = Some(Part {
            height: 1,
            repeats: 1,
            is_literal,
            is_row: false,
            start,
            is_repeated: false,
        });
    }

    pub(super) fn open(&mut self, start: usize, is_captured: bool) {
        self.level.settle();
        let level = Level {
            start,
            is_captured,
            ..Level::default()
        };
        self.outer.push(std::mem::replace(&mut self.level, level));
    }

    /// A `|`.
    pub(super) fn end_branch(&mut self) {
        self.level.end_branch();
    }

    /// A `)`; whether there is a group that it closes.
    pub(super) fn close(&mut self) -> Result<bool, TooHigh> {
        let Some(outer) = self.outer.pop() else {
            return Ok(false);
        };
        let part = std::mem::replace(&mut self.level, outer).close();
        self.level.top = Some(part);
        if part.height > MAX_HEIGHT {
            Err(TooHigh)
        } else {
            Ok(true)
        }
    }

    pub(super) fn has_open_group(&self) -> bool {
        !self.outer.is_empty()
    }

    /// What a repetition operator would repeat: where its translation starts, and whether it ends in an operator.
    pub(super) fn repeatable(&self) -> Option<(usize, bool)> {
        self.level.top.as_ref().map(|top| (top.start, top.is_repeated))
    }

    /// Repeats the top, which has to be there, as often as `most` says; whether that is few enough.
    pub(super) fn repeat(&mut self, most: u32) -> Result<bool, TooHigh> {
        let Some(top) = &mut self.level.top else {
            return Ok(true);
        };
        // What isn't there is repeated as often as one likes.
        top.repeats = if most == 0 { 1 } else { top.repeats.saturating_mul(most) };
        top.height += 1;
        (top.is_literal, top.is_row, top.is_repeated) = (false, false, true);
        if top.height > MAX_HEIGHT {
            return Err(TooHigh);
        }
        Ok(most < 2 || top.repeats <= MAX_REPEAT)
    }
}
