//! What becomes of an upgrade that fails for good, and of a request for an earlier revision: another render takes the
//! place of what the custom resource asks for, until that changes. The decision is written down before anything is done
//! about it, so that whoever continues does the same.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster::error::Error;
use crate::reconcile::Reconcile;
use crate::reconcile::hooks::TIMEOUT;
use crate::reconcile::record::signed_secrets::SecretPurpose;
use crate::reconcile::release::Release;
use crate::reconcile::render::{LookupAnswers, PreparedRelease, give_owners};
use crate::reconcile::status::rights;
use chartwright_core::annotations;
use chartwright_core::identity::GroupKind;
use chartwright_core::identity::reserved_names;
use chartwright_core::members::desired::{self, Desired, Rendered};
use chartwright_core::members::policy::Update;
use chartwright_core::record::history::{Attempt, Fallback, Judgement, is_watched, judge};
use chartwright_core::record::requests::Request;
use chartwright_core::status::conditions::whole;
use chartwright_core::status::{Changes, Chart, Phase, Reason};
use chartwright_watches::OnFailure;

pub(super) const RENDERS: SecretPurpose = SecretPurpose {
    prefix: reserved_names::RENDER,
    kind: "chartwright.dev/render",
    what: "the render of a revision",
    is_owned: false,
};

/// What is kept of a revision.
#[derive(Serialize, Deserialize)]
struct KeptRender {
    members: Vec<Rendered>,
    hooks: Vec<Rendered>,
    notes: Option<String>,
}

pub(super) fn suffix(revision: i64) -> String {
    format!("-{revision}")
}

