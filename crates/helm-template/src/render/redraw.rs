//! Finds the parts of a render that depend on new random results: they change when the results are drawn again.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::render::{Engine, Error, Input, KeptKey, Random, Rendered};

/// How far the clock of a probe is set back, in seconds. Year, month, day, hour, minute and second all differ.
const BACK: i64 = 400 * 86_400 + 13 * 3_600 + 7 * 60 + 11;

/// A random source whose results differ from the host's.
struct Otherwise(Arc<dyn Random>);

impl Random for Otherwise {
    fn seed(&self, call: &KeptKey) -> [u8; 32] {
        self.0.seed(call).map(|byte| !byte)
    }
}

impl Engine {
    /// Renders `input` again with the random results of `rendered`, its first render. Only the results in
    /// `randomness.missed` are drawn again, so a difference between the two renders comes from them alone. Renewed
    /// certificates are the same in both. Returns `None` if `missed` is empty.
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

/// A time that differs in every unit.
fn earlier(clock: Timestamp) -> Timestamp {
    clock.checked_sub(SignedDuration::from_secs(BACK)).unwrap_or(clock)
}
