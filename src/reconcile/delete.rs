//! The deletion: record and label discovery, reverse order, finalizer off. No chart, no values, no template is touched,
//! so nothing that is wrong with those can keep a custom resource from going.

use std::time::Duration;

use super::dispose::Disposed;
use super::preflight::list;
use super::release::Release;
use super::status::refusal;
use super::superset::{self, Superset};
use super::{Outcome, RECHECK, Run};
use crate::cluster::custom_resource::remove_finalizer;
use crate::cluster::error::Error;
use crate::cluster::throttle::asked_to_wait;
use crate::plan::annotations;
use crate::plan::applyset::FINALIZER;
use crate::plan::deletion::{must_wait, policy, turns};
use crate::plan::prune::Purpose;
use crate::plan::status::{Phase, Reason};
use crate::plan::takeover;
use crate::telemetry::metrics::{Operation, ReconcileResult};
use crate::watches::DeletionPolicy;

/// While members go that must be gone first; their watches usually tell sooner.
pub(super) const POLL: Duration = Duration::from_secs(5);

/// What is left of a release after a round of deletes.
#[derive(Default)]
struct Left {
    /// Deleted, and not gone yet.
    going: Vec<String>,
    /// Others have to wait until these are gone.
    waits: bool,
    failures: Vec<String>,
}

/// What an uninstall came to.
pub(super) enum Gone {
    /// Nothing is left to do; what became of the members.
    All(&'static str),
    /// These have to be gone first.
    Going(Vec<String>),
}

impl Run<'_> {
    pub(super) async fn delete(&mut self, release: &mut Release) -> Outcome {
        if !self.written.has_finalizer() && !takeover::is_held(&self.written.finalizers) {
            return finished();
        }
        match self.uninstall(release, false).await {
            Ok(Gone::All(note)) => self.let_go(release, note).await,
            Ok(Gone::Going(going)) => {
                let set = self.written.set(&self.unit.group_kind);
                superset::want(self.context, &set, &Superset::of_record(&release.record));
                let mut outcome = self.report(release, waiting(going), None).await;
                outcome.again = Some(POLL);
                outcome
            }
            Err(phase) => self.report(release, phase, None).await,
        }
    }

    /// Everything that a release has besides its custom resource goes, or stays without it. With `listed`, what there is
    /// of it is asked for, and not taken from the watches.
    ///
    /// # Errors
    /// The phase that the release is in as long as that fails.
    pub(super) async fn uninstall(&mut self, release: &mut Release, listed: bool) -> Result<Gone, Phase> {
        let suspended = annotations::is_suspended(&self.written.annotations);
        let policy = policy(
            self.unit.watch.deletion_policy,
            &self.written.annotations,
            self.written.cascade,
        );
        let taken = match suspended {
            true => self.part(release).await,
            false => self.take_all(release).await,
        };
        taken.map_err(|error| Phase::Failed {
            reason: Reason::Takeover,
            message: error.to_string(),
        })?;
        let left = match suspended {
            true => self.disown_members(release, listed).await,
            false => self.delete_members(release, policy, listed).await,
        };
        let left = left.unwrap_or_else(|error| Left {
            failures: vec![error.to_string()],
            ..Left::default()
        });
        if !left.failures.is_empty() {
            return Err(Phase::Failed {
                reason: Reason::DeleteFailed,
                message: list(left.failures),
            });
        }
        if left.waits {
            return Ok(Gone::Going(left.going));
        }
        self.forget_stored().await?;
        self.forget_kept().await?;
        self.forget_record(release).await?;
        Ok(Gone::All(match (suspended, policy) {
            (true, _) => "suspended: its objects are left as they are",
            (_, DeletionPolicy::Orphan) => "its objects stay, without the marks of a release",
            _ => "its objects are deleted",
        }))
    }

