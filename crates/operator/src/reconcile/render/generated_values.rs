//! Random results of a release: read before the render, stored before the first member, never rotated silently.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use crate::cluster::error::Error;
use crate::cluster::objects::lookup::LookupAnswers;
use crate::cluster::objects::{self, NO_VERSION};
use crate::cluster::storage::secrets::{Files, SecretName};
use crate::reconcile::claim::member_scopes::MemberScopes;
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::hints::rights;
use crate::reconcile::record::signed_secrets::{GENERATED_VALUES, SignedSecrets};
use crate::reconcile::release::Release;
use crate::reconcile::render::job::{RenderJob, RenderRequest, RenderResult};
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::render::secret_values;
use crate::reconcile::render::stored_values::{GeneratedValues, StoredValues};
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::takeover::claimant::{claimant, may_adopt};
use crate::telemetry::redact::Secrets;
use chartwright_core::digest::{Key, KeyUse};
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::index::live::Live;
use chartwright_core::members::desired::Desired;
use chartwright_core::record::requests::Request::Regenerate;
use chartwright_core::status::{Phase, Reason};
use chartwright_core::values::recovery::{self, FoundResult, Pin};
use helm_template::render::{Kept, KeptError, KeptKey, Rendered};

const RESULTS: &str = "results.json";

const PINS: &str = "pins.json";

/// The text of the `regenerate` that made these results.
const REGENERATED: &str = "regenerated";

/// The key of the digests of the results' inputs. It is stored with the results, so that a new key of the operator
/// changes no result.
const KEY: &str = "arguments.key";

/// Rounds in which lost results are recovered: a certificate can be recovered only after its authority.
const RECOVERIES: usize = 4;

/// Returns the Secret of a custom resource's random results.
pub(crate) fn place(context: &Context, resource: &CustomResource) -> SecretName {
    context.secret_name(resource, &GENERATED_VALUES, "")
}

fn failed(place: &SecretName, error: &Error) -> Phase {
    let hint = rights(
        error,
        "a chart with random results needs the rights to get, create, patch and delete Secrets there",
    );
    let message = format!("{place}, which holds the release's random results: {error}{hint}");
    if error.is_permanent() {
        Phase::stalled(Reason::KeptResults, message)
    } else {
        Phase::failed(Reason::KeptResults, message)
    }
}

impl GeneratedValues {
    /// Reads the Secret if the custom resource has one. Otherwise sends no request.
    pub(crate) async fn read(context: &Context, resource: &CustomResource, release: &Release) -> Flow<Self> {
        let record = &release.record;
        let new_key = release
            .key(&context.keys)
            .derive(KeyUse::KeptResults, &[resource.uid.as_bytes()]);
        let mut memory = GeneratedValues {
            stored: StoredValues::empty(new_key),
            exists: record.revision > 0
                || !record.entries.is_empty()
                || !MemberScopes::from_resource(resource).kinds.is_empty(),
            regenerated: record
                .handled
                .pending(Regenerate, &resource.annotations)
                .map(str::to_owned),
            ..GeneratedValues::default()
        };
        if let Some(stored) = &release.retry.cache.kept {
            memory.was_read = true;
            memory.stored = StoredValues::clone(stored);
        } else if resource.annotations.contains_key(&resource.kept_annotation()) {
            memory.fetch(context, resource, &release.secrets).await?;
        }
        let is_made = memory.regenerated.is_none() || memory.regenerated == memory.stored.made_for;
        if is_made && !release.stored.under_takeover {
            memory.use_stored();
        } else {
            memory.kept = Kept::new(memory.stored.key);
            memory.was_read = true;
        }
        Continue(memory)
    }

    async fn fetch(&mut self, context: &Context, resource: &CustomResource, secrets: &Secrets) -> Flow {
        self.was_read = true;
        let place = place(context, resource);
        let found = context.read_signed_files(resource, &place).await;
        let found = found.or_stop(|error| failed(&place, &error))?;
        let stored = &mut self.stored;
        stored.version = found.version;
        let Some(files) = found.files else {
            return Continue(());
        };
        if let Some(Ok(key)) = files.get(KEY).map(|bytes| <[u8; 32]>::try_from(bytes.as_slice())) {
            stored.key = key;
        }
        let bytes = |name: &str| files.get(name).map(Vec::as_slice);
        match Kept::read(stored.key, bytes(RESULTS).unwrap_or_default()) {
            Ok(kept) => stored.kept = kept,
            // A later version of the operator wrote them: overwriting would lose them.
            Err(error @ KeptError::Version(_)) => return Break(failed(&place, &Error::Invalid(error.to_string()))),
            Err(KeptError::Syntax(error)) => {
                tracing::warn!(resource = %resource.key, %place, %error, "random results can't be read; looking for them in the live objects");
            }
        }
        stored.made_for = bytes(REGENERATED).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        stored.pins = bytes(PINS)
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .unwrap_or_default();
        secret_values::learn_kept(secrets, &stored.kept, &stored.pins);
        Continue(())
    }

    fn use_stored(&mut self) {
        self.kept = self.stored.kept.clone();
        self.pins = self.stored.pins.clone();
    }

