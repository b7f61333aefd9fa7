//! Repairs unhealthy releases by the rules of their watch: runs a plan, or recreates a member. Each action is recorded
//! before it is carried out, so that a crash does not repeat it.

use std::ops::ControlFlow::Break;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::cluster::discovery::Snapshot;
use crate::cluster::objects::{self, DeleteOutcome};
use crate::cluster::workloads::autoscalers;
use crate::reconcile::apply::send::MemberSender;
use crate::reconcile::observe::live_members::MemberObserver;
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::{RECHECK, RequeueReason};
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::StatusWriter;
use crate::reconcile::status::build::StatusBuilder;
use crate::reconcile::status::conclusion::Conclusion;
use crate::reconcile::values::name_templates::NameTemplates;
use crate::telemetry::metrics::WriteOperation;
use chartwright_core::annotations;
use chartwright_core::identity::ObjectId;
use chartwright_core::members::autoscaling;
use chartwright_core::plans::{By, PlanRun};
use chartwright_core::prune::{self, Purpose, verdict};
use chartwright_core::record::remediation::{Remedied, RuleVerdict};
use chartwright_core::status::Phase;
use chartwright_watches::cel::{self, CelData, Expression};
use chartwright_watches::{RemediationAction, RemediationRule};

/// A rule that is due, and what becomes of it.
enum Done {
    /// With the message for the Event.
    Yes(String),
    /// Nothing can be done, for this reason.
    Held(String),
    /// The API server, or the object itself, refused the action.
    Refused(String),
}

/// Applies the remediation rules of the watch.
pub(crate) struct Remediator<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> Remediator<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        Remediator { scope }
    }
}

impl Remediator<'_, '_> {
    /// Judges the rules of the watch and carries out one action that is due. `conclusion`: what the status is about to
    /// report.
    pub(crate) async fn remediate(&mut self, release: &mut Release, conclusion: &Conclusion) {
        let unit = self.scope.unit;
        let rules = &unit.watch.remediation;
        let known = &mut release.record.remediation;
        known.retain(|known| rules.iter().any(|rule| rule.name == known.name));
        if rules.is_empty() || release.record.revision == 0 {
            return;
        }
        let judged = match self.judge_rules(release, rules, conclusion).await {
            Ok(judged) => judged,
            // A part of what is there could be taken for all of it.
            Err(why) => {
                rules
                    .iter()
                    .for_each(|rule| remedied(release, &rule.name).set_message(&why));
                return;
            }
        };
        let mut has_acted = false;
        for (rule, holds) in rules.iter().zip(judged) {
            has_acted |= self
                .remediate_by(release, rule, holds, has_acted, &conclusion.phase)
                .await;
        }
    }

    /// Whether their conditions are true.
    ///
    /// # Errors
    /// What they are about can't be read.
    async fn judge_rules(
        &self,
        release: &mut Release,
        rules: &[RemediationRule],
        conclusion: &Conclusion,
    ) -> Result<Vec<Result<bool, cel::CelError>>, String> {
        let reads = |variable: &str| rules.iter().any(|rule| rule.when.has_variable(variable));
        let pods = reads("pods");
        // What pods say changes without their workload.
        if pods && !conclusion.phase.is_ready() {
            MemberObserver::new(self.scope).await_pods(release);
        }
        let observer = MemberObserver::new(self.scope);
        let ids = observer.members_if(reads("members") || pods);
        let facts = observer.live_facts(release, &ids, pods).await?;
        let mut this = self.scope.written.as_data(&self.scope.unit.resource);
        this["status"] = StatusBuilder::new(self.scope).status(release, conclusion).status;
        let conditions: Vec<Expression> = rules.iter().map(|rule| rule.when.clone()).collect();
        let judge = move |_| {
            let (this, facts) = (CelData::from_json(&this), facts.into_facts());
            let variables = [("self", &this), ("members", &facts.members), ("pods", &facts.pods)];
            conditions
                .iter()
                .map(|condition| condition.evaluate(&variables))
                .collect()
        };
        let judged = self.scope.context.evaluate(&self.scope.owner.set, judge).await;
        judged.map_err(|lost| lost.to_string())
    }

