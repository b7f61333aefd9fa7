//! The revisions of a release, and the rollback after a failed upgrade: which revision runs instead, and for how long.
//! Facts: Helm's `--atomic` and `--history-max`, Flux's `remediation`.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::status::conditions::whole;
use crate::status::phase::{Phase, Reason};
use crate::status::release_chart::ReleaseChart;
use chartwright_watches::OnFailure;

/// So many revisions are listed, as Helm keeps by default.
const LISTED: usize = 10;
/// The renders of so many revisions that were healthy are kept, the one that runs among them.
const KEPT: usize = 5;
/// Why a revision failed, in the status, in bytes.
const WHY_BYTES: usize = 512;

/// One revision, as `chartwright history` lists it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Revision {
    /// Number of the revision.
    pub revision: i64,
    /// Generation of the CR.
    pub generation: i64,
    /// Name of the chart.
    pub chart: String,
    /// Version of the chart.
    pub version: String,
    /// `appVersion` of the chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// When all of it was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployed: Option<Timestamp>,
    /// All members were ready at the same time, and the hooks were over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub healthy: bool,
    /// Why the revision failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failed: String,
    /// The revision that this one repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<i64>,
    /// A Secret holds the render: you can roll back to this revision.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// `status.history`, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct History(Vec<Revision>);

/// An upgrade from its first write until it is healthy: `status.release.attempt`. Only kept where a failure has
/// consequences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradeAttempt {
    /// Revision of the upgrade.
    pub revision: i64,
    /// Digest of its inputs, without values.
    pub inputs: String,
    /// Digest of its values.
    pub values: String,
    /// When the upgrade started.
    pub began: Timestamp,
}

/// The revision that runs instead of the one that the custom resource specifies: `status.release.fallback`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// Generation of the CR when an earlier revision, or a stop, was decided.
    pub generation: i64,
    /// The revision that runs again. Absent: the failed upgrade is left as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<i64>,
    /// Number of the revision that this makes.
    #[serde(default)]
    pub revision: i64,
    /// The upgrade that failed. Absent: a user requested the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Box<UpgradeAttempt>>,
    /// Reason, for people.
    pub why: String,
}

/// What is to be done about the phase that an upgrade is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing: it is under way, or it is tried again.
    GoOn,
    /// It has this long to become healthy.
    Wait(Duration),
    /// It has failed for good.
    Failed(String),
}
impl History {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Revision> {
        self.0.iter()
    }

    pub fn get(&self, revision: i64) -> Option<&Revision> {
        self.0.iter().find(|listed| listed.revision == revision)
    }

    fn get_mut(&mut self, revision: i64) -> Option<&mut Revision> {
        self.0.iter_mut().find(|listed| listed.revision == revision)
    }

    /// The number of the next revision, after one that is recorded. A status that another client wrote may have the highest one.
    pub fn next(&self, recorded: i64) -> i64 {
        let last = self.0.last().map(|last| last.revision).unwrap_or_default();
        last.max(recorded).saturating_add(1)
    }

    /// All of a revision is applied, for the first time or again.
    pub fn deployed(&mut self, revision: i64, generation: i64, chart: Option<&ReleaseChart>, now: Timestamp) {
        let new = Revision {
            deployed: Some(whole(now)),
            ..Revision::of(revision, generation, chart)
        };
        match self.get_mut(revision) {
            Some(listed) if listed.failed.is_empty() && listed.deployed.is_some() => {}
            // It was given up, and is there after all.
            Some(listed) => *listed = new,
            None => self.list(new),
        }
    }

    /// A revision was given up.
    pub fn failed(&mut self, revision: i64, generation: i64, chart: Option<&ReleaseChart>, why: &str) {
        if self.get(revision).is_none() {
            self.list(Revision::of(revision, generation, chart));
        }
        if let Some(listed) = self.get_mut(revision) {
            listed.failed = chartwright_watches::text::cut(why, WHY_BYTES);
        }
    }

    /// A revision is made of an earlier one, whose chart it has.
    pub fn goes_back(&mut self, revision: i64, to: i64) {
        let Some(goal) = self.get(to).cloned() else { return };
        if let Some(listed) = self.get_mut(revision) {
            *listed = Revision {
                revision,
                deployed: listed.deployed,
                healthy: listed.healthy,
                kept: listed.kept,
                failed: String::new(),
                rollback_to: Some(to),
                ..goal
            };
        }
    }

