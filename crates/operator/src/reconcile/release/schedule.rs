//! When the next reconcile of a release comes, and why.

use std::time::Duration;

use tokio::time::Instant;

/// A health that only time changes is looked at again after this; it costs no request.
pub(crate) const RECHECK: Duration = Duration::from_secs(30);

/// The same for a release whose watch has failed.
pub(crate) const RECHECK_UNSEEN: Duration = Duration::from_secs(300);

/// A retry while other members are being deleted first. Their watches usually report the end sooner.
pub(crate) const POLL: Duration = Duration::from_secs(5);

/// How long a hook may take if neither it nor the watch says so: as with Helm.
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
    StatusTemplate,
    UpgradeDeadline,
}

/// What a release waits for before its first reconcile in this process.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum InitialWait {
    #[default]
    NotBegun,
    /// For its watches, at most until then.
    Watches(Instant),
    Over,
}

/// When the next reconcile of a release is due, and why.
#[derive(Debug, Default)]
pub struct Schedule {
    due: Option<(Duration, RequeueReason)>,
    pub initial_wait: InitialWait,
}

impl Schedule {
    /// Clears what was due. The reconcile that begins schedules its own waits.
    pub(crate) fn begin(&mut self) {
        self.due = None;
    }

    /// Requests a reconcile after a wait. The shortest wait counts.
    pub(crate) fn at(&mut self, wait: Duration, why: RequeueReason) {
        if self.due.is_none_or(|(due, _)| wait < due) {
            self.due = Some((wait, why));
        }
    }

    /// The shortest wait that was requested in this reconcile, and what for.
    pub(crate) fn due(&self) -> Option<(Duration, RequeueReason)> {
        self.due
    }
}
