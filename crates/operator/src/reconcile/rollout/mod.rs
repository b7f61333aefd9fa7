//! The rollout of a new chart to the releases of a watch. `chartwright_core::rollout` decides.

pub(crate) mod gate;

use std::time::Duration;

use jiff::Timestamp;

use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::{RequeueReason, TIMEOUT};
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::unit::Unit;
use chartwright_core::record::Record;
use chartwright_core::record::requests::Request;
use chartwright_core::rollout::{
    Found, ReconcileEnd, ReleaseRollout, RolloutState, RolloutTurn, SHOWN_AFTER, concerns,
};
use chartwright_core::status::{Phase, Reason, conditions};

/// The deadline of a release is not checked more often.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// Before the first reconcile: what the record says of a rollout that another process began.
pub(crate) fn resume(unit: &Unit, resource: &CustomResource, record: &Record) {
    // Whether it still waits, its first reconcile finds out.
    let part = record
        .rollout
        .as_ref()
        .filter(|part| part.state != RolloutState::Waiting);
    if part.is_some() {
        unit.rollout.set(&resource.key, part);
    }
}

/// Decides whether a release has to wait for the rollout of a new chart.
pub(crate) struct RolloutStage<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> RolloutStage<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        RolloutStage { scope }
    }
}

impl RolloutStage<'_, '_> {
    /// Lets the release begin with a new chart, or notes in the scope that it waits. `inputs`: those of the next render.
    pub(crate) fn await_turn(&mut self, release: &mut Release, inputs: &str, now: Timestamp) {
        let (unit, key) = (self.scope.unit, &self.scope.written.key);
        let record = &release.record;
        let (part, done_for) = (record.rollout.as_ref(), record.done_for.as_deref());
        if !concerns(part, done_for, inputs) {
            return;
        }
        let found = Found {
            part,
            done_for,
            inputs,
            is_installed: !record.is_new(),
            was_ready: self.was_ready(),
            is_urgent: self.is_urgent(release, now),
        };
        match found.turn(now) {
            RolloutTurn::UpToDate => {
                if release.record.rollout.take().is_some() {
                    unit.rollout.set(key, None);
                }
            }
            RolloutTurn::Now(part) => {
                unit.rollout.set(key, Some(&part));
                release.record.rollout = Some(part);
            }
            RolloutTurn::Queued(part) if unit.rollout.admit(key) => release.record.rollout = Some(part),
            RolloutTurn::Queued(part) => {
                self.scope.waits_for_rollout = true;
                self.note_wait(release, part, now);
            }
        }
    }

    /// The status says of a wait that lasts.
    fn note_wait(&self, release: &mut Release, part: ReleaseRollout, now: Timestamp) {
        let noted = release.record.rollout.as_ref();
        if noted.is_some_and(|noted| noted.state == RolloutState::Waiting && noted.inputs == part.inputs) {
            return;
        }
        let since = *release.schedule.rollout_wait.get_or_insert(now);
        let left = SHOWN_AFTER.saturating_sub(now.duration_since(since).unsigned_abs());
        if left.is_zero() {
            release.record.rollout = Some(ReleaseRollout {
                state: RolloutState::Waiting,
                since,
                ..part
            });
        } else {
            release.schedule.at(left, RequeueReason::Rollout);
        }
    }

    fn was_ready(&self) -> bool {
        let conditions = conditions::of(self.scope.written_status());
        conditions::get(&conditions, "Ready").is_some_and(|ready| ready.status == "True")
    }

    /// What is reconciled without waiting: a request, a certificate that expires, an operation that is under way.
    fn is_urgent(&self, release: &Release, now: Timestamp) -> bool {
        let record = &release.record;
        let requests = [
            Request::Reconcile,
            Request::Force,
            Request::Regenerate,
            Request::Rollback,
            Request::Reset,
        ];
        requests
            .iter()
            .any(|request| self.scope.requested(release, *request).is_some())
            || record.renewal.is_some_and(|due| due <= now)
            || record.hooks.is_open()
            || record.upgrading
            || self.scope.takeover.is_under_way()
    }

    /// Notes how the reconcile ended.
    pub(crate) fn note_end(&mut self, release: &mut Release, phase: &Phase, now: Timestamp) {
        let key = &self.scope.written.key;
        if self.scope.waits_for_rollout {
            return;
        }
        release.schedule.rollout_wait = None;
        let Some(part) = release.record.rollout.take() else {
            // A suspended release waits no longer.
            return self.scope.unit.rollout.forget(key);
        };
        let ended = match phase {
            _ if release
                .record
                .fallback
                .as_ref()
                .is_some_and(|fallback| fallback.failed.is_some()) =>
            {
                ReconcileEnd::Failed
            }
            Phase::Ready => ReconcileEnd::Ready,
            Phase::Failed { .. } | Phase::Stalled { .. } => ReconcileEnd::Failed,
            // Its part is kept for the time when it is resumed.
            Phase::Suspended => {
                release.record.rollout = Some(part);
                return self.scope.unit.rollout.forget(key);
            }
            Phase::Waiting { reason, .. } => match reason {
                Reason::Progressing | Reason::MemberFailed | Reason::Terminating => ReconcileEnd::NotReady,
                _ => ReconcileEnd::Unfinished,
            },
        };
        let timeout = self.scope.unit.watch.timeout.unwrap_or(TIMEOUT);
        let part = part.after(ended, timeout, now);
        let is_in_flight = |part: &&ReleaseRollout| part.state == RolloutState::InFlight;
        if let (ReconcileEnd::NotReady, Some(part)) = (ended, part.as_ref().filter(is_in_flight)) {
            let left = part.left(timeout, now);
            release.schedule.at(left.max(SHORTEST_WAIT), RequeueReason::Rollout);
        }
        release.record.rollout = part;
        self.scope.unit.rollout.set(key, release.record.rollout.as_ref());
    }
}
