//! Takes a release over from Helm or helm-operator, between the stages of an ordinary reconcile. Each write leaves a
//! state from which the next reconcile can go on:
//!
//! 1. The former release is read into the record (release Secrets, else the status). Nothing is written.
//! 2. The claim adds our finalizer, and an annotation that names the takeover.
//! 3. Objects that the chart does not render get our marks, so that prune and deletion know them as ours.
//! 4. The managedFields of each member become ours, then it is applied: fields and owner references of the
//!    former owner go.
//! 5. After apply and prune, the former operator's status fields and finalizers are removed, then the release
//!    Secrets, and last our annotation.

pub(crate) mod claimant;
pub(crate) mod former_members;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow::{Break, Continue};

use serde_json::Value;

use crate::cluster::custom_resource::{self as writes, STATUS_MANAGER};
use crate::cluster::error::Error;
use crate::cluster::objects::takeover as requests;
use crate::reconcile::claim::Claimer;
use crate::reconcile::claim::member_scopes::MemberScopes;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::outcome::ReconcileOutcome;
use crate::reconcile::release::Release;
use crate::reconcile::release::former_release::FormerRelease;
use crate::reconcile::render::pool::PoolLane;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::takeover::former_members::{FormerMembers, failed};
use crate::reconcile::values::release_name::release_name;
use crate::reconcile::values::release_namespace::release_namespace;
use crate::telemetry::metrics::WriteOperation;
use chartwright_core::identity::ObjectId;
use chartwright_core::record::Entry;
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{self, Phase, Reason};
use chartwright_core::takeover::{self, Former, ReleaseError, StoredRelease};
use chartwright_watches::Collisions;

/// All unpacked revisions of a release may use this fraction (1/n) of the memory of a render.
const UNPACKED: u64 = 4;

/// The contents of the release Secrets.
#[derive(Default)]
struct ReleaseSecrets {
    /// Readable releases of this custom resource.
    releases: Vec<StoredRelease>,
    /// Name and UID of each Secret of this custom resource.
    secrets: Vec<(String, String)>,
    /// Releases and Secrets that may belong to another owner.
    others: Vec<(Option<StoredRelease>, (String, String))>,
}

impl ReleaseSecrets {
    fn has_other_owner(&self) -> bool {
        self.secrets.is_empty() && !self.others.is_empty()
    }
}

/// Takes a release over from Helm or helm-operator.
pub(crate) struct TakeoverStage<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> TakeoverStage<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        TakeoverStage { scope }
    }
}

impl TakeoverStage<'_, '_> {
    /// Reads the former release into the record. Does nothing for a release that was always ours.
    pub(super) async fn find_former_release(&mut self, release: &mut Release) -> Flow {
        let Some(mut former) = self.detect_former_owner(release) else {
            return Continue(());
        };
        // A deletion leaves objects that still belong to Helm to Helm.
        if former == Former::Helm && self.scope.written.deleting {
            return Continue(());
        }
        let Some((name, namespace)) = self.former_name(former) else {
            return Continue(());
        };
        let Some(stored) = self.list_stored(former, (&name, &namespace)).await? else {
            return Continue(());
        };
        // Only one takeover at a time unpacks revisions, with the memory budget of a render.
        let _share = self.scope.context.render.budget.share(PoolLane::Long).await;
        let mut stored = self.read_stored(stored, &namespace).await?;
        let adopts = self.scope.unit.watch.collisions != Collisions::Prevent;
        if former == Former::OperatorSdk && stored.has_other_owner() && !self.scope.written.deleting {
            // Any author can claim that a custom resource was helm-operator's, but `helm install` made this release.
            if adopts {
                former = Former::Helm;
            } else if !(self.is_marked() && self.scope.written.has_finalizer()) {
                return Break(refuse_helm_release(&name, &namespace));
            }
        }
        if former == Former::Helm && adopts {
            // A release without objects is not taken over.
            let mut others = std::mem::take(&mut stored.others);
            others.retain(|(found, _)| found.as_ref().is_none_or(StoredRelease::has_objects));
            for (found, secret) in others {
                stored.releases.extend(found);
                stored.secrets.push(secret);
            }
        }
        let ReleaseSecrets {
            mut releases, secrets, ..
        } = stored;
        releases.sort_by_key(|release| (release.is_deployed(), release.version));
        if releases.is_empty() {
            let status = self.scope.written_status();
            let manifest = status[takeover::DEPLOYED_RELEASE]["manifest"].as_str();
            let manifest = manifest.filter(|manifest| !manifest.is_empty());
            releases.extend(manifest.map(StoredRelease::of_manifest));
        }
        if former == Former::Helm && name != self.scope.written.key.name {
            release.record.release_name = Some(name);
        }
        let manifests = self.record_former_objects(release, &releases, &namespace);
        release.stored.under_takeover = true;
        self.scope.takeover.former_release = Some(FormerRelease {
            former,
            namespace,
            secrets,
            manifests,
            left: Vec::new(),
            settled: false,
        });
        Continue(())
    }

