//! Members whose corrections another client reverts each time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use chartwright_core::drift::correction_backoff::Contest;
use chartwright_core::identity::ObjectId;
use chartwright_core::status::conditions::short_list;

/// Corrections of members that another client reverted.
#[derive(Debug, Default)]
pub struct DriftContests {
    corrections: BTreeMap<ObjectId, Contest>,
}

impl DriftContests {
    /// Removes contests that are over.
    pub(super) fn begin(&mut self) {
        let now = Timestamp::now();
        self.corrections.retain(|_, contest| !contest.is_over(now));
    }

    pub(super) fn forget(&mut self) {
        self.corrections.clear();
    }

    /// Records a correction of a member, and how it was made. True if it is a contest from now on.
    pub fn corrected(&mut self, id: &ObjectId, how: &str) -> bool {
        let contest = self.corrections.entry(id.clone()).or_default();
        let before = contest.is_contested();
        contest.corrected(Timestamp::now());
        let begins = !before && contest.is_contested();
        if begins {
            how.clone_into(&mut contest.about);
        }
        begins
    }

    /// How long the correction of a member has to wait because another client reverts it each time. `None`: not at all.
    pub(super) fn wait(&self, id: &ObjectId) -> Option<Duration> {
        let contest = self.corrections.get(id)?;
        Some(contest.wait(Timestamp::now())).filter(|wait| !wait.is_zero())
    }

    /// True if another client reverts the corrections of this member.
    pub fn is_contested(&self, id: &ObjectId) -> bool {
        self.corrections.get(id).is_some_and(Contest::is_contested)
    }

    /// The contested members, in words that stay the same while the contest lasts.
    pub fn message(&self) -> Option<String> {
        let contested = self.corrections.iter().filter(|(_, contest)| contest.is_contested());
        let mut texts: Vec<String> = contested
            .map(|(id, contest)| format!("{id}: {}", contest.about))
            .collect();
        texts.sort();
        let end = "; it is corrected at growing intervals, at most every 5m";
        (!texts.is_empty()).then(|| short_list(texts) + end)
    }

    /// When the first contest may be over.
    pub fn next_end(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let contested = self.corrections.values().filter(|contest| contest.is_contested());
        contested.map(|contest| contest.rest(now)).min()
    }
}
