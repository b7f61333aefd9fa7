//! Plans: work on a release outside of apply, such as a backup. Objects with `helm.sh/hook: plan-<name>` are the steps of a
//! plan; `helm.sh/hook: test` makes the plan `test`. Facts: KUDO's plans, and Kubernetes' CronJob for schedules.
//!
//! Invariant: the record lists running, waiting and finished runs, and is written before the first object of a run is created.

use std::time::Duration;

use cronexpr::{Crontab, MakeTimestamp};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::annotations::{
    CONCURRENCY, HISTORY_LIMIT, ON_CREATE, ON_DELETE, RUN_ON_CHANGE, SCHEDULE, STARTING_DEADLINE, TIME_ZONE,
};
use crate::digest::{Key, KeyUse};
use crate::grants::StoredObject;
use crate::hooks::{Hook, HookProgress, in_order};
use crate::operation::OperationEvent;
use crate::status::conditions::whole;
use chartwright_watches::duration;
use chartwright_watches::text::cut;

/// So many runs are listed of a plan that doesn't say, and of any plan.
const USUAL_HISTORY: usize = 3;
const LONGEST_HISTORY: usize = 20;
/// So many requests wait at most: one for each plan.
const LONGEST_QUEUE: usize = 50;
const MESSAGE_BYTES: usize = 512;
/// So many plans of a chart are known.
const MOST_PLANS: usize = 50;
/// The longest parameters of a run, in bytes of JSON.
const LONGEST_PARAMS: usize = 16 << 10;
/// A clock that goes back by less is set right; by more, times of the future are forgotten.
const LARGEST_STEP: Duration = Duration::from_secs(3600);

/// `status.plans` and `status.planRun`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plans {
    /// Those of the chart, as it was applied last.
    pub plans: Vec<Plan>,
    pub work: PlanWork,
}

/// What is done and what waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PlanWork {
    /// The run in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Box<PlanRun>>,
    /// Runs that wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<PlanRun>,
    /// Steps of the last run of each plan.
    #[serde(skip_serializing_if = "HookProgress::is_empty")]
    pub steps: HookProgress,
    /// The last request that could not be carried out, and why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refused: String,
}

/// One run that is requested or in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlanRun {
    /// Name of the plan.
    pub plan: String,
    /// `request`, `schedule`, `change`, `remediation`, `create` or `delete`.
    pub by: By,
    /// Token of the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// Parameters of the run: `.Plan.Params`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// Digest that the value had before the change that runs the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value_before: String,
    /// Start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
}

impl PlanWork {
    /// Removes a run that waits because of a changed value, after the change was rolled back. Returns the digest of the value
    /// before.
    fn undo_change(&mut self, plan: &str) -> Option<String> {
        let is_it = |run: &PlanRun| run.plan == plan && run.by == By::Change;
        let place = self.queue.iter().position(is_it)?;
        Some(self.queue.remove(place).value_before).filter(|value| !value.is_empty())
    }
}

/// Who requested it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum By {
    Request,
    Schedule,
    Change,
    Remediation,
    /// It is part of an installation.
    Create,
    /// It is part of a deletion.
    Delete,
}

/// A plan of the chart, and how it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Plan {
    /// Name of the plan.
    pub name: String,
    /// Schedule of the plan.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// Time zone of the schedule.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub time_zone: String,
    /// Starting deadline, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting_deadline: Option<u64>,
    /// `concurrency: Replace`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// How many runs are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_limit: Option<usize>,
    /// The plan runs before an installation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_create: bool,
    /// The plan runs before a deletion.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_delete: bool,
    /// Path of the value whose change runs the plan.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run_on_change: String,
    /// Digest of that value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What is wrong with the plan, with its template.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub invalid: String,
    /// Number of runs.
    pub count: i64,
    /// Last run: `Running`, `Succeeded` or `Failed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Last run: start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// Last run: end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Last run: token of its request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// Last run: why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The last runs, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Past>,
    /// Scheduled time that was carried out last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Timestamp>,
    /// Next scheduled time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
}

/// A run that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// Number of the run.
    pub run: i64,
    /// `request`, `schedule`, `change`, `remediation`, `create` or `delete`.
    pub by: By,
    /// `Succeeded` or `Failed`.
    pub phase: String,
    /// Start of the run.
    pub started: Timestamp,
    /// End of the run.
    pub ended: Timestamp,
}

