//! Marks the custom resource with all kinds and namespaces of its members before the first write to one of them.

pub(crate) mod decorator;
pub(crate) mod member_scopes;

use std::collections::BTreeMap;
use std::ops::ControlFlow::{Break, Continue};

use crate::cluster::custom_resource::{OwnedMetadata, apply_metadata, remove_annotations, remove_finalizer};
use crate::cluster::error::Error;
use crate::reconcile::claim::decorator::ClaimRules;
use crate::reconcile::claim::member_scopes::MemberScopes;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hints::refusal;
use crate::reconcile::release::Release;
use crate::reconcile::render::generated_values;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::{ReleaseScope, interrupted};
use crate::telemetry::metrics::WriteOperation;
use chartwright_core::annotations;
use chartwright_core::identity::{applyset, decorator as decorator_identity};
use chartwright_core::status::{Phase, Reason};

/// Writes finalizer, ApplySet labels and member scopes of the custom resource.
pub(crate) struct Claimer<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> Claimer<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        Claimer { scope }
    }
}

impl Claimer<'_, '_> {
    /// Writes finalizer, ApplySet label and member scopes to the custom resource in one request, before the first
    /// member is applied.
    pub(super) async fn claim(&mut self, release: &Release, prepared: &PreparedRelease) -> Result<(), Error> {
        let members = prepared.desired.members.iter().map(|member| &member.id);
        let desired = MemberScopes::from_objects(members.chain(prepared.hook_ids()));
        let recorded = MemberScopes::from_record(&release.record);
        let proven = recorded.union(desired);
        let superset = MemberScopes::from_resource(&self.scope.written).union(proven.clone());
        self.scope.claim.holds_finalizer =
            ClaimRules::new(self.scope).needs_finalizer(prepared) || self.scope.written.has_finalizer();
        let keeps = prepared.generated_values.has_generated_values() || self.scope.has_generated_values();
        self.write_member_scopes(&superset, keeps).await?;
        member_scopes::want(self.scope.context, &prepared.identity.owner.set, &proven);
        Ok(())
    }

    /// Restores the finalizer if another client removed it, also when the release cannot be applied: its members are to
    /// be deleted with the custom resource.
    pub(super) async fn restore_finalizer(&mut self, release: &Release) -> Flow {
        // Only a render shows whether a decorator needs a finalizer.
        if self.scope.written.is_claimed()
            || release.record.entries.is_empty()
            || self.scope.written.decorator.is_some()
        {
            return Continue(());
        }
        let author_digest = self.scope.written.author_digest();
        let superset =
            MemberScopes::from_resource(&self.scope.written).union(MemberScopes::from_record(&release.record));
        let keeps = self.scope.has_generated_values();
        let written = self.write_member_scopes(&superset, keeps).await;
        written.or_stop(|error| self.claim_error(&error))?;
        if self.scope.written.author_digest() == author_digest {
            Continue(())
        } else {
            Break(interrupted())
        }
    }

    /// Writes the member scopes, and whether generated values are stored, unless the custom resource already has them.
    pub(super) async fn write_member_scopes(&mut self, superset: &MemberScopes, keeps: bool) -> Result<(), Error> {
        let mut annotations = superset.annotations(&self.scope.written);
        if keeps {
            let place = generated_values::place(self.scope.context, &self.scope.written);
            annotations.insert(self.scope.written.kept_annotation(), place.to_string());
        }
        let former = self
            .scope
            .takeover
            .former_release
            .as_ref()
            .map(|former_release| former_release.former);
        if let Some(former) = former {
            annotations.insert(annotations::TAKEOVER.to_owned(), former.name().to_owned());
        }
        let labels = match &self.scope.written.decorator {
            None => BTreeMap::from([(applyset::ID_LABEL.to_owned(), self.scope.owner.set.clone())]),
            Some(_) => BTreeMap::from([(decorator_identity::LABEL.to_owned(), "true".to_owned())]),
        };
        let is = &self.scope.written;
        let has_namespaces = |annotations: &BTreeMap<_, _>| annotations.contains_key(&is.member_scope_annotations().1);
        let claimed = is.is_claimed()
            && is.has_finalizer() == self.scope.claim.holds_finalizer
            && labels.iter().all(|(key, text)| is.labels.get(key) == Some(text))
            && has_namespaces(&annotations) == has_namespaces(&is.annotations)
            && annotations
                .iter()
                .all(|(key, text)| is.annotations.get(key) == Some(text))
            && keeps == self.scope.has_generated_values()
            && former.is_some() == is.annotations.contains_key(annotations::TAKEOVER);
        if claimed {
            return Ok(());
        }
        let marks = OwnedMetadata {
            labels,
            annotations,
            finalizer: self.scope.claim.holds_finalizer.then(|| self.scope.written.finalizer()),
        };
        self.write_marks(&marks).await?;
        Ok(())
    }

    /// Applies the operator's metadata of the custom resource. Our other fields there are removed.
    pub(super) async fn write_marks(&mut self, marks: &OwnedMetadata) -> Result<(), Error> {
        let target = self.scope.written.target(&self.scope.unit.resource);
        let decorator = self.scope.written.decorator.as_deref();
        let object = apply_metadata(&self.scope.context.client, &target, marks, decorator).await?;
        self.scope
            .context
            .metrics
            .objects
            .wrote("CustomResource", WriteOperation::Metadata);
        self.scope.set_written(object);
        Ok(())
    }

    async fn undecorate(&mut self) -> Result<(), Error> {
        self.write_marks(&OwnedMetadata::default()).await?;
        let (kinds, namespaces) = self.scope.written.member_scope_annotations();
        let mut keys = vec![kinds, namespaces, self.scope.written.kept_annotation()];
        keys.retain(|key| self.scope.written.annotations.contains_key(key));
        if !keys.is_empty() {
            let target = self.scope.written.target(&self.scope.unit.resource);
            let object = remove_annotations(&self.scope.context.client, &target, &keys).await?;
            self.scope.set_written(object);
        }
        Ok(())
    }

    /// Removes the finalizer. From an object that stays, because it is only decorated, also what else the operator wrote into it.
    pub(crate) async fn unclaim(&mut self) -> Result<(), Error> {
        if !self.scope.written.deleting {
            self.undecorate().await?;
        }
        let target = self.scope.written.target(&self.scope.unit.resource);
        let finalizer = self.scope.written.finalizer();
        remove_finalizer(
            &self.scope.context.client,
            &target,
            &self.scope.written.finalizers,
            &finalizer,
        )
        .await
    }

    /// Returns the phase after the finalizer or the ApplySet annotations could not be written.
    pub(super) fn claim_error(&self, error: &Error) -> Phase {
        let size = match error {
            Error::TooLarge(_) => format!(" (it has about {} bytes)", self.scope.written.size()),
            _ => String::new(),
        };
        let message = format!(
            "finalizer and ApplySet annotations can't be written: {error}{}{size}",
            refusal(error).unwrap_or_default()
        );
        match error {
            Error::TooLarge(_) => {
                self.scope
                    .context
                    .metrics
                    .release_counters
                    .refused_write(&self.scope.unit.group_kind.kind);
                Phase::stalled(Reason::Claim, message)
            }
            _ => Phase::failed(Reason::Claim, message),
        }
    }
}
