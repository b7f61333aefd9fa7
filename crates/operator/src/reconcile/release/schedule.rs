//! When the next reconcile of a release comes, and why.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A health that changes with time alone is judged again after this. This needs no request.
pub(crate) const RECHECK: Duration = Duration::from_secs(30);

/// A release whose watch has failed is reconciled again after this.
pub(crate) const RECHECK_UNSEEN: Duration = Duration::from_secs(300);

/// A reconcile that waits for the deletion of other members is retried after this. Their watches usually report it
/// sooner.
pub(crate) const POLL: Duration = Duration::from_secs(5);

/// The default timeout of hooks, as in Helm.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);

/// Why a release is reconciled again although no watch event came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequeueReason {
    /// Another client reverts corrections of a member: the next correction waits.
    DriftContest,
    Election,
    /// Conditions or templates have used up their time for now.
    EvaluationBudget,
    /// Members that only another answer of a lookup removed are pruned later.
    HeldPrune,
    HookRetry,
    HookStep,
    Leftovers,
    MembersUnread,
    PlanSchedule,
    PlanStart,
    PlanStep,
    /// A plan waits for an upgrade that is under way.
    PlanTurn,
    PodsUnread,
    Remediation,
    /// The status says of a release that waits for a rollout.
    Rollout,
    StatusTemplate,
    UpgradeDeadline,
}

/// What a release waits for before its first reconcile in this process.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum InitialWait {
    #[default]
    NotBegun,
    /// Waits for its watches, at most until this time.
    Watches(Instant),
    Over,
}

/// When the next reconcile of a release is due, and why.
#[derive(Debug, Default)]
pub struct Schedule {
    due: Option<(Duration, RequeueReason)>,
    pub initial_wait: InitialWait,
    /// Since when the release waits for the rollout of a new chart.
    pub rollout_wait: Option<Timestamp>,
}

impl Schedule {
    /// Clears the schedule. Each reconcile schedules its own waits.
    pub(crate) fn begin(&mut self) {
        self.due = None;
    }

    /// Requests a reconcile after a wait. The shortest wait counts.
    pub(crate) fn at(&mut self, wait: Duration, why: RequeueReason) {
        if self.due.is_none_or(|(due, _)| wait < due) {
            self.due = Some((wait, why));
        }
    }

    /// Returns the shortest wait of this reconcile and its reason.
    pub(crate) fn due(&self) -> Option<(Duration, RequeueReason)> {
        self.due
    }
}
