//! Helm's template language: Go's templates, sprig's functions, and what Helm adds to both.

mod budget;
pub mod context;
pub mod error;
pub(crate) mod functions;
#[cfg(test)]
mod hostile_tests;
pub(crate) mod include_cache;
mod limits;
mod lookup;
pub(crate) mod objects;
pub(crate) mod random;

pub use budget::Used;
pub use context::{Context, Effects, Environment, Hosts, IsChartText};
pub use functions::{convert, table};
pub use limits::{Limit, Limits};
pub use lookup::{Lookup, LookupKey, NoCluster};
pub use objects::capabilities::{Capabilities, KubeVersion};
pub use objects::capabilities_used::{CapabilityQueries, is_about_all};
pub use objects::data;
pub use objects::glob::Glob;
pub use random::stored::{Kept, KeptError, KeptKey, Randomness};
pub use random::{Random, StandIns};

/// Go's output for a missing value. Helm removes it from every rendered file and `tpl` result.
const NO_VALUE: &[u8] = b"<no value>";

/// Removes every `<no value>`, also where it is literal text, as Helm does.
pub fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    let mut found = memchr::memmem::find_iter(&text, NO_VALUE).peekable();
    if found.peek().is_none() {
        drop(found);
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in found {
        out.extend_from_slice(text.get(from..at).unwrap_or_default());
        from = at + NO_VALUE.len();
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    out
}
