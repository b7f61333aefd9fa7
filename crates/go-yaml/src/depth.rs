//! How deep a document, or a value that is written, may nest.
//!
//! go-yaml and Go's `encoding/json` stop at 10,000 levels. Data that deep can exhaust the stack of whoever clones, drops or
//! writes it, all of which recurse: so the limit is lower, except on threads that say that they have room for it.

use std::cell::Cell;

/// The usual limit.
pub const MAX_DEPTH: usize = 1000;
/// Go's limit.
pub const GO_MAX_DEPTH: usize = 10_000;

thread_local! {
    static LIMIT: Cell<usize> = const { Cell::new(MAX_DEPTH) };
}

/// The limit on this thread.
pub fn max_depth() -> usize {
    LIMIT.get()
}

/// Does `work` with another limit. Who sets one above [`MAX_DEPTH`] has a stack for it, also where the data ends.
pub fn with_max_depth<T>(depth: usize, work: impl FnOnce() -> T) -> T {
    let before = LIMIT.replace(depth);
    let made = work();
    LIMIT.set(before);
    made
}
