//! The hooks of a deletion. They are kept in a Secret from the moment in which a release has them: when it goes, there may
//! be no chart any more, or one that is broken.

use crate::cluster::error::Error;
use crate::cluster::storage::secrets;
use crate::reconcile::Reconcile;
use crate::reconcile::claim::member_scopes::{self, MemberScopes};
use crate::reconcile::record::signed_secrets::SecretPurpose;
use crate::reconcile::release::Release;
use crate::reconcile::status::rights;
use chartwright_core::annotations::{self, ON_DELETE, SKIP_PLANS};
use chartwright_core::digest::KeyUse;
use chartwright_core::grants::{Own, StoredObject};
use chartwright_core::hooks::{Hook, Operation, RunPhase, in_order};
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::reserved_names;
use chartwright_core::members::desired;
use chartwright_core::plans;
use chartwright_core::status::{Phase, Reason};

pub(crate) const STORED: SecretPurpose = SecretPurpose {
    prefix: reserved_names::HOOKS,
    kind: "chartwright.dev/delete-hooks",
    what: "the hooks for the deletion",
    is_owned: false,
};

impl Reconcile<'_> {
    fn delete_hooks_failed(&self, error: &Error) -> Phase {
        let hint = rights(
            error,
            "a chart with hooks that run at deletion needs the rights to get, create, patch and delete Secrets there",
        );
        let place = self.sealed_place(&STORED, "");
        let message = format!("{place}, which keeps the hooks for the deletion: {error}{hint}");
        Phase::failed(Reason::Record, message)
    }

    /// Keeps the hooks that run when the release goes, or forgets those that the chart has no more.
    ///
    /// # Errors
    /// The phase of a release for which that can't be written.
    pub(crate) async fn store_delete_hooks(&mut self, release: &mut Release, hooks: &[Hook]) -> Result<(), Phase> {
        let plans = plans::marked(hooks, ON_DELETE);
        let of_deletion = |hook: &&Hook| hook.is_of_deletion() || hook.is_step_of(&plans);
        let hooks: Vec<&Hook> = hooks.iter().filter(of_deletion).collect();
        let key = release.key(&self.context.keys);
        let mut digest = desired::digest(key, hooks.iter().map(|hook| &hook.member));
        let permits = self.permits(release, &hooks);
        for (_, defaults) in permits.iter().filter(|(own, _)| *own != Own::Nothing) {
            // What permits it is stored with it: another chart has to be noted.
            digest = key.digest(KeyUse::StoredHooks, &[digest.as_bytes(), defaults.as_bytes()]);
        }
        if digest == release.record.hooks.stored {
            return Ok(());
        }
        if hooks.is_empty() {
            self.forget_delete_hooks(release).await?;
        } else {
            let written = self.seal(&STORED, "", &Self::to_store(&hooks, permits)).await;
            written.map_err(|error| self.delete_hooks_failed(&error))?;
        }
        release.record.hooks.stored = digest;
        Ok(())
    }

    /// Runs the hooks of a deletion, at most as long as they may take.
    ///
    /// # Errors
    /// The phase of a release whose hooks aren't over.
    pub(crate) async fn run_delete_hooks(&mut self, release: &mut Release, event: &str) -> Result<(), Phase> {
        let hooks = self.stored_hooks(release).await?;
        let ids: Vec<_> = hooks.iter().map(|hook| hook.member.id.clone()).collect();
        member_scopes::want(self.context, &self.owner.set, &MemberScopes::from_objects(&ids));
        let stored = release.record.hooks.stored.clone();
        if release.record.hooks.operation != Some(Operation::Delete) {
            self.stop_hooks(release).await?;
            self.stop_plan(release).await?;
            let revision = release.record.revision;
            release.record.hooks.begin(Operation::Delete, revision, &stored, &hooks);
        }
        if event == Operation::Delete.before() && !annotations::skips_plans(&self.written.annotations) {
            self.run_marked_plans(release, &hooks, ON_DELETE).await?;
        }
        self.run_hooks(release, &in_order(&hooks, event), event, None).await?;
        let is_refused = |id: &ObjectId| hooks.iter().any(|hook| hook.member.id == *id && hook.refused.is_some());
        for run in release.record.hooks.runs.clone() {
            if run.phase == RunPhase::GivenUp && run.event == event && !is_refused(&run.object) {
                let note = format!(
                    "the {} hook {} {} failed for as long as it may take: the deletion goes on without it. {}",
                    run.event, run.object.group_kind.kind, run.object.name, run.message
                );
                self.warn_once(release, "HookGivenUp", note).await;
            }
        }
        Ok(())
    }

    /// That they are over is written down before what they made goes: whoever comes after a crash would run them again, on
    /// what is deleted by then.
    ///
    /// # Errors
    /// The phase of a release of which it can't be written.
    pub(crate) async fn end_delete_hooks(&mut self, release: &mut Release) -> Result<(), Phase> {
        if release.record.hooks.done {
            return Ok(());
        }
        release.record.hooks.done = true;
        let stored = self.store_progress(release, "the hooks of the deletion are over".into());
        stored.await.inspect_err(|_| release.record.hooks.done = false)
    }

    /// The hooks as they were stored, checked again; none if the Secret was deleted.
    ///
    /// # Errors
    /// The phase of a release of which they can't be read, or that would lose what a plan was to save.
    async fn stored_hooks(&self, release: &Release) -> Result<Vec<Hook>, Phase> {
        let found = self.unseal::<Vec<StoredObject>>(&STORED, "").await;
        let stored = found.map_err(|error| self.delete_hooks_failed(&error))?;
        if let Some(stored) = stored {
            let hooks = self.check_stored(release, stored);
            self.learn(release, hooks.iter().map(|hook| &hook.member));
            return Ok(hooks);
        }
        let place = self.sealed_place(&STORED, "");
        let record = &release.record;
        let plan = record.plans.plans.iter().find(|plan| plan.on_delete);
        let has_begun = record.hooks.operation == Some(Operation::Delete);
        if let Some(plan) = plan.filter(|_| !has_begun && !annotations::skips_plans(&self.written.annotations)) {
            let is_namespace_terminating = secrets::is_namespace_terminating(&self.context.client, &place).await;
            if !is_namespace_terminating.map_err(|error| self.delete_hooks_failed(&error))? {
                let message = format!(
                    "{place} is lost or not ours, and with it the steps of plan {}, without which nothing is deleted: the \
                     annotation {SKIP_PLANS}: \"true\" lets it go without them",
                    plan.name
                );
                return Err(Phase::failed(Reason::HookFailed, message));
            }
        }
        tracing::warn!(resource = %self.written.key, "{place} is lost: the hooks for the deletion are not run");
        Ok(Vec::new())
    }

    /// Removes what is stored for the deletion of a release that goes.
    ///
    /// # Errors
    /// The phase of a release of which it can't be removed.
    pub(crate) async fn forget_delete_hooks(&self, release: &Release) -> Result<(), Phase> {
        if release.record.hooks.stored.is_empty() {
            return Ok(());
        }
        let removed = self.remove_sealed(&STORED, "").await;
        removed.map_err(|error| self.delete_hooks_failed(&error))
    }
}