    /// Why a revision that failed stops the release: an upgrade, or an installation if no revision was ever healthy.
    pub fn failure_reason(&self) -> Reason {
        if self.0.iter().any(|listed| listed.healthy) {
            Reason::UpgradeFailed
        } else {
            Reason::InstallFailed
        }
    }

    /// The release of this revision is well. True if it is so for the first time.
    pub fn is_healthy_now(&mut self, revision: i64) -> bool {
        let listed = self.get_mut(revision);
        listed.is_some_and(|listed| !std::mem::replace(&mut listed.healthy, true))
    }

    pub fn set_kept(&mut self, revision: i64, kept: bool) {
        if let Some(listed) = self.get_mut(revision) {
            listed.kept = kept;
        }
    }

    /// Revisions whose renders are kept.
    pub fn kept(&self) -> impl Iterator<Item = i64> {
        self.0.iter().filter(|listed| listed.kept).map(|listed| listed.revision)
    }

    /// Revisions that are no longer rollback targets: all failed ones, and the oldest. `running`: the release's revision,
    /// which may be based on another one, the `goal`.
    pub fn surplus(&self, running: i64, goal: Option<i64>) -> Vec<i64> {
        let good = self.0.iter().rev().filter(|listed| listed.healthy && listed.kept);
        let good: Vec<i64> = good.take(KEPT).map(|listed| listed.revision).collect();
        self.kept()
            .filter(|revision| *revision != running && goal != Some(*revision) && !good.contains(revision))
            .collect()
    }

    /// The last revision before one that was healthy and can be gone back to.
    pub fn last_healthy(&self, before: i64) -> Option<i64> {
        let mut earlier = self.0.iter().rev().filter(|listed| listed.revision < before);
        let found = earlier.find(|listed| listed.healthy && listed.kept)?;
        Some(found.revision)
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }

    fn list(&mut self, revision: Revision) {
        // Most releases have one revision for a long time.
        self.0.reserve_exact(1);
        self.0.push(revision);
        let mut surplus = self.0.len().saturating_sub(LISTED);
        self.0.retain(|listed| {
            let goes = surplus > 0 && !listed.kept;
            surplus -= usize::from(goes);
            !goes
        });
    }
}
impl Revision {
    fn of(revision: i64, generation: i64, chart: Option<&ReleaseChart>) -> Self {
        let chart = chart.cloned().unwrap_or_default();
        Revision {
            revision,
            generation,
            chart: chart.name,
            version: chart.version,
            app_version: chart.app_version,
            ..Revision::default()
        }
    }

    pub fn chart(&self) -> ReleaseChart {
        ReleaseChart {
            name: self.chart.clone(),
            version: self.version.clone(),
            app_version: self.app_version.clone(),
        }
    }

    /// As `helm history` says it. `running`: what the release is of.
    pub fn state(&self, running: i64) -> &'static str {
        match () {
            () if !self.failed.is_empty() => "failed",
            () if self.revision != running => "superseded",
            () if self.healthy => "deployed",
            () => "pending",
        }
    }
}
impl Fallback {
    /// True if it is for what is rendered from these digests.
    pub fn is_for(&self, generation: i64, inputs: &str, values: &str) -> bool {
        match &self.failed {
            Some(failed) => failed.inputs == inputs && failed.values == values,
            None => self.generation == generation,
        }
    }

    /// What the status says while it lasts. `running`: the generation that runs.
    pub fn message(&self, running: Option<i64>) -> String {
        let runs = match (self.to, running) {
            (Some(to), Some(generation)) => {
                format!(
                    "revision {to}, of generation {generation}, runs as revision {}",
                    self.revision
                )
            }
            (Some(to), None) => format!("revision {to} runs as revision {}", self.revision),
            (None, _) => "it is not tried again".to_owned(),
        };
        match &self.failed {
            Some(failed) => format!(
                "revision {}, of generation {}, failed: {}; {runs}, until the custom resource, its values or the chart change",
                failed.revision, self.generation, self.why
            ),
            None => format!(
                "{runs}, as {} requests, until the spec changes: generation {} is not carried out",
                self.why, self.generation
            ),
        }
    }
}

