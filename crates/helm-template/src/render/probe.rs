//! Which parts of a render come from random results that were not kept: those that come out differently when the
//! results are drawn once more.

use jiff::{SignedDuration, Timestamp};

use super::{Error, Input, Rendered, Renderer};

/// How far back the clock of a probe stands, in seconds: another year, month, day, hour, minute and second.
const BACK: i64 = 400 * 86_400 + 13 * 3_600 + 7 * 60 + 11;

impl Renderer {
    /// Renders again with what `rendered`, made from the same `input`, has kept, except for the results in
    /// `randomness.missed`, which are drawn anew. What differs between the two comes from these results and from
    /// nothing else; renewed certificates are the same in both. `None` if nothing was missed.
    ///
    /// # Errors
    /// Those of [`Renderer::render`].
    pub fn probe(&self, input: &Input<'_>, rendered: &Rendered) -> Result<Option<Rendered>, Error> {
        let randomness = &rendered.randomness;
        if randomness.missed.is_empty() {
            return Ok(None);
        }
        let kept = randomness.kept.without(&randomness.missed);
        let again = Input {
            kept: Some(&kept),
            seed: input.seed.map(|seed| seed.map(|byte| !byte)),
            clock: earlier(input.clock),
            ..input.clone()
        };
        self.render(&again).map(Some)
    }
}

/// A time that looks different in every unit.
fn earlier(clock: Timestamp) -> Timestamp {
    clock.checked_sub(SignedDuration::from_secs(BACK)).unwrap_or(clock)
}
