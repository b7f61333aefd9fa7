//! Applies the members, stage by stage. A member that fails does not keep the others from being applied, but it keeps
//! the next stage closed and the prune from running.

mod decision;
pub(crate) mod replicas;
pub(crate) mod send;

use std::collections::HashMap;
use std::time::Duration;

use crate::cluster::discovery::{Resource, Snapshot};
use crate::cluster::error::Error;
use crate::reconcile::apply::decision::MemberDecision;
use crate::reconcile::apply::send::{MemberSender, SendOptions};
use crate::reconcile::observe::health::health_problem;
use crate::reconcile::observe::live_members::{MemberObserver, condition_health};
use crate::reconcile::observe::warnings::Warnings;
use crate::reconcile::release::Release;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::{CHANGED, ReleaseScope};
use crate::reconcile::takeover::former_members::FormerMembers;
use chartwright_core::annotations;
use chartwright_core::apply::member_outcome::{MemberOutcome, recorded_entry};
use chartwright_core::apply::sequence::{self, SequenceTurn};
use chartwright_core::apply::{ApplyReason, Seen, Step, step};
use chartwright_core::drift::tolerated::ToleratedDrift;
use chartwright_core::health::gates;
use chartwright_core::identity::ownership::Ownership;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::live::Live;
use chartwright_core::members::desired::Member;
use chartwright_core::members::immutable_fields;
use chartwright_core::prune::Knowledge;
use chartwright_core::record::Entry;
use chartwright_core::record::requests::Request;
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Changes, Phase, Reason};

/// The result of the applies of one reconcile.
#[derive(Default)]
pub(super) struct ApplyResult {
    /// Set if the reconcile ends here: a stage waits, or something failed.
    pub phase: Option<Phase>,
    pub knowledge: Knowledge,
    pub changes: Changes,
}

#[derive(Default)]
struct ApplyPass {
    applied: ApplyResult,
    /// The record's entries of members that the pass has not reached.
    recorded: HashMap<ObjectId, Entry>,
    /// The new entries of members that the pass has reached, in apply order.
    reached: Vec<Entry>,
    failures: Vec<(Reason, String)>,
    /// Objects that existed before, and that no one owned.
    adopted: Vec<String>,
    /// The longest wait that the API server requested.
    retry_after: Option<Duration>,
    /// True if no watch may show that a failure is over.
    recheck: bool,
    /// Why the pass stops here. Empty if the failures explain it.
    closed: Option<String>,
}

#[derive(Clone, Copy)]
struct MemberTask<'a> {
    prepared: &'a PreparedRelease,
    member: &'a Member,
    /// The member's entry in the record.
    entry: Option<&'a Entry>,
    /// True if a `force-at` request forces the apply, even of an unchanged member.
    forced: bool,
}

impl MemberTask<'_> {
    fn step(&self, seen: &Seen<'_>) -> Step {
        step(self.member, self.entry, seen, &self.prepared.identity.owner)
    }
}

/// The step for a member with drift.
const DRIFTED: Step = Step::Apply {
    force: true,
    why: ApplyReason::Drifted,
};

/// What became of a member, and which of its drift stays.
type Attempted = (MemberOutcome, Option<ToleratedDrift>);

impl ApplyPass {
    fn note_outcome(&mut self, release: &Release, member: &Member, done: MemberOutcome) {
        let ApplyResult { knowledge, changes, .. } = &mut self.applied;
        match done {
            MemberOutcome::Unchanged
            | MemberOutcome::Left
            | MemberOutcome::Drifted(_)
            | MemberOutcome::Yielded
            | MemberOutcome::Finished
            | MemberOutcome::Contested => {}
            MemberOutcome::Applied(_, why) => {
                changes.applied += 1;
                changes.found += usize::from(why == ApplyReason::Unrecorded);
                if why == ApplyReason::Unowned {
                    self.adopted.push(member.id.to_string());
                }
            }
            MemberOutcome::Corrected(_, how) => {
                changes.applied += 1;
                if !release.contests.is_contested(&member.id) {
                    changes.corrected.push(format!("{} ({how})", member.id));
                }
            }
            MemberOutcome::Recreated(_, fields) => {
                changes.applied += 1;
                changes
                    .recreated
                    .push(format!("{} ({fields} can't be changed)", member.id));
            }
            MemberOutcome::Awaited => knowledge.not_applied.push(member.id.to_string()),
            MemberOutcome::Failed(reason, message) => {
                knowledge.not_applied.push(member.id.to_string());
                // No watch shows when the owner deletes a foreign object, or when a CRD gets another schema.
                self.recheck |= reason == Reason::Collision;
                self.recheck |= reason == Reason::ObjectInvalid && member.id.group_kind.group.contains('.');
                self.failures.push((reason, message));
            }
            MemberOutcome::Throttled(message, after) => {
                knowledge.not_applied.push(member.id.to_string());
                self.failures.push((Reason::ApplyFailed, message));
                self.retry_after = self.retry_after.max(Some(after));
                self.closed = Some(String::new());
            }
        }
    }

