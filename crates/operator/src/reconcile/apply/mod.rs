//! Applies the members, stage by stage. A member that fails does not keep the others from being applied, but it keeps
//! the next stage closed and the prune from running.

pub(crate) mod replicas;
pub(crate) mod send;

use std::collections::HashMap;

use crate::cluster::connection::throttle::requested_wait;
use crate::cluster::discovery::{Resource, Snapshot};
use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::reconcile::apply::send::{MemberSender, SendOptions};
use crate::reconcile::observe::health::health_problem;
use crate::reconcile::observe::live_members::{MemberObserver, condition_health};
use crate::reconcile::observe::warnings::Warnings;
use crate::reconcile::release::Release;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::{CHANGED, ReleaseScope};
use crate::reconcile::takeover::former_members::FormerMembers;
use chartwright_core::apply::member_outcome::{MemberOutcome, recorded_entry};
use chartwright_core::apply::sequence::{self, Turn};
use chartwright_core::apply::{Seen, Step, Why, content, sign, step};
use chartwright_core::drift::{DriftedField, drifted_fields};
use chartwright_core::health::gates;
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::Ownership;
use chartwright_core::index::members::Live;
use chartwright_core::members::desired::Member;
use chartwright_core::prune::Knowledge;
use chartwright_core::record::Entry;
use chartwright_core::record::requests::Request;
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Changes, Phase, Reason};

/// What the applies of a reconcile came to.
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
    /// What is recorded of the members that it hasn't reached.
    recorded: HashMap<ObjectId, Entry>,
    /// What is to be recorded of those that it has, in their order.
    reached: Vec<Entry>,
    failures: Vec<(Reason, String)>,
    /// A watch may not show when a failure is over.
    recheck: bool,
    /// Why no further member is touched; empty if the failures say it.
    closed: Option<String>,
}

#[derive(Clone, Copy)]
struct MemberTask<'a> {
    prepared: &'a PreparedRelease,
    member: &'a Member,
    /// What is recorded of it.
    entry: Option<&'a Entry>,
    /// A request forces the apply, although nothing may be wrong with the member.
    forced: bool,
}

impl MemberTask<'_> {
    fn step(&self, seen: &Seen<'_>) -> Step {
        step(self.member, self.entry, seen, &self.prepared.identity.owner)
    }
}

struct MemberDecision {
    next: Step,
    live: Option<Live>,
    /// Our fields that another field manager changed.
    drifted: Vec<DriftedField>,
    /// All that is ours is there, and it isn't what we wrote.
    is_twin: bool,
}

impl MemberDecision {
    fn new(next: Step, live: Option<Live>) -> Self {
        MemberDecision {
            next,
            live,
            drifted: Vec::new(),
            is_twin: false,
        }
    }
}

/// The step for a member with drift.
const DRIFTED: Step = Step::Apply {
    force: true,
    why: Why::Drifted,
};

impl ApplyPass {
    fn note(&mut self, release: &Release, member: &Member, done: MemberOutcome) {
        let ApplyResult { knowledge, changes, .. } = &mut self.applied;
        match done {
            MemberOutcome::Unchanged
            | MemberOutcome::Left
            | MemberOutcome::Yielded
            | MemberOutcome::Finished
            | MemberOutcome::Contested => {}
            MemberOutcome::Applied(_, why) => {
                changes.applied += 1;
                changes.found += usize::from(why == Why::Unrecorded);
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
                if requested_wait().is_some() {
                    self.closed = Some(String::new());
                }
            }
        }
    }

    /// The new entries of the record, in the order of the members. What is recorded and not desired stays recorded until
    /// it is pruned.
    fn entries(&mut self, members: &[Member]) -> Vec<Entry> {
        let mut entries = std::mem::take(&mut self.reached);
        entries.extend(members.iter().filter_map(|member| self.recorded.remove(&member.id)));
        let mut rest: Vec<Entry> = self.recorded.drain().map(|(_, entry)| entry).collect();
        rest.sort_by(|a, b| a.id.cmp(&b.id));
        entries.extend(rest);
        entries
    }

