//! What Events have reported of a release, so that each is written once.

use std::collections::HashSet;

use serde_json::Value;

/// So many warnings are told of one state of a custom resource, and remembered: neither a release whose warnings keep
/// changing nor one that has more of them may write Events for ever.
pub(crate) const MAX_WARNINGS: usize = 100;

/// What was told of a release, so that it is told once.
#[derive(Debug, Default)]
pub struct AnnouncedEvents {
    pub(crate) warnings: HashSet<String>,
    /// The last Event: the same failure isn't told at every retry.
    pub event: String,
    /// What the conditions said last, where Events tell it.
    pub conditions: Option<Vec<String>>,
    /// What the status was to say, where it doesn't keep all of it.
    pub status: Option<Value>,
    /// What it waited for when that was reported last.
    pub(crate) awaited: Option<String>,
    /// The generation whose values were compared with those that the chart reads.
    pub(crate) generation: Option<i64>,
}

impl AnnouncedEvents {
    /// True if this warning is to be told: it wasn't yet.
    pub fn is_news(&mut self, warning: &str) -> bool {
        self.warnings.len() < MAX_WARNINGS && self.warnings.insert(warning.to_owned())
    }

    /// The custom resource is another one now: where the bound is reached, there is something to tell again.
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