    /// Returns the new entries of the record, in the order of the members. Orphans stay in the record until they are
    /// pruned.
    fn entries(&mut self, members: &[Member]) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.reached);
        entries.extend(members.iter().filter_map(|member| self.recorded.remove(&member.id)));
        let mut rest: Vec<Entry> = self.recorded.drain().map(|(_, entry)| entry).collect();
        rest.sort_by(|a, b| a.id.cmp(&b.id));
        entries.extend(rest);
        // They are in memory as long as the release.
        entries.shrink_to_fit();
        entries
    }

    fn end(self, prepared: &PreparedRelease, snapshot: &Snapshot) -> ApplyResult {
        ApplyResult {
            phase: phase(self.failures, self.recheck, self.closed, prepared, snapshot)
                .map(|phase| phase.not_before(self.retry_after)),
            ..self.applied
        }
    }
}

/// Returns the phase after the applies. `None` if nothing failed and nothing waits.
fn phase(
    failures: Vec<(Reason, String)>,
    recheck: bool,
    closed: Option<String>,
    prepared: &PreparedRelease,
    snapshot: &Snapshot,
) -> Option<Phase> {
    if let Some((reason, _)) = failures.first() {
        let reason = *reason;
        let permanent = failures
            .iter()
            .all(|(reason, _)| matches!(reason, Reason::ObjectInvalid | Reason::Immutable | Reason::Collision));
        let message = short_list(failures.into_iter().map(|(_, message)| message));
        return Some(if permanent {
            Phase::Stalled {
                reason,
                message,
                recheck,
            }
        } else {
            Phase::failed(reason, message)
        });
    }
    if let Some(message) = closed {
        return Some(Phase::waiting(Reason::Progressing, message));
    }
    if prepared.desired.unknown.is_empty() {
        return None;
    }
    let mut lines: Vec<String> = Vec::new();
    for unknown in &prepared.desired.unknown {
        let served = snapshot.preferred(&unknown.group_kind);
        let line = unknown.message(served.map(|resource| resource.api.version.as_str()));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    Some(Phase::waiting(Reason::KindUnknown, short_list(lines)))
}

/// Applies the members of a release, wave by wave.
pub(crate) struct Applier<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> Applier<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        Applier { scope }
    }
}