    /// Name and namespace of the former release. `None` if the watch makes no valid ones.
    fn former_name(&self, former: Former) -> Option<(String, String)> {
        let (unit, resource) = (self.scope.unit, &self.scope.written);
        match former {
            // helm-operator names a release after its custom resource.
            Former::OperatorSdk => Some((resource.key.name.clone(), resource.key.namespace.clone())),
            Former::Helm => Some((
                release_name(unit, resource).ok()?,
                release_namespace(unit, resource).ok()?,
            )),
        }
    }

    /// Lists the release Secrets. `None` if there is nothing to take over.
    async fn list_stored(
        &mut self,
        former: Former,
        (name, namespace): (&str, &str),
    ) -> Flow<Option<Vec<requests::ReleaseSecret>>> {
        match requests::list_releases(&self.scope.client, namespace, name).await {
            Ok(stored) if stored.is_empty() && former == Former::Helm && !self.is_marked() => Continue(None),
            Ok(stored) => Continue(Some(stored)),
            // A deletion uses the status instead. The garbage collector deletes the Secrets.
            Err(Error::Forbidden(_)) if self.scope.written.deleting => Continue(Some(Vec::new())),
            // A Helm release of this name matters only if a member collides with one of its objects.
            Err(error @ Error::Forbidden(_)) if former == Former::Helm && !self.is_marked() => {
                self.scope.takeover.unlisted = Some(error);
                Continue(None)
            }
            Err(error) => {
                let failed = failed(&format!("the release Secrets of {namespace}/{name}"), &error);
                Break(failed.not_before(error.retry_after()))
            }
        }
    }

    /// Reads release Secrets, the last revision first. Skips Secrets that are broken or exceed the memory limit.
    async fn read_stored(&self, mut listed: Vec<requests::ReleaseSecret>, namespace: &str) -> Flow<ReleaseSecrets> {
        let key = &self.scope.written.key;
        let mut stored = ReleaseSecrets::default();
        let mut left = self.scope.context.render.budget.limits(PoolLane::Long).memory / UNPACKED;
        listed.sort_by_key(|secret| std::cmp::Reverse((secret.deployed, secret.version)));
        for secret in listed {
            let data = requests::read_release(&self.scope.client, namespace, &secret).await;
            let data =
                data.or_stop(|error| failed(&format!("the release Secret {namespace}/{}", secret.name), &error))?;
            let Some(data) = data else { continue };
            let unpacked = tokio::task::spawn_blocking(move || StoredRelease::decode(&data, left)).await;
            let unpacked = unpacked.unwrap_or_else(|error| Err(ReleaseError::Gzip(error.to_string())));
            let found = match unpacked {
                Ok(found) => {
                    left = left.saturating_sub(found.manifest.len() as u64);
                    Some(found)
                }
                Err(error) => {
                    tracing::warn!(resource = %key, secret = %secret.name, %error, "a release Secret can't be read");
                    None
                }
            };
            let is_ours = secret.owners.contains(&self.scope.written.uid)
                || self.controls(found.as_ref(), namespace).await.or_stop(|error| {
                    let what = format!("the members of the Helm release {namespace}/{}", key.name);
                    failed(&what, &error)
                })?;
            if is_ours {
                stored.releases.extend(found);
                stored.secrets.push((secret.name, secret.uid));
            } else {
                stored.others.push((found, (secret.name, secret.uid)))
            }
        }
        Continue(stored)
    }

