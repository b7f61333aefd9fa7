//! Members that somebody corrects back each time.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use chartwright_core::drift::correction_backoff::Contest;
use chartwright_core::identity::ObjectId;
use chartwright_core::status::conditions::short_list;

/// Corrections of members, and what has to wait.
#[derive(Debug, Default)]
pub struct DriftContests {
    corrections: HashMap<ObjectId, Contest>,
    /// When the first of what has to wait is due.
    due: Option<Duration>,
}

impl DriftContests {
    /// A reconcile begins: what is over is forgotten, and nothing waits yet.
    pub(super) fn begin(&mut self) {
        let now = Timestamp::now();
        self.corrections.retain(|_, contest| !contest.is_over(now));
        self.due = None;
    }

    pub(super) fn forget(&mut self) {
        self.corrections.clear();
    }

    /// Takes note of a correction: how a member was put right. True if it is a contest from now on.
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

    /// True if a correction has to wait, since somebody corrects it back each time.
    pub fn must_wait(&mut self, id: &ObjectId) -> bool {
        let contest = self.corrections.get(id);
        let wait = contest
            .map(|contest| contest.wait(Timestamp::now()))
            .unwrap_or_default();
        if wait.is_zero() {
            return false;
        }
        self.wait_for(wait);
        true
    }

    /// Something has to wait for so long; what is due first counts.
    pub fn wait_for(&mut self, wait: Duration) {
        self.due = Some(self.due.map_or(wait, |due| due.min(wait)));
    }

    /// True if somebody fights over this member.
    pub fn is_contested(&self, id: &ObjectId) -> bool {
        self.corrections.get(id).is_some_and(Contest::is_contested)
    }

    /// The members that somebody fights over, in words that stay the same while it lasts.
    pub fn message(&self) -> Option<String> {
        let contested = self.corrections.iter().filter(|(_, contest)| contest.is_contested());
        let mut texts: Vec<String> = contested
            .map(|(id, contest)| format!("{id}: {}", contest.about))
            .collect();
        texts.sort();
        let end = "; it is put right at growing intervals, at most every 5m";
        (!texts.is_empty()).then(|| short_list(texts) + end)
    }

    /// When a contest may be over, or what waits is due.
    pub fn next_look(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let contested = self.corrections.values().filter(|contest| contest.is_contested());
        let rest = contested.map(|contest| contest.rest(now)).min();
        // A little late, so that it is over when it is looked at.
        let late = Duration::from_millis(100);
        rest.into_iter().chain(self.due).min().map(|wait| wait + late)
    }
}
