//! Bounds on what one call may make. Real charts stay far below them; beyond them a call fails instead of exhausting
//! the operator's memory, which other releases share.

use go_template::func::CallError;
use go_template::meter;

/// The longest string that one call may make: 64 MiB.
pub const MAX_BYTES: usize = 64 << 20;
/// The longest list that one call may make: one million elements.
pub const MAX_ITEMS: usize = 1_000_000;
/// The deepest nesting of maps and lists that recursive functions follow.
pub const MAX_DEPTH: usize = 1_000;

/// What an element of a list takes while the list grows, in bytes.
const ITEM: u64 = 64;

/// Fails if a result of `len` bytes is over [`MAX_BYTES`], or over what the render may still make.
pub fn bytes(len: usize) -> Result<(), CallError> {
    if len <= meter::max_text() {
        return Ok(());
    }
    if len <= MAX_BYTES {
        return Err(CallError::Text(meter::text_overrun().to_string()));
    }
    Err(CallError::Text(format!(
        "the result would be {len} bytes long, over the limit of {MAX_BYTES} bytes"
    )))
}

/// Fails if a result of `len` elements is over [`MAX_ITEMS`], or over what the render may still make.
pub fn items(len: usize) -> Result<(), CallError> {
    if len <= MAX_ITEMS {
        return match meter::has_room(ITEM * len as u64) {
            true => Ok(()),
            false => Err(CallError::Text(meter::Overrun::Memory.to_string())),
        };
    }
    Err(CallError::Text(format!(
        "the result would have {len} elements, over the limit of {MAX_ITEMS} elements"
    )))
}

/// Counts what a recursive function visits. Values may share parts, so a small value can have very many paths.
pub(crate) struct Budget {
    left: usize,
    function: &'static str,
}

impl Budget {
    /// [`MAX_ITEMS`] visits for one call of `function`.
    pub(crate) fn new(function: &'static str) -> Self {
        Budget {
            left: MAX_ITEMS,
            function,
        }
    }

    /// Counts one visit at a depth of nesting. Fails beyond [`MAX_ITEMS`] visits or [`MAX_DEPTH`] levels.
    pub(crate) fn visit(&mut self, depth: usize) -> Result<(), CallError> {
        if depth > MAX_DEPTH {
            return Err(CallError::Text(format!(
                "{}: the value is nested deeper than the limit of {MAX_DEPTH} levels, or contains itself",
                self.function
            )));
        }
        // What is visited is copied, or changed; the evaluator fails the call if there is no memory left for it.
        if !meter::spend(4 * meter::ELEMENT) {
            return Err(CallError::Text(meter::Overrun::Memory.to_string()));
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            CallError::Text(format!(
                "{}: the value has parts over the limit of {MAX_ITEMS} elements",
                self.function
            ))
        })?;
        Ok(())
    }
}
