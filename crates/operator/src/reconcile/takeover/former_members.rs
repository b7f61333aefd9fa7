//! Adopts, marks and detaches the members of a release of Helm or helm-operator.

use std::ops::ControlFlow::Continue;

use serde_json::Value;

use crate::cluster::discovery::Resource;
use crate::cluster::error::Error;
use crate::cluster::objects::{FIELD_MANAGER, takeover as requests};
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hints::rights;
use crate::reconcile::release::Release;
use crate::reconcile::release::former_release::FormerRelease;
use crate::reconcile::render::pool::{PoolLane, off_worker};
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::takeover::claimant::claimant;
use crate::telemetry::metrics::WriteOperation;
use chartwright_core::apply::{ApplyReason, Step};
use chartwright_core::digest::Key;
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::live::Live;
use chartwright_core::members::desired::{Desired, Identity, Member, RenderedObject, desired};
use chartwright_core::status::{Phase, Reason};
use chartwright_core::takeover::{self, Claim, Claimant, Heir};

/// Takes members over from their former owner, or gives them back.
pub(crate) struct FormerMembers<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> FormerMembers<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        FormerMembers { scope }
    }
}

impl FormerMembers<'_> {
    /// Parses the objects in the manifest of a release.
    pub(crate) fn members_of(&self, key: &Key, manifest: &str, namespace: &str) -> Desired {
        let objects = off_worker(|| {
            takeover::objects(
                manifest,
                self.scope.context.render.budget.limits(PoolLane::Long).memory / READ,
            )
        })
        .unwrap_or_else(|error| {
            tracing::warn!(resource = %self.scope.written.key, %error, "the former release's manifest can't be read");
            Vec::new()
        });
        let rendered = objects.into_iter().map(|object| RenderedObject {
            object,
            source: "the former release".into(),
        });
        let identity = Identity {
            owner: self.scope.owner.clone(),
            operator: self.scope.context.settings.operator.clone(),
            namespace: namespace.to_owned(),
        };
        let snapshot = self.scope.context.discovery.snapshot();
        let namespaced = |group_kind: &GroupKind, version: &str| snapshot.namespaced(group_kind, version);
        desired(rendered.collect(), &identity, &namespaced, key)
    }
}

