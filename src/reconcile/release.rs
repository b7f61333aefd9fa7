//! What is remembered of a release between two reconciles.

use std::time::Duration;

use super::custom_resource::CustomResource;
use super::why::Whys;
use crate::plan::record::Record;

/// Retries wait at least and at most this long.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// The memory of a release. While the process lives it is what counts; the status is read once, at the start.
#[derive(Debug, Default)]
pub struct Release {
    uid: String,
    trigger: u64,
    pub record: Record,
    /// Failed attempts since something changed.
    pub failures: u32,
    /// The last event, so that the same failure is told once and not at every retry.
    pub last_event: String,
    /// What it looked up, as in the record, with the versions seen last.
    pub(super) looked_up: Vec<String>,
    /// Why its workloads aren't well.
    pub(super) whys: Whys,
}

// === impl Release ===

impl Release {
    /// Takes in the custom resource: a new one starts from the record in its status, a changed one starts counting anew.
    pub fn adopt(&mut self, resource: &CustomResource) {
        if self.uid != resource.uid {
            let record = Record::from_status(&resource.status());
            *self = Release {
                uid: resource.uid.clone(),
                looked_up: record.lookups.clone(),
                record,
                ..Release::default()
            };
        }
        let trigger = resource.trigger();
        if self.trigger != trigger {
            self.trigger = trigger;
            self.failures = 0;
        }
    }

    /// Takes in what the last render looked up. While that render changed nothing, the recorded versions may be old: a
    /// status that is written whenever somebody touches a looked-up object would cost more than it tells.
    pub(super) fn learn_lookups(&mut self, lookups: &[String], changed: bool) {
        let names =
            |lookups: &[String]| -> Vec<String> { lookups.iter().map(|text| split(text).0.to_owned()).collect() };
        self.looked_up = lookups.to_vec();
        if changed || names(&self.record.lookups) != names(lookups) {
            self.record.lookups = lookups.to_vec();
        }
    }

    /// How long to wait after one more failure: doubling, with jitter so that many releases don't retry as one.
    pub fn back_off(&mut self) -> Duration {
        let doubled = SHORTEST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        jitter(doubled, &self.uid, self.failures)
    }
}

/// A recorded lookup: what was looked up, and the version that was found.
pub(super) fn split(lookup: &str) -> (&str, &str) {
    lookup.rsplit_once('@').unwrap_or((lookup, ""))
}

/// Between 80 and 120 percent of a duration, the same for the same release and count.
pub(super) fn jitter(duration: Duration, uid: &str, count: u32) -> Duration {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    (uid, count).hash(&mut hash);
    let percent = 80 + hash.finish() % 41;
    duration.mul_f64(percent as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_slow_down_and_are_bounded() {
        let mut release = Release {
            uid: "u".into(),
            ..Release::default()
        };
        let waits: Vec<_> = (0..12).map(|_| release.back_off()).collect();
        assert!(waits[0] >= SHORTEST.mul_f64(0.8) && waits[0] <= SHORTEST.mul_f64(1.2));
        assert!(waits[4] > waits[0] * 4);
        assert!(waits.iter().all(|wait| *wait <= LONGEST.mul_f64(1.2)));
    }
}