/// What a schedule requests now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// One run, in the place of one that is under way.
    Replace(String),
    /// A time went by for which it is too late, or while the plan was still running.
    Missed(String),
}

pub const RUNNING: &str = "Running";
pub const SUCCEEDED: &str = "Succeeded";
pub const FAILED: &str = "Failed";

/// The plans whose first step has an annotation that is `true`.
pub fn marked(hooks: &[Hook], annotation: &str) -> Vec<String> {
    let mut names: Vec<String> = hooks.iter().flat_map(Hook::plans).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| {
        let steps = in_order(hooks, &event(name));
        let annotations = steps
            .first()
            .map(|first| &first.member.object["metadata"]["annotations"]);
        annotations.is_some_and(|all| all[annotation] == "true")
    });
    names
}

/// The event at which the steps of a plan run.
pub fn event(plan: &str) -> String {
    match plan {
        "test" => plan.to_owned(),
        plan => format!("plan-{plan}"),
    }
}

/// The plan that an event is of; `None` for Helm's own events.
pub fn plan_of(event: &str) -> Option<&str> {
    match event {
        "test" => Some(event),
        event => event.strip_prefix("plan-").filter(|name| !name.is_empty()),
    }
}
impl Plan {
    /// The plan that these steps make: what its first step says. `value`: finds a keyed digest of a value by its path.
    fn of(name: &str, first: &Hook, value: &dyn Fn(&str) -> String) -> Self {
        let annotations = first.member.object.pointer("/metadata/annotations");
        let text = |key: &str| {
            let text = annotations.and_then(|all| all.get(key)?.as_str());
            text.unwrap_or_default().trim().to_owned()
        };
        let mut plan = Plan {
            name: name.to_owned(),
            schedule: text(SCHEDULE),
            time_zone: text(TIME_ZONE),
            on_create: text(ON_CREATE) == "true",
            on_delete: text(ON_DELETE) == "true",
            run_on_change: text(RUN_ON_CHANGE),
            ..Plan::default()
        };
        let mut wrong: Vec<String> = Vec::new();
        if !plan.schedule.is_empty()
            && let Err(error) = crontab(&plan.schedule, &plan.time_zone)
        {
            wrong.push(format!("{SCHEDULE}: {:?}: {error}", plan.schedule));
            plan.schedule.clear();
        }
        let deadline = text(STARTING_DEADLINE);
        match duration::parse(&deadline) {
            _ if deadline.is_empty() => {}
            Ok(deadline) => plan.starting_deadline = Some(deadline.as_secs()),
            Err(error) => wrong.push(format!("{STARTING_DEADLINE}: {error}")),
        }
        match text(CONCURRENCY).as_str() {
            "" | "Forbid" => {}
            "Replace" => plan.replaces = true,
            other => wrong.push(format!("{CONCURRENCY}: {other:?} is neither Forbid nor Replace")),
        }
        let limit = text(HISTORY_LIMIT);
        match limit.parse::<usize>() {
            _ if limit.is_empty() => {}
            Ok(limit) => plan.history_limit = Some(limit.min(LONGEST_HISTORY)),
            Err(_) => wrong.push(format!("{HISTORY_LIMIT}: {limit:?} is no number")),
        }
        if !plan.run_on_change.is_empty() {
            plan.value = value(&plan.run_on_change);
        }
        if !wrong.is_empty() {
            plan.invalid = format!("{}: {}", first.member.source, wrong.join("; "));
        }
        plan
    }

    /// The time of its schedule that is due: the last one that has come. All before it are made up for by that.
    fn due(&mut self, now: Timestamp) -> Option<Timestamp> {
        let Ok(crontab) = crontab(&self.schedule, &self.time_zone) else {
            self.next = None;
            return None;
        };
        let mut since = self.scheduled.unwrap_or(now);
        if since > now + LARGEST_STEP {
            since = now;
        }
        let slot = [3600, 86_400, 32 * 86_400, i64::MAX].into_iter().find_map(|window| {
            let start = now.as_second().saturating_sub(window);
            let start = Timestamp::from_second(start).map_or(since, |start| start.max(since));
            let times = crontab.iter_after(MakeTimestamp(start)).ok()?;
            let passed = times.map_while(Result::ok).map(|time| time.timestamp());
            passed.take_while(|time| *time <= now).last()
        });
        self.scheduled = Some(whole(slot.unwrap_or(since)));
        let after = crontab.find_next(MakeTimestamp(now.max(since)));
        self.next = after.ok().map(|time| time.timestamp());
        slot
    }