    /// Does what is due by one rule. True if something was done. `waits`: something was done already.
    async fn remediate_by(
        &mut self,
        release: &mut Release,
        rule: &RemediationRule,
        holds: Result<bool, cel::CelError>,
        waits: bool,
        phase: &Phase,
    ) -> bool {
        let known = remedied(release, &rule.name);
        let verdict = known.judge(rule, holds == Ok(true), Timestamp::now());
        match verdict {
            RuleVerdict::Fine => {
                if let Err(error) = holds {
                    known.set_message(&error.to_string());
                }
            }
            RuleVerdict::Wait(left, why) => {
                known.set_message(&why);
                release.schedule.at(left, RequeueReason::Remediation);
                if !why.is_empty() {
                    let note = format!("rule {}: nothing is done yet: {why}", rule.name);
                    self.scope.warn_once(release, "RemediationHeld", note).await;
                }
            }
            RuleVerdict::Act if waits => release.schedule.at(RECHECK, RequeueReason::Remediation),
            RuleVerdict::Act => match self.act(release, rule, phase).await {
                Done::Yes(what) => {
                    let condition = rule.when.text();
                    let note = format!("rule {}: {what}, since for {:?}: {condition}", rule.name, rule.lasting);
                    let reason = if rule.dry_run { "RemediationDue" } else { "Remediated" };
                    self.scope.inform(reason, &note).await;
                    return true;
                }
                Done::Refused(why) => {
                    release.schedule.at(RECHECK, RequeueReason::Remediation);
                    let note = format!("rule {}: nothing is done: {why}", rule.name);
                    self.scope.warn_once(release, "RemediationHeld", note).await;
                }
                Done::Held(why) => {
                    remedied(release, &rule.name).set_message(&why);
                    release.schedule.at(RECHECK, RequeueReason::Remediation);
                    let note = format!("rule {}: nothing is done: {why}", rule.name);
                    self.scope.warn_once(release, "RemediationHeld", note).await;
                }
            },
        }
        false
    }

    async fn act(&mut self, release: &mut Release, rule: &RemediationRule, phase: &Phase) -> Done {
        let record = &release.record;
        if record.hooks.is_open() || record.upgrading || !phase.is_well() {
            return Done::Held("something else is under way, or has failed".to_owned());
        }
        let work = &record.plans.work;
        if let Some(run) = work.running.as_deref().or(work.queue.first()) {
            return Done::Held(format!("plan {} runs, or is about to", run.plan));
        }
        match &rule.action {
            RemediationAction::Plan { name, params } => self.act_by_plan(release, rule, name, params),
            RemediationAction::Recreate { kind, name } => {
                self.act_by_recreation(release, rule, kind, name, phase).await
            }
        }
    }

    fn act_by_plan(
        &self,
        release: &mut Release,
        rule: &RemediationRule,
        name: &str,
        params: &Map<String, Value>,
    ) -> Done {
        let plans = &mut release.record.plans;
        if plans.get(name).is_none() {
            return Done::Held(format!("the chart has no plan {name}"));
        }
        if !rule.dry_run {
            plans.ask(PlanRun {
                params: params.clone(),
                ..PlanRun::of(name, By::Remediation)
            });
        }
        let known = remedied(release, &rule.name);
        let _ = known.begin(Timestamp::now());
        known.end();
        Done::Yes(if rule.dry_run {
            format!("plan {name} would be run")
        } else {
            format!("plan {name} is run")
        })
    }

    async fn act_by_recreation(
        &mut self,
        release: &mut Release,
        rule: &RemediationRule,
        kind: &str,
        name: &str,
        phase: &Phase,
    ) -> Done {
        let name = match NameTemplates::new(self.scope.unit, &self.scope.written).text("name", name) {
            Ok(name) => name,
            Err(error) => return Done::Held(error),
        };
        let entries = release.record.entries.iter().map(|entry| &entry.id);
        let is_meant = |id: &&ObjectId| id.group_kind.kind == kind && id.name == name;
        let id = match entries.filter(is_meant).collect::<Vec<_>>()[..] {
            [id] => id.clone(),
            [] => return Done::Held(format!("the release has no {kind} {name}")),
            [one, other, ..] => return Done::Held(format!("{kind} {name} may be {one} or {other}")),
        };
        if let Err(why) = self.can_be_recreated(release, &id).await {
            return Done::Held(why);
        }
        // Stored before the deletion: after a crash the action counts.
        let before = remedied(release, &rule.name).begin(Timestamp::now());
        let done = if rule.dry_run {
            self.delete_to_recreate(&id, true).await
        } else {
            self.recreate(release, &id, phase).await
        };
        let known = remedied(release, &rule.name);
        match done {
            Ok(()) => {
                known.end();
                let how = if rule.dry_run { "would be" } else { "is" };
                Done::Yes(format!("{kind} {name} {how} recreated"))
            }
            Err(why) => {
                known.refuse(before, &why, Timestamp::now());
                Done::Refused(why)
            }
        }
    }

    /// Stores the action, then deletes a member so that it is recreated. The error says why it was not done.
    async fn recreate(&mut self, release: &mut Release, id: &ObjectId, phase: &Phase) -> Result<(), String> {
        if let Break(Phase::Failed { message, .. }) = StatusWriter::new(self.scope)
            .store_decision(release, phase.clone())
            .await
        {
            return Err(message);
        }
        // The custom resource may have changed while the rules were judged.
        let trigger = self.scope.written.trigger();
        let is_over = self.scope.written.deleting || annotations::is_suspended(&self.scope.written.annotations);
        if is_over
            || self
                .scope
                .context
                .is_outdated(&self.scope.owner.set, &self.scope.written, trigger)
        {
            return Err("the custom resource has changed since".to_owned());
        }
        self.delete_to_recreate(id, false).await
    }

