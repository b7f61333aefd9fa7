//! The operation that a release is in, from its first hook to its last: an installation, an upgrade, a rollback or a deletion. Beside it,
//! a plan may run, and each rule of remediation has an operation of its own.
//!
//! The operation is one value in the record. [`next`] is the only function that changes it. A reconcile reports events and carries out
//! the effects.
//!
//! | phase | what runs | ends with |
//! |---|---|---|
//! | `PreHooks` | hooks before the first member; the steps of a plan | `PreHooksSucceeded` |
//! | `Apply` | members, wave by wave; of a deletion: their removal; the action of a rule | `MembersApplied` |
//! | `PostHooks` | hooks after the last member | `PostHooksSucceeded` |
//! | `Done`, `Failed` | nothing | a new render or a deletion; the next run or action |
//!
//! Invariants, each with a property test over random events:
//! - An upgrade follows an installation only when the installation is `Done`. Until then, a new render continues the
//!   installation, and hooks that have succeeded do not run again.
//! - A hook that never succeeded is never skipped by an operation that ends as `Done`.
//! - `failures` grows until the render changes or a user requests a retry.
//! - An action that was refused is not counted as done.

use serde::{Deserialize, Serialize};

use crate::serde_helpers::is_default;
use helm_template::render::HookEvent;

/// The kind of an operation. Hooks run before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    Install,
    Upgrade,
    /// Back to an earlier revision, with the hooks of that one.
    Rollback,
    Delete,
    /// The run of a plan. Its steps are hooks.
    Plan,
    /// An action of a rule of `remediation`.
    Remediation,
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum OperationPhase {
    /// Hooks run before the first member is applied.
    PreHooks,
    /// Members are applied. In a deletion: they are deleted.
    Apply,
    /// Hooks run after the last member.
    PostHooks,
    #[default]
    Done,
    /// It failed, and the watch's `onFailure` ended it.
    Failed,
}

/// One operation: `status.hooks.operation`, and those of plans and rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// `install`, `upgrade`, `rollback`, `delete`, `plan` or `remediation`.
    pub kind: OperationKind,
    /// Revision that the operation makes or ends. Of a plan or a rule: the number of the run or action.
    #[serde(default)]
    pub revision: i64,
    /// Number of the attempt: each retry of a hook, and each new render, is one.
    #[serde(default)]
    pub attempt: u32,
    /// Failed runs of hooks. Of a rule: attempts in a row that were refused, for example by an admission policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: u32,
    /// Digest of the members and hooks of the operation.
    #[serde(default)]
    pub digest: String,
    /// `PreHooks`, `Apply`, `PostHooks`, `Done` or `Failed`.
    #[serde(default)]
    pub phase: OperationPhase,
}

/// The render that a reconcile is about to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedRender<'a> {
    /// Revision of the render: the recorded one if it does not differ.
    pub revision: i64,
    /// Revision of the record. It is 0 before the first complete apply.
    pub recorded: i64,
    /// Digest of its members and hooks.
    pub digest: &'a str,
    /// It is the stored render of an earlier revision.
    pub is_rollback: bool,
    /// The release has members, but its record is lost: its install hooks ran before.
    pub is_found: bool,
}