    fn begins(&mut self, token: &str, started: Timestamp) {
        // A status that another client wrote has any number.
        self.count = self.count.saturating_add(1);
        RUNNING.clone_into(&mut self.phase);
        (self.started, self.ended) = (Some(started), None);
        token.clone_into(&mut self.token);
        self.message.clear();
    }

    /// Its last run is over. `failed`: why it failed.
    fn ends(&mut self, by: By, failed: Option<&str>, now: Timestamp) {
        let phase = if failed.is_some() { FAILED } else { SUCCEEDED };
        phase.clone_into(&mut self.phase);
        self.ended = Some(now);
        self.message = cut(failed.unwrap_or_default(), MESSAGE_BYTES);
        let past = Past {
            run: self.count,
            by,
            phase: phase.to_owned(),
            started: self.started.unwrap_or(now),
            ended: now,
        };
        self.runs.insert(0, past);
        self.runs.truncate(self.history_limit.unwrap_or(USUAL_HISTORY));
    }
}

/// Reads a schedule: as CronJob does, with its five words.
fn crontab(schedule: &str, zone: &str) -> Result<Crontab, String> {
    let fields = match schedule {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        fields => fields,
    };
    if fields.split_whitespace().count() != 5 {
        return Err("a schedule has five fields: minute, hour, day, month, weekday".to_owned());
    }
    let zone = if zone.is_empty() { "UTC" } else { zone };
    cronexpr::parse_crontab(&format!("{fields} {zone}")).map_err(|error| {
        let text = error.to_string();
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    })
}
impl Plans {
    pub fn is_empty(&self) -> bool {
        *self == Plans::default()
    }

