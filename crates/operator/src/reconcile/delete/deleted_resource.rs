//! Uninstalls the release of a custom resource that was deleted although it had our finalizer. The API server checks
//! the finalizers of the object that it read at the start of the delete request, so a finalizer that is added in
//! between has no effect. The garbage collector deletes members with an owner reference. This module deletes all
//! members.

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use crate::cluster::custom_resource::still_exists;
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::delete::{Deleter, UninstallProgress, finished};
use crate::reconcile::outcome::ReconcileOutcome;
use crate::reconcile::record::RecordStore;
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::POLL;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::takeover::TakeoverStage;
use crate::reconcile::unit::Unit;
use crate::telemetry::metrics::ReconcileResult;
use crate::telemetry::redact;
use chartwright_core::status::Phase;

/// Uninstalls the release of a deleted custom resource. `resource`: its last known state.
pub async fn uninstall(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
) -> ReconcileOutcome {
    let mut scope = ReleaseScope::new(context, unit, resource);
    scope.written.deleting = true;
    let secrets = release.secrets.clone();
    redact::scope(&secrets, Deleter::new(&mut scope).uninstall_deleted(release)).await
}

/// Warns that another client removed our finalizer from a custom resource, so that its release is left behind.
pub async fn warn_finalizer_removed(context: &Context, unit: &Unit, resource: &CustomResource) {
    let finalizer = resource.finalizer();
    let note = format!(
        "another client removed the finalizer {finalizer}, and the resource was deleted: its members stay as they are, except \
         those that the garbage collector deletes by owner reference; `chartwright leftovers` lists them"
    );
    ReleaseScope::new(context, unit, resource)
        .warn("FinalizerRemoved", &note)
        .await;
}

/// Checks whether a custom resource that a write did not find is deleted.
pub async fn is_gone(context: &Context, unit: &Unit, resource: &CustomResource) -> bool {
    let there = still_exists(&context.client, &resource.target(&unit.resource)).await;
    there.is_ok_and(|there| !there)
}

impl Deleter<'_, '_> {
    async fn uninstall_deleted(&mut self, release: &mut Release) -> ReconcileOutcome {
        let target = self.scope.written.target(&self.scope.unit.resource);
        // The list may come from an outdated server.
        match still_exists(&self.scope.context.client, &target).await {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(resource = %self.scope.written.key, "a list did not show it, and it is there all the same");
                return finished();
            }
            Err(error) => return self.uninstall_later(release, &error.to_string(), error.retry_after()),
        }
        // An unreadable record may name members that no label finds.
        if let Break(Phase::Failed {
            message, retry_after, ..
        }) = RecordStore::new(self.scope).load_record(release).await
        {
            return self.uninstall_later(release, &message, retry_after);
        }
        let done = match TakeoverStage::new(self.scope).find_former_release(release).await {
            // The watches may not show our latest writes yet.
            Continue(()) => self.uninstall(release, true).await,
            Break(phase) => Break(phase),
        };
        match done {
            Continue(UninstallProgress::All(note)) => {
                let note = format!("it went although it had our finalizer; {note}");
                self.scope.inform("UninstallSuccessful", &note).await;
                finished()
            }
            Continue(UninstallProgress::Going(_)) => ReconcileOutcome::again(POLL, ReconcileResult::Progressing),
            Break(Phase::Failed {
                message, retry_after, ..
            }) => self.uninstall_later(release, &message, retry_after),
            Break(Phase::Stalled { message, .. }) => self.uninstall_later(release, &message, None),
            Break(_) => ReconcileOutcome::again(POLL, ReconcileResult::Progressing),
        }
    }

    /// Logs the failure and retries. There is no status that could report it.
    fn uninstall_later(&self, release: &mut Release, why: &str, retry_after: Option<Duration>) -> ReconcileOutcome {
        let (kind, resource) = (&self.scope.unit.group_kind, &self.scope.written.key);
        tracing::warn!(%kind, %resource, "it is gone, and what was made for it can't be deleted yet: {why}");
        ReconcileOutcome::again(release.back_off(retry_after), ReconcileResult::Error)
    }
}
