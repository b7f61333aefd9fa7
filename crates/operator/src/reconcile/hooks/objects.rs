//! Creates, finds and deletes the objects of hooks.

use std::ops::ControlFlow::{Break, Continue};

use serde_json::Value;

use crate::cluster::discovery::Resource;
use crate::cluster::error::Error;
use crate::cluster::objects::{self, ApplyTarget, DeleteOutcome};
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::scope::ReleaseScope;
use crate::telemetry::metrics;
use chartwright_core::annotations::HOOK_RUN;
use chartwright_core::apply::content;
use chartwright_core::health::gates::is_stated;
use chartwright_core::hooks::{self, Hook, HookRun, HookState};
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::index::live::Live;
use chartwright_core::prune::{PruneVerdict, Purpose, verdict};
use chartwright_core::status::{Phase, Reason};

/// The live object with the name of a hook, if there is one.
pub(crate) enum HookObject {
    Nothing,
    /// The object of this run.
    Run(Value),
    /// An object of another owner or of an earlier run.
    Other(Box<Live>, Value),
}

/// Creates, finds and deletes the objects of hooks.
pub(crate) struct HookObjects<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> HookObjects<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        HookObjects { scope }
    }
}

impl HookObjects<'_> {
    /// Applies the object of a hook without its TTL: until the record has the result of the run, only the object shows
    /// it.
    pub(crate) async fn create_object(
        &self,
        resource: &Resource,
        hook: &Hook,
        run: &mut HookRun,
        onto: ApplyTarget<'_>,
    ) -> Flow<HookState> {
        let id = &hook.member.id;
        let mut object = content(&hook.member, None);
        object["metadata"]["annotations"][HOOK_RUN] = run.run.as_str().into();
        if run.ttl.is_some()
            && let Some(spec) = object["spec"].as_object_mut()
        {
            spec.remove(hooks::TTL);
        }
        match objects::apply(&self.scope.client, resource, id, &mut object, onto).await {
            Ok(live) => {
                self.scope
                    .context
                    .metrics
                    .objects
                    .wrote(&id.group_kind.kind, metrics::WriteOperation::Apply);
                run.uid = live.uid;
                Continue(if hook.is_awaited() || is_stated(&hook.member.object) {
                    HookState::Running("has not started yet".into())
                } else {
                    HookState::Succeeded
                })
            }
            Err(error) => self.state_of(id, error),
        }
    }

    /// Converts an error into the state of a hook. Stops with the phase of the release if the error is not about the
    /// hook.
    pub(crate) fn state_of(&self, id: &ObjectId, error: Error) -> Flow<HookState> {
        match error {
            error if error.is_transient() || matches!(error, Error::Conflict(_)) => {
                let failed = Phase::failed(Reason::ApplyFailed, format!("{id}: {error}"));
                Break(failed.not_before(error.retry_after()))
            }
            Error::Terminating(_) => Continue(HookState::Hopeless(error.to_string())),
            error => Continue(HookState::Failed(error.to_string())),
        }
    }

    pub(crate) async fn find(&self, resource: &Resource, id: &ObjectId, run: &str) -> Result<HookObject, Error> {
        let found = objects::read(&self.scope.client, resource, id).await?;
        let Some((live, object)) = found else {
            return Ok(HookObject::Nothing);
        };
        let is_ours = ownership(id, &live, &self.scope.owner) == Ownership::Ours;
        let is_run = object["metadata"]["annotations"][HOOK_RUN] == run;
        Ok(if is_ours && is_run {
            HookObject::Run(object)
        } else {
            HookObject::Other(Box::new(live), object)
        })
    }

    /// Deletes the object of a hook. True if the object is gone.
    pub(crate) async fn delete_hook(&self, resource: &Resource, id: &ObjectId, live: &Live) -> Result<bool, Error> {
        let client = &self.scope.client;
        if !live.deleting {
            match objects::delete_in_foreground(client, resource, id, live).await? {
                DeleteOutcome::Absent => return Ok(true),
                DeleteOutcome::Changed => return Ok(false),
                DeleteOutcome::Accepted => self
                    .scope
                    .context
                    .metrics
                    .objects
                    .wrote(&id.group_kind.kind, metrics::WriteOperation::Delete),
            }
        }
        Ok(objects::read_live(client, resource, id).await?.is_none())
    }

    /// Deletes the object of a hook if it is ours. True if no object of ours is left. Stops with the phase of the
    /// release if the object cannot be deleted.
    pub(crate) async fn delete_if_ours(&self, id: &ObjectId) -> Flow<bool> {
        let snapshot = self.scope.context.discovery.snapshot();
        let failed = |error: &dyn std::fmt::Display| {
            Phase::failed(Reason::DeleteFailed, format!("{id}, the object of a hook: {error}"))
        };
        let Some(resource) = snapshot.served(&id.group_kind).or_stop(|error| failed(&error))? else {
            return Continue(true);
        };
        let found = objects::read_live(&self.scope.client, resource, id).await;
        let Some(live) = found.or_stop(|error| failed(&error))? else {
            return Continue(true);
        };
        match verdict(id, &live, &self.scope.owner, Purpose::Prune) {
            PruneVerdict::Delete | PruneVerdict::Going => {
                let deleted = self.delete_hook(resource, id, &live).await;
                deleted.or_stop(|error| failed(&error))
            }
            _ => Continue(true),
        }
    }
}
