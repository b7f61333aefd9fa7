//! Helm hooks: objects that run around an installation, an upgrade or a deletion, their progress, and the next step.
//! Facts: Helm's `pkg/action/hooks.go`.
//!
//! A hook is applied with our labels, like a member. An annotation names the run that it belongs to, so a run is recognized
//! after a crash. Progress is part of the record. A reconcile never waits: a watch event or a time-out starts the next one.

pub mod stand_in;

use std::time::Duration;

use helm_template::render::HookEvent;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::annotations::{AFTER, TIMEOUT, bad_value};
use crate::health::{self, HealthStatus};
use crate::identity::protected_kinds::is_protected;
use crate::identity::{GroupKind, ObjectId};
use crate::members::desired::{Member, RenderedObject, Stage};
use crate::members::policy::Policy;
use crate::operation::{self, Operation, OperationEffect, OperationEvent, OperationKind};
use crate::plans;
use crate::status::conditions::whole;
use chartwright_watches::duration;
use chartwright_watches::names::is_within;

/// The longest message of a run in the status, in bytes.
const MESSAGE_BYTES: usize = 512;

/// Why a hook failed after another client changed its object.
pub const DELETED: &str = "its object was deleted before it was seen to end";

/// Of a Job: how many seconds it stays once it has ended.
pub const TTL: &str = "ttlSecondsAfterFinished";

/// One hook, as it is applied but for the annotation that names its run.
#[derive(Clone, Debug)]
pub struct Hook {
    pub member: Member,
    /// Helm's events, and `plan-<name>`.
    pub events: Vec<String>,
    /// `helm.sh/hook-delete-policy`: the object is deleted before it is recreated, once all hooks of the event have succeeded, or
    /// when it failed.
    pub deleted_before: bool,
    pub deleted_on_success: bool,
    pub deleted_on_failure: bool,
    /// `helm.sh/hook-output-log-policy`: its success reports the last lines of its log. A failure always does.
    pub reports_log: bool,
    /// `chartwright.dev/timeout`; `None`: that of the watch.
    pub timeout: Option<Duration>,
    /// `chartwright.dev/after: healthy`: after an operation, it waits for the members' health.
    pub after_healthy: bool,
    /// It was stored, and the present rules don't permit it: why.
    pub refused: Option<String>,
}

/// The operation of a release and the runs of its hooks: `status.hooks`. Also a run of a plan and its steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HookProgress {
    /// The operation in progress, or the last one with hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Digest of the hooks of the recorded revision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hooks: String,
    /// Digest of the stored hooks: those for the deletion and, before the first member, the steps of plans on create.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stored: String,
    /// The release was taken over: its hooks may have left objects.
    #[serde(rename = "takenOver", skip_serializing_if = "std::ops::Not::not")]
    pub after_takeover: bool,
    /// The last run of each hook.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<HookRun>,
}

/// How a hook ran last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HookRun {
    /// Event of the hook.
    pub event: String,
    #[serde(flatten)]
    pub object: ObjectId,
    /// Value of the annotation `chartwright.dev/hook-run` of the object.
    pub run: String,
    /// UID of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// `Running`, `Succeeded`, `Failed` or `GivenUp`.
    pub phase: RunPhase,
    /// Start of the run.
    pub started: Timestamp,
    /// End of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Why the run failed. While it runs: why the last attempt failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The object was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// TTL in seconds that the Job still has to get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// Since when Kubernetes removes an earlier Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum RunPhase {
    Running,
    Succeeded,
    /// It is tried again.
    Failed,
    /// It is not: a deletion goes on without it.
    GivenUp,
}

impl RunPhase {
    /// The phase as status and commands show it. Part of the API: it never changes.
    pub fn as_str(self) -> &'static str {
        match self {
            RunPhase::Running => "Running",
            RunPhase::Succeeded => "Succeeded",
            RunPhase::Failed => "Failed",
            RunPhase::GivenUp => "GivenUp",
        }
    }
}