impl Reconcile<'_> {
    /// Takes note of an annotation that asks for an earlier revision, and of an edit that ends such a request.
    pub(super) async fn note_rollback_request(&mut self, release: &mut Release) {
        let asks = [Request::Force, Request::Reconcile];
        if asks.iter().any(|request| self.requested(release, *request).is_some()) {
            release.retry_upgrade();
        }
        let is_asked = self.written.annotations.contains_key(annotations::ROLLBACK_TO);
        let is_over =
            |fallback: &Fallback| fallback.failed.is_none() && (fallback.generation != self.generation || !is_asked);
        if release.record.fallback.as_ref().is_some_and(is_over) {
            release.end_fallback();
        }
        let Some(text) = self.requested(release, Request::Rollback) else {
            return;
        };
        release.record.handled.set(Request::Rollback, &text);
        let Some(to) = annotations::rollback_to(&text) else {
            return;
        };
        let history = &release.record.history;
        if !history.get(to).is_some_and(|listed| listed.kept) {
            let kept: Vec<String> = history.kept().map(|revision| revision.to_string()).collect();
            let why = match (self.unit.watch.on_failure, kept.is_empty()) {
                (OnFailure::Rollback, true) => "none is kept yet".to_owned(),
                (OnFailure::Rollback, false) => format!("these are kept: {}", kept.join(", ")),
                _ => "revisions are kept where the watch says `onFailure: rollback`".to_owned(),
            };
            let note = format!("revision {to} is not kept, so that nothing can go back to it: {why}");
            self.warn("RollbackRefused", &note).await;
            return;
        }
        release.end_fallback();
        release.record.attempt = None;
        release.record.fallback = Some(Fallback {
            generation: self.generation,
            to: Some(to),
            revision: history_next(release),
            failed: None,
            why: annotations::ROLLBACK_TO.to_owned(),
        });
    }

    /// Puts the render that is gone back to in the place of the newest, as long as that is the one that failed.
    ///
    /// # Errors
    /// The phase of a release that stays as it is, or of which the render can't be read.
    pub(super) async fn apply_fallback(
        &self,
        release: &mut Release,
        prepared: &mut PreparedRelease,
    ) -> Result<(), Phase> {
        let Some(fallback) = release.record.fallback.clone() else {
            return Ok(());
        };
        if !fallback.is_for(self.generation, &prepared.inputs, &prepared.values_digest) {
            release.end_fallback();
            return Ok(());
        }
        let Some(to) = fallback.to else {
            return Err(Phase::stalled(Reason::UpgradeFailed, fallback.told(None)));
        };
        let kept = self.unseal::<KeptRender>(&RENDERS, &suffix(to)).await;
        let Some(kept) = kept.map_err(|error| self.render_storage_error(to, &error))? else {
            let lost = format!("; the render of revision {to} is lost: nothing can go back to it");
            release.record.history.set_kept(to, false);
            if fallback.failed.is_none() {
                self.warn_once(release, "RollbackRefused", lost[2..].to_owned()).await;
                release.end_fallback();
                return Ok(());
            }
            let fallback = Fallback {
                to: None,
                why: fallback.why + &lost,
                ..fallback
            };
            let told = fallback.told(None);
            release.record.fallback = Some(fallback);
            return Err(Phase::stalled(Reason::UpgradeFailed, told));
        };
        let notes = kept.notes.clone();
        let desired = self.read(release, prepared, kept);
        prepared.replace(desired, notes, to, fallback.revision, release.key(&self.context.keys));
        // The watch may permit less than it did then.
        self.check_release(release, prepared, &mut LookupAnswers::new()).await
    }

    /// The members of a render that was kept.
    fn read(&self, release: &Release, prepared: &PreparedRelease, kept: KeptRender) -> Desired {
        let snapshot = self.context.discovery.snapshot();
        let namespaced = |group_kind: &GroupKind, version: &str| snapshot.namespaced(group_kind, version);
        let (identity, key) = (&prepared.identity, release.key(&self.context.keys));
        let mut desired = desired::desired(kept.members, identity, &namespaced, key);
        desired::add_hooks(&mut desired, kept.hooks, identity, &namespaced, key);
        let hooks = desired.hooks.iter().map(|hook| &hook.member);
        self.learn(release, desired.members.iter().chain(hooks));
        give_owners(self.unit, &self.written, &mut desired);
        for member in &mut desired.members {
            // Going back forces nothing.
            if member.policy.update == Update::Recreate {
                member.policy.update = Update::InPlace;
            }
        }
        desired
    }

    /// Before the first member of an upgrade: since when it is under way, and from what.
    pub(super) fn note_attempt(&self, release: &mut Release, prepared: &PreparedRelease) {
        let record = &mut release.record;
        let is_upgrade = prepared.revision > record.revision && record.revision > 0;
        let is_known = |attempt: &&Attempt| attempt.revision == prepared.revision;
        let known = record.attempt.as_ref().filter(is_known);
        if prepared.rollback.is_some() || !is_watched(self.unit.watch.on_failure) || !(is_upgrade || known.is_some()) {
            record.attempt = None;
            return;
        }
        let is_same =
            |attempt: &&Attempt| attempt.inputs == prepared.inputs && attempt.values == prepared.values_digest;
        record.attempt = Some(Attempt {
            revision: prepared.revision,
            inputs: prepared.inputs.clone(),
            values: prepared.values_digest.clone(),
            began: known
                .filter(is_same)
                .map_or_else(|| whole(jiff::Timestamp::now()), |known| known.began),
        });
    }

    /// After all of a render is applied: it is listed, and kept where something may go back to it.
    ///
    /// # Errors
    /// The phase of a release of which it can't be kept.
    pub(super) async fn list_revision(&self, release: &mut Release, prepared: &PreparedRelease) -> Result<(), Phase> {
        let (revision, chart) = (prepared.revision, self.chart());
        let history = &mut release.record.history;
        history.deployed(revision, self.generation, chart.as_ref(), jiff::Timestamp::now());
        if let Some(to) = prepared.rollback {
            history.goes_back(revision, to);
        }
        let is_kept = history.get(revision).is_some_and(|listed| listed.kept);
        if self.unit.watch.on_failure != OnFailure::Rollback {
            return self.forget_renders(release).await;
        }
        if is_kept {
            return Ok(());
        }
        let render = KeptRender {
            members: prepared
                .desired
                .members
                .iter()
                .map(|member| member.rendered())
                .collect(),
            hooks: prepared
                .desired
                .hooks
                .iter()
                .map(|hook| hook.member.rendered())
                .collect(),
            notes: prepared.notes.clone(),
        };
        match self.seal(&RENDERS, &suffix(revision), &render).await {
            Ok(()) => {
                release.record.history.set_kept(revision, true);
                Ok(())
            }
            Err(error @ (Error::Invalid(_) | Error::TooLarge(_))) => {
                let note = format!("revision {revision} can't be gone back to: {error}");
                self.warn_once(release, "NotKept", note).await;
                Ok(())
            }
            Err(error) => Err(self.render_storage_error(revision, &error)),
        }
    }

    fn render_storage_error(&self, revision: i64, error: &Error) -> Phase {
        let place = self.sealed_place(&RENDERS, &suffix(revision));
        let hint = rights(
            error,
            "a watch with `onFailure: rollback` needs the rights to get, create, patch and delete Secrets there",
        );
        Phase::failed(Reason::Record, format!("{place}, which keeps a render: {error}{hint}"))
    }

    /// Removes all renders that are kept of a release.
    ///
    /// # Errors
    /// The phase of a release of which they can't be removed.
    pub(super) async fn forget_renders(&self, release: &mut Release) -> Result<(), Phase> {
        let record = &release.record;
        let mut kept: Vec<i64> = record.history.kept().collect();
        // What was kept in the moment in which an operator ended is listed nowhere.
        let attempt = record.attempt.as_ref().map(|attempt| attempt.revision);
        kept.extend(attempt.filter(|revision| !kept.contains(revision)));
        self.forget(release, &kept).await
    }

    async fn forget(&self, release: &mut Release, revisions: &[i64]) -> Result<(), Phase> {
        for revision in revisions {
            let removed = self.remove_sealed(&RENDERS, &suffix(*revision)).await;
            removed.map_err(|error| self.render_storage_error(*revision, &error))?;
            release.record.history.set_kept(*revision, false);
        }
        Ok(())
    }

    /// Decides about the phase that a release is in: true if it is to go on with something else, at once.
    ///
    /// # Errors
    /// The phase of a release of which that can't be written down.
    pub(super) async fn begin_fallback(&mut self, release: &mut Release, phase: &Phase) -> Result<bool, Phase> {
        if phase.is_ready() {
            self.note_healthy(release).await;
            return Ok(false);
        }
        let Some(attempt) = release.record.attempt.clone() else {
            return Ok(false);
        };
        let failures = (release.record.hooks.failures, release.backoff.failures);
        let (watch, now) = (&self.unit.watch, jiff::Timestamp::now());
        let timeout = watch.timeout.unwrap_or(TIMEOUT);
        let why = match judge(phase, &attempt, watch.retries, failures, timeout, now) {
            Judgement::GoOn => {
                // What can't be seen may be well; hooks, when they end, do the same.
                if !matches!(
                    phase,
                    Phase::Waiting {
                        reason: Reason::HookRunning,
                        ..
                    }
                ) {
                    release.restart_clock();
                }
                return Ok(false);
            }
            Judgement::Wait(left) => {
                release.contests.wait_for(left.max(Duration::from_millis(100)));
                return Ok(false);
            }
            Judgement::Failed(why) => why,
        };
        let rolls_back = watch.on_failure == OnFailure::Rollback;
        let to = release
            .record
            .history
            .last_healthy(attempt.revision)
            .filter(|_| rolls_back);
        // Without a way back it is tried again, and what may yet become healthy is left to.
        if to.is_none() && (rolls_back || matches!(phase, Phase::Waiting { .. })) {
            return Ok(false);
        }
        let chart = self.chart();
        let (failed, why_shown) = (attempt.revision, release.secrets.redact(&why).into_owned());
        let history = &mut release.record.history;
        history.failed(failed, self.generation, chart.as_ref(), &why_shown);
        let fallback = Fallback {
            generation: self.generation,
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
        release.record.fallback = Some(fallback);
        // It was tried with force: asked for once, done once.
        if let Some(text) = self.requested(release, Request::Force) {
            release.record.handled.set(Request::Force, &text);
        }
        let GroupKind { group, kind } = &self.unit.group_kind;
        self.context.metrics.upgrade_failed(group, kind);
        self.warn("UpgradeFailed", &note).await;
        self.store_decision(release, Phase::waiting(Reason::RollingBack, note))
            .await?;
        Ok(true)
    }

    /// The revision that runs is well: it may be gone back to.
    async fn note_healthy(&self, release: &mut Release) {
        let running = release.record.revision;
        release.record.attempt = None;
        if !release.record.history.is_healthy_now(running) {
            return;
        }
        let goal = release.record.fallback.as_ref().and_then(|fallback| fallback.to);
        let surplus = release.record.history.surplus(running, goal);
        if let Err(phase) = self.forget(release, &surplus).await {
            tracing::debug!(resource = %self.written.key, ?phase, "renders that nobody needs stay for now");
        }
    }

    /// What is told of a release that runs something else than what is asked for, or failed without a way back.
    pub(super) fn with_fallback_message(&self, release: &Release, phase: Phase, changes: &mut Changes) -> Phase {
        let Some(fallback) = &release.record.fallback else {
            return self.overdue(release, phase);
        };
        // The phase says what it is.
        changes.upgraded = false;
        let running = fallback.to.and_then(|to| release.record.history.get(to));
        let told = fallback.told(running.map(|listed| listed.generation));
        match phase {
            Phase::Ready => Phase::stalled(Reason::RolledBack, told),
            Phase::Waiting { reason, message } => {
                let reason = match reason {
                    Reason::Progressing => Reason::RollingBack,
                    other => other,
                };
                Phase::waiting(reason, format!("{message}; {told}"))
            }
            Phase::Failed { reason, message } => Phase::failed(reason, format!("{message}; {told}")),
            other => other,
        }
    }

    /// An upgrade that takes longer than it may, where nothing is to be done about it but to say so.
    fn overdue(&self, release: &Release, phase: Phase) -> Phase {
        let Some(attempt) = release.record.attempt.as_ref() else {
            return phase;
        };
        let timeout = self.unit.watch.timeout.unwrap_or(TIMEOUT);
        let judged = judge(&phase, attempt, usize::MAX, (0, 0), timeout, jiff::Timestamp::now());
        match (judged, &phase) {
            (Judgement::Failed(why), Phase::Waiting { .. }) => Phase::stalled(Reason::UpgradeFailed, why),
            _ => phase,
        }
    }

    /// The chart that the operator has.
    pub(super) fn chart(&self) -> Option<Chart> {
        let metadata = &self.unit.renderer.as_ref().ok()?.chart().metadata;
        Some(Chart {
            name: metadata.name.clone(),
            version: metadata.version.clone(),
            app_version: metadata.app_version.clone(),
        })
    }
}

fn history_next(release: &Release) -> i64 {
    release.record.history.next(release.record.revision)
}

impl Release {
    /// What the custom resource asks for is carried out again, whatever it is.
    pub(super) fn end_fallback(&mut self) {
        self.record.fallback = None;
        self.record.done_for = None;
        self.last_render.inputs.clear();
    }

    /// The time in which an upgrade has to become healthy begins now.
    pub(super) fn restart_clock(&mut self) {
        if let Some(attempt) = &mut self.record.attempt {
            attempt.began = whole(jiff::Timestamp::now());
        }
    }

    /// An upgrade that was given up is tried once more.
    pub(super) fn retry_upgrade(&mut self) {
        let was_given_up = |fallback: &Fallback| fallback.failed.is_some();
        if self.record.fallback.as_ref().is_some_and(was_given_up) {
            self.end_fallback();
            self.record.hooks.failures = 0;
        }
    }
}
