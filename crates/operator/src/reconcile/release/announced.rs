//! Remembers which Events of a release were written, so that each is written once.

use std::collections::BTreeSet;

use serde_json::Value;

/// Warnings that are reported and remembered for one state of a custom resource. This bounds the Events of releases
/// with many or changing warnings.
pub(crate) const MAX_WARNINGS: usize = 100;

/// The reported facts of a release.
#[derive(Debug, Default)]
pub struct AnnouncedEvents {
    pub(crate) warnings: BTreeSet<String>,
    /// The last Event. A retry with the same failure writes none.
    pub event: String,
    /// The last conditions, where Events replace them.
    pub conditions: Option<Vec<String>>,
    /// The status that was sent, if the API server drops a part of it.
    pub status: Option<Value>,
    /// Digest of the status that was written last, without times.
    pub written: Option<u64>,
    /// The object that the last Event about waiting named.
    pub(crate) awaited: Option<String>,
    /// The generation whose values were compared with those that the chart reads.
    pub(crate) generation: Option<i64>,
}

impl AnnouncedEvents {
    /// Remembers a warning. Returns true if it must be reported.
    pub fn is_news(&mut self, warning: &str) -> bool {
        self.warnings.len() < MAX_WARNINGS && self.warnings.insert(warning.to_owned())
    }

    /// Allows further warnings after a change of the custom resource.
    pub(crate) fn changed(&mut self) {
        if self.warnings.len() >= MAX_WARNINGS {
            self.warnings.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bounded_over_thousands_of_rounds() {
        // More of them than are remembered, the same in each round.
        let mut announced = AnnouncedEvents::default();
        let mut count = 0;
        for _ in 0..1000 {
            count += (0..150).filter(|n| announced.is_news(&n.to_string())).count();
        }
        assert_eq!((count, announced.warnings.len()), (MAX_WARNINGS, MAX_WARNINGS));
        // Others in each round, and an edit every 1000 rounds.
        for round in 0..5000 {
            if round % 1000 == 0 {
                announced.changed();
            }
            count += usize::from(announced.is_news(&format!("round {round}")));
        }
        assert_eq!(
            count,
            6 * MAX_WARNINGS,
            "after each edit there is something to report again"
        );
        assert!(!announced.is_news("round 4000"));
    }
}
