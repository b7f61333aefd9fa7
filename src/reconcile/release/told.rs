//! What was told of a release, so that it is told once.

use std::collections::HashSet;

use serde_json::Value;

/// So many warnings are told of one state of a custom resource, and remembered: neither a release whose warnings keep
/// changing nor one that has more of them may write Events for ever.
const MAX_WARNINGS: usize = 100;

#[derive(Debug, Default)]
pub struct Told {
    warnings: HashSet<String>,
    /// The last Event: the same failure isn't told at every retry.
    pub event: String,
    /// What the conditions said last, where Events tell it.
    pub conditions: Option<Vec<String>>,
    /// What the status was to say, where it doesn't keep all of it.
    pub status: Option<Value>,
}

// === impl Told ===

impl Told {
    /// True if this warning is to be told: it wasn't yet.
    pub fn is_news(&mut self, warning: &str) -> bool {
        self.warnings.len() < MAX_WARNINGS && self.warnings.insert(warning.to_owned())
    }

    /// The custom resource is another one now: where the bound is reached, there is something to tell again.
    pub(super) fn changed(&mut self) {
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
        let mut told = Told::default();
        let mut count = 0;
        for _ in 0..1000 {
            count += (0..150).filter(|n| told.is_news(&n.to_string())).count();
        }
        assert_eq!((count, told.warnings.len()), (MAX_WARNINGS, MAX_WARNINGS));
        // Others in each round, and an edit now and then.
        for round in 0..5000 {
            if round % 1000 == 0 {
                told.changed();
            }
            count += usize::from(told.is_news(&format!("round {round}")));
        }
        assert_eq!(
            count,
            6 * MAX_WARNINGS,
            "after each edit there is something to tell again"
        );
        assert!(!told.is_news("round 4000"));
    }
}