    /// True if random results are to be created again, or renewed. The render then differs for any lookups.
    pub(crate) fn must_draw(&self, release: &Release, now: jiff::Timestamp) -> bool {
        let renewal = release.record.renewal;
        self.regenerated.is_some() || renewal.is_some_and(|due| due <= now)
    }

    pub(crate) fn known(&self) -> Option<Box<StoredValues>> {
        self.was_read.then(|| Box::new(self.stored.clone()))
    }

    pub(crate) fn has_generated_values(&self) -> bool {
        !self.kept.is_empty() || !self.pins.is_empty()
    }
}

impl StoredValues {
    fn empty(key: [u8; 32]) -> Self {
        StoredValues {
            kept: Kept::new(key),
            key,
            ..StoredValues::default()
        }
    }
}

impl RenderJob<'_> {
    /// Renders with the stored results and notes the results that the render used. If results are missing although the
    /// release exists, recovers them from its live objects.
    pub(crate) async fn settled(
        &self,
        revision: i64,
        memory: &mut GeneratedValues,
        answers: &mut LookupAnswers,
    ) -> Flow<(Rendered, Desired)> {
        let mut made = self.rounds(revision, &memory.kept, answers).await?;
        if memory.exists && memory.regenerated.is_none() {
            made = self.recover(revision, made, memory, answers).await?;
        }
        let (rendered, mut desired) = made;
        let randomness = &rendered.randomness;
        memory.kept = randomness.kept.clone();
        let of_pins = Key::new(memory.stored.key);
        memory.pins = recovery::apply_pins(&mut desired.members, &memory.pins, &of_pins, self.key);
        memory.renewal = randomness.next_renewal;
        Continue((rendered, desired))
    }

    async fn recover(
        &self,
        revision: i64,
        mut made: (Rendered, Desired),
        memory: &mut GeneratedValues,
        answers: &mut LookupAnswers,
    ) -> Flow<(Rendered, Desired)> {
        if !memory.was_read && !made.0.randomness.missed.is_empty() {
            // No annotation names stored results, but another client may have removed it.
            memory.fetch(self.context, self.resource, &self.secrets).await?;
            if !memory.stored.kept.is_empty() {
                memory.use_stored();
                made = self.rounds(revision, &memory.kept, answers).await?;
            }
        }
        let randomness = &made.0.randomness;
        let moved = recovery::shifted(&memory.kept, &randomness.kept, &randomness.missed);
        if !moved.is_empty() {
            let kept = memory.kept.without(&BTreeSet::from_iter(moved));
            made = self.rounds(revision, &kept, answers).await?;
        }
        for _ in 0..RECOVERIES {
            let randomness = &made.0.randomness;
            if randomness.missed.is_empty() {
                break;
            }
            let found = self.found(revision, &made, answers).await?;
            let missed = &randomness.missed;
            match recovery::recover(&randomness.kept, missed, &found) {
                Some((kept, known)) => {
                    let unknown: BTreeSet<KeptKey> = missed.difference(&known).cloned().collect();
                    made = self.rounds(revision, &kept.without(&unknown), answers).await?;
                }
                None => {
                    let stays = found.iter().filter(|found| found.rendered != found.live);
                    let of_pins = Key::new(memory.stored.key);
                    memory.pins.extend(stays.map(|found| Pin::new(found, &of_pins)));
                    break;
                }
            }
        }
        Continue(made)
    }

    /// Finds the leaves that come from missing results and reads their values from the live objects of the release.
    async fn found(
        &self,
        revision: i64,
        (rendered, one): &(Rendered, Desired),
        answers: &LookupAnswers,
    ) -> Flow<Vec<FoundResult>> {
        let request = RenderRequest {
            revision,
            lookups: Arc::new(answers.clone()),
            kept: rendered.randomness.kept.clone(),
            probe: Some(Box::new(rendered.clone())),
        };
        // A probe with other lookups proves nothing.
        let RenderResult::Rendered(_, other) = self.once(request).await? else {
            return Continue(Vec::new());
        };
        let mut live: BTreeMap<ObjectId, Option<serde_json::Value>> = BTreeMap::new();
        let mut found = Vec::new();
        for leaf in recovery::random_leaves(&one.members, &other.members) {
            let Some(member) = one.members.iter().find(|member| member.id == leaf.id) else {
                continue;
            };
            if !live.contains_key(&leaf.id) {
                live.insert(leaf.id.clone(), self.live(&leaf.id, &member.version).await?);
            }
            let object = live.get(&leaf.id).and_then(Option::as_ref);
            let value = object.and_then(|object| recovery::live_leaf(&member.object, object, &leaf.pointer));
            if let (Some(rendered), Some(value)) = (member.object.pointer(&leaf.pointer), value) {
                // A random result is secret in every kind of object.
                self.secrets.learn(value.as_str().unwrap_or_default());
                found.push(FoundResult {
                    rendered: rendered.clone(),
                    live: value.clone(),
                    leaf,
                });
            }
        }
        Continue(found)
    }

    /// Reads a live object of this release.
    async fn live(&self, id: &ObjectId, version: &str) -> Flow<Option<serde_json::Value>> {
        let Some(resource) = self.snapshot.resource(&id.group_kind, version) else {
            return Continue(None);
        };
        let object = objects::read(self.client, resource, id).await.or_stop(|error| {
            let message = format!("{id}, which may hold a random result that was lost: {error}");
            Phase::failed(Reason::KeptResults, message)
        })?;
        let owner = &self.identity.owner;
        let claimant = claimant(
            self.unit,
            self.resource,
            &self.data.release_name,
            &self.identity.namespace,
        );
        let ours = |live: &Live, object: &serde_json::Value| match ownership(id, live, owner) {
            Ownership::Ours | Ownership::Predecessor | Ownership::Kept => true,
            Ownership::Foreign | Ownership::Inherited => may_adopt(object, &claimant),
            _ => false,
        };
        Continue(
            object
                .filter(|(live, object)| ours(live, object))
                .map(|(_, object)| object),
        )
    }
}