impl Applier<'_> {
    /// Applies the members in their waves and updates the record, also where a wave stops. `forced`: the text of the
    /// `force-at` request that this apply carries out.
    pub(super) async fn apply(
        &self,
        release: &mut Release,
        prepared: &PreparedRelease,
        forced: Option<String>,
    ) -> ApplyResult {
        self.report_render(release, prepared).await;
        let members = &prepared.desired.members;
        if !self.scope.unit.watch.health.is_empty() || members.iter().any(|member| gates::is_stated(&member.object)) {
            // The pass owns the entries until it ends.
            release
                .observed
                .full_members
                .get_or_insert_default()
                .learn_versions(members.iter().map(|member| (&member.id, &member.version)));
        }
        release.record.done_for = None;
        let entries = release.record.entries.drain(..);
        let mut pass = ApplyPass {
            recorded: entries.map(|entry| (entry.id.clone(), entry)).collect(),
            ..ApplyPass::default()
        };
        self.apply_waves(release, prepared, forced.is_some(), &mut pass).await;
        if !pass.adopted.is_empty() {
            let note = format!(
                "objects that existed before belong to the release now, and stay when it goes: {}; to delete them with it, set {}: delete on \
                 them",
                short_list(&pass.adopted),
                annotations::ADOPTED
            );
            self.scope.inform("ObjectsAdopted", &note).await;
        }
        release.record.entries = pass.entries(&prepared.desired.members);
        let is_rendered_otherwise = pass.applied.changes.applied > 0 && prepared.stay.is_empty();
        release.learn_lookups(&prepared.inputs.lookups, &prepared.inputs.seen, is_rendered_otherwise);
        let snapshot = self.scope.context.discovery.snapshot();
        let knowledge = &mut pass.applied.knowledge;
        for unknown in &prepared.desired.unknown {
            // If the group of the kind does not respond, discovery retries it sooner.
            let _ = snapshot.has_answered(&unknown.group_kind.group);
            let kind = format!("{}/{}", unknown.group_kind, unknown.version);
            knowledge.unknown_kinds.push(kind);
        }
        if let Some(token) = forced.filter(|_| pass.closed.is_none() && knowledge.not_applied.is_empty()) {
            release.record.handled.set(Request::Force, &token);
        }
        pass.end(prepared, &snapshot)
    }

    async fn apply_waves(&self, release: &mut Release, prepared: &PreparedRelease, forced: bool, pass: &mut ApplyPass) {
        let (applyset_id, trigger) = (&prepared.identity.owner.set, self.scope.written.trigger());
        for turn in sequence::installation(&prepared.desired.members) {
            let SequenceTurn::Members(members) = turn else {
                pass.closed = self.judge_wave_gate(release, pass).await;
                if pass.closed.is_some() {
                    return;
                }
                continue;
            };
            for member in members {
                if self
                    .scope
                    .context
                    .is_outdated(applyset_id, &self.scope.written, trigger)
                {
                    pass.closed = Some(CHANGED.to_owned());
                    return;
                }
                let previous = pass.recorded.remove(&member.id);
                let task = MemberTask {
                    prepared,
                    member,
                    entry: previous.as_ref(),
                    forced,
                };
                let (done, drift) = self.apply_member(release, task).await;
                let known = task.entry.and_then(|entry| entry.drift.as_deref());
                Warnings::new(self.scope).tolerated(member, drift.as_ref(), known).await;
                let live = self.scope.context.members().get(&member.id).cloned();
                // An account that may not create an object may not be able to look for it at the deletion, either.
                let is_refused = matches!(done, MemberOutcome::Failed(Reason::Forbidden, _));
                pass.reached.extend(if is_refused && self.scope.account.is_some() {
                    previous
                } else {
                    recorded_entry(member, previous, &done, live.as_ref(), drift.as_ref())
                });
                pass.note_outcome(release, member, done);
                if pass.closed.is_some() {
                    return;
                }
            }
        }
    }

    /// Writes the warnings of a render to the log and as Events.
    async fn report_render(&self, release: &mut Release, prepared: &PreparedRelease) {
        for warning in &prepared.warnings {
            tracing::debug!(resource = %self.scope.written.key, %warning, "render");
        }
        for warning in &prepared.desired.warnings {
            self.scope
                .warn_once(release, "AnnotationInvalid", warning.clone())
                .await;
        }
        for unmatched in &prepared.desired.unmatched_patches {
            self.scope.warn_once(release, "PatchUnmatched", unmatched.clone()).await;
        }
        if !prepared.stay.is_empty() || !prepared.held.is_empty() {
            let note = format!(
                "the chart looks up objects of its own release and therefore renders these objects differently although the \
                 custom resource was not edited. They stay as applied until the custom resource or the chart changes: {}",
                short_list(&prepared.held)
            );
            self.scope.warn_once(release, "KeptAsApplied", note).await;
        }
    }

    /// Returns why the next wave cannot start: an earlier member failed or is not healthy yet. `None` if it can start.
    async fn judge_wave_gate(&self, release: &mut Release, pass: &ApplyPass) -> Option<String> {
        if !pass.failures.is_empty() {
            return Some(String::new());
        }
        // Finished Jobs and objects of other owners are not waited for. A claim may be bound only when a pod of a later wave uses it, and
        // pods wait for their claims themselves.
        let is_claim = |entry: &&Entry| entry.id.group_kind == GroupKind::new("", "PersistentVolumeClaim");
        let awaited = pass.reached.iter().filter(|entry| !entry.finished && !is_claim(entry));
        let awaited: Vec<ObjectId> = awaited.map(|entry| entry.id.clone()).collect();
        MemberObserver::new(self.scope).judge(release, &awaited).await;
        let members = self.scope.context.members();
        let troubles: Vec<String> = awaited
            .iter()
            .filter_map(|id| health_problem(id, &members, condition_health(release, id)))
            .map(|(_, message)| message)
            .collect();
        (!troubles.is_empty()).then(|| short_list(troubles))
    }

    /// Applies one member. Reads it and retries once after a conflict.
    async fn apply_member(&self, release: &mut Release, task: MemberTask<'_>) -> Attempted {
        match self.attempt(release, task, false).await {
            Ok(done) => done,
            Err(_) => {
                let again = self.attempt(release, task, true).await;
                again.unwrap_or_else(|conflict| (MemberSender::new(self.scope).failure(task.member, &conflict), None))
            }
        }
    }

    /// Decides the step of a member and performs it. `again`: the index is outdated, so the live object is read first.
    async fn attempt(&self, release: &mut Release, task: MemberTask<'_>, again: bool) -> Result<Attempted, Error> {
        let MemberTask { member, entry, .. } = task;
        let snapshot = self.scope.context.discovery.snapshot();
        let Some(resource) = snapshot.resource(&member.id.group_kind, &member.version) else {
            let message = format!("{}: its kind is no longer served", member.id);
            return Ok((MemberOutcome::Failed(Reason::KindUnknown, message), None));
        };
        let indexed = self.scope.context.members().get(&member.id).cloned();
        let mut next = match &indexed {
            _ if again => Step::Look,
            Some(live) => task.step(&Seen::Present(live)),
            None => task.step(&Seen::NotInIndex),
        };
        // A member that was never created is usually absent. A create-only apply detects an existing object without an
        // extra request.
        let was_created = !self.scope.claim.is_first && entry.is_none_or(|entry| !entry.uid.is_empty());
        if next == Step::Look && !again && !was_created && !self.scope.takeover.is_under_way() {
            next = task.step(&Seen::Absent);
        }
        if next == DRIFTED && release.must_wait(&member.id) {
            return Ok((MemberOutcome::Contested, None));
        }
        // The managed fields list what `kubectl rollout undo` brought back, who enlarged a claim, and who owns fields that are left to
        // others.
        let leaves_fields = member.ignored.is_some() || entry.is_some_and(|entry| entry.drift.is_some());
        let must_inspect = leaves_fields
            || immutable_fields::is_claim(&member.id.group_kind)
            || indexed.as_ref().is_some_and(|live| live.managers.is_undone);
        let is_inspected = match next {
            Step::Look => true,
            Step::Apply { force, why } => why == ApplyReason::Drifted || force && must_inspect,
            Step::Unchanged => task.forced && must_inspect,
            _ => false,
        };
        let mut decision = if is_inspected {
            let key = release.key(&self.scope.context.keys);
            match self.inspect(resource, task, key).await {
                Ok(decision) => decision,
                Err(error) => return Ok((MemberSender::new(self.scope).failure(member, &error), None)),
            }
        } else {
            MemberDecision::new(next, indexed)
        };
        if task.forced && decision.next == Step::Unchanged {
            decision.next = Step::Apply {
                force: true,
                why: ApplyReason::Forced,
            };
        }
        // An object that the former owner created from the same chart belongs to the release.
        let may_yield = decision.next == Step::Yield;
        if may_yield && self.scope.takeover.is_under_way()
            || matches!(decision.next, Step::Refuse(Ownership::Foreign | Ownership::Inherited))
        {
            decision.next = match FormerMembers::new(self.scope)
                .adopt(task.prepared, member, resource, decision.live.as_mut())
                .await
            {
                Ok(step) => step,
                Err((Reason::Collision, _)) if may_yield => Step::Yield,
                Err((reason, message)) => return Ok((MemberOutcome::Failed(reason, message), None)),
            };
        }
        let drift = decision.drift.take();
        Ok((self.perform(release, resource, task, decision).await?, drift))
    }

    /// Carries out the decision about a member.
    async fn perform(
        &self,
        release: &mut Release,
        resource: &Resource,
        task: MemberTask<'_>,
        decision: MemberDecision,
    ) -> Result<MemberOutcome, Error> {
        let MemberTask { member, entry, .. } = task;
        let live = decision.live.as_ref();
        let (force, why) = match decision.next {
            Step::Unchanged => return Ok(MemberOutcome::Unchanged),
            Step::Leave => return Ok(MemberOutcome::Left),
            Step::Tolerate => {
                let outcome = decision.live.map(|live| MemberOutcome::Drifted(Box::new(live)));
                return Ok(outcome.unwrap_or(MemberOutcome::Unchanged));
            }
            Step::Yield => return Ok(MemberOutcome::Yielded),
            Step::Satisfied => return Ok(MemberOutcome::Finished),
            Step::AwaitDeletion => return Ok(MemberOutcome::Awaited),
            Step::Refuse(ownership) => {
                let whose = self
                    .scope
                    .context
                    .whose(&ownership)
                    .unwrap_or_else(|| ownership.to_string());
                let text = format!("{} ({}) is left untouched: {whose}", member.id, member.source);
                return Ok(MemberOutcome::Failed(Reason::Collision, text));
            }
            Step::Look => {
                let text = format!("{}: the live object could not be read", member.id);
                return Ok(MemberOutcome::Failed(Reason::ApplyFailed, text));
            }
            Step::Apply { force, why } => (force, why),
        };
        // The member was applied with this content and is gone: another client deleted it.
        let was_deleted = why == ApplyReason::Missing
            && entry.is_some_and(|entry| !entry.uid.is_empty() && entry.digest == member.digest);
        if was_deleted && release.must_wait(&member.id) {
            return Ok(MemberOutcome::Contested);
        }
        let refused = release
            .retry
            .cache
            .refused_before(&self.scope.context.schemas, member, live);
        if let Some(refused) = refused.filter(|_| !task.forced) {
            return Ok(refused);
        }
        if let Some(live) = live.filter(|_| force) {
            let prepared = self.prepare_live(resource, task, live, &decision).await;
            match prepared {
                Err(error @ Error::Conflict(_)) => return Err(error),
                Err(error) => return Ok(MemberSender::new(self.scope).failure(member, &error)),
                Ok(()) => {}
            }
        }
        let order = SendOptions {
            force,
            why,
            recreate: task.forced,
            object: decision.object.as_ref(),
        };
        let mut done = MemberSender::new(self.scope)
            .send(release, resource, member, live, order)
            .await?;
        self.give_up_after_creation(resource, member, live.is_none(), &mut done)
            .await;
        release.retry.cache.note_refusal(member, live, &done);
        match done {
            MemberOutcome::Applied(live, why) if was_deleted || why == ApplyReason::Drifted => {
                let how = if was_deleted {
                    "was deleted".to_owned()
                } else if decision.has_other_operator {
                    Warnings::new(self.scope).report_other_operator(release).await
                } else {
                    short_list(&decision.drifted)
                };
                Warnings::new(self.scope).corrected(release, member, &how).await;
                Ok(MemberOutcome::Corrected(live, how))
            }
            done => Ok(done),
        }
    }

    /// Changes who owns fields of a live member, before it is applied: gives up ignored fields, takes what `kubectl rollout undo` brought
    /// back, and gives replicas to an autoscaler.
    ///
    /// # Errors
    /// `Conflict` if the object changed at the same time, or why the API server did not answer.
    async fn prepare_live(
        &self,
        resource: &Resource,
        task: MemberTask<'_>,
        live: &Live,
        decision: &MemberDecision,
    ) -> Result<(), Error> {
        let id = &task.member.id;
        if decision.gives_up {
            MemberSender::new(self.scope)
                .give_up_ignored(resource, task.member, live)
                .await?;
        }
        if decision.is_undone {
            MemberSender::new(self.scope)
                .take_undone_rollout(resource, id, live)
                .await?;
        }
        if live.managers.sets_replicas && task.member.object.pointer("/spec/replicas").is_none() {
            self.hand_over_replicas(resource, task.prepared, task.member, live)
                .await?;
        }
        Ok(())
    }

    /// Gives up the ignored fields that the creation set, so that others can own them without a conflict. If that fails, the next apply
    /// does it.
    async fn give_up_after_creation(
        &self,
        resource: &Resource,
        member: &Member,
        is_creation: bool,
        done: &mut MemberOutcome,
    ) {
        let live = match done {
            MemberOutcome::Applied(live, _) if is_creation => live,
            MemberOutcome::Recreated(live, _) => live,
            _ => return,
        };
        match MemberSender::new(self.scope)
            .give_up_ignored(resource, member, live)
            .await
        {
            Ok(Some(now)) => **live = now,
            Ok(None) => {}
            Err(error) => tracing::debug!(object = %member.id, %error, "the ignored fields are given up later"),
        }
    }
}
