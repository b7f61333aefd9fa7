//! Rollback: after an upgrade that failed finally, or on request, an earlier render replaces the requested one until
//! the custom resource changes. The decision is recorded before it is carried out, so that it survives a crash.

pub(crate) mod kept_renders;

use std::ops::ControlFlow::Continue;
use std::time::Duration;

use crate::reconcile::flow::Flow;
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::{RequeueReason, TIMEOUT};
use crate::reconcile::rollback::kept_renders::KeptRenders;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::StatusWriter;
use chartwright_core::annotations;
use chartwright_core::identity::GroupKind;
use chartwright_core::operation::OperationEvent;
use chartwright_core::record::history::{Fallback, Judgement, judge};
use chartwright_core::record::requests::Request;
use chartwright_core::status::conditions::whole;
use chartwright_core::status::{Phase, Reason};
use chartwright_watches::OnFailure;

/// Decides when an upgrade has failed and which revision to return to.
pub(crate) struct RollbackStage<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> RollbackStage<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        RollbackStage { scope }
    }
}

impl RollbackStage<'_, '_> {
    /// Records a request for an earlier revision, and ends the former one after an edit.
    pub(super) async fn note_rollback_request(&mut self, release: &mut Release) {
        let asks = [Request::Force, Request::Reconcile];
        if asks
            .iter()
            .any(|request| self.scope.requested(release, *request).is_some())
        {
            release.retry_upgrade();
        }
        let is_requested = self.scope.written.annotations.contains_key(annotations::ROLLBACK_TO);
        let is_over = |fallback: &Fallback| {
            fallback.failed.is_none() && (fallback.generation != self.scope.generation || !is_requested)
        };
        if release.record.fallback.as_deref().is_some_and(is_over) {
            release.end_fallback();
        }
        let Some(text) = self.scope.requested(release, Request::Rollback) else {
            return;
        };
        release.record.handled.set(Request::Rollback, &text);
        let Some(to) = annotations::rollback_to(&text) else {
            return;
        };
        let history = &release.record.history;
        if !history.get(to).is_some_and(|listed| listed.kept) {
            let kept: Vec<String> = history.kept().map(|revision| revision.to_string()).collect();
            let why = match (self.scope.unit.watch.on_failure, kept.is_empty()) {
                (OnFailure::Rollback, true) => "none is kept yet".to_owned(),
                (OnFailure::Rollback, false) => format!("these are kept: {}", kept.join(", ")),
                _ => "revisions are kept where the watch says `onFailure: rollback`".to_owned(),
            };
            let note = format!("revision {to} is not kept, so that nothing can go back to it: {why}");
            self.scope.warn("RollbackRefused", &note).await;
            return;
        }
        release.end_fallback();
        release.record.attempt = None;
        release.record.fallback = Some(Box::new(Fallback {
            generation: self.scope.generation,
            to: Some(to),
            revision: history_next(release),
            failed: None,
            why: annotations::ROLLBACK_TO.to_owned(),
        }));
    }

    /// Decides from the phase whether the upgrade has failed. Returns true if the reconcile goes on with another
    /// revision.
    pub(super) async fn begin_fallback(&mut self, release: &mut Release, phase: &Phase) -> Flow<bool> {
        if phase.is_ready() {
            KeptRenders::new(self.scope).note_healthy(release).await;
            return Continue(false);
        }
        let Some(attempt) = release.record.attempt.clone() else {
            return Continue(false);
        };
        let failures = (release.record.hooks.failures(), release.retry.backoff.failures);
        let (watch, now) = (&self.scope.unit.watch, jiff::Timestamp::now());
        let timeout = watch.timeout.unwrap_or(TIMEOUT);
        let why = match judge(phase, &attempt, watch.retries, failures, timeout, now) {
            Judgement::GoOn => {
                // Members that cannot be read may be healthy, and running hooks may still succeed.
                if !matches!(
                    phase,
                    Phase::Waiting {
                        reason: Reason::HookRunning,
                        ..
                    }
                ) {
                    release.restart_clock();
                }
                return Continue(false);
            }
            Judgement::Wait(left) => {
                release
                    .schedule
                    .at(left.max(Duration::from_millis(100)), RequeueReason::UpgradeDeadline);
                return Continue(false);
            }
            Judgement::Failed(why) => why,
        };
        let rolls_back = watch.on_failure == OnFailure::Rollback;
        let to = release
            .record
            .history
            .last_healthy(attempt.revision)
            .filter(|_| rolls_back);
        // Without a rollback target the operator retries, and members that are not ready yet may still become healthy.
        if to.is_none() && (rolls_back || matches!(phase, Phase::Waiting { .. })) {
            return Continue(false);
        }
        let chart = self.scope.chart();
        let (failed, why_shown) = (attempt.revision, release.secrets.redact(&why).into_owned());
        let history = &mut release.record.history;
        history.failed(failed, self.scope.generation, chart.as_ref(), &why_shown);
        let fallback = Fallback {
            generation: self.scope.generation,
            to,
            revision: history_next(release),
            failed: Some(attempt),
            why: why_shown,
        };
        let note = match to {
            Some(to) => format!("revision {failed} failed: {why}; going back to revision {to}"),
            None => format!("revision {failed} failed, and is not tried again: {why}"),
        };
        release.end_fallback();
        release.record.attempt = None;
        release.record.hooks.advance(OperationEvent::GivenUp);
        release.record.fallback = Some(Box::new(fallback));
        // This attempt was the forced one. A `force-at` request is carried out once.
        if let Some(text) = self.scope.requested(release, Request::Force) {
            release.record.handled.set(Request::Force, &text);
        }
        let GroupKind { group, kind } = &self.scope.unit.group_kind;
        self.scope.context.metrics.release_counters.upgrade_failed(group, kind);
        self.scope
            .warn(release.record.history.failure_reason().as_str(), &note)
            .await;
        StatusWriter::new(self.scope)
            .store_decision(release, Phase::waiting(Reason::RollingBack, note))
            .await?;
        Continue(true)
    }
}

fn history_next(release: &Release) -> i64 {
    release.record.history.next(release.record.revision)
}

impl Release {
    /// Returns to the requested revision.
    pub(super) fn end_fallback(&mut self) {
        self.record.fallback = None;
        self.record.done_for = None;
        self.render.last.inputs.clear();
    }

    /// Restarts the timeout in which an upgrade has to become healthy.
    pub(super) fn restart_clock(&mut self) {
        if let Some(attempt) = &mut self.record.attempt {
            attempt.began = whole(jiff::Timestamp::now());
        }
    }

    /// Retries an upgrade that was given up.
    pub(super) fn retry_upgrade(&mut self) {
        let fallback = self.record.fallback.as_ref();
        if let Some(failed) = fallback.and_then(|fallback| fallback.failed.clone()) {
            self.end_fallback();
            // The members may be applied: then nothing else shows that the upgrade is in progress.
            self.record.attempt = Some(failed);
            self.restart_clock();
            let recorded = self.record.revision;
            self.record.hooks.advance(OperationEvent::RetryRequested { recorded });
        }
    }
}
