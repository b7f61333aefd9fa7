//! The functions of sprig v3.3.0 (`TxtFuncMap`) over the values of [`go_template`].
//!
//! One file per section of sprig's documentation. Left out are `env` and `expandenv`, which Helm removes, and
//! `getHostByName`, which Helm replaces. Facts come from sprig and the libraries that it calls (spf13/cast v1.7.0,
//! mergo v1.0.1, xstrings v1.5.0, decimal v1.4.0, semver v3.5.0, goutils v1.1.1, Go's standard library).
//!
//! Values are untrusted input, so every function limits its result: see `limit`.

mod collections;
pub(crate) mod crypto;
mod date;
mod encoding;
mod json;
pub mod logic;
pub(crate) mod numbers;
mod path;
pub(crate) mod random;
mod regex;
pub mod semver;
mod strings;
pub mod text;
mod types;
mod url;

use go_template::func::{CallError, Func};
use go_template::host::Host;
use go_template::value::Value;

pub use collections::merge::merge_maps;
pub use random::draw::{Call, CertificatePair, Drawn, RandomSource};

/// The effects that functions need, passed in so that rendering stays a pure function.
pub trait Env: Host + 'static {
    /// The result of one call of a random function (`rand*`, `uuidv4`, `shuffle`, `gen*`, the salt of `htpasswd`, the
    /// clock's reading in `now`, ...): a stored one that `fits`, otherwise the result of `make`.
    ///
    /// # Errors
    /// Those of `make`, or a limit.
    fn once(
        &mut self,
        call: &Call,
        fits: impl Fn(&Drawn) -> bool,
        make: impl FnOnce(&mut RandomSource) -> Result<Drawn, CallError>,
    ) -> Result<Drawn, CallError>;
    /// Counts work that takes much longer than a step of the evaluator, in such steps.
    ///
    /// # Errors
    /// A limit.
    fn burn(&mut self, steps: u64) -> Result<(), CallError>;
    /// See [`Call::new`].
    fn call(&self, function: &'static str, args: &[Value]) -> Result<Call, CallError> {
        Call::new(self.meter(), function, args)
    }
}

/// Returns all functions of sprig, for a context that implements [`Env`]. Names are unique.
pub fn functions<C: Env>() -> Vec<Func<C>> {
    let mut all = Vec::with_capacity(220);
    all.extend(strings::table());
    all.extend(strings::wrap::table());
    all.extend(strings::case::table());
    all.extend(numbers::convert::table());
    all.extend(numbers::integers::table());
    all.extend(numbers::floats::table());
    all.extend(collections::list::table());
    all.extend(collections::dict::table());
    all.extend(collections::merge::table());
    all.extend(logic::table());
    all.extend(types::table());
    all.extend(encoding::table());
    all.extend(json::table());
    all.extend(regex::table());
    all.extend(semver::table());
    all.extend(date::table());
    all.extend(url::table());
    all.extend(path::table());
    all.extend(random::table());
    #[cfg(feature = "crypto")]
    all.extend(crypto::passwords::table());
    #[cfg(feature = "crypto")]
    all.extend(crypto::certs::table());
    all
}

#[cfg(test)]
mod tests;