/// What is next about the hooks of an event.
#[derive(Debug)]
pub enum Next<'h> {
    /// To be created, after the rest of an earlier run is gone.
    Start(&'h Hook),
    /// It runs; its object shows the progress.
    Await(&'h Hook, HookRun),
    /// It failed.
    Retry(&'h Hook, HookRun),
    /// All are over.
    Done,
}

/// How a hook that runs is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookState {
    /// With what there is to say of it.
    Running(String),
    Succeeded,
    Failed(String),
    /// It can't run any more: its namespace goes.
    Hopeless(String),
    /// It isn't created: the present rules don't permit it.
    Refused(String),
    /// Its object isn't created before what an earlier run left is gone.
    AwaitsRemoval(Removal),
}

/// What keeps an object that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Kubernetes finishes it, if late: its garbage collector does nothing while it learns which kinds there are, as after a
    /// restart of the API server.
    pub is_owed: bool,
    pub message: String,
}

/// While Kubernetes owes a removal, the time of a hook stands still; in a deletion for no longer than this.
pub const LONGEST_REMOVAL: Duration = Duration::from_secs(600);
impl Hook {
    /// Parses a stored hook. Returns `None` if the data was not written by this operator.
    pub fn read(kept: RenderedObject) -> Option<Self> {
        let (group_kind, version) = GroupKind::of(&kept.object)?;
        let text = |field: &str| kept.object["metadata"][field].as_str().unwrap_or_default();
        let id = ObjectId::new(group_kind, text("namespace"), text("name"));
        let member = Member {
            ignored: None,
            stage: Stage::of(&id.group_kind),
            id,
            version,
            source: kept.source,
            digest: String::new(),
            policy: Policy::default(),
            owner: None,
            object: kept.object,
        };
        Some(Hook::of(member).0)
    }

    /// Reads the annotations of a hook. What means nothing has no effect, and comes back as sentences about it.
    pub fn of(member: Member) -> (Self, Vec<String>) {
        let annotations = member.object.pointer("/metadata/annotations");
        let text = |key: &str| annotations.and_then(|all| all.get(key)?.as_str()).map(str::trim);
        let list = |key: &str| items(text(key).unwrap_or_default());
        let mut problems = Vec::new();
        let policies = list("helm.sh/hook-delete-policy");
        let logs = list("helm.sh/hook-output-log-policy");
        let has = |policy: &str| policies.iter().any(|item| item == policy);
        let timeout = match text(TIMEOUT).map(|text| (text, duration::parse(text))) {
            None => None,
            Some((_, Ok(timeout))) if !timeout.is_zero() => Some(timeout),
            Some((text, _)) => {
                problems.push(bad_value(TIMEOUT, text, "a duration such as 10m"));
                None
            }
        };
        let after_healthy = match text(AFTER) {
            None => false,
            Some("healthy") => true,
            Some(other) => {
                problems.push(bad_value(AFTER, other, "healthy"));
                false
            }
        };
        let hook = Hook {
            events: events(&member.object),
            deleted_before: policies.is_empty() || has("before-hook-creation"),
            deleted_on_success: has("hook-succeeded"),
            deleted_on_failure: has("hook-failed"),
            reports_log: logs.iter().any(|policy| policy == "hook-succeeded"),
            timeout,
            after_healthy,
            refused: None,
            member,
        };
        (hook, problems)
    }

    /// True if it is a step of one of these plans.
    pub fn is_step_of(&self, plans: &[String]) -> bool {
        self.plans().any(|plan| plans.iter().any(|name| name == plan))
    }

    /// True if its end is awaited: Helm waits for Jobs and Pods, and takes others for done once they are applied.
    pub fn is_awaited(&self) -> bool {
        ends(&self.member.id)
    }

    /// True if what an earlier run left of it goes before it is made. What ran can't run again; what takes data with it
    /// stays.
    pub fn is_recreated(&self) -> bool {
        (self.deleted_before || self.is_awaited()) && !is_protected(&self.member.id.group_kind)
    }

    fn runs_at(&self, event: &str) -> bool {
        self.events.iter().any(|known| known == event)
    }

    /// The plans that it is a step of.
    pub fn plans(&self) -> impl Iterator<Item = &str> {
        self.events.iter().filter_map(|event| plans::plan_of(event))
    }

