//! The rollout of a new chart, a changed watch or a new engine to the releases of a watch: so many at a time, and no further when too
//! many fail.
//!
//! | state of a release | event | next |
//! |---|---|---|
//! | up to date | its chart, watch or engine changes | `Waiting` |
//! | up to date | the same, and it was not complete before | `InFlight` |
//! | `Waiting` | [`Rollout::admit`] finds room | `InFlight` |
//! | `Waiting` | its author edits it or requests a reconcile | `InFlight`, does not count |
//! | `InFlight` | it is ready | up to date |
//! | `InFlight` | it fails, or is not ready in time | `Failed` |
//! | `InFlight`, `Failed` | its author edits it | the same, does not count |
//! | `InFlight`, `Failed` | the chart changes again | the same, tried immediately |
//! | `Failed` | it is ready | up to date |
//! | any | it is deleted or suspended | not part of the rollout |
//!
//! The record of each release holds its part ([`ReleaseRollout`]), so that the rollout goes on after a restart. A release that was not ready
//! before the change, or that its author edited since, does not count as failed.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::prune::intent;
use chartwright_watches::RolloutLimits;

/// A release that waits for this long says so in its status. Most rollouts are over sooner.
pub const SHOWN_AFTER: Duration = Duration::from_secs(10);

/// Where a release stands in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum RolloutState {
    Waiting,
    InFlight,
    Failed,
}

/// The part of a release in a rollout: `status.release.rollout`. Absent: the release is up to date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRollout {
    /// `Waiting`, `InFlight` or `Failed`.
    pub state: RolloutState,
    /// Time of this state.
    pub since: Timestamp,
    /// As `inputs` of the release, for the new chart.
    pub inputs: String,
    /// The release was ready before the rollout, and its author has not changed it since: a failure counts.
    #[serde(default)]
    pub counts: bool,
}

/// What is known of a release at the beginning of a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The recorded part.
    pub part: Option<&'a ReleaseRollout>,
    /// The recorded inputs for which nothing is left to do. `None`: the release is not complete.
    pub done_for: Option<&'a str>,
    /// The inputs of the next render.
    pub inputs: &'a str,
    /// The release exists.
    pub is_installed: bool,
    /// The release was ready at the end of the last reconcile.
    pub was_ready: bool,
    /// A request of the author, a due renewal or an open hook: it is reconciled now.
    pub is_urgent: bool,
}

/// What the rollout means for a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutTurn {
    /// No part of the rollout.
    UpToDate,
    /// It is reconciled now, with this part.
    Now(ReleaseRollout),
    /// It waits until [`Rollout::admit`] finds room, and then has this part.
    Queued(ReleaseRollout),
}

/// False for a release that is up to date and no part of a rollout: most reconciles are of such releases, and need no other facts.
pub fn concerns(part: Option<&ReleaseRollout>, done_for: Option<&str>, inputs: &str) -> bool {
    let since_done = done_for.and_then(|before| intent::changed(before, inputs));
    part.is_some() || since_done.is_some_and(|changed| changed.given)
}

impl Found<'_> {
    /// Decides whether a release is part of the rollout, and whether it has to wait.
    pub fn turn(&self, now: Timestamp) -> RolloutTurn {
        let changed = |before: &str| intent::changed(before, self.inputs);
        let part = self.part.filter(|part| part.state != RolloutState::Waiting);
        let since_done = self.done_for.and_then(changed);
        if let Some(part) = part {
            let since_begun = changed(&part.inputs);
            let is_edited = since_begun.is_none_or(|changed| changed.requested);
            // What the render asks of the cluster is known only after it, so the inputs of a complete release may differ.
            let is_new_chart =
                since_begun.is_none_or(|changed| changed.given) && since_done.is_none_or(|changed| changed.given);
            return RolloutTurn::Now(ReleaseRollout {
                state: part.state,
                since: if is_new_chart { now } else { part.since },
                inputs: self.inputs.to_owned(),
                counts: part.counts && !is_edited,
            });
        }
        let begun = |counts: bool| ReleaseRollout {
            state: RolloutState::InFlight,
            since: now,
            inputs: self.inputs.to_owned(),
            counts,
        };
        match since_done {
            _ if !self.is_installed => RolloutTurn::UpToDate,
            // An incomplete release is reconciled in any case. Whether its chart changed is not known.
            None => RolloutTurn::UpToDate,
            Some(changed) if !changed.given => RolloutTurn::UpToDate,
            Some(changed) if changed.requested || self.is_urgent => RolloutTurn::Now(begun(false)),
            Some(_) => RolloutTurn::Queued(begun(self.was_ready)),
        }
    }
}