    /// Takes the finalizer off: the last write of a release.
    async fn let_go(&mut self, release: &mut Release, note: &str) -> Outcome {
        let target = self.written.target(&self.unit.resource);
        let removed = remove_finalizer(&self.context.discovery, &target, &self.written.finalizers).await;
        if let Err(error) = removed {
            if let Some(remedy) = refusal(&error) {
                let phase = Phase::Failed {
                    reason: Reason::DeleteFailed,
                    message: format!("{note}, but the finalizer {FINALIZER} can't be taken off: {error}{remedy}"),
                };
                return self.report(release, phase, None).await;
            }
            tracing::info!(resource = %self.written.key, %error, "the finalizer could not be removed yet");
            return Outcome {
                again: Some(
                    self.back_off(release)
                        .min(RECHECK)
                        .max(asked_to_wait().unwrap_or_default()),
                ),
                put_off: asked_to_wait().is_some(),
                written: None,
                finished: false,
                missing: false,
                result: ReconcileResult::Error,
            };
        }
        self.context.metrics.wrote("CustomResource", Operation::Metadata);
        tracing::info!(kind = %self.unit.group_kind, resource = %self.written.key, "uninstalled: {note}");
        let about = self.written.reference(&self.unit.resource);
        let events = &self.context.events;
        events.normal(&about, "UninstallSuccessful", "Delete", note).await;
        // Its members' watches may tell of their end before its own watch tells that it is gone.
        self.written.finalizers.retain(|finalizer| finalizer != FINALIZER);
        Outcome {
            written: Some(self.written.clone()),
            ..finished()
        }
    }

    /// One round: turn by turn, and none before those that may need it. What is settled leaves the record.
    async fn delete_members(&self, release: &mut Release, policy: DeletionPolicy, listed: bool) -> Result<Left, Error> {
        let owner = self.written.owner(&self.unit.group_kind);
        let purpose = match policy {
            DeletionPolicy::Orphan => Purpose::Orphan,
            DeletionPolicy::Delete | DeletionPolicy::WaitForTermination => Purpose::Delete,
        };
        let found = self.find_members(release, &owner, listed).await?;
        let mut left = Left::default();
        let turns = turns(found, |(id, _)| id, |(_, candidate)| candidate.wave(), &release.record);
        let mut turns = turns.into_iter().peekable();
        while let Some(mut turn) = turns.next() {
            let items = std::mem::take(&mut turn.items);
            let gone_before = left.going.len();
            let mut settled = std::collections::HashSet::new();
            for (id, disposed) in self.dispose_all(items, &owner, purpose).await {
                match disposed {
                    Disposed::Deleted | Disposed::Going => left.going.push(id.to_string()),
                    Disposed::Absent | Disposed::Left | Disposed::Held => drop(settled.insert(id)),
                    Disposed::Failed(message) => left.failures.push(message),
                }
            }
            release.record.entries.retain(|entry| !settled.contains(&entry.id));
            if !left.failures.is_empty() {
                break;
            }
            let next = turns.peek();
            if left.going.len() > gone_before && next.is_some_and(|next| must_wait(policy, &turn, next)) {
                left.waits = true;
                break;
            }
        }
        left.waits |= policy == DeletionPolicy::WaitForTermination && !left.going.is_empty();
        Ok(left)
    }

    /// Cuts the members off the custom resource: they stay as they are, and the garbage collector must not take them.
    async fn disown_members(&self, release: &Release, listed: bool) -> Result<Left, Error> {
        let owner = self.written.owner(&self.unit.group_kind);
        let found = self.find_members(release, &owner, listed).await?;
        let mut left = Left::default();
        for (_, disposed) in self.dispose_all(found, &owner, Purpose::Suspended).await {
            if let Disposed::Failed(message) = disposed {
                left.failures.push(message);
            }
        }
        Ok(left)
    }
}

pub(super) fn finished() -> Outcome {
    Outcome {
        again: None,
        put_off: false,
        written: None,
        finished: true,
        missing: false,
        result: ReconcileResult::Success,
    }
}

fn waiting(going: Vec<String>) -> Phase {
    let message = format!("waiting until all members are gone: {}", list(going));
    Phase::waiting(Reason::Uninstalling, message)
}
