//! Which parts of a render come from random results that were not kept: those that come out differently when the
//! results are drawn once more.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::render::{Engine, Error, Input, KeptKey, Random, Rendered};

/// How far back the clock of a probe stands, in seconds: another year, month, day, hour, minute and second.
const BACK: i64 = 400 * 86_400 + 13 * 3_600 + 7 * 60 + 11;

/// Other results than those of a host.
struct Otherwise(Arc<dyn Random>);

impl Random for Otherwise {
    fn seed(&self, call: &KeptKey) -> [u8; 32] {
        self.0.seed(call).map(|byte| !byte)
    }
}

impl Engine {
    /// Renders again with what `rendered`, made from the same `input`, has kept, except for the results in
    /// `randomness.missed`, which are drawn anew. What differs between the two comes from these results and from
    /// nothing else; renewed certificates are the same in both. `None` if nothing was missed.
    ///
    /// # Errors
    /// Those of [`Engine::render_with`].
    pub fn probe(&self, input: &Input<'_>, rendered: &Rendered) -> Result<Option<Rendered>, Error> {
        let randomness = &rendered.randomness;
        if randomness.missed.is_empty() {
            return Ok(None);
        }
        let kept = randomness.kept.without(&randomness.missed);
        let again = Input {
            kept: Some(&kept),
            random: input
                .random
                .clone()
                .map(|random| Arc::new(Otherwise(random)) as Arc<dyn Random>),
            clock: earlier(input.clock),
            ..input.clone()
        };
        self.render_with(&again).map(Some)
    }
}

/// A time that looks different in every unit.
fn earlier(clock: Timestamp) -> Timestamp {
    clock.checked_sub(SignedDuration::from_secs(BACK)).unwrap_or(clock)
}