impl FormerMembers<'_> {
    /// Writes our marks to a former member. Returns its UID, or `None` if the object is gone or not ours.
    pub(crate) async fn mark(&self, id: &ObjectId) -> Result<Option<String>, Error> {
        let snapshot = self.scope.context.discovery.snapshot();
        let Some(resource) = snapshot.served(&id.group_kind)? else {
            return Ok(None);
        };
        let client = &self.scope.client;
        let claimant = self.claimant_of(&self.scope.written.key.name, &self.scope.written.key.namespace);
        let mut result = Ok(None);
        for _ in 0..ATTEMPTS {
            let Some(metadata) = requests::metadata(client, resource, &id.namespace, &id.name).await? else {
                return Ok(None);
            };
            let uid = metadata.uid.clone().unwrap_or_default();
            match ownership(id, &crate::cluster::objects::live(&metadata), &self.scope.owner) {
                Ownership::Ours => return Ok(Some(uid)),
                Ownership::Foreign | Ownership::Inherited
                    if takeover::claim(&metadata, &claimant) == Claim::Inherited => {}
                _ => return Ok(None),
            }
            let patch = takeover::marks(&metadata, id, &self.scope.owner, &self.scope.context.settings.operator);
            match self.patch_metadata(resource, id, &patch).await {
                Ok(is_there) => return Ok(is_there.then_some(uid)),
                Err(error @ Error::Conflict(_)) => result = Err(error),
                Err(error) => return Err(error),
            }
        }
        result
    }

    fn claimant_of(&self, release: &str, namespace: &str) -> Claimant {
        claimant(self.scope.unit, &self.scope.written, release, namespace)
    }

    /// Patches the metadata of an object. Returns false if the object is gone.
    async fn patch_metadata(&self, resource: &Resource, id: &ObjectId, patch: &Value) -> Result<bool, Error> {
        match requests::patch_metadata(&self.scope.client, resource, &id.namespace, &id.name, patch).await {
            Ok(_) => {
                self.scope
                    .context
                    .metrics
                    .objects
                    .wrote(&id.group_kind.kind, WriteOperation::Metadata);
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Decides whether a member without our marks may be applied. If so, moves its managedFields to our field manager, or marks it as
    /// adopted, also in `live`. The error is the reason why the member stays as it is.
    pub(crate) async fn adopt(
        &self,
        prepared: &PreparedRelease,
        member: &Member,
        resource: &Resource,
        live: Option<&mut Live>,
    ) -> Result<Step, (Reason, String)> {
        let client = &self.scope.client;
        let claimant = self.claimant_of(&prepared.release_name, &prepared.identity.namespace);
        let (namespace, name) = (&member.id.namespace, &member.id.name);
        let unable = |error: Error| (Reason::Takeover, format!("{} ({}): {error}", member.id, member.source));
        let apply = |force, why| Ok(Step::Apply { force, why });
        let mut conflict = Error::Conflict("other clients changed it during each attempt".into());
        for _ in 0..ATTEMPTS {
            let found = requests::metadata(client, resource, namespace, name)
                .await
                .map_err(unable)?;
            let Some(metadata) = found else {
                return apply(false, ApplyReason::Missing);
            };
            let left = |why: &str| format!("{} ({}) is left untouched: {why}", member.id, member.source);
            let claim = takeover::claim(&metadata, &claimant);
            match (&claim, &self.scope.takeover.unlisted) {
                (Claim::Refused(why), _) => return Err((Reason::Collision, left(why))),
                // Helm's release Secrets would stay, and a later `helm uninstall` would delete our members.
                (Claim::Adopted, Some(error)) => {
                    let why = format!(
                        "it belongs to the Helm release {}/{}, and to take that over the operator needs the rights to \
                         list and delete Secrets there: {error}",
                        claimant.namespace, claimant.release
                    );
                    return Err((Reason::Collision, left(&why)));
                }
                _ => {}
            }
            if metadata.deletion_timestamp.is_some() {
                return Ok(Step::AwaitDeletion);
            }
            let why = match claim {
                Claim::Unowned => ApplyReason::Unowned,
                _ => ApplyReason::Adopted,
            };
            let heir = Heir {
                manager: FIELD_MANAGER,
                subresource: "",
                api_version: &resource.api.api_version,
                manifest: self
                    .scope
                    .takeover
                    .former_release
                    .as_ref()
                    .and_then(|former| former.manifests.get(&member.id)),
                owner_uid: &claimant.uid,
            };
            let patch = match claim {
                Claim::Unowned => takeover::adoption(&metadata),
                _ => takeover::migration(&metadata, &heir),
            };
            let Some(patch) = patch else {
                return apply(true, why);
            };
            match self.patch_metadata(resource, &member.id, &patch).await {
                Ok(true) => {
                    if let Some(live) = live.filter(|_| why == ApplyReason::Unowned) {
                        (live.marks.adopted, live.marks.keep) = (true, true);
                    }
                    return apply(true, why);
                }
                Ok(false) => return apply(false, ApplyReason::Missing),
                Err(error @ Error::Conflict(_)) => conflict = error,
                Err(error) => return Err(unable(error)),
            }
        }
        Err(unable(conflict))
    }

    /// Deletes the release Secrets.
    pub(crate) async fn remove_stored(&self, former_release: &FormerRelease) -> Result<(), Error> {
        for (name, uid) in &former_release.secrets {
            requests::remove_release(&self.scope.client, &former_release.namespace, name, uid).await?;
            self.scope
                .context
                .metrics
                .objects
                .wrote("Secret", WriteOperation::Delete);
        }
        Ok(())
    }
}

impl FormerMembers<'_> {
    /// Removes the owner references of helm-operator from all members: members of a suspended release outlive their
    /// custom resource.
    pub(crate) async fn detach_former_members(&self, release: &Release) -> Flow {
        if !self.scope.takeover.is_under_way() {
            return Continue(());
        }
        for id in release.record.entries.iter().map(|entry| &entry.id) {
            let detached = self.detach(id).await;
            detached.or_stop(|error| failed(&id.to_string(), &error))?;
        }
        Continue(())
    }

    /// Removes the owner reference to the custom resource from an object.
    async fn detach(&self, id: &ObjectId) -> Result<(), Error> {
        let snapshot = self.scope.context.discovery.snapshot();
        let Some(resource) = snapshot.served(&id.group_kind)? else {
            return Ok(());
        };
        let found = requests::metadata(&self.scope.client, resource, &id.namespace, &id.name).await?;
        if let Some(patch) = found.and_then(|metadata| takeover::parting(&metadata, &self.scope.written.uid)) {
            self.patch_metadata(resource, id, &patch).await?;
        }
        Ok(())
    }

    /// Removes the release Secrets of a deleted release.
    pub(crate) async fn forget_stored(&self) -> Flow {
        let Some(former_release) = &self.scope.takeover.former_release else {
            return Continue(());
        };
        let removed = self.remove_stored(former_release).await;
        removed.or_stop(|error| failed("the release Secrets", &error))
    }
}

/// How often a write to an object is tried while other clients change it.
pub(crate) const ATTEMPTS: usize = 4;

/// The objects of one revision may use this fraction (1/n) of the memory of a render.
pub(crate) const READ: u64 = 2;

pub(crate) fn failed(what: &str, error: &Error) -> Phase {
    let hint = rights(
        error,
        "to take a release over, the operator needs the rights to list and delete Secrets in its namespace",
    );
    Phase::failed(Reason::Takeover, format!("{what}: {error}{hint}"))
}
