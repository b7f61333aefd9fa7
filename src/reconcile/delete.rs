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
const POLL: Duration = Duration::from_secs(5);

/// What is left of a release after a round of deletes.
#[derive(Default)]
struct Left {
    /// Deleted, and not gone yet.
    going: Vec<String>,
    /// Others have to wait until these are gone.
    waits: bool,
    failures: Vec<String>,
}

impl Run<'_> {
    pub(super) async fn delete(&mut self, release: &mut Release) -> Outcome {
        if !self.written.has_finalizer() && !takeover::is_held(&self.written.finalizers) {
            return finished();
        }
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
        if let Err(error) = taken {
            let phase = Phase::Failed {
                reason: Reason::Takeover,
                message: error.to_string(),
            };
            return self.report(release, phase, None).await;
        }
        if !suspended {
            let left = match self.delete_members(release, policy).await {
                Ok(left) => left,
                Err(error) => Left {
                    failures: vec![error.to_string()],
                    ..Left::default()
                },
            };
            if !left.failures.is_empty() {
                let phase = Phase::Failed {
                    reason: Reason::DeleteFailed,
                    message: list(left.failures),
                };
                return self.report(release, phase, None).await;
            }
            if left.waits {
                superset::want(self.context, &Superset::of_resource(&self.written));
                let mut outcome = self.report(release, waiting(left.going), None).await;
                outcome.again = Some(POLL);
                return outcome;
            }
        }
        if let Err(phase) = self.forget_stored().await {
            return self.report(release, phase, None).await;
        }
        if let Err(phase) = self.forget_kept().await {
            return self.report(release, phase, None).await;
        }
        if let Err(phase) = self.forget_record(release).await {
            return self.report(release, phase, None).await;
        }
        let note = match (suspended, policy) {
            (true, _) => "suspended: its objects are left as they are",
            (_, DeletionPolicy::Orphan) => "its objects stay, without the marks of a release",
            _ => "its objects are deleted",
        };
        self.let_go(release, note).await
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
    async fn delete_members(
        &self,
        release: &mut Release,
        policy: DeletionPolicy,
    ) -> Result<Left, crate::cluster::error::Error> {
        let owner = self.written.owner(&self.unit.group_kind);
        let purpose = match policy {
            DeletionPolicy::Orphan => Purpose::Orphan,
            DeletionPolicy::Delete | DeletionPolicy::WaitForTermination => Purpose::Delete,
        };
        let found = self.find_members(release, &owner).await?;
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
}

fn finished() -> Outcome {
    Outcome {
        again: None,
        put_off: false,
        written: None,
        finished: true,
        result: ReconcileResult::Success,
    }
}

fn waiting(going: Vec<String>) -> Phase {
    let message = format!("waiting until all members are gone: {}", list(going));
    Phase::waiting(Reason::Uninstalling, message)
}