    pub fn get(&self, name: &str) -> Option<&Plan> {
        self.plans.iter().find(|plan| plan.name == name)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Plan> {
        self.plans.iter_mut().find(|plan| plan.name == name)
    }

    /// All of a render is applied: these are its plans from now on. Those whose value has changed since are to be run.
    /// `values`: what it was rendered from; `None` for a rollback, which undoes changes whose plans have not begun.
    pub fn learn(&mut self, hooks: &[Hook], key: &Key, values: Option<&Value>, now: Timestamp) {
        let digest = |path: &str| {
            let mut fields = path.split('.').filter(|field| !field.is_empty());
            let found = values.and_then(|values| fields.try_fold(values, |value, field| value.get(field)));
            key.digest(
                KeyUse::PlanValue,
                &[found.unwrap_or(&Value::Null).to_string().as_bytes()],
            )
        };
        let mut names: Vec<&str> = hooks.iter().flat_map(Hook::plans).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(MOST_PLANS);
        let known = std::mem::take(&mut self.plans);
        for name in names {
            let steps = in_order(hooks, &event(name));
            let Some(first) = steps.first() else { continue };
            let mut plan = Plan::of(name, first, &digest);
            if let Some(before) = known.iter().find(|plan| plan.name == name) {
                if values.is_none() {
                    let undone = self.work.undo_change(name);
                    plan.value = undone.unwrap_or_else(|| before.value.clone());
                } else if !plan.value.is_empty() && !before.value.is_empty() && plan.value != before.value {
                    self.ask(PlanRun {
                        value_before: before.value.clone(),
                        ..PlanRun::of(name, By::Change)
                    });
                }
                let same_times = (&plan.schedule, &plan.time_zone) == (&before.schedule, &before.time_zone);
                plan = Plan {
                    count: before.count,
                    phase: before.phase.clone(),
                    started: before.started,
                    ended: before.ended,
                    token: before.token.clone(),
                    message: before.message.clone(),
                    runs: before.runs.clone(),
                    scheduled: before.scheduled.filter(|_| same_times),
                    next: before.next.filter(|_| same_times),
                    ..plan
                };
            }
            if !plan.schedule.is_empty() && plan.scheduled.is_none() {
                plan.due(now);
            }
            self.plans.push(plan);
        }
        // One that runs goes on.
        let running = self.work.running.as_ref().map(|run| run.plan.clone());
        let gone = known.into_iter().find(|plan| running.as_ref() == Some(&plan.name));
        if let Some(gone) = gone.filter(|gone| self.get(&gone.name).is_none()) {
            self.plans.push(gone);
        }
        let plans = &self.plans;
        self.work
            .queue
            .retain(|run| plans.iter().any(|plan| plan.name == run.plan));
    }

    /// Adds a requested run. At most one run of each plan waits: the one that was requested last.
    pub fn ask(&mut self, run: PlanRun) {
        let queue = &mut self.work.queue;
        match queue.iter().position(|waiting| waiting.plan == run.plan) {
            // A request of a user is not replaced by another trigger.
            Some(place) if queue[place].by == By::Request && run.by != By::Request => {}
            Some(place) => queue[place] = run,
            None if queue.len() < LONGEST_QUEUE => queue.push(run),
            None => {}
        }
    }

    /// Adds a run that is requested by the text `<plan>[@<token>]`, with parameters as a JSON object.
    pub fn request(&mut self, text: &str, params: Option<&str>) {
        let (plan, token) = text.split_once('@').unwrap_or((text, ""));
        let plan = plan.trim();
        let names: Vec<&str> = self.plans.iter().map(|plan| plan.name.as_str()).collect();
        let params = params.filter(|text| !text.is_empty()).unwrap_or("{}");
        let params = match serde_json::from_str(params) {
            _ if params.len() > LONGEST_PARAMS => Err(format!("its parameters are longer than {LONGEST_PARAMS} bytes")),
            Ok(Value::Object(params)) => Ok(params),
            Ok(_) => Err("its parameters are no JSON object".to_owned()),
            Err(error) => Err(format!("its parameters are no JSON: {error}")),
        };
        let refused = match params {
            _ if names.is_empty() => Some("the chart has no plans".to_owned()),
            _ if !names.contains(&plan) => Some(format!("the chart's plans are {}", names.join(", "))),
            Err(wrong) => Some(wrong),
            Ok(params) => {
                self.ask(PlanRun {
                    token: token.to_owned(),
                    params,
                    ..PlanRun::of(plan, By::Request)
                });
                None
            }
        };
        self.work.refused = match refused {
            Some(why) => cut(&format!("plan {plan:?} can't be run: {why}"), MESSAGE_BYTES),
            None => String::new(),
        };
    }

    /// Adds the runs that are due by schedule. Returns the missed and the replaced ones.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Due> {
        let running = self.work.running.as_ref().map(|run| run.plan.clone());
        let (mut runs, mut notices) = (Vec::new(), Vec::new());
        for plan in self.plans.iter_mut().filter(|plan| !plan.schedule.is_empty()) {
            if plan.next.is_some_and(|next| next > now) && plan.scheduled.is_some_and(|last| last <= now) {
                continue;
            }
            let Some(slot) = plan.due(now) else { continue };
            let late = u64::try_from((now - slot).get_seconds()).unwrap_or_default();
            let name = &plan.name;
            if plan.starting_deadline.is_some_and(|deadline| late > deadline) {
                notices.push(Due::Missed(format!(
                    "plan {name} was to run at {slot}: it is too late for that"
                )));
            } else if running.as_ref() != Some(name) {
                runs.push(PlanRun::of(name, By::Schedule));
            } else if plan.replaces {
                notices.push(Due::Replace(name.clone()));
                runs.push(PlanRun::of(name, By::Schedule));
            } else {
                notices.push(Due::Missed(format!(
                    "plan {name} was to run at {slot}: it still runs since the last time"
                )));
            }
        }
        runs.into_iter().for_each(|run| self.ask(run));
        notices
    }

    /// When a schedule asks next.
    pub fn next(&self) -> Option<Timestamp> {
        self.plans.iter().filter_map(|plan| plan.next).min()
    }

    /// The next run begins; `None` if one is under way, or nothing waits.
    pub fn start(&mut self, now: Timestamp) -> Option<PlanRun> {
        if self.work.running.is_some() || self.work.queue.is_empty() {
            return None;
        }
        let now = whole(now);
        let run = PlanRun {
            started: Some(now),
            ..self.work.queue.remove(0)
        };
        let plan = self.get_mut(&run.plan)?;
        plan.begins(&run.token, now);
        let count = plan.count;
        let steps = &mut self.work.steps;
        let this = event(&run.plan);
        steps.runs.retain(|step| step.event != this);
        steps.advance(OperationEvent::PlanBegun { number: count });
        self.work.running = Some(Box::new(run.clone()));
        Some(run)
    }

    /// Gives the run a name of its own: the same steps may run again, and what counts runs may be lost.
    pub fn identify(&mut self, key: &Key, steps: &str) {
        let Some(run) = &self.work.running else { return };
        let started = run.started.map(|time| time.to_string()).unwrap_or_default();
        let parts = [steps, &started, &run.token].map(str::as_bytes);
        let digest = key.digest(KeyUse::PlanRun, &parts);
        self.work
            .steps
            .advance(OperationEvent::StepsRendered { digest: &digest });
    }

