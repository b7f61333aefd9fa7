//! The functions of sprig v3.3.0 (`TxtFuncMap`) over the values of [`go_template`].
//!
//! One file per section of sprig's documentation. Left out are `env` and `expandenv`, which Helm removes, and
//! `getHostByName`, which Helm replaces. Facts come from sprig and the libraries that it calls (spf13/cast v1.7.0,
//! mergo v1.0.1, xstrings v1.5.0, decimal v1.4.0, semver v3.5.0, goutils v1.1.1, Go's standard library).
//!
//! Values are somebody's input, so every function bounds what it makes: see `limit`.

mod case;
#[cfg(feature = "crypto")]
pub mod certs;
pub mod convert;
#[cfg(feature = "crypto")]
mod crypto;
mod date;
mod decimal;
mod dict;
pub mod draw;
mod encoding;
mod float;
mod json;
#[cfg(feature = "crypto")]
mod keys;
mod list;
pub mod logic;
mod math;
mod merge;
mod path;
mod random;
mod regex;
pub mod semver;
mod semver_constraint;
mod strings;
mod strings_wrap;
pub mod text;
mod types;
mod url;

use go_template::func::{CallError, Func};
use go_template::host::Host;
use go_template::value::Value;

pub use draw::{Call, Drawn, Pair, Source};
pub use merge::merge_maps;

/// Without the feature there are no certificates.
#[cfg(not(feature = "crypto"))]
pub mod certs {
    use go_template::Value;

    use super::draw::{Identity, Pair};

    pub fn pair(_cert: &str, _key: &str) -> Option<Pair> {
        None
    }

    pub(super) fn identity_of(_value: &Value) -> Option<Identity> {
        None
    }
}

/// What the functions need from outside, so that rendering stays a pure function.
pub trait Env: Host + 'static {
    /// The result of one call of a random function (`rand*`, `uuidv4`, `shuffle`, `gen*`, the salt of `htpasswd`, the
    /// clock's reading in `now`, ...): a kept one if there is one that `fits`, else what `make` draws.
    ///
    /// # Errors
    /// Those of `make`, or a limit.
    fn once(
        &mut self,
        call: &Call,
        fits: impl Fn(&Drawn) -> bool,
        make: impl FnOnce(&mut Source) -> Result<Drawn, CallError>,
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

/// Every function of sprig, for a context that provides [`Env`]. Names are unique.
pub fn functions<C: Env>() -> Vec<Func<C>> {
    let mut all = Vec::with_capacity(220);
    all.extend(strings::table());
    all.extend(strings_wrap::table());
    all.extend(case::table());
    all.extend(convert::table());
    all.extend(math::table());
    all.extend(float::table());
    all.extend(list::table());
    all.extend(dict::table());
    all.extend(merge::table());
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
    all.extend(crypto::table());
    #[cfg(feature = "crypto")]
    all.extend(certs::table());
    all
}

#[cfg(test)]
mod tests;
