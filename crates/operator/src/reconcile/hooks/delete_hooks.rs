//! The hooks of a deletion. They are kept in a Secret from the moment in which a release has them: when it goes, there may
//! be no chart any more, or one that is broken.

use std::ops::ControlFlow::{Break, Continue};

use crate::cluster::error::Error;
use crate::cluster::storage::secrets;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hints::rights;
use crate::reconcile::hooks::stored_objects::StoredObjects;
use crate::reconcile::record::signed_secrets::{DELETE_HOOKS, SealedSecrets};
use crate::reconcile::release::Release;
use crate::reconcile::render::Renderer;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::annotations::{self, ON_DELETE, SKIP_PLANS};
use chartwright_core::digest::KeyUse;
use chartwright_core::grants::{Own, StoredObject};
use chartwright_core::hooks::{Hook, Operation};
use chartwright_core::members::desired;
use chartwright_core::plans;
use chartwright_core::status::{Phase, Reason};

/// Stores the hooks of a deletion, and reads them back.
pub(crate) struct StoredDeleteHooks<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> StoredDeleteHooks<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        StoredDeleteHooks { scope }
    }
}

impl StoredDeleteHooks<'_> {
    fn delete_hooks_failed(&self, error: &Error) -> Phase {
        let hint = rights(
            error,
            "a chart with hooks that run at deletion needs the rights to get, create, patch and delete Secrets there",
        );
        let place = SealedSecrets::new(self.scope).sealed_place(&DELETE_HOOKS, "");
        let message = format!("{place}, which keeps the hooks for the deletion: {error}{hint}");
        Phase::failed(Reason::Record, message)
    }

    /// Stores the hooks that run at deletion, or removes the stored ones if the chart has none any more.
    pub(crate) async fn store_delete_hooks(&mut self, release: &mut Release, hooks: &[Hook]) -> Flow {
        let plans = plans::marked(hooks, ON_DELETE);
        let of_deletion = |hook: &&Hook| hook.is_of_deletion() || hook.is_step_of(&plans);
        let hooks: Vec<&Hook> = hooks.iter().filter(of_deletion).collect();
        let key = release.key(&self.scope.context.keys);
        let mut digest = desired::digest(key, hooks.iter().map(|hook| &hook.member));
        let permits = StoredObjects::new(self.scope).permits(release, &hooks);
        for (_, defaults) in permits.iter().filter(|(own, _)| *own != Own::Nothing) {
            // What permits it is stored with it: another chart has to be noted.
            digest = key.digest(KeyUse::StoredHooks, &[digest.as_bytes(), defaults.as_bytes()]);
        }
        if digest == release.record.hooks.stored {
            return Continue(());
        }
        if hooks.is_empty() {
            self.forget_delete_hooks(release).await?;
        } else {
            let written = SealedSecrets::new(self.scope)
                .seal(&DELETE_HOOKS, "", &StoredObjects::to_store(&hooks, permits))
                .await;
            written.or_stop(|error| self.delete_hooks_failed(&error))?;
        }
        release.record.hooks.stored = digest;
        Continue(())
    }

    /// The hooks as they were stored, checked again; none if the Secret was deleted.
    ///
    /// # Errors
    /// The phase of a release of which they can't be read, or that would lose what a plan was to save.
    pub(crate) async fn stored_hooks(&self, release: &Release) -> Flow<Vec<Hook>> {
        let found = SealedSecrets::new(self.scope)
            .unseal::<Vec<StoredObject>>(&DELETE_HOOKS, "")
            .await;
        let stored = found.or_stop(|error| self.delete_hooks_failed(&error))?;
        if let Some(stored) = stored {
            let hooks = StoredObjects::new(self.scope).check_stored(release, stored);
            Renderer::new(self.scope).learn(release, hooks.iter().map(|hook| &hook.member));
            return Continue(hooks);
        }
        let place = SealedSecrets::new(self.scope).sealed_place(&DELETE_HOOKS, "");
        let record = &release.record;
        let plan = record.plans.plans.iter().find(|plan| plan.on_delete);
        let has_begun = record.hooks.operation == Some(Operation::Delete);
        if let Some(plan) = plan.filter(|_| !has_begun && !annotations::skips_plans(&self.scope.written.annotations)) {
            let is_namespace_terminating = secrets::is_namespace_terminating(&self.scope.context.client, &place).await;
            if !is_namespace_terminating.or_stop(|error| self.delete_hooks_failed(&error))? {
                let message = format!(
                    "{place} is lost or not ours, and with it the steps of plan {}, without which nothing is deleted: the \
                     annotation {SKIP_PLANS}: \"true\" lets it go without them",
                    plan.name
                );
                return Break(Phase::failed(Reason::HookFailed, message));
            }
        }
        tracing::warn!(resource = %self.scope.written.key, "{place} is lost: the hooks for the deletion are not run");
        Continue(Vec::new())
    }

    /// Removes what is stored for the deletion of a release that goes.
    ///
    /// # Errors
    /// The phase of a release of which it can't be removed.
    pub(crate) async fn forget_delete_hooks(&self, release: &Release) -> Flow {
        if release.record.hooks.stored.is_empty() {
            return Continue(());
        }
        let removed = SealedSecrets::new(self.scope).remove_sealed(&DELETE_HOOKS, "").await;
        removed.or_stop(|error| self.delete_hooks_failed(&error))
    }
}