    /// True if the custom resource is the controller of an object in the manifest of a release.
    async fn controls(&self, stored: Option<&StoredRelease>, namespace: &str) -> Result<bool, Error> {
        let Some(stored) = stored else { return Ok(false) };
        let snapshot = self.scope.context.discovery.snapshot();
        for member in FormerMembers::new(self.scope)
            .members_of(self.scope.context.keys.current(), &stored.manifest, namespace)
            .members
        {
            let id = &member.id;
            let Some(resource) = snapshot.resource(&id.group_kind, &member.version) else {
                continue;
            };
            match requests::metadata(&self.scope.client, resource, &id.namespace, &id.name).await {
                Ok(Some(metadata)) if takeover::is_controlled(&metadata, &self.scope.written.uid) => return Ok(true),
                Ok(_) => {}
                // A deletion does not wait for objects that it leaves alone.
                Err(_) if self.scope.written.deleting => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn is_marked(&self) -> bool {
        takeover::marker(&self.scope.written.annotations).is_some()
    }

    fn detect_former_owner(&self, release: &Release) -> Option<Former> {
        // A decorated object never was a release of Helm or helm-operator.
        if self.scope.written.decorator.is_some() {
            return None;
        }
        if let Some(former) = takeover::marker(&self.scope.written.annotations) {
            return Some(former);
        }
        let has_manifest = || self.scope.written_status().get(takeover::DEPLOYED_RELEASE).is_some();
        if takeover::is_held(&self.scope.written.finalizers) || !self.scope.written.has_finalizer() && has_manifest() {
            return Some(Former::OperatorSdk);
        }
        let new = release.record.revision == 0 && !self.scope.written.deleting;
        (new && self.scope.unit.watch.collisions != Collisions::Prevent).then_some(Former::Helm)
    }

    /// Records the objects of the former owner: the last revision with digests, to see whether the chart renders the
    /// same now, and earlier revisions by name only.
    fn record_former_objects(
        &self,
        release: &mut Release,
        releases: &[StoredRelease],
        namespace: &str,
    ) -> HashMap<ObjectId, Value> {
        let key = release.key(&self.scope.context.keys);
        let mut version = 1;
        let mut manifests = HashMap::new();
        for (index, stored) in releases.iter().enumerate() {
            let last = index + 1 == releases.len();
            for member in FormerMembers::new(self.scope)
                .members_of(key, &stored.manifest, namespace)
                .members
            {
                let entry = Entry {
                    digest: if last { member.digest.clone() } else { String::new() },
                    ..Entry::of(&member)
                };
                match release.record.entry_mut(&member.id) {
                    // An earlier attempt of the takeover recorded this entry.
                    Some(known) if known.uid.is_empty() => known.digest = entry.digest,
                    Some(_) => {}
                    None => release.record.entries.push(entry),
                }
                manifests.insert(member.id, member.object);
            }
            version = version.max(stored.version);
        }
        if release.record.revision == 0 && !releases.is_empty() {
            release.record.revision = version;
        }
        manifests
    }
}

impl TakeoverStage<'_, '_> {
    /// Handles former members that the chart does not render. Those of helm-operator get our marks, so that prune and
    /// deletion recognize them. Those of a Helm release stay as they are. A deletion passes an empty `rendered`.
    pub(super) async fn mark_orphans(&mut self, release: &mut Release, rendered: &HashSet<&ObjectId>) -> Flow {
        let Some(former_release) = &mut self.scope.takeover.former_release else {
            return Continue(());
        };
        let is_ours = |entry: &Entry| rendered.contains(&entry.id) || !entry.uid.is_empty();
        let (stay, orphans): (Vec<Entry>, Vec<Entry>) = std::mem::take(&mut release.record.entries)
            .into_iter()
            .partition(is_ours);
        release.record.entries = stay;
        if former_release.former == Former::Helm {
            former_release
                .left
                .extend(orphans.iter().map(|entry| entry.id.to_string()));
            return Continue(());
        }
        let mut outcome = Continue(());
        for entry in orphans {
            if outcome.is_break() {
                release.record.entries.push(entry);
                continue;
            }
            match FormerMembers::new(self.scope).mark(&entry.id).await {
                Ok(Some(uid)) => release.record.entries.push(Entry { uid, ..entry }),
                Ok(None) => {}
                Err(error) => {
                    outcome = Break(failed(&entry.id.to_string(), &error).not_before(error.retry_after()));
                    release.record.entries.push(entry);
                }
            }
        }
        outcome
    }

    /// Finishes the takeover after the status was written. `failures`: the number of failures before this reconcile.
    pub(super) async fn finish_takeover(
        &mut self,
        release: &mut Release,
        mut outcome: ReconcileOutcome,
        failures: u32,
    ) -> ReconcileOutcome {
        if self
            .scope
            .takeover
            .former_release
            .as_ref()
            .is_none_or(|former| !former.settled)
        {
            return outcome;
        }
        match self.remove_former_owner(release).await {
            Ok(()) => outcome.written = Some(self.scope.written.clone()),
            Err(error) => {
                tracing::warn!(resource = %self.scope.written.key, %error, "the takeover could not be finished yet");
                release.retry.backoff.failures = failures;
                outcome.again = Some(release.back_off(error.retry_after()));
            }
        }
        outcome
    }

    async fn remove_former_owner(&mut self, release: &mut Release) -> Result<(), Error> {
        let Some(former_release) = &self.scope.takeover.former_release else {
            return Ok(());
        };
        let (former, left) = (former_release.former, former_release.left.clone());
        let client = &self.scope.context.client;
        let resource = &self.scope.unit.resource;
        let key = &self.scope.written.key;
        let metadata = requests::metadata(client, resource, &key.namespace, &key.name).await?;
        let Some(metadata) = metadata.filter(|metadata| metadata.uid.as_deref() == Some(&self.scope.written.uid))
        else {
            return Ok(());
        };
        if let Some(patch) = takeover::farewell(&metadata, STATUS_MANAGER) {
            requests::patch_metadata(client, resource, &key.namespace, &key.name, &patch).await?;
            self.scope
                .context
                .metrics
                .objects
                .wrote("CustomResource", WriteOperation::Metadata);
            // Our field manager owns the former status fields now, so this apply removes those that are not ours.
            let ours = status::ours(self.scope.written_status());
            writes::apply_status(client, &self.scope.written.target(resource), &ours).await?;
            self.scope
                .context
                .metrics
                .objects
                .wrote("CustomResource", WriteOperation::Status);
        }
        if left.is_empty() {
            FormerMembers::new(self.scope).remove_stored(former_release).await?;
        }
        self.scope.takeover.former_release = None;
        release.stored.under_takeover = false;
        let superset = MemberScopes::from_record(&release.record);
        let keeps = self.scope.has_generated_values();
        Claimer::new(self.scope).write_member_scopes(&superset, keeps).await?;
        let note = match (former, left.is_empty()) {
            (Former::OperatorSdk, _) => "the release is taken over from helm-operator".to_owned(),
            (Former::Helm, true) => "the release is taken over from Helm".to_owned(),
            (Former::Helm, false) => format!(
                "the release is taken over from Helm, except objects that the chart does not render: {}; these objects and \
                 Helm's release Secrets stay",
                short_list(left)
            ),
        };
        self.scope.inform("TakenOver", &note).await;
        Ok(())
    }
}

/// Returns the phase of a custom resource whose name an unrelated Helm release has.
fn refuse_helm_release(name: &str, namespace: &str) -> Phase {
    Phase::Stalled {
        reason: Reason::Collision,
        message: format!(
            "the Helm release {namespace}/{name} exists, and does not belong to this custom resource, which owns neither the \
             release's Secrets nor any of its objects. Give the custom resource another name, or uninstall that \
             release, or, to take it over, set `collisions: Adopt` on this watch in watches.yaml"
        ),
        recheck: true,
    }
}