    /// True if one of the operations that a release goes through by itself runs it.
    pub fn is_of_an_operation(&self) -> bool {
        let operations = [
            OperationKind::Install,
            OperationKind::Upgrade,
            OperationKind::Rollback,
            OperationKind::Delete,
        ];
        operations
            .iter()
            .any(|operation| self.runs_at(operation.before()) || self.runs_at(operation.after()))
    }

    /// True if it runs when the release goes.
    pub fn is_of_deletion(&self) -> bool {
        self.runs_at(OperationKind::Delete.before()) || self.runs_at(OperationKind::Delete.after())
    }

    /// The TTL of its Job. What is none is for the API server to refuse.
    pub fn ttl(&self) -> Option<u32> {
        let GroupKind { group, kind } = &self.member.id.group_kind;
        let ttl = &self.member.object["spec"][TTL];
        let is_job = (group.as_str(), kind.as_str()) == ("batch", "Job");
        ttl.as_u64().filter(|_| is_job)?.try_into().ok()
    }
}

/// An event as `helm.sh/hook` writes it; `None` for an unknown one.
fn known_event(text: &str) -> Option<String> {
    let plan = || plans::plan_of(text).map(|_| text.to_owned());
    HookEvent::parse(text)
        .map(|event| event.name().to_owned())
        .or_else(plan)
}

/// The items of a list as Helm's annotations write it, in lower case.
fn items(list: &str) -> Vec<String> {
    let items = list.split(',').map(|item| item.trim().to_lowercase());
    items.filter(|item| !item.is_empty()).collect()
}

/// The known events at which an object runs as a hook.
pub fn events(object: &Value) -> Vec<String> {
    let listed = object
        .pointer("/metadata/annotations/helm.sh~1hook")
        .and_then(Value::as_str);
    let listed = items(listed.unwrap_or_default());
    listed.iter().filter_map(|event| known_event(event)).collect()
}

/// True if every one of these events, as `helm.sh/hook` lists them, is known here, though not all are to Helm.
pub fn knows(events: &str) -> bool {
    let mut events = events.split(',');
    events.all(|event| known_event(&event.trim().to_lowercase()).is_some())
}

/// True for the kinds that run and end.
fn ends(id: &ObjectId) -> bool {
    let GroupKind { group, kind } = &id.group_kind;
    matches!((group.as_str(), kind.as_str()), ("batch", "Job") | ("", "Pod"))
}

fn is_hook(id: &ObjectId, hooks: &[Hook]) -> bool {
    hooks.iter().any(|hook| hook.member.id == *id)
}

/// How a Job or a Pod is that a hook made.
pub fn state(mut object: Value, now: Timestamp) -> HookState {
    let Some((group_kind, _)) = GroupKind::of(&object) else {
        return HookState::Succeeded;
    };
    // What has ended has, though its TTL takes it away by now.
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let deleting = metadata
        .and_then(|metadata| metadata.remove("deletionTimestamp"))
        .is_some();
    let health = health::health(&group_kind, &object, now);
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    let suspended = object.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let state = match (group_kind.kind.as_str(), phase, health.status) {
        // A Pod is well while it runs, and as a hook it has to end.
        ("Pod", Some("Succeeded"), _) => HookState::Succeeded,
        ("Pod", Some("Failed"), _) => HookState::Failed(health.message),
        ("Pod", ..) => HookState::Running(health.message),
        (_, _, HealthStatus::Current) if !suspended => HookState::Succeeded,
        (_, _, HealthStatus::Failed) => HookState::Failed(health.message),
        _ => HookState::Running(health.message),
    };
    match state {
        HookState::Running(_) if deleting => HookState::Failed(DELETED.to_owned()),
        state => state,
    }
}

/// What keeps an object of an earlier run that is being deleted.
pub fn removal(id: &ObjectId, object: &Value) -> Removal {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let others: Vec<&str> = finalizers
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|finalizer| !is_of_kubernetes(finalizer))
        .collect();
    let what = format!("waiting until {id}, which an earlier run left, is gone");
    Removal {
        is_owed: others.is_empty(),
        message: if others.is_empty() {
            format!("{what}: Kubernetes' garbage collector deletes what it owns first")
        } else {
            format!("{what}: it is kept by the finalizers {}", others.join(", "))
        },
    }
}