    /// A run that nothing was made of waits again.
    pub fn take_back(&mut self) {
        let Some(run) = self.work.running.take() else { return };
        if let Some(plan) = self.get_mut(&run.plan) {
            plan.count = plan.count.saturating_sub(1);
            plan.phase = plan.runs.first().map(|past| past.phase.clone()).unwrap_or_default();
        }
        self.work.queue.insert(0, PlanRun { started: None, ..*run });
    }

    /// What ran is over. `failed`: why it failed.
    pub fn finish(&mut self, failed: Option<&str>, now: Timestamp) {
        let Some(run) = self.work.running.take() else { return };
        self.work.steps.advance(match failed {
            Some(_) => OperationEvent::GivenUp,
            None => OperationEvent::PreHooksSucceeded,
        });
        if let Some(plan) = self.get_mut(&run.plan) {
            plan.ends(run.by, failed, whole(now));
        }
    }

    /// A run that is part of an installation or a deletion is reported like others. `hooks`: those of the operation, with its
    /// steps. Each attempt counts.
    pub fn follow(&mut self, name: &str, by: By, hooks: &HookProgress, is_over: bool) {
        let event = event(name);
        let steps = || hooks.runs.iter().filter(|step| step.event == event);
        let Some(started) = steps().map(|step| step.started).min() else {
            return;
        };
        if self.get(name).is_none() {
            // What is installed has taught no plans yet.
            self.plans.push(Plan {
                name: name.to_owned(),
                ..Plan::default()
            });
        }
        let Some(plan) = self.get_mut(name) else { return };
        let failed = hooks.failed(&event);
        let goes_on = plan.phase == FAILED && failed.is_none();
        if plan.started != Some(started) || goes_on {
            plan.begins("", started);
        }
        if plan.phase == RUNNING && (is_over || failed.is_some()) {
            let ended = steps().filter_map(|step| step.ended).max();
            plan.ends(by, failed.map(|step| step.message.as_str()), ended.unwrap_or(started));
        }
    }

    /// The plan on create whose run has begun, and has neither succeeded nor failed. Only for a release without a revision:
    /// no other plan runs there.
    #[must_use]
    pub fn begun(&self) -> Option<&str> {
        let begun = self.plans.iter().find(|plan| plan.phase == RUNNING);
        begun.map(|plan| plan.name.as_str())
    }

    /// True if the last run of the plan succeeded.
    #[must_use]
    pub fn has_succeeded(&self, name: &str) -> bool {
        self.get(name).is_some_and(|plan| plan.phase == SUCCEEDED)
    }

    /// What is wrong with plans, for a condition; empty if nothing is.
    pub fn troubles(&self) -> Vec<String> {
        let plans = self.plans.iter();
        let of_plans = plans.flat_map(|plan| {
            let failed = (plan.phase == FAILED).then(|| format!("plan {} failed: {}", plan.name, plan.message));
            let invalid = (!plan.invalid.is_empty()).then(|| format!("plan {}: {}", plan.name, plan.invalid));
            invalid.into_iter().chain(failed)
        });
        let refused = (!self.work.refused.is_empty()).then(|| self.work.refused.clone());
        of_plans.chain(refused).collect()
    }
}
/// The steps of the plan that ran last, as a Secret of the release stores them.
#[derive(Serialize, Deserialize)]
pub struct StoredSteps {
    /// Value of `chartwright.dev/run-plan` that was carried out last. It outlives the status.
    pub handled: String,
    pub steps: Vec<StoredObject>,
}

/// True if the token of a `run-plan` request is a time (RFC 3339) at or after the creation of the custom resource. Any other
/// request may have been carried out for the custom resource that a backup was made of.
pub fn is_made_for(request: &str, created: Timestamp) -> bool {
    let token = request.split_once('@').map(|(_, token)| token.trim());
    token
        .and_then(|token| token.parse::<Timestamp>().ok())
        .is_some_and(|time| time >= created)
}

impl PlanRun {
    pub fn of(plan: &str, by: By) -> Self {
        PlanRun {
            plan: plan.to_owned(),
            by,
            token: String::new(),
            params: Map::new(),
            value_before: String::new(),
            started: None,
        }
    }
}

#[cfg(test)]
mod tests;
