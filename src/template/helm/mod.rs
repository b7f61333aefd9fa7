//! Helm's template language: Go's templates, sprig's functions, and what Helm adds to both.

pub mod capabilities;
pub mod context;
pub mod convert;
pub mod data;
mod duration;
pub mod error;
mod files;
mod functions;
mod glob;
mod kept;
mod limits;
mod lookup;
mod random;
mod toml;

pub use capabilities::{Capabilities, KubeVersion};
pub use context::{Context, Environment};
pub use functions::table;
pub use kept::{Kept, KeptError, KeptKey, Randomness};
pub use limits::{Limit, Limits};
pub use lookup::{LookupKey, Lookups};

/// What Go prints for a missing value, and Helm removes from every rendered file and `tpl` result.
const NO_VALUE: &[u8] = b"<no value>";

/// Removes every `<no value>`, also where it was literal text: so Helm has it.
pub fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    let Some(first) = find(&text, NO_VALUE) else {
        return text;
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_slice();
    let mut next = Some(first);
    while let Some(at) = next {
        let (before, after) = rest.split_at(at);
        out.extend_from_slice(before);
        rest = after.get(NO_VALUE.len()..).unwrap_or_default();
        next = find(rest, NO_VALUE);
    }
    out.extend_from_slice(rest);
    out
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    // Most positions are ruled out by their first byte.
    let first = wanted.first()?;
    let mut from = 0;
    while let Some(at) = text.get(from..)?.iter().position(|b| b == first) {
        let at = from + at;
        if text.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}
