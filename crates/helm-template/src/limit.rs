//! Limits of one function call. Real charts stay far below them. Beyond them a call fails instead of exhausting the
//! operator's memory, which other releases share.

use go_template::func::CallError;
use go_template::meter::{ELEMENT, MAX_TEXT, MAX_VALUE_DEPTH, Meter};

/// The longest list that one call may create: one million elements.
pub const MAX_ITEMS: usize = 1_000_000;

/// The memory of a list's element while the list grows, in bytes.
const ITEM: u64 = 64;

/// The memory of a text in a list of texts, including its entry in the list of parts.
const TEXT: u64 = 144;

/// Fails as [`items`] does, for a list of `len` texts.
pub fn texts(meter: &Meter, len: usize) -> Result<(), CallError> {
    list(meter, len, TEXT)
}

/// Fails if a result of `len` bytes is over [`MAX_TEXT`], or over the render's remaining budget.
pub fn bytes(meter: &Meter, len: usize) -> Result<(), CallError> {
    if len <= MAX_TEXT {
        return Ok(meter.text(len)?);
    }
    Err(CallError::Text(format!(
        "the result would be {len} bytes long, over the limit of {MAX_TEXT} bytes"
    )))
}

/// Fails if a result of `len` elements is over [`MAX_ITEMS`], or over the render's remaining budget.
pub fn items(meter: &Meter, len: usize) -> Result<(), CallError> {
    list(meter, len, ITEM)
}

/// `each`: the memory of an element, in bytes.
fn list(meter: &Meter, len: usize, each: u64) -> Result<(), CallError> {
    if len <= MAX_ITEMS {
        return Ok(meter.has_room(each * len as u64)?);
    }
    Err(CallError::Text(format!(
        "the result would have {len} elements, over the limit of {MAX_ITEMS} elements"
    )))
}

/// Counts the visits of a recursive function. Values may share parts, so a small value can have very many paths.
pub(crate) struct Budget<'m> {
    meter: &'m Meter,
    left: usize,
    function: &'static str,
}

impl<'m> Budget<'m> {
    /// [`MAX_ITEMS`] visits for one call of `function`.
    pub(crate) fn new(meter: &'m Meter, function: &'static str) -> Self {
        Budget {
            meter,
            left: MAX_ITEMS,
            function,
        }
    }

    /// Counts one visit at a depth of nesting. Fails beyond [`MAX_ITEMS`] visits or [`MAX_VALUE_DEPTH`] levels.
    pub(crate) fn visit(&mut self, depth: usize) -> Result<(), CallError> {
        if depth > MAX_VALUE_DEPTH {
            return Err(CallError::Text(format!(
                "{}: the value is nested deeper than the limit of {MAX_VALUE_DEPTH} levels, or contains itself",
                self.function
            )));
        }
        // Each visited element is copied or changed.
        self.meter.spend(4 * ELEMENT)?;
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            CallError::Text(format!(
                "{}: the value has parts over the limit of {MAX_ITEMS} elements",
                self.function
            ))
        })?;
        Ok(())
    }
}