/// How a reconcile ended, for the rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileEnd {
    Ready,
    /// It is under way.
    Unfinished,
    /// Its members are not ready yet. They have a limit.
    NotReady,
    Failed,
}

impl ReleaseRollout {
    /// The part after a reconcile. `None`: up to date.
    #[must_use]
    pub fn after(self, ended: ReconcileEnd, timeout: Duration, now: Timestamp) -> Option<Self> {
        let failed = match ended {
            ReconcileEnd::Ready => return None,
            ReconcileEnd::Failed => true,
            ReconcileEnd::NotReady => self.left(timeout, now).is_zero(),
            ReconcileEnd::Unfinished => false,
        };
        if failed && self.state != RolloutState::Failed {
            return Some(ReleaseRollout {
                state: RolloutState::Failed,
                since: now,
                ..self
            });
        }
        Some(self)
    }

    /// The time that is left for the release to become ready.
    pub fn left(&self, timeout: Duration, now: Timestamp) -> Duration {
        let passed = now.duration_since(self.since).unsigned_abs();
        timeout.saturating_sub(passed)
    }
}

/// The releases of a watch that are not up to date, by their keys.
#[derive(Debug)]
pub struct Rollout<K> {
    limits: RolloutLimits,
    waiting: BTreeSet<K>,
    in_flight: BTreeSet<K>,
    /// Those whose failure does not count are not in it.
    failed: BTreeSet<K>,
}

/// Numbers of releases by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutCounts {
    pub waiting: usize,
    pub in_flight: usize,
    pub failed: usize,
    /// So many releases have failed that no other one begins.
    pub is_stopped: bool,
}

impl<K: Ord + Clone> Rollout<K> {
    pub fn new(limits: RolloutLimits) -> Self {
        Rollout {
            limits,
            waiting: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            failed: BTreeSet::new(),
        }
    }

    /// Notes where a release stands. `None`: up to date, or gone. Returns true if that is news.
    pub fn set(&mut self, key: &K, part: Option<&ReleaseRollout>) -> bool {
        // A failure that does not count is in no set.
        let state = part.filter(|part| part.counts || part.state != RolloutState::Failed);
        let state = state.map(|part| part.state);
        let mut is_news = false;
        for (set, of) in [
            (&mut self.waiting, RolloutState::Waiting),
            (&mut self.in_flight, RolloutState::InFlight),
            (&mut self.failed, RolloutState::Failed),
        ] {
            is_news |= if state == Some(of) {
                set.insert(key.clone())
            } else {
                set.remove(key)
            };
        }
        is_news
    }

    /// Lets a queued release begin if there is room. Otherwise it waits.
    pub fn admit(&mut self, key: &K) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            self.waiting.remove(key);
            self.in_flight.insert(key.clone());
        } else {
            self.waiting.insert(key.clone());
        }
        has_room
    }

    /// The number of releases that may begin now.
    fn room(&self) -> usize {
        if self.failed.len() >= self.limits.max_failed {
            return 0;
        }
        self.limits.max_in_flight.saturating_sub(self.in_flight.len())
    }

    /// Waiting releases that may begin now.
    pub fn next(&self) -> Vec<K> {
        self.waiting.iter().take(self.room()).cloned().collect()
    }

    /// Those that failed and count.
    pub fn failed(&self) -> impl Iterator<Item = &K> {
        self.failed.iter()
    }

    pub fn counts(&self) -> RolloutCounts {
        RolloutCounts {
            waiting: self.waiting.len(),
            in_flight: self.in_flight.len(),
            failed: self.failed.len(),
            is_stopped: !self.waiting.is_empty() && self.failed.len() >= self.limits.max_failed,
        }
    }
}

#[cfg(test)]
mod tests;