    /// Checks that a member may be recreated. The error names the obstacle.
    async fn can_be_recreated(&self, release: &mut Release, id: &ObjectId) -> Result<(), String> {
        let live = self.scope.context.members().get(id).cloned();
        let Some(live) = live.filter(|live| !live.deleting) else {
            return Err(format!("{id} is not there"));
        };
        if live.marks.disabled {
            return Err(format!(
                "{id} is to be left as it is (chartwright.dev/reconcile: disabled)"
            ));
        }
        if let Some(scaler) = &live.managers.scaled_by {
            return Err(format!(
                "{scaler} sets the replicas of {id}, which a new one would lose"
            ));
        }
        let object = MemberObserver::new(self.scope).whole(release, id).await?;
        let object = object.ok_or_else(|| format!("{id} is not there"))?;
        let is_true = |pointer: &str| object.pointer(pointer) == Some(&Value::Bool(true));
        if is_true("/spec/paused") || is_true("/spec/suspend") {
            return Err(format!("{id} is suspended"));
        }
        let snapshot = self.scope.context.discovery.snapshot();
        // One that found nothing to do yet, or whose target has no replicas of the chart's, has left no mark.
        if object.pointer("/spec/replicas").is_some() && self.is_autoscaled(&snapshot, id).await? {
            return Err(format!(
                "an autoscaler sets the replicas of {id}, which a new one would lose"
            ));
        }
        let Some(resource) = snapshot.preferred(&id.group_kind) else {
            return Err(format!("the kind of {id} is not served"));
        };
        match MemberSender::new(self.scope).takes_data(resource, id).await {
            Ok(false) => Ok(()),
            Ok(true) if live.marks.prune_allowed => Ok(()),
            Ok(true) => Err(format!("recreating {id} would delete data or other objects with it")),
            Err(error) => Err(format!("{id}: {error}")),
        }
    }

    /// Where autoscalers may not be listed, none is seen.
    async fn is_autoscaled(&self, snapshot: &Snapshot, id: &ObjectId) -> Result<bool, String> {
        match autoscalers::list(&self.scope.client, snapshot, &id.namespace).await {
            Ok(found) => Ok(found.iter().any(|autoscaler| autoscaling::scales(autoscaler, id))),
            Err(error) if error.is_transient() => Err(format!("the autoscalers in {}: {error}", id.namespace)),
            Err(_) => Ok(false),
        }
    }

    /// Deletes a member that belongs to the release. With `dry_run`, the API server only checks the request.
    async fn delete_to_recreate(&self, id: &ObjectId, dry_run: bool) -> Result<(), String> {
        let snapshot = self.scope.context.discovery.snapshot();
        let live = self.scope.context.members().get(id).cloned();
        let (Some(resource), Some(live)) = (snapshot.preferred(&id.group_kind), live) else {
            return Err(format!("{id} is not there"));
        };
        let looked = objects::read_live(&self.scope.client, resource, id).await;
        let deleted = match looked.map_err(|error| format!("{id}: {error}"))? {
            Some(seen) if seen.uid == live.uid => {
                // What stands in a status is no proof: the object itself is asked whose it is.
                match verdict(id, &seen, &self.scope.owner, Purpose::Prune) {
                    prune::PruneVerdict::Delete if dry_run => {
                        objects::check_deletion(&self.scope.client, resource, id, &seen).await
                    }
                    prune::PruneVerdict::Delete => objects::delete(&self.scope.client, resource, id, &seen).await,
                    prune::PruneVerdict::Leave(whose) => return Err(format!("{id}: {whose}")),
                    _ => return Err(format!("{id} is to stay, or another owner decides about it")),
                }
            }
            _ => return Err(format!("{id} is another one by now")),
        };
        match deleted.map_err(|error| format!("{id}: {error}"))? {
            DeleteOutcome::Accepted if dry_run => Ok(()),
            DeleteOutcome::Accepted => {
                self.scope
                    .context
                    .metrics
                    .objects
                    .wrote(&id.group_kind.kind, WriteOperation::Delete);
                Ok(())
            }
            DeleteOutcome::Absent => Ok(()),
            DeleteOutcome::Changed => Err(format!("{id} has changed since")),
        }
    }
}

/// What is remembered of a rule.
fn remedied<'r>(release: &'r mut Release, name: &str) -> &'r mut Remedied {
    let all = &mut release.record.remediation;
    let place = all.iter().position(|known| known.name == name).unwrap_or_else(|| {
        all.push(Remedied {
            name: name.to_owned(),
            ..Remedied::default()
        });
        all.len() - 1
    });
    &mut all[place]
}