/// Stores the random results of a release.
pub(crate) struct GeneratedStore<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> GeneratedStore<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        GeneratedStore { scope }
    }
}

impl GeneratedStore<'_> {
    /// Stores the results of this render before the first member. The former results stay until all members are
    /// applied: a rollback may need them. Returns false if another operator stored other results since the read:
    /// then its results are used.
    pub(crate) async fn store_results(&self, release: &mut Release, prepared: &PreparedRelease) -> Flow<bool> {
        let memory = &prepared.generated_values;
        release.retry.cache.kept = memory.known();
        let both = memory.kept.and(&memory.stored.kept);
        self.store(release, memory, both).await
    }

    /// Stores only the results of the applied members, unless another operator has stored other results since.
    pub(crate) async fn store_final_results(&self, release: &mut Release, prepared: &PreparedRelease) -> Flow {
        let memory = &prepared.generated_values;
        release.record.renewal = memory.renewal;
        if let Some(done) = &memory.regenerated {
            release.record.handled.set(Regenerate, done);
        }
        if memory.kept.and(&memory.stored.kept) == memory.kept {
            return Continue(());
        }
        self.store(release, memory, memory.kept.clone()).await?;
        Continue(())
    }

    /// Writes the Secret. Returns false if another client changed it since the last read or write.
    async fn store(&self, release: &mut Release, memory: &GeneratedValues, kept: Kept) -> Flow<bool> {
        let place = place(self.scope.context, &self.scope.written);
        if kept.is_empty() && memory.pins.is_empty() {
            let is_absent = release
                .retry
                .cache
                .kept
                .as_ref()
                .is_some_and(|known| known.version.is_none());
            if !self.scope.has_generated_values() || is_absent {
                return Continue(true);
            }
            release.retry.cache.kept = None;
            let removed = SignedSecrets::new(self.scope)
                .remove_signed(&GENERATED_VALUES, "")
                .await;
            removed.or_stop(|error| failed(&place, &error))?;
            release.retry.cache.kept = Some(Box::new(StoredValues::empty(memory.stored.key)));
            return Continue(true);
        }
        if (&kept, &memory.pins) == (&memory.stored.kept, &memory.stored.pins) {
            return Continue(true);
        }
        let json = |error: serde_json::Error| failed(&place, &Error::Invalid(error.to_string()));
        let mut files = Files::from([
            (RESULTS.to_owned(), serde_json::to_vec(&kept).or_stop(json)?),
            (KEY.to_owned(), memory.stored.key.to_vec()),
        ]);
        if !memory.pins.is_empty() {
            files.insert(PINS.to_owned(), serde_json::to_vec(&memory.pins).or_stop(json)?);
        }
        let made_for = memory.regenerated.as_ref().or(memory.stored.made_for.as_ref());
        if let Some(made_for) = made_for {
            files.insert(REGENERATED.to_owned(), made_for.clone().into_bytes());
        }
        // Until the write succeeds, the stored content is unknown.
        let version = release.retry.cache.kept.take().and_then(|known| known.version);
        let version = version.as_deref().unwrap_or(NO_VERSION);
        match SignedSecrets::new(self.scope)
            .write_signed_files(&GENERATED_VALUES, "", files, Some(version))
            .await
        {
            Ok(version) => {
                release.retry.cache.kept = Some(Box::new(StoredValues {
                    kept,
                    pins: memory.pins.clone(),
                    version: Some(version),
                    made_for: made_for.cloned(),
                    key: memory.stored.key,
                }));
            }
            Err(Error::Conflict(_)) => return Continue(false),
            Err(error) => return Break(failed(&place, &error).not_before(error.retry_after())),
        }
        Continue(true)
    }

    /// Removes the results of a deleted release.
    pub(crate) async fn forget_kept(&self) -> Flow {
        if !self.scope.has_generated_values() {
            return Continue(());
        }
        let place = place(self.scope.context, &self.scope.written);
        SignedSecrets::new(self.scope)
            .remove_signed(&GENERATED_VALUES, "")
            .await
            .or_stop(|error| failed(&place, &error))
    }
}
