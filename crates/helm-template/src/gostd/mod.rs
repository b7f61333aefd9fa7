//! Go's standard library, as far as templates see it: dates, durations, JSON, regular expressions, URLs, characters.

pub mod duration;
pub(crate) mod json;
mod json_parse;
pub mod regexp;
mod regexp_syntax;
pub(crate) mod runes;
pub(crate) mod time;
mod time_layout;
pub(crate) mod time_parse;
pub(crate) mod url;

/// Go's panic text for a nil interface that reflection looks into.
pub(crate) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";
