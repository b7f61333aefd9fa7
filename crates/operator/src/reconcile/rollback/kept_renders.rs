//! Stores renders for a rollback and lists the revisions in the history.

use std::ops::ControlFlow::{Break, Continue};

use serde::{Deserialize, Serialize};

use crate::cluster::error::Error;
use crate::cluster::objects::lookup::LookupAnswers;
use crate::reconcile::check::Checker;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hints::rights;
use crate::reconcile::record::signed_secrets::{RENDERS, SignedSecrets, suffix};
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::TIMEOUT;
use crate::reconcile::render::Renderer;
use crate::reconcile::render::job::give_owners;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::identity::GroupKind;
use chartwright_core::members::desired::{self, Desired, RenderedObject};
use chartwright_core::members::policy::Update;
use chartwright_core::record::history::{Fallback, Judgement, UpgradeAttempt, is_watched, judge};
use chartwright_core::status::conditions::whole;
use chartwright_core::status::{Changes, Phase, Reason};
use chartwright_watches::OnFailure;

/// Stores the renders that a rollback can return to.
pub(crate) struct KeptRenders<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> KeptRenders<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        KeptRenders { scope }
    }
}

impl KeptRenders<'_> {
    /// Replaces the requested render by the stored render of the rollback, while the requested render is the failed
    /// one. Stops with the phase of the release if the stored render cannot be used.
    pub(crate) async fn apply_fallback(&self, release: &mut Release, prepared: &mut PreparedRelease) -> Flow {
        let Some(fallback) = release.record.fallback.clone() else {
            return Continue(());
        };
        if !fallback.is_for(
            self.scope.generation,
            &prepared.inputs.digest,
            &prepared.inputs.values_digest,
        ) {
            release.end_fallback();
            return Continue(());
        }
        let Some(to) = fallback.to else {
            return Break(Phase::stalled(
                release.record.history.failure_reason(),
                fallback.message(None),
            ));
        };
        let kept = SignedSecrets::new(self.scope)
            .read_signed::<KeptRender>(&RENDERS, &suffix(to))
            .await;
        let Some(kept) = kept.or_stop(|error| self.render_storage_error(to, &error))? else {
            let lost = format!("; the render of revision {to} is lost: nothing can go back to it");
            release.record.history.set_kept(to, false);
            if fallback.failed.is_none() {
                self.scope
                    .warn_once(release, "RollbackRefused", lost[2..].to_owned())
                    .await;
                release.end_fallback();
                return Continue(());
            }
            let fallback = Fallback {
                to: None,
                why: fallback.why + &lost,
                ..*fallback
            };
            let fallback_message = fallback.message(None);
            release.record.fallback = Some(Box::new(fallback));
            return Break(Phase::stalled(
                release.record.history.failure_reason(),
                fallback_message,
            ));
        };
        let notes = kept.notes.clone();
        let desired = self.read(release, prepared, kept);
        prepared.replace(
            desired,
            notes,
            to,
            fallback.revision,
            release.key(&self.scope.context.keys),
        );
        // The watch may permit less than it did when the render was stored.
        Checker::new(self.scope)
            .check_release(release, prepared, &mut LookupAnswers::new())
            .await
    }

    /// Returns the members of a stored render.
    fn read(&self, release: &Release, prepared: &PreparedRelease, kept: KeptRender) -> Desired {
        let snapshot = self.scope.context.discovery.snapshot();
        let namespaced = |group_kind: &GroupKind, version: &str| snapshot.namespaced(group_kind, version);
        let (identity, key) = (&prepared.identity, release.key(&self.scope.context.keys));
        let mut desired = desired::desired(kept.members, identity, &namespaced, key);
        desired::add_hooks(&mut desired, kept.hooks, identity, &namespaced, key);
        let hooks = desired.hooks.iter().map(|hook| &hook.member);
        Renderer::new(self.scope).learn_secrets(release, desired.members.iter().chain(hooks));
        give_owners(self.scope.unit, &self.scope.written, &mut desired);
        let watch = &self.scope.unit.watch;
        desired.give_drift_rules(watch.drift, &watch.ignore_differences);
        for member in &mut desired.members {
            // A rollback does not force applies.
            if member.policy.update == Update::Recreate {
                member.policy.update = Update::InPlace;
            }
        }
        desired
    }

    /// Notes before the first member of an upgrade or an installation when it started and from which revision.
    pub(crate) fn note_attempt(&self, release: &mut Release, prepared: &PreparedRelease) {
        let record = &mut release.record;
        // An installation has nothing to go back to.
        let is_judged = record.revision > 0 || self.scope.unit.watch.on_failure == OnFailure::Stall;
        let is_upgrade = prepared.revision > record.revision && is_judged;
        let is_known = |attempt: &&UpgradeAttempt| attempt.revision == prepared.revision;
        let known = record.attempt.as_deref().filter(is_known);
        if prepared.rollback.is_some()
            || !is_watched(self.scope.unit.watch.on_failure)
            || !(is_upgrade || known.is_some())
        {
            record.attempt = None;
            return;
        }
        let is_same = |attempt: &&UpgradeAttempt| {
            attempt.inputs == prepared.inputs.digest && attempt.values == prepared.inputs.values_digest
        };
        record.attempt = Some(Box::new(UpgradeAttempt {
            revision: prepared.revision,
            inputs: prepared.inputs.digest.clone(),
            values: prepared.inputs.values_digest.clone(),
            began: known
                .filter(is_same)
                .map_or_else(|| whole(jiff::Timestamp::now()), |known| known.began),
        }));
    }

    /// Lists a completely applied render in the history, and stores it if a rollback may return to it.
    pub(crate) async fn list_revision(&self, release: &mut Release, prepared: &PreparedRelease) -> Flow {
        let (revision, chart) = (prepared.revision, self.scope.chart());
        let history = &mut release.record.history;
        history.deployed(revision, self.scope.generation, chart.as_ref(), jiff::Timestamp::now());
        if let Some(to) = prepared.rollback {
            history.goes_back(revision, to);
        }
        let is_kept = history.get(revision).is_some_and(|listed| listed.kept);
        if self.scope.unit.watch.on_failure != OnFailure::Rollback {
            return self.forget_renders(release).await;
        }
        if is_kept {
            return Continue(());
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
        match SignedSecrets::new(self.scope)
            .write_signed(&RENDERS, &suffix(revision), &render)
            .await
        {
            Ok(()) => {
                release.record.history.set_kept(revision, true);
                Continue(())
            }
            Err(error @ (Error::Invalid(_) | Error::TooLarge(_))) => {
                let note = format!("revision {revision} can't be gone back to: {error}");
                self.scope.warn_once(release, "NotKept", note).await;
                Continue(())
            }
            Err(error) => Break(
                self.render_storage_error(revision, &error)
                    .not_before(error.retry_after()),
            ),
        }
    }

    fn render_storage_error(&self, revision: i64, error: &Error) -> Phase {
        let place = SignedSecrets::new(self.scope).secret_name(&RENDERS, &suffix(revision));
        let hint = rights(
            error,
            "a watch with `onFailure: rollback` needs the rights to get, create, patch and delete Secrets there",
        );
        Phase::failed(Reason::Record, format!("{place}, which keeps a render: {error}{hint}"))
    }

    /// Removes all stored renders of a release.
    pub(crate) async fn forget_renders(&self, release: &mut Release) -> Flow {
        let record = &release.record;
        let mut kept: Vec<i64> = record.history.kept().collect();
        // A render that was stored just before a crash is in no history.
        let attempt = record.attempt.as_ref().map(|attempt| attempt.revision);
        kept.extend(attempt.filter(|revision| !kept.contains(revision)));
        self.forget(release, &kept).await
    }

    async fn forget(&self, release: &mut Release, revisions: &[i64]) -> Flow {
        for revision in revisions {
            let removed = SignedSecrets::new(self.scope)
                .remove_signed(&RENDERS, &suffix(*revision))
                .await;
            removed.or_stop(|error| self.render_storage_error(*revision, &error))?;
            release.record.history.set_kept(*revision, false);
        }
        Continue(())
    }

    /// Notes that the running revision is healthy, so that a rollback may return to it.
    pub(crate) async fn note_healthy(&self, release: &mut Release) {
        let running = release.record.revision;
        release.record.attempt = None;
        if !release.record.history.is_healthy_now(running) {
            return;
        }
        let goal = release.record.fallback.as_ref().and_then(|fallback| fallback.to);
        let surplus = release.record.history.surplus(running, goal);
        if let Break(phase) = self.forget(release, &surplus).await {
            tracing::debug!(resource = %self.scope.written.key, ?phase, "renders without use are not deleted yet");
        }
    }

    /// Adds to the phase why the release runs another revision than the requested one, or why no rollback is possible.
    pub(crate) fn with_fallback_message(&self, release: &Release, phase: Phase, changes: &mut Changes) -> Phase {
        let Some(fallback) = &release.record.fallback else {
            return self.overdue(release, phase);
        };
        // The phase already gives the reason.
        changes.upgraded = false;
        let running = fallback.to.and_then(|to| release.record.history.get(to));
        let fallback_message = fallback.message(running.map(|listed| listed.generation));
        match phase {
            Phase::Ready => Phase::stalled(Reason::RolledBack, fallback_message),
            Phase::Waiting { reason, message } => {
                let reason = match reason {
                    Reason::Progressing => Reason::RollingBack,
                    other => other,
                };
                Phase::waiting(reason, format!("{message}; {fallback_message}"))
            }
            Phase::Failed {
                reason,
                message,
                retry_after,
            } => Phase::failed(reason, format!("{message}; {fallback_message}")).not_before(retry_after),
            other => other,
        }
    }

    /// Returns the phase of an upgrade that exceeds its timeout when no rollback is configured.
    fn overdue(&self, release: &Release, phase: Phase) -> Phase {
        let Some(attempt) = release.record.attempt.as_ref() else {
            return phase;
        };
        let timeout = self.scope.unit.watch.timeout.unwrap_or(TIMEOUT);
        let judged = judge(&phase, attempt, usize::MAX, (0, 0), timeout, jiff::Timestamp::now());
        match (judged, &phase) {
            (Judgement::Failed(why), Phase::Waiting { .. }) => {
                Phase::stalled(release.record.history.failure_reason(), why)
            }
            _ => phase,
        }
    }
}

/// The stored render of one revision.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptRender {
    pub(crate) members: Vec<RenderedObject>,
    pub(crate) hooks: Vec<RenderedObject>,
    pub(crate) notes: Option<String>,
}
