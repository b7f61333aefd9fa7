//! A bound on what the check of values may take.
//!
//! Values come from authors of custom resources, and a recursive schema may ask for work that grows exponentially with
//! their depth. boon has no limit, and asks nobody whether to go on. What it does do is call a function of the host's for a
//! `format`, without a context: so every schema gets one (see [`compile`](super::compile)), which counts what the thread has
//! left, and unwinds when that is nothing.

use std::cell::Cell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use boon::Format;
use serde_json::Value;

/// The format that counts.
pub(super) const NAME: &str = "chartwright-budget";

/// How many bytes of a text are worth a step.
const TEXT: usize = 64;
/// How much of the stack may be taken, in bytes: half of what a render has.
const MAX_STACK: usize = 256 << 20;

thread_local! {
    /// What the work under way has left; nothing counts outside of one.
    static LEFT: Cell<Option<Left>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Left {
    steps: usize,
    /// Where the stack was when the work began.
    base: usize,
}

/// What unwinds.
struct Spent;

/// See [`NAME`]. A visit of a schema is a step, and so are each item, member, and piece of a text that it may look at.
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

/// Takes the steps for a text that a report says.
pub(super) fn write(text: &str) {
    spend(text.len() / TEXT);
}

fn spend(steps: usize) {
    let Some(Left { steps: left, base }) = LEFT.get() else {
        return;
    };
    match left.checked_sub(steps + 1) {
        Some(steps) if here().abs_diff(base) < MAX_STACK => LEFT.set(Some(Left { steps, base })),
        // Unlike a panic this runs no hook: nothing is logged.
        _ => resume_unwind(Box::new(Spent)),
    }
}

/// About where the stack is.
#[inline(never)]
fn here() -> usize {
    let mark = 0_u8;
    (&raw const mark).addr()
}

/// Does `work`, which may take that many steps. `None`: they weren't enough.
pub(super) fn within<T>(steps: usize, work: impl FnOnce() -> T) -> Option<T> {
    let outer = LEFT.replace(Some(Left { steps, base: here() }));
    // What is abandoned half done is only what the work itself made.
    let done = catch_unwind(AssertUnwindSafe(work));
    LEFT.set(outer);
    match done {
        Ok(result) => Some(result),
        Err(cause) if cause.is::<Spent>() => None,
        Err(cause) => resume_unwind(cause),
    }
}
