//! Random results: the operating system's, or a keyed function of the place that asks, so that a release's random
//! password is the same in every render.

use std::collections::HashMap;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A source of random bytes for one render.
pub struct Random {
    seed: Option<[u8; 32]>,
    /// How often a function was called so far within a template.
    calls: HashMap<(String, &'static str), u64>,
}

impl Random {
    /// With a seed, bytes depend on it, the template, the function and the ordinal of the call within both.
    pub fn new(seed: Option<[u8; 32]>) -> Self {
        Random {
            seed,
            calls: HashMap::new(),
        }
    }

    /// Fills `out` for one call of `function` while `template` (a file's path) is rendered.
    pub fn fill(&mut self, template: &str, function: &'static str, out: &mut [u8]) {
        let Some(seed) = self.seed else {
            if getrandom::fill(out).is_ok() {
                return;
            }
            // Without the system's randomness nothing secret may come out: zeros would look random to nobody,
            // but a panic here would only end this render's thread.
            panic!("the operating system gives no randomness");
        };
        let ordinal = self.calls.entry((template.to_owned(), function)).or_insert(0);
        let call = *ordinal;
        *ordinal += 1;
        for (block, chunk) in out.chunks_mut(32).enumerate() {
            // HMAC takes keys of any length, so this can't fail.
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&seed) else {
                continue;
            };
            for part in [template.as_bytes(), b"\0", function.as_bytes(), b"\0"] {
                mac.update(part);
            }
            mac.update(&call.to_le_bytes());
            mac.update(&(block as u64).to_le_bytes());
            for (to, from) in chunk.iter_mut().zip(mac.finalize().into_bytes()) {
                *to = from;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(random: &mut Random, template: &str, function: &'static str) -> [u8; 40] {
        let mut out = [0; 40];
        random.fill(template, function, &mut out);
        out
    }

    #[test]
    fn a_seed_makes_results_stable_and_distinct() {
        let (mut a, mut b) = (Random::new(Some([7; 32])), Random::new(Some([7; 32])));
        let first = bytes(&mut a, "t", "randAlpha");
        assert_ne!(bytes(&mut b, "u", "randAlpha"), first);
        assert_eq!(bytes(&mut b, "t", "randAlpha"), first);
        assert_ne!(bytes(&mut a, "t", "randAlpha"), first);
        assert_ne!(bytes(&mut Random::new(Some([8; 32])), "t", "randAlpha"), first);
        assert_ne!(first[..8], first[32..]);
    }

    #[test]
    fn without_a_seed_nothing_repeats() {
        let mut random = Random::new(None);
        assert_ne!(
            bytes(&mut random, "t", "randAlpha"),
            bytes(&mut random, "t", "randAlpha")
        );
    }
}
