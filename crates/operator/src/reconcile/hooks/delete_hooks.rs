//! Stores the delete hooks of a release in a Secret when the release is applied: at its deletion the chart may be
//! absent or broken.

use std::ops::ControlFlow::{Break, Continue};

use crate::cluster::error::Error;
use crate::cluster::storage::secrets;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hints::rights;
use crate::reconcile::hooks::stored_objects::StoredObjects;
use crate::reconcile::record::signed_secrets::{DELETE_HOOKS, SignedSecrets};
use crate::reconcile::release::Release;
use crate::reconcile::render::Renderer;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::annotations::{self, ON_CREATE, ON_DELETE, SKIP_PLANS};
use chartwright_core::digest::KeyUse;
use chartwright_core::grants::{Own, StoredObject};
use chartwright_core::hooks::Hook;
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
        let place = SignedSecrets::new(self.scope).secret_name(&DELETE_HOOKS, "");
        let message = format!("{place}, which keeps the hooks for the deletion: {error}{hint}");
        Phase::failed(Reason::Record, message)
    }

    /// Stores the hooks that run at deletion, or removes the stored ones if the chart has none any more.
    /// `is_before_install`: plans on create are stored as well, because an edit does not change a run that has begun.
    pub(crate) async fn store_delete_hooks(
        &mut self,
        release: &mut Release,
        hooks: &[Hook],
        is_before_install: bool,
    ) -> Flow {
        let mut plans = plans::marked(hooks, ON_DELETE);
        if is_before_install {
            plans.extend(plans::marked(hooks, ON_CREATE));
        }
        let of_deletion = |hook: &&Hook| hook.is_of_deletion() || hook.is_step_of(&plans);
        let hooks: Vec<&Hook> = hooks.iter().filter(of_deletion).collect();
        let key = release.key(&self.scope.context.keys);
        let mut digest = desired::digest(key, hooks.iter().map(|hook| &hook.member));
        let permits = StoredObjects::new(self.scope).permits(release, &hooks);
        for (_, defaults) in permits.iter().filter(|(own, _)| *own != Own::Nothing) {
            // The permits are stored with the hooks, so a changed chart must change the digest.
            digest = key.digest(KeyUse::StoredHooks, &[digest.as_bytes(), defaults.as_bytes()]);
        }
        if digest == release.record.hooks.stored {
            return Continue(());
        }
        if hooks.is_empty() {
            self.forget_delete_hooks(release).await?;
        } else {
            let written = SignedSecrets::new(self.scope)
                .write_signed(&DELETE_HOOKS, "", &StoredObjects::to_store(&hooks, permits))
                .await;
            written.or_stop(|error| self.delete_hooks_failed(&error))?;
        }
        release.record.hooks.stored = digest;
        Continue(())
    }

    /// Reads the stored hooks and checks them again. Returns none if the Secret was deleted. Stops with the phase of
    /// the release if the Secret cannot be read, or if it held a plan on delete.
    pub(crate) async fn stored_hooks(&self, release: &Release) -> Flow<Vec<Hook>> {
        let found = SignedSecrets::new(self.scope)
            .read_signed::<Vec<StoredObject>>(&DELETE_HOOKS, "")
            .await;
        let stored = found.or_stop(|error| self.delete_hooks_failed(&error))?;
        if let Some(stored) = stored {
            let hooks = StoredObjects::new(self.scope).check_stored(release, stored);
            Renderer::new(self.scope).learn_secrets(release, hooks.iter().map(|hook| &hook.member));
            return Continue(hooks);
        }
        let place = SignedSecrets::new(self.scope).secret_name(&DELETE_HOOKS, "");
        let record = &release.record;
        let plan = record.plans.plans.iter().find(|plan| plan.on_delete);
        let has_begun = record.hooks.is_of_deletion();
        if let Some(plan) = plan.filter(|_| !has_begun && !annotations::skips_plans(&self.scope.written.annotations)) {
            let is_namespace_terminating = secrets::is_namespace_terminating(&self.scope.context.client, &place).await;
            if !is_namespace_terminating.or_stop(|error| self.delete_hooks_failed(&error))? {
                let message = format!(
                    "{place} is absent or not ours. It held the steps of plan {}, and nothing is deleted without them. To delete \
                     the release without the plan, set the annotation {SKIP_PLANS}: \"true\"",
                    plan.name
                );
                return Break(Phase::failed(Reason::HookFailed, message));
            }
        }
        tracing::warn!(resource = %self.scope.written.key, "{place} is absent or not ours: the delete hooks are not run");
        Continue(Vec::new())
    }

    /// Removes the stored delete hooks. Stops with the phase of the release if the Secret cannot be removed.
    pub(crate) async fn forget_delete_hooks(&self, release: &Release) -> Flow {
        if release.record.hooks.stored.is_empty() {
            return Continue(());
        }
        let removed = SignedSecrets::new(self.scope).remove_signed(&DELETE_HOOKS, "").await;
        removed.or_stop(|error| self.delete_hooks_failed(&error))
    }
}
