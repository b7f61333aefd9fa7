//! Does something about a release that isn't well, by the rules of its watch: runs a plan, or makes a member anew. What is
//! done is written down before, so that a crash repeats nothing.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::release::Release;
use super::{RECHECK, Run};
use crate::cluster::autoscalers;
use crate::cluster::objects::{self, Deleted};
use crate::plan::gates::Facts;
use crate::plan::identity::ObjectId;
use crate::plan::plans::{By, Run as PlanRun};
use crate::plan::remediation::{Remedied, Verdict};
use crate::plan::scale;
use crate::plan::status::Phase;
use crate::telemetry::metrics::Operation;
use crate::watches::remediation::{Action, Remediation};
use helm_template::render::render_text;

/// A rule that is due, and what becomes of it.
enum Done {
    /// With what to tell.
    Yes(String),
    /// Nothing can be done, for this reason.
    Held(String),
}

impl Run<'_> {
    /// Judges the rules of the watch, and does what is due. `phase`: how the release is.
    pub(super) async fn remediate(&mut self, release: &mut Release, phase: &Phase) {
        let unit = self.unit;
        let rules = &unit.watch.remediation;
        let known = &mut release.record.remediation;
        known.retain(|known| rules.iter().any(|rule| rule.name == known.name));
        if rules.is_empty() || release.record.revision == 0 {
            return;
        }
        let facts = self.facts_of_rules(release, rules, phase).await;
        let this = self.custom_resource();
        for rule in rules {
            self.remediate_by(release, rule, &this, &facts, phase).await;
        }
    }

    /// What the rules read. Pods are read anew while the release isn't well: what they say changes without their workload.
    async fn facts_of_rules(&self, release: &mut Release, rules: &[Remediation], phase: &Phase) -> Facts {
        let reads = |variable: &str| rules.iter().any(|rule| rule.when.reads(variable));
        let (members, pods) = (reads("members"), reads("pods"));
        if pods && !phase.is_ready() {
            release.whole.forget_pods();
            release.contests.wait_for(RECHECK);
        }
        self.live_facts(release, members, pods).await
    }

    /// The custom resource, as rules see it.
    fn custom_resource(&self) -> Value {
        let mut this = self.written.as_data(&self.unit.resource);
        this["status"] = self.written.status();
        this
    }

    async fn remediate_by(
        &mut self,
        release: &mut Release,
        rule: &Remediation,
        this: &Value,
        facts: &Facts,
        phase: &Phase,
    ) {
        let now = Timestamp::now();
        let variables = [("self", this), ("members", &facts.members), ("pods", &facts.pods)];
        let holds = rule.when.holds(&variables);
        let known = remedied(release, &rule.name);
        let verdict = known.judge(rule, holds == Ok(true), now);
        match verdict {
            Verdict::Fine => {
                if let Err(error) = holds {
                    known.tell(&error.to_string());
                }
            }
            Verdict::Wait(left, why) => {
                known.tell(&why);
                release.contests.wait_for(left);
                if !why.is_empty() {
                    let note = format!("rule {}: nothing is done yet: {why}", rule.name);
                    self.warn_once(release, "RemediationHeld", note).await;
                }
            }
            Verdict::Act => match self.act(release, rule, phase).await {
                Done::Yes(what) => {
                    let condition = rule.when.text();
                    let note = format!("rule {}: {what}, since for {:?}: {condition}", rule.name, rule.lasting);
                    self.inform(if rule.dry_run { "RemediationDue" } else { "Remediated" }, &note)
                        .await;
                }
                Done::Held(why) => {
                    remedied(release, &rule.name).tell(&why);
                    release.contests.wait_for(RECHECK);
                    let note = format!("rule {}: nothing is done: {why}", rule.name);
                    self.warn_once(release, "RemediationHeld", note).await;
                }
            },
        }
    }

    async fn act(&mut self, release: &mut Release, rule: &Remediation, phase: &Phase) -> Done {
        let record = &release.record;
        if record.hooks.is_open() || record.upgrading || !phase.is_well() {
            return Done::Held("something else is under way, or has failed".to_owned());
        }
        if let Some(running) = &record.plans.work.running {
            return Done::Held(format!("plan {} runs", running.plan));
        }
        match &rule.action {
            Action::Plan { name, params } => self.act_by_plan(release, rule, name, params),
            Action::Recreate { kind, name } => self.act_by_recreation(release, rule, kind, name, phase).await,
        }
    }

    fn act_by_plan(&self, release: &mut Release, rule: &Remediation, name: &str, params: &Map<String, Value>) -> Done {
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
        remedied(release, &rule.name).acts(Timestamp::now());
        Done::Yes(match rule.dry_run {
            true => format!("plan {name} would be run"),
            false => format!("plan {name} is run"),
        })
    }

    async fn act_by_recreation(
        &mut self,
        release: &mut Release,
        rule: &Remediation,
        kind: &str,
        name: &str,
        phase: &Phase,
    ) -> Done {
        let name = match render_text("name", name, &self.written.as_data(&self.unit.resource)) {
            Ok(name) => name,
            Err(error) => return Done::Held(error),
        };
        let mut entries = release.record.entries.iter();
        let Some(id) = entries.find(|entry| entry.id.group_kind.kind == kind && entry.id.name == name) else {
            return Done::Held(format!("the release has no {kind} {name}"));
        };
        let id = id.id.clone();
        if let Err(why) = self.may_be_made_anew(release, &id).await {
            return Done::Held(why);
        }
        remedied(release, &rule.name).acts(Timestamp::now());
        if rule.dry_run {
            return Done::Yes(format!("{kind} {name} would be made anew"));
        }
        if let Err(Phase::Failed { message, .. }) = self.write_down(release, phase.clone()).await {
            return Done::Held(message);
        }
        match self.delete_to_make_anew(&id).await {
            Ok(()) => Done::Yes(format!("{kind} {name} is made anew")),
            Err(why) => Done::Held(why),
        }
    }

    /// Whether nobody is in the way of making a member anew.
    ///
    /// # Errors
    /// Who is.
    async fn may_be_made_anew(&self, release: &mut Release, id: &ObjectId) -> Result<(), String> {
        let live = self.context.members().get(id).cloned();
        let Some(live) = live.filter(|live| !live.deleting) else {
            return Err(format!("{id} is not there"));
        };
        if live.disabled {
            return Err(format!(
                "{id} is to be left as it is (chartwright.dev/reconcile: disabled)"
            ));
        }
        if let Some(scaler) = &live.scaled_by {
            return Err(format!(
                "{scaler} sets the replicas of {id}, which a new one would lose"
            ));
        }
        let object = self
            .whole(release, id)
            .await
            .map_err(|error| format!("{id}: {error}"))?;
        let object = object.ok_or_else(|| format!("{id} is not there"))?;
        let is_true = |pointer: &str| object.pointer(pointer) == Some(&Value::Bool(true));
        if is_true("/spec/paused") || is_true("/spec/suspend") {
            return Err(format!("{id} is suspended"));
        }
        let snapshot = self.context.discovery.snapshot();
        // One that found nothing to do yet, or whose target has no replicas of the chart's, has left no mark.
        if object.pointer("/spec/replicas").is_some()
            && let Ok(found) = autoscalers::list(&self.context.client, &snapshot, &id.namespace).await
            && found.iter().any(|autoscaler| scale::scales(autoscaler, id))
        {
            return Err(format!(
                "an autoscaler sets the replicas of {id}, which a new one would lose"
            ));
        }
        let Some(resource) = snapshot.preferred(&id.group_kind) else {
            return Err(format!("the kind of {id} is not served"));
        };
        match self.takes_data(resource, id).await {
            Ok(false) => Ok(()),
            Ok(true) if live.prune_allowed => Ok(()),
            Ok(true) => Err(format!("making {id} anew would take data or other objects with it")),
            Err(error) => Err(format!("{id}: {error}")),
        }
    }

    async fn delete_to_make_anew(&self, id: &ObjectId) -> Result<(), String> {
        let snapshot = self.context.discovery.snapshot();
        let live = self.context.members().get(id).cloned();
        let (Some(resource), Some(live)) = (snapshot.preferred(&id.group_kind), live) else {
            return Err(format!("{id} is not there"));
        };
        let looked = objects::look(&self.context.client, resource, id).await;
        let deleted = match looked.map_err(|error| format!("{id}: {error}"))? {
            Some(seen) if seen.uid == live.uid => objects::delete(&self.context.client, resource, id, &seen).await,
            _ => return Err(format!("{id} is another one by now")),
        };
        match deleted.map_err(|error| format!("{id}: {error}"))? {
            Deleted::Accepted => {
                self.context.metrics.wrote(&id.group_kind.kind, Operation::Delete);
                Ok(())
            }
            Deleted::Absent => Ok(()),
            Deleted::Changed => Err(format!("{id} has changed meanwhile")),
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
