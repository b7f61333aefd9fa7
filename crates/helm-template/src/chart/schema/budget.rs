//! The limits of the check of values.
//!
//! Values come from authors of custom resources, and a recursive schema may need work that grows exponentially with
//! their depth. boon has no limit and no cancellation. It does call a function of the host for a `format`. So every
//! schema gets such a format (see [`compile`](super::compile)), which counts down a budget and unwinds when it is
//! spent. Invariant: boon calls a plain `fn` without a context, so the budget must be thread-local. It is set only
//! during [`within`].

use std::cell::Cell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use boon::Format;
use serde_json::Value;

/// The format that counts.
pub(super) const NAME: &str = "chartwright-budget";

/// The number of bytes of a text that count as one step.
const TEXT: usize = 64;
/// The maximum stack in bytes: half of the stack of a render.
const MAX_STACK: usize = 256 << 20;

thread_local! {
    /// The remaining budget of the current check. `None` outside of a check.
    static LEFT: Cell<Option<Left>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Left {
    steps: usize,
    /// The stack address at the start of the check.
    base: usize,
}

/// The payload of the unwinding.
struct Spent;

/// See [`NAME`]. Each visit of a schema is a step, and so are each item, each member and each piece of a text that it
/// may read.
pub(super) fn format() -> Format {
    Format {
        name: NAME,
        func: visit,
    }
}

fn visit(value: &Value) -> Result<(), Box<dyn Error>> {
    spend(match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::String(text) => text.len() / TEXT,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    });
    Ok(())
}

/// Counts the steps for a text of a report.
pub(super) fn write(text: &str) {
    spend(text.len() / TEXT);
}

fn spend(steps: usize) {
    let Some(Left { steps: left, base }) = LEFT.get() else {
        return;
    };
    match left.checked_sub(steps + 1) {
        Some(steps) if here().abs_diff(base) < MAX_STACK => LEFT.set(Some(Left { steps, base })),
        // Unlike a panic, this runs no panic hook: nothing is logged.
        _ => resume_unwind(Box::new(Spent)),
    }
}

/// The approximate stack address.
#[inline(never)]
fn here() -> usize {
    let mark = 0_u8;
    (&raw const mark).addr()
}

/// Runs `work` with a budget of `steps`. Returns `None` if the budget was exceeded.
pub(super) fn within<T>(steps: usize, work: impl FnOnce() -> T) -> Option<T> {
    let outer = LEFT.replace(Some(Left { steps, base: here() }));
    // An unwind abandons only data that `work` created itself.
    let done = catch_unwind(AssertUnwindSafe(work));
    LEFT.set(outer);
    match done {
        Ok(result) => Some(result),
        Err(cause) if cause.is::<Spent>() => None,
        Err(cause) => resume_unwind(cause),
    }
}