    fn end(self, prepared: &PreparedRelease, snapshot: &Snapshot) -> ApplyResult {
        ApplyResult {
            phase: phase(self.failures, self.recheck, self.closed, prepared, snapshot),
            ..self.applied
        }
    }
}

/// The phase that a release is in after its applies; `None` if nothing failed, and nothing waits.
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
        let (set, trigger) = (&prepared.identity.owner.set, self.scope.written.trigger());
        for turn in sequence::installation(&prepared.desired.members) {
            let Turn::Members(members) = turn else {
                pass.closed = self.gate(release, pass).await;
                if pass.closed.is_some() {
                    return;
                }
                continue;
            };
            for member in members {
                if self.scope.context.is_outdated(set, &self.scope.written, trigger) {
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
                let done = self.apply_member(release, task).await;
                let live = self.scope.context.members().get(&member.id).cloned();
                pass.reached
                    .extend(recorded_entry(member, previous, &done, live.as_ref()));
                pass.note(release, member, done);
                if pass.closed.is_some() {
                    return;
                }
            }
        }
    }

    /// What the log and Events say of a render that is applied.
    async fn report_render(&self, release: &mut Release, prepared: &PreparedRelease) {
        for warning in &prepared.warnings {
            tracing::debug!(resource = %self.scope.written.key, %warning, "render");
        }
        for warning in &prepared.desired.warnings {
            self.scope
                .warn_once(release, "AnnotationInvalid", warning.clone())
                .await;
        }
        if !prepared.stay.is_empty() || !prepared.held.is_empty() {
            let note = format!(
                "the release was not edited, and the chart renders it differently since it looks up what the release itself \
                 made: it stays as it was applied until the custom resource or the chart changes: {}",
                short_list(&prepared.held)
            );
            self.scope.warn_once(release, "KeptAsApplied", note).await;
        }
    }

    /// Why the next turn can't begin, if it can't: a member of those before failed, or is not healthy yet.
    async fn gate(&self, release: &mut Release, pass: &ApplyPass) -> Option<String> {
        if !pass.failures.is_empty() {
            return Some(String::new());
        }
        // Finished Jobs and objects of other owners are not waited for.
        let awaited = pass.reached.iter().filter(|entry| !entry.finished);
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

    /// Brings one member to its render. Looks again if another client was faster.
    async fn apply_member(&self, release: &mut Release, task: MemberTask<'_>) -> MemberOutcome {
        match self.attempt(release, task, false).await {
            Ok(done) => done,
            Err(_) => {
                let again = self.attempt(release, task, true).await;
                again.unwrap_or_else(|conflict| MemberSender::new(self.scope).failure(task.member, &conflict))
            }
        }
    }

    /// `again`: what is known of it is not what is there.
    async fn attempt(&self, release: &mut Release, task: MemberTask<'_>, again: bool) -> Result<MemberOutcome, Error> {
        let MemberTask { member, entry, .. } = task;
        let snapshot = self.scope.context.discovery.snapshot();
        let Some(resource) = snapshot.resource(&member.id.group_kind, &member.version) else {
            return Ok(MemberOutcome::Failed(
                Reason::KindUnknown,
                format!("{}: its kind is no longer served", member.id),
            ));
        };
        let indexed = self.scope.context.members().get(&member.id).cloned();
        let mut next = match &indexed {
            _ if again => Step::Look,
            Some(live) => task.step(&Seen::Present(live)),
            None => task.step(&Seen::NotInIndex),
        };
        // What was never made isn't there as a rule. An apply that only creates finds out what is, at no other cost.
        let was_made = !self.scope.is_first && entry.is_none_or(|entry| !entry.uid.is_empty());
        if next == Step::Look && !again && !was_made && self.scope.former_release.is_none() {
            next = task.step(&Seen::Absent);
        }
        if next == DRIFTED && release.must_wait(&member.id) {
            return Ok(MemberOutcome::Contested);
        }
        let mut decision = match next {
            Step::Look | DRIFTED => match self.inspect(resource, task).await {
                Ok(decision) => decision,
                Err(error) => return Ok(MemberSender::new(self.scope).failure(member, &error)),
            },
            next => MemberDecision::new(next, indexed),
        };
        if task.forced && decision.next == Step::Unchanged {
            decision.next = Step::Apply {
                force: true,
                why: Why::Forced,
            };
        }
        // What a former owner made by the same chart isn't there by chance.
        let may_yield = decision.next == Step::Yield;
        if may_yield && self.scope.former_release.is_some()
            || matches!(decision.next, Step::Refuse(Ownership::Foreign | Ownership::Inherited))
        {
            decision.next = match FormerMembers::new(self.scope)
                .adopt(task.prepared, member, resource)
                .await
            {
                Ok(step) => step,
                Err((Reason::Collision, _)) if may_yield => Step::Yield,
                Err((reason, message)) => return Ok(MemberOutcome::Failed(reason, message)),
            };
        }
        self.perform(release, resource, task, decision).await
    }

    /// Reads the live object with the name of a member, and decides the step.
    async fn inspect(&self, resource: &Resource, task: MemberTask<'_>) -> Result<MemberDecision, Error> {
        let MemberTask { member, .. } = task;
        self.scope.context.members().begin_request(&member.id);
        let found = objects::read_live_and_fields(&self.scope.context.client, resource, &member.id).await;
        let end = |answer: Option<&Live>| self.scope.context.members().end_request(&member.id, answer);
        let (seen, managed) = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                end(None);
                return Ok(MemberDecision::new(task.step(&Seen::Absent), None));
            }
            Err(error) => {
                end(None);
                return Err(error);
            }
        };
        let mut decision = MemberDecision::new(task.step(&Seen::Present(&seen)), None);
        if decision.next == DRIFTED {
            // Replicas that an autoscaler owns are handled below.
            let unscaled = Live {
                scaled_by: None,
                ..seen.clone()
            };
            let mut object = content(member, Some(&unscaled));
            sign(&mut object, &member.digest);
            decision.drifted = drifted_fields(&object, &managed, objects::FIELD_MANAGER);
            decision.is_twin = decision.drifted.is_empty() && seen.fingerprint.is_some();
            let given_up = |field: &DriftedField| seen.scaled_by.is_some() && field.field == "spec.replicas";
            if !decision.drifted.is_empty() && decision.drifted.iter().all(given_up) {
                decision.next = Step::Unchanged;
            }
            decision.drifted.retain(|field| !given_up(field));
        }
        let is_left = matches!(decision.next, Step::Unchanged | Step::Leave);
        end(is_left.then_some(&seen));
        decision.live = Some(seen);
        Ok(decision)
    }

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
                let text = format!("{}: could not be looked at", member.id);
                return Ok(MemberOutcome::Failed(Reason::ApplyFailed, text));
            }
            Step::Apply { force, why } => (force, why),
        };
        // The member was applied with this content and is gone: another client deleted it.
        let was_deleted =
            why == Why::Missing && entry.is_some_and(|entry| !entry.uid.is_empty() && entry.digest == member.digest);
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
        let order = SendOptions {
            force,
            why,
            recreate: task.forced,
        };
        let done = MemberSender::new(self.scope)
            .send(release, resource, member, live, order)
            .await?;
        release.retry.cache.note_refusal(member, live, &done);
        match done {
            MemberOutcome::Applied(live, why) if was_deleted || why == Why::Drifted => {
                let how = match was_deleted {
                    true => "was deleted".to_owned(),
                    false if decision.is_twin => Warnings::new(self.scope).report_other_operator(release).await,
                    false => short_list(&decision.drifted),
                };
                Warnings::new(self.scope).corrected(release, member, &how).await;
                Ok(MemberOutcome::Corrected(live, how))
            }
            done => Ok(done),
        }
    }
}
