//! Prunes orphans: members that the render no longer contains. Deletes nothing unless the operator knows all members,
//! kinds and charts that the decision depends on.

pub(crate) mod removal;
pub(crate) mod search;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::discovery::group_of;
use crate::cluster::objects;
use crate::reconcile::claim::member_scopes::MemberScopes;
use crate::reconcile::prune::removal::{MemberRemover, RemovalCandidate, RemovalResult};
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::RequeueReason;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::annotations;
use chartwright_core::apply::sequence;
use chartwright_core::identity::ObjectId;
use chartwright_core::index::live::Live;
use chartwright_core::index::members::Scope;
use chartwright_core::prune::intent::{self, Intent};
use chartwright_core::prune::{Knowledge, PruneVerdict, Purpose, orphans, verdict};
use chartwright_core::status::conditions::short_list;
use chartwright_watches::DeletionPolicy;
use helm_template::render::is_about_all;

/// The result of a prune. `conclude` consumes it.
#[derive(Default)]
#[must_use = "a prune that failed must stay in the record"]
pub(super) struct PruneResult {
    /// Why the prune did not run, or did not run completely.
    pub(crate) gap: Option<String>,
    pub(crate) gone: Vec<ObjectId>,
    /// Deleted or no longer ours; out of the record.
    pub(crate) settled: HashSet<ObjectId>,
    pub(crate) held: Vec<String>,
    /// True if some orphans are held, so that a later reconcile decides about them.
    pub(crate) undecided: bool,
    pub(crate) failures: Vec<String>,
    /// The wait that the API server requested.
    pub(crate) retry_after: Option<Duration>,
}

impl PruneResult {
    fn note(&mut self, removed: RemovalResult) {
        self.settled.extend(removed.open.into_iter().chain(removed.left));
        self.gone = removed.deleted;
        self.held.extend(removed.held.iter().map(|id| {
            format!(
                "{id} is no longer rendered, but deleting it would also delete data or other objects. To delete it, \
                 annotate it with {}=true",
                annotations::PRUNE
            )
        }));
        self.failures = removed.failures;
        self.retry_after = removed.retry_after;
        if let Some(awaited) = removed.awaited {
            // The watches of these objects start the next reconcile.
            let awaited = short_list(awaited);
            self.gap = Some(format!("lower waves are pruned when these are gone: {awaited}"));
        }
    }
}

impl Release {
    /// Notes before the first apply which inputs changed since all orphans were last decided. `first`: the release has
    /// no members yet.
    pub(super) fn note_intent(&mut self, prepared: &PreparedRelease, first: bool) {
        let record = &mut self.record;
        record.settled = if first && record.revision == 0 && record.settled.is_empty() {
            record.capabilities = prepared.inputs.capabilities.clone();
            prepared.inputs.digest.clone()
        } else {
            intent::noted(&record.settled, &prepared.inputs.digest)
        };
        self.render.last.answers_changed |= self.render.last.has_other_answers(&prepared.inputs.lookups);
        // A member that is rendered again is no longer held.
        let members = &prepared.desired.members;
        self.render
            .last
            .dropped
            .retain(|id, _| !members.iter().any(|member| member.id == *id));
    }

    /// Notes that all members of a render are applied. `key`: the id of the key of their digests.
    pub(super) fn note_applied(&mut self, prepared: &PreparedRelease, key: &str) {
        key.clone_into(&mut self.record.key);
        // Orphans wait for their deletion. Their digests must not make the next render look changed.
        let desired: HashSet<&ObjectId> = prepared.ids().collect();
        for entry in &mut self.record.entries {
            if !desired.contains(&entry.id) {
                entry.digest.clear();
            }
        }
        self.record.revision = prepared.revision;
        self.record.upgrading = false;
        self.record.hooks.hooks.clone_from(&prepared.hooks_digest);
        self.render.last.inputs.clone_from(&prepared.inputs.digest);
        self.render.last.capabilities.clone_from(&prepared.inputs.capabilities);
    }

    /// Notes that all orphans of this render are deleted or stay: none is held.
    pub(super) fn note_decided(&mut self, prepared: &PreparedRelease) {
        self.record.settled = prepared.inputs.digest.clone();
        self.record.capabilities = prepared.inputs.capabilities.clone();
        self.render.last.answers_changed = false;
        self.render.last.dropped.clear();
    }
}

/// Deletes orphans.
pub(crate) struct Pruner<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> Pruner<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        Pruner { scope }
    }
}