/// An event of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationEvent<'a> {
    /// A render is about to be applied.
    Rendered(WantedRender<'a>),
    /// All hooks before the members have succeeded.
    PreHooksSucceeded,
    /// A hook of the phase failed.
    HookFailed,
    /// A hook that failed runs again.
    HookRetried,
    /// All members are applied, in a deletion: gone.
    MembersApplied,
    /// All hooks after the members have succeeded.
    PostHooksSucceeded,
    /// The release is being deleted, with the stored hooks of this digest.
    Deleting { revision: i64, digest: &'a str },
    /// `onFailure` ended the operation.
    GivenUp,
    /// A user requests another attempt at an operation that was given up. `recorded`: revision of the record.
    RetryRequested { recorded: i64 },
    /// The run of a plan with this number begins.
    PlanBegun { number: i64 },
    /// The steps of the plan are known, with this digest.
    StepsRendered { digest: &'a str },
    /// An action of a rule is due. `number`: how many there were, and this one.
    ActionDue { number: i64 },
    /// The action was refused. It is due again later.
    ActionRefused,
    /// The condition of the rule is no longer true.
    ConditionEnded,
}

/// What a reconcile does for its operation, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationEffect {
    /// Stop the running hooks of the operation before. The record keeps that operation until they are gone.
    StopHooks,
    /// Store the hooks for a deletion.
    StoreDeleteHooks,
    /// The returned operation is the release's operation from here on.
    Begin,
    /// Forget which hooks ran, so that all of them run.
    ForgetRuns,
    /// Store the operation before the next step.
    Store,
    RunPreHooks,
    Apply,
    RunPostHooks,
    /// Report the end of the operation, once.
    Report,
}

use OperationEffect as Do;
use OperationEvent as On;
use OperationPhase as At;

/// Returns the operation after an event, and what the reconcile does next.
#[must_use]
pub fn next(operation: Option<&Operation>, event: On<'_>) -> (Option<Operation>, Vec<Do>) {
    match (event, operation) {
        (On::Rendered(wanted), None) => rendered(None, wanted),
        // The object of a decorator is no longer deleted.
        (On::Rendered(wanted), Some(deleted)) if deleted.kind == OperationKind::Delete => {
            let (next, mut effects) = rendered(None, wanted);
            prepend(&mut effects, &[Do::StopHooks, Do::StoreDeleteHooks, Do::Begin]);
            (next, effects)
        }
        (On::Rendered(wanted), Some(operation)) => rendered(Some(operation), wanted),
        (On::Deleting { .. }, Some(operation)) if operation.kind == OperationKind::Delete => {
            (Some(operation.clone()), operation.resume())
        }
        (On::Deleting { revision, digest }, _) => {
            let operation = Operation::begin(OperationKind::Delete, revision, digest);
            let effects = vec![Do::StopHooks, Do::Begin, Do::ForgetRuns, Do::RunPreHooks];
            (Some(operation), effects)
        }
        (On::PlanBegun { number }, _) => {
            let operation = Operation::begin(OperationKind::Plan, number, "");
            (Some(operation), vec![Do::Begin, Do::ForgetRuns])
        }
        (On::ActionDue { number }, known) => (Some(due(known, number)), vec![Do::Begin, Do::Store, Do::Apply]),
        (_, None) => (None, Vec::new()),
        (_, Some(operation)) if operation.kind == OperationKind::Plan => run_of_plan(operation, event),
        (_, Some(operation)) if operation.kind == OperationKind::Remediation => action_of_rule(operation, event),
        (On::PreHooksSucceeded, Some(operation)) if operation.phase == At::PreHooks => {
            (Some(operation.at(At::Apply)), vec![Do::Apply])
        }
        (On::MembersApplied, Some(operation)) if operation.phase == At::Apply => {
            (Some(operation.at(At::PostHooks)), vec![Do::RunPostHooks])
        }
        (On::MembersApplied, Some(operation)) if operation.phase == At::PostHooks => {
            (Some(operation.clone()), vec![Do::RunPostHooks])
        }
        (On::PostHooksSucceeded, Some(operation)) if operation.phase == At::PostHooks => {
            (Some(operation.at(At::Done)), vec![Do::Report])
        }
        (On::PreHooksSucceeded | On::MembersApplied | On::PostHooksSucceeded, Some(operation)) => {
            (Some(operation.clone()), Vec::new())
        }
        (On::HookFailed, Some(operation)) => (Some(operation.failed()), Vec::new()),
        (On::HookRetried, Some(operation)) => (Some(operation.retried()), Vec::new()),
        (On::GivenUp, Some(operation)) => {
            let phase = if operation.is_open() {
                At::Failed
            } else {
                operation.phase
            };
            (Some(operation.at(phase)), Vec::new())
        }
        (On::RetryRequested { recorded }, Some(operation)) => {
            let phase = match operation.phase {
                At::Failed if operation.revision == recorded => At::PostHooks,
                At::Failed => At::PreHooks,
                phase => phase,
            };
            let operation = operation.at(phase);
            (
                Some(Operation {
                    failures: 0,
                    ..operation
                }),
                Vec::new(),
            )
        }
        (On::StepsRendered { .. } | On::ActionRefused | On::ConditionEnded, Some(operation)) => {
            (Some(operation.clone()), Vec::new())
        }
    }
}

/// An action that is due: the next one, or another attempt at one that was refused.
fn due(known: Option<&Operation>, number: i64) -> Operation {
    let refused = known.filter(|known| known.revision == number && known.phase == At::Failed);
    match refused {
        Some(refused) => refused.retried().at(At::Apply),
        None => Operation::begin(OperationKind::Remediation, number, "").at(At::Apply),
    }
}

fn run_of_plan(operation: &Operation, event: On<'_>) -> (Option<Operation>, Vec<Do>) {
    if !operation.is_open() {
        return (Some(operation.clone()), Vec::new());
    }
    let (next, effects) = match event {
        On::StepsRendered { digest } => {
            let next = Operation {
                digest: digest.to_owned(),
                ..operation.clone()
            };
            (next, vec![Do::Store, Do::RunPreHooks])
        }
        On::HookFailed => (operation.failed(), Vec::new()),
        On::HookRetried => (operation.retried(), Vec::new()),
        On::PreHooksSucceeded => (operation.at(At::Done), vec![Do::Report]),
        On::GivenUp => (operation.at(At::Failed), vec![Do::Report]),
        _ => (operation.clone(), Vec::new()),
    };
    (Some(next), effects)
}

fn action_of_rule(operation: &Operation, event: On<'_>) -> (Option<Operation>, Vec<Do>) {
    match event {
        On::MembersApplied if operation.phase == At::Apply => {
            let done = Operation {
                failures: 0,
                ..operation.at(At::Done)
            };
            (Some(done), vec![Do::Report])
        }
        On::ActionRefused if operation.phase == At::Apply => (Some(operation.failed().at(At::Failed)), Vec::new()),
        On::ConditionEnded if operation.phase == At::Failed => (None, Vec::new()),
        _ => (Some(operation.clone()), Vec::new()),
    }
}

fn rendered(operation: Option<&Operation>, wanted: WantedRender<'_>) -> (Option<Operation>, Vec<Do>) {
    let is_new = wanted.recorded == 0 || wanted.revision > wanted.recorded;
    let same = operation.filter(|known| known.revision == wanted.revision && known.digest == wanted.digest);
    match (operation, same) {
        (_, Some(same)) if same.is_open() || is_new == (same.phase == At::Done) => (Some(same.clone()), same.resume()),
        (Some(install), _) if install.kind == OperationKind::Install && install.phase != At::Done => {
            let attempt = install.attempt.saturating_add(1);
            let phase = if is_new { At::PreHooks } else { At::PostHooks };
            let operation = Operation {
                attempt,
                phase,
                ..Operation::begin(OperationKind::Install, wanted.revision, wanted.digest)
            };
            let mut effects = vec![Do::StopHooks, Do::StoreDeleteHooks, Do::Begin, Do::Store];
            effects.extend(operation.resume());
            (Some(operation), effects)
        }
        (known, _) if is_new => {
            let kind = match wanted.recorded {
                0 => OperationKind::Install,
                _ if wanted.is_rollback => OperationKind::Rollback,
                _ => OperationKind::Upgrade,
            };
            let mut operation = Operation::begin(kind, wanted.revision, wanted.digest);
            // What runs for one that was begun before has a name of its own.
            if let Some(known) = known
                && (wanted.revision < known.revision || known.kind == kind && wanted.revision == known.revision)
            {
                operation.attempt = known.attempt.saturating_add(1);
            }
            if wanted.is_found {
                operation.phase = At::Done;
            }
            let mut effects = vec![
                Do::StopHooks,
                Do::StoreDeleteHooks,
                Do::Begin,
                Do::ForgetRuns,
                Do::Store,
            ];
            effects.extend(operation.resume());
            (Some(operation), effects)
        }
        // A replaced upgrade: the recorded revision is requested again.
        (Some(known), _) if known.is_open() && known.revision > wanted.recorded => {
            let effects = vec![Do::StopHooks, Do::StoreDeleteHooks, Do::Begin, Do::Apply];
            (Some(known.at(At::Done)), effects)
        }
        (known, _) => {
            let mut effects = vec![Do::StoreDeleteHooks];
            effects.extend(
                known
                    .filter(|known| known.is_open())
                    .map_or_else(|| vec![Do::Apply], Operation::resume),
            );
            (known.cloned(), effects)
        }
    }
}

fn prepend(effects: &mut Vec<Do>, first: &[Do]) {
    for effect in first.iter().rev() {
        if !effects.contains(effect) {
            effects.insert(0, *effect);
        }
    }
}

impl Operation {
    /// An operation before its first hook.
    #[must_use]
    pub fn begin(kind: OperationKind, revision: i64, digest: &str) -> Self {
        Operation {
            kind,
            revision,
            attempt: 1,
            failures: 0,
            digest: digest.to_owned(),
            phase: At::PreHooks,
        }
    }

    /// True until its last hook has succeeded, or it was given up.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.phase, At::Done | At::Failed)
    }

    /// True while an installation runs its first hooks and plans.
    #[must_use]
    pub fn is_before_install(&self) -> bool {
        self.kind == OperationKind::Install && self.phase == At::PreHooks
    }

    fn at(&self, phase: At) -> Self {
        Operation { phase, ..self.clone() }
    }

    fn failed(&self) -> Self {
        let failures = self.failures.saturating_add(1);
        Operation {
            failures,
            ..self.clone()
        }
    }

    fn retried(&self) -> Self {
        let attempt = self.attempt.saturating_add(1);
        Operation {
            attempt,
            ..self.clone()
        }
    }

    /// What a reconcile does in the phase.
    fn resume(&self) -> Vec<Do> {
        vec![match self.phase {
            At::PreHooks => Do::RunPreHooks,
            At::Apply | At::PostHooks | At::Done | At::Failed => Do::Apply,
        }]
    }

    /// Name of the run of a hook that begins now. It is equal only for the same revision, attempt and render, regardless of which
    /// process counts them.
    #[must_use]
    pub fn run_name(&self, event: &str) -> String {
        let digest = self.digest.get(..8).unwrap_or(&self.digest);
        format!("{event}.{}.{}.{digest}", self.revision, self.attempt)
    }
}

impl OperationKind {
    /// The event of the hooks that are over before the first member is touched.
    #[must_use]
    pub fn before(self) -> &'static str {
        match self {
            OperationKind::Install => HookEvent::PreInstall.name(),
            OperationKind::Upgrade => HookEvent::PreUpgrade.name(),
            OperationKind::Rollback => HookEvent::PreRollback.name(),
            OperationKind::Delete => HookEvent::PreDelete.name(),
            OperationKind::Plan | OperationKind::Remediation => "",
        }
    }

    /// The event of the hooks that begin after the last member.
    #[must_use]
    pub fn after(self) -> &'static str {
        match self {
            OperationKind::Install => HookEvent::PostInstall.name(),
            OperationKind::Upgrade => HookEvent::PostUpgrade.name(),
            OperationKind::Rollback => HookEvent::PostRollback.name(),
            OperationKind::Delete => HookEvent::PostDelete.name(),
            OperationKind::Plan | OperationKind::Remediation => "",
        }
    }
}

#[cfg(test)]
mod tests;