/// True of the finalizers of Kubernetes' own controllers.
fn is_of_kubernetes(finalizer: &str) -> bool {
    let domain = finalizer.split_once('/').map(|(domain, _)| domain);
    domain.is_none_or(|domain| is_within(domain, "kubernetes.io") || is_within(domain, "k8s.io"))
}

/// The hooks of an event in the order in which they run: by weight, then kind (in install order, in which they come), then
/// name.
pub fn in_order<'h>(hooks: &'h [Hook], event: &str) -> Vec<&'h Hook> {
    let mut chosen: Vec<&Hook> = hooks.iter().filter(|hook| hook.runs_at(event)).collect();
    let weight = |hook: &Hook| -> i64 {
        let weight = hook.member.object.pointer("/metadata/annotations/helm.sh~1hook-weight");
        weight
            .and_then(Value::as_str)
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or_default()
    };
    let kinds: Vec<&str> = chosen
        .iter()
        .map(|hook| hook.member.id.group_kind.kind.as_str())
        .collect();
    let rank = |hook: &Hook| kinds.iter().position(|kind| *kind == hook.member.id.group_kind.kind);
    chosen.sort_by_cached_key(|hook| (weight(hook), rank(hook), hook.member.id.name.clone()));
    chosen
}

/// What is next about hooks, which are those of an event in their order.
pub fn next<'h>(hooks: &[&'h Hook], event: &str, progress: &HookProgress) -> Next<'h> {
    for hook in hooks {
        let id = &hook.member.id;
        match progress.run(event, id) {
            None => return Next::Start(hook),
            Some(run) => match run.phase {
                RunPhase::Succeeded | RunPhase::GivenUp => {}
                RunPhase::Running => return Next::Await(hook, run.clone()),
                RunPhase::Failed => return Next::Retry(hook, run.clone()),
            },
        }
    }
    Next::Done
}
impl HookProgress {
    pub fn is_empty(&self) -> bool {
        *self == HookProgress::default()
    }

    /// True if an operation is in progress.
    pub fn is_open(&self) -> bool {
        self.operation.as_ref().is_some_and(Operation::is_open)
    }

    /// True if the release is being deleted, or was until its object was decorated again.
    pub fn is_of_deletion(&self) -> bool {
        let operation = self.operation.as_ref();
        operation.is_some_and(|operation| operation.kind == OperationKind::Delete)
    }

    /// Passes an event to the operation, and returns what the reconcile does next.
    pub fn advance(&mut self, event: OperationEvent<'_>) -> Vec<OperationEffect> {
        let (operation, effects) = operation::next(self.operation.as_ref(), event);
        self.operation = operation;
        effects
    }

    /// Failed runs of hooks in the operation.
    pub fn failures(&self) -> u32 {
        self.operation.as_ref().map_or(0, |operation| operation.failures)
    }

    /// Removes the record of which of these hooks ran in the operation, so that all of them run.
    pub fn forget_runs(&mut self, hooks: &[Hook]) {
        let Some(operation) = &self.operation else { return };
        let events = [operation.kind.before(), operation.kind.after()];
        let is_of_operation = |event: &str| events.contains(&event) || plans::plan_of(event).is_some();
        self.runs
            .retain(|run| !is_of_operation(&run.event) || !is_hook(&run.object, hooks));
    }

    /// Removes the operation of a release without hooks, once it is over.
    pub fn forget_operation_without_hooks(&mut self) {
        if self.hooks.is_empty() && self.runs.is_empty() && !self.is_open() && !self.is_of_deletion() {
            self.operation = None;
        }
    }

    /// Jobs and Pods of hooks that the chart no longer has: they are not needed any more. Other hook objects stay, because
    /// members may need them, and are deleted with the release.
    pub fn dropped(&self, hooks: &[Hook]) -> Vec<ObjectId> {
        let objects = self.runs.iter().map(|run| &run.object);
        objects.filter(|id| ends(id) && !is_hook(id, hooks)).cloned().collect()
    }

    pub fn forget(&mut self, id: &ObjectId) {
        self.runs.retain(|run| run.object != *id);
    }