/// Whether an upgrade has failed for good. `failures`: of its hooks, and of all that the release tried in a row, this one
/// not counted.
pub fn judge(
    phase: &Phase,
    attempt: &UpgradeAttempt,
    retries: usize,
    failures: (u32, u32),
    timeout: Duration,
    now: Timestamp,
) -> Judgement {
    let (of_hooks, in_a_row) = (failures.0 as usize, failures.1 as usize);
    let failed = |reason: Reason, message: &str| Judgement::Failed(format!("{}: {message}", reason.as_str()));
    match phase {
        Phase::Failed {
            reason: reason @ Reason::HookFailed,
            message,
            ..
        } if of_hooks > retries => failed(*reason, message),
        Phase::Failed {
            reason: reason @ Reason::Denied,
            message,
            ..
        } if in_a_row >= retries => failed(*reason, message),
        // No retry makes these another object.
        Phase::Stalled {
            reason: reason @ (Reason::ObjectInvalid | Reason::Immutable | Reason::Collision),
            message,
            ..
        }
        | Phase::Waiting {
            reason: reason @ Reason::MemberFailed,
            message,
        } => failed(*reason, message),
        // A hook has a time of its own, and what can't be seen may be well.
        Phase::Waiting {
            reason: Reason::HookRunning | Reason::WatchFailed | Reason::Uninstalling,
            ..
        } => Judgement::GoOn,
        Phase::Waiting { message, .. } => {
            let deadline = attempt.began + timeout;
            match Duration::try_from(deadline - now) {
                Ok(left) if !left.is_zero() => Judgement::Wait(left),
                _ => Judgement::Failed(format!("not healthy within {timeout:?}: {message}")),
            }
        }
        _ => Judgement::GoOn,
    }
}

/// True if a watch wants to know how an upgrade goes.
pub fn is_watched(policy: OnFailure) -> bool {
    policy != OnFailure::Retry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn history(revisions: &[(i64, bool, bool)]) -> History {
        let mut history = History::default();
        for (revision, healthy, kept) in revisions {
            history.deployed(*revision, *revision, None, NOW);
            history.set_kept(*revision, *kept);
            if *healthy {
                history.is_healthy_now(*revision);
            }
        }
        history
    }

    #[test]
    fn a_release_goes_back_to_what_was_healthy_and_is_kept() {
        let found = history(&[(1, true, true), (2, true, false), (3, false, true), (4, false, true)]);
        assert_eq!((found.last_healthy(4), found.last_healthy(1)), (Some(1), None));
        assert_eq!(found.next(4), 5);
        assert_eq!(found.next(7), 8, "a record may know more");
    }

    #[test]
    fn what_nobody_goes_back_to_is_not_kept() {
        let all: Vec<_> = (1..9).map(|revision| (revision, revision != 7, true)).collect();
        let mut found = history(&all);
        assert_eq!(found.surplus(8, None), [1, 2, 7], "the oldest, and what failed");
        assert_eq!(found.surplus(8, Some(1)), [2, 7], "one is gone back to");
        for revision in found.surplus(8, None) {
            found.set_kept(revision, false);
        }
        assert!(found.surplus(8, None).is_empty());
        for revision in 9..30 {
            found.deployed(revision, 1, None, NOW);
        }
        let listed: Vec<i64> = found.iter().map(|listed| listed.revision).collect();
        assert_eq!(listed, [3, 4, 5, 6, 8, 25, 26, 27, 28, 29], "what is kept is listed");
    }

    #[test]
    fn a_rollback_has_the_chart_of_its_goal() {
        let mut found = history(&[(1, true, true), (2, false, true)]);
        found.failed(3, 9, None, &"x".repeat(2 * WHY_BYTES));
        found.deployed(4, 9, None, NOW);
        found.goes_back(4, 1);
        let listed = found.get(4).unwrap();
        assert_eq!(
            (listed.generation, listed.rollback_to, listed.healthy),
            (1, Some(1), false)
        );
        let states: Vec<_> = found.iter().map(|listed| listed.state(4)).collect();
        assert_eq!(states, ["superseded", "superseded", "failed", "pending"]);
        assert!(found.is_healthy_now(4) && !found.is_healthy_now(4) && !found.is_healthy_now(5));
        assert!(found.get(3).unwrap().failed.len() <= WHY_BYTES);
    }

    #[test]
    fn an_upgrade_fails_for_good_after_its_retries_or_its_time() {
        let attempt = UpgradeAttempt {
            revision: 2,
            inputs: "i".into(),
            values: "v".into(),
            began: NOW,
        };
        type Row = (Phase, (u32, u32), i64, String);
        for (phase, failures, seconds, expected) in table::<Row>("history", "judgements") {
            let now = NOW + Duration::from_secs(seconds.unsigned_abs());
            let found = judge(&phase, &attempt, 1, failures, Duration::from_secs(300), now);
            assert_eq!(format!("{found:?}"), expected, "{phase:?} {failures:?} {seconds}");
        }
    }
}