impl Pruner<'_> {
    /// Deletes orphans. `before`: the scopes that the custom resource named before this reconcile. A release that never
    /// had members has no orphans, so the first install needs no synced watches.
    pub(super) async fn prune(
        &self,
        release: &mut Release,
        prepared: &PreparedRelease,
        knowledge: &Knowledge,
        before: &MemberScopes,
    ) -> PruneResult {
        let mut pruned = PruneResult::default();
        if before.is_empty() && release.record.revision == 0 {
            return pruned;
        }
        let mut knowledge = knowledge.clone();
        self.note_failed_groups(prepared, before, &mut knowledge);
        let (orphans, mut read) = self.find_orphans(release, prepared, before, &mut knowledge).await;
        if !orphans.is_empty() && !self.scope.unit.is_chart_unchanged().await {
            knowledge
                .changed_charts
                .push(self.scope.unit.watch.chart.display().to_string());
        }
        if let Some(gap) = knowledge.gap() {
            pruned.gap = Some(format!("nothing is pruned until everything is known ({gap})"));
            return pruned;
        }
        let orphans = match self.judge_intent(release, prepared, &orphans) {
            Intent::Guarded => {
                pruned.undecided = true;
                pruned.held.push(format!(
                    "the chart renders no objects any more, and an edit of the custom resource is not the only cause; its {} \
                     members stay. To delete them, annotate the custom resource with {}=true",
                    orphans.len(),
                    annotations::PRUNE
                ));
                return pruned;
            }
            intent => self.hold_prune(release, orphans, intent, &mut pruned),
        };
        let candidates = {
            let members = self.scope.context.members();
            let candidate = |id: ObjectId| {
                let candidate = match members.get(&id).cloned() {
                    Some(live) => RemovalCandidate::Watched(live),
                    None => read
                        .remove(&id)
                        .map_or(RemovalCandidate::Unknown, RemovalCandidate::Read),
                };
                (id, candidate)
            };
            orphans.into_iter().map(candidate).collect()
        };
        let wave = |(_, candidate): &(ObjectId, RemovalCandidate)| candidate.wave();
        let turns = sequence::removal(candidates, |(id, _)| id, wave, &release.record, DeletionPolicy::Delete);
        let purpose = match prepared.rollback {
            Some(_) => Purpose::Rollback,
            None => Purpose::Prune,
        };
        pruned.note(MemberRemover::new(self.scope).remove(turns, purpose).await);
        self.scope
            .context
            .metrics
            .objects
            .pruned
            .inc_by(pruned.gone.len() as u64);
        pruned
    }

    /// Adds the API groups that do not respond now, or did not respond at the render: the render may lack objects
    /// because of them. Groups that neither the release nor its chart uses are ignored.
    fn note_failed_groups(&self, prepared: &PreparedRelease, before: &MemberScopes, knowledge: &mut Knowledge) {
        let snapshot = self.scope.context.discovery.snapshot();
        let capabilities = &prepared.inputs.capabilities;
        let queries_all = capabilities.iter().any(|question| is_about_all(question));
        let desired_kinds = prepared.desired.members.iter().map(|member| &member.id.group_kind);
        let groups = before.kinds.iter().chain(desired_kinds).map(|kind| kind.group.as_str());
        let groups: HashSet<&str> = groups
            .chain(capabilities.iter().map(|question| group_of(question)))
            .collect();
        for failed in snapshot.failed.iter().chain(&prepared.inputs.failed_groups) {
            let group = group_of(failed);
            if (queries_all || groups.contains(group)) && !knowledge.failed_groups.contains(failed) {
                // Discovery retries the group sooner.
                let _ = snapshot.has_answered(group);
                knowledge.failed_groups.push(failed.clone());
            }
        }
    }

    /// Finds the members that the render no longer contains, those without an entry in the record first. Also returns
    /// the live state of those that no watch covers.
    async fn find_orphans(
        &self,
        release: &Release,
        prepared: &PreparedRelease,
        before: &MemberScopes,
        knowledge: &mut Knowledge,
    ) -> (Vec<ObjectId>, BTreeMap<ObjectId, Live>) {
        let snapshot = self.scope.context.discovery.snapshot();
        let recorded = MemberScopes::from_record(&release.record);
        let mut read = self.find_unwatched(before, &recorded, knowledge).await;
        let desired: HashSet<&ObjectId> = prepared.ids().chain(prepared.hook_ids()).collect();
        read.retain(|id, live| !desired.contains(id) && !live.marks.is_of_hook);
        let watched = {
            let members = self.scope.context.members();
            // A kind that is no longer served, while discovery is complete, has no objects.
            let recorded: HashSet<_> = recorded.places(&snapshot).collect();
            let unsynced = before
                .places(&snapshot)
                .filter(|place| recorded.contains(place) && !members.is_synced(place.0, place.1));
            knowledge.unsynced.extend(unsynced.map(|(kind, _)| kind.to_string()));
            orphans(&members, &release.record, &desired, &self.scope.owner)
        };
        knowledge.unsynced.dedup();
        read.retain(|id, _| !watched.contains(id));
        (read.keys().cloned().chain(watched).collect(), read)
    }

    /// Judges whether an edit, a lookup or something else removed these orphans from the render.
    pub(super) fn judge_intent(&self, release: &Release, prepared: &PreparedRelease, orphans: &[ObjectId]) -> Intent {
        // Objects that are being deleted, and objects that only carry our labels, are no members that a prune could
        // lose.
        let is_member = |id: &ObjectId| {
            let members = self.scope.context.members();
            let verdict = members
                .get(id)
                .map(|live| verdict(id, live, &self.scope.owner, Purpose::Prune));
            matches!(
                verdict,
                None | Some(PruneVerdict::Delete | PruneVerdict::Release | PruneVerdict::Hold)
            )
        };
        if annotations::is_prune_allowed(&self.scope.written.annotations) || !orphans.iter().any(is_member) {
            return Intent::Wanted;
        }
        let changed = intent::changed(&release.record.settled, &prepared.inputs.since_settled);
        let (empties, looks_up) = (prepared.desired.members.is_empty(), !prepared.inputs.lookups.is_empty());
        intent::intent(changed, empties, looks_up, release.render.last.answers_changed)
    }

    /// Holds orphans that only another answer of a lookup removed from the render. Returns the others.
    fn hold_prune(
        &self,
        release: &mut Release,
        orphans: Vec<ObjectId>,
        intent: Intent,
        pruned: &mut PruneResult,
    ) -> Vec<ObjectId> {
        let (now, hold) = (Instant::now(), self.scope.context.settings.lookup_hold);
        let allowed = annotations::is_prune_allowed(&self.scope.written.annotations);
        let mut dropped = std::mem::take(&mut release.render.last.dropped);
        if allowed || intent == Intent::Wanted && dropped.is_empty() {
            return orphans;
        }
        let recorded: HashSet<&ObjectId> = release.record.entries.iter().map(|entry| &entry.id).collect();
        // What no record lists was left by a reconcile that was cut off, and guards have their own word.
        let may_wait = |id: &ObjectId| {
            let members = self.scope.context.members();
            let live = members.get(id).filter(|live| !live.marks.prune_allowed);
            let verdict = live.map(|live| verdict(id, live, &self.scope.owner, Purpose::Prune));
            recorded.contains(id) && matches!(verdict, Some(PruneVerdict::Delete | PruneVerdict::Release))
        };
        let mut going = Vec::with_capacity(orphans.len());
        let mut waits = Vec::new();
        for id in orphans {
            let Some(since) = dropped.remove(&id).or((intent == Intent::Awaited).then_some(now)) else {
                going.push(id);
                continue;
            };
            // Also of what goes now: it may take several rounds.
            release.render.last.dropped.insert(id.clone(), since);
            let left = hold.saturating_sub(now - since);
            if left.is_zero() || !may_wait(&id) {
                going.push(id);
                continue;
            }
            waits.push(left);
            pruned.held.push(format!(
                "{id} is no longer rendered because a result of `lookup` changed: it is deleted if that lasts for {hold:?}. \
                 To delete it immediately, annotate it with {}=true",
                annotations::PRUNE
            ));
        }
        if let Some(wait) = waits.into_iter().min() {
            pruned.undecided = true;
            release.schedule.at(wait, RequeueReason::HeldPrune);
        }
        going
    }

    /// Lists objects with our label in scopes that only annotations name. Another client may have written these
    /// annotations, so that they start no watch. Kinds with such objects are watched from now on.
    async fn find_unwatched(
        &self,
        named: &MemberScopes,
        watched: &MemberScopes,
        knowledge: &mut Knowledge,
    ) -> BTreeMap<ObjectId, Live> {
        let snapshot = self.scope.context.discovery.snapshot();
        let applyset_id = &self.scope.owner.set;
        let unwatched: BTreeSet<Scope> = {
            let members = self.scope.context.members();
            let known: HashSet<_> = watched.places(&snapshot).collect();
            let places = named.places(&snapshot);
            let unknown = places.filter(|place| !known.contains(place) && !members.is_synced(place.0, place.1));
            unknown
                .map(|(kind, namespace)| self.scope.context.scope(kind, namespace))
                .collect()
        };
        let mut found = BTreeMap::new();
        for scope in unwatched {
            let Some(resource) = snapshot.preferred(&scope.group_kind) else {
                continue;
            };
            // As the watches, which are the operator's.
            let listed = objects::list_applyset(
                &self.scope.context.client,
                resource,
                scope.namespace.as_deref(),
                applyset_id,
            )
            .await;
            match listed {
                Ok(listed) if listed.is_empty() => {}
                Ok(listed) => {
                    let ids = listed.into_iter().map(|(namespace, name, live)| {
                        (ObjectId::new(scope.group_kind.clone(), namespace, name), live)
                    });
                    found.extend(ids);
                    self.scope.context.want(applyset_id, [scope]);
                }
                Err(error) => {
                    tracing::debug!(kind = %scope.group_kind, %error, "members of this kind cannot be listed");
                    knowledge.unsynced.push(scope.group_kind.to_string());
                    // One failed list is enough to stop the prune.
                    break;
                }
            }
        }
        found
    }
}