    /// Name of the run of an event that begins now.
    pub fn name(&self, event: &str) -> String {
        let operation = self.operation.as_ref();
        operation.map_or_else(|| event.to_owned(), |operation| operation.run_name(event))
    }

    pub fn run(&self, event: &str, id: &ObjectId) -> Option<&HookRun> {
        self.runs.iter().find(|run| run.event == event && run.object == *id)
    }

    /// Takes note of a run, in the place of an earlier one.
    pub fn note(&mut self, run: HookRun) {
        let same = |known: &&mut HookRun| known.event == run.event && known.object == run.object;
        match self.runs.iter_mut().find(same) {
            Some(known) => *known = run,
            None => self.runs.push(run),
        }
    }

    /// The hook of an event that failed.
    pub fn failed(&self, event: &str) -> Option<&HookRun> {
        let mut runs = self.runs.iter();
        runs.find(|run| run.event == event && matches!(run.phase, RunPhase::Failed | RunPhase::GivenUp))
    }

    /// What runs, or may.
    pub fn running(&self) -> impl Iterator<Item = &HookRun> {
        self.runs.iter().filter(|run| run.phase == RunPhase::Running)
    }

    /// The objects that hooks made.
    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.runs.iter().map(|run| &run.object)
    }
}
impl HookRun {
    /// A run that begins at `now`.
    pub fn begins(event: &str, id: &ObjectId, run: String, now: Timestamp) -> Self {
        HookRun {
            event: event.to_owned(),
            object: id.clone(),
            run,
            uid: String::new(),
            phase: RunPhase::Running,
            started: whole(now),
            ended: None,
            message: String::new(),
            deleted: false,
            ttl: None,
            waiting_since: None,
        }
    }

    /// The next attempt at the hook of a run that failed.
    #[must_use]
    pub fn retry(&self, run: String, now: Timestamp) -> Self {
        HookRun {
            message: self.message.clone(),
            ..HookRun::begins(&self.event, &self.object, run, now)
        }
    }

    /// What `message` reports about a run in progress, with the attempt if an earlier one failed.
    #[must_use]
    pub fn progress_message(&self, message: &str, failures: u32) -> String {
        if self.message.is_empty() {
            message.to_owned()
        } else {
            let attempt = failures.saturating_add(1);
            format!("{message}; attempt {attempt}; the last one failed: {}", self.message)
        }
    }

    /// The same run, ended at `now`.
    pub fn ends(self, phase: RunPhase, message: &str, now: Timestamp) -> Self {
        HookRun {
            phase,
            ended: Some(whole(now)),
            message: chartwright_watches::text::cut(message, MESSAGE_BYTES),
            waiting_since: None,
            ..self
        }
    }

    /// The TTL that its Job lacks, now that the run has ended.
    pub fn ttl_due(&self) -> Option<u32> {
        let was_made = !self.uid.is_empty();
        self.ttl
            .filter(|_| was_made && !self.deleted && self.phase != RunPhase::Running)
    }

    /// How much of its time is left.
    pub fn time_left(&self, timeout: Duration, now: Timestamp) -> Duration {
        let until = self.waiting_since.unwrap_or(now);
        let elapsed = Duration::try_from(until - self.started).unwrap_or_default();
        timeout.saturating_sub(elapsed)
    }

    /// What an earlier run left is not gone. False if that is the failure of this run. `is_bounded`: something waits for it
    /// that must come to an end.
    pub fn awaits(&mut self, removal: &Removal, is_bounded: bool, now: Timestamp) -> bool {
        if !removal.is_owed {
            self.resume(now);
            return false;
        }
        let since = *self.waiting_since.get_or_insert(now);
        let waited = Duration::try_from(now - since).unwrap_or_default();
        let goes_on = !is_bounded || waited < LONGEST_REMOVAL;
        if !goes_on {
            // All of it counts.
            self.waiting_since = None;
        }
        goes_on
    }

    /// It waits for no removal any more: its time goes on.
    pub fn resume(&mut self, now: Timestamp) {
        let Some(since) = self.waiting_since.take() else { return };
        let waited = Duration::try_from(now - since).unwrap_or_default();
        self.started = whole(self.started.saturating_add(waited).unwrap_or(self.started));
    }
}

#[cfg(test)]
mod tests;
