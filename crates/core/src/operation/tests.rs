use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn operation(kind: OperationKind, revision: i64, phase: At) -> Operation {
    Operation {
        phase,
        ..Operation::begin(kind, revision, "a")
    }
}

fn render(revision: i64, recorded: i64, digest: &str) -> On<'_> {
    On::Rendered(WantedRender {
        revision,
        recorded,
        digest,
        is_rollback: false,
        is_found: false,
    })
}

/// Kind, revision, attempt, digest and phase, as the tables write them.
fn text(operation: &Operation) -> String {
    let Operation {
        kind,
        revision,
        attempt,
        digest,
        phase,
        ..
    } = operation;
    format!("{kind:?} {revision}.{attempt}.{digest} {phase:?}")
}

/// The table of transitions: before, event, after, effects.
#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn each_event_leads_to_one_state() {
    use OperationKind::{Delete, Install, Rollback, Upgrade};
    let begin = vec![
        Do::StopHooks,
        Do::StoreDeleteHooks,
        Do::Begin,
        Do::ForgetRuns,
        Do::Store,
        Do::RunPreHooks,
    ];
    let go_on = |last: Do| vec![Do::StopHooks, Do::StoreDeleteHooks, Do::Begin, Do::Store, last];
    let rollback = On::Rendered(WantedRender {
        revision: 3,
        recorded: 2,
        digest: "b",
        is_rollback: true,
        is_found: false,
    });
    let found = On::Rendered(WantedRender {
        revision: 1,
        recorded: 0,
        digest: "a",
        is_rollback: false,
        is_found: true,
    });
    let deleting = On::Deleting {
        revision: 1,
        digest: "d",
    };
    let found_effects = {
        let mut effects = begin.clone();
        effects.pop();
        effects.push(Do::Apply);
        effects
    };
    for (before, event, after, effects) in [
        // A release begins.
        (None, render(1, 0, "a"), "Install 1.1.a PreHooks", begin.clone()),
        (None, found, "Install 1.1.a Done", found_effects),
        (None, render(1, 1, "a"), "", vec![Do::StoreDeleteHooks, Do::Apply]),
        (None, render(2, 1, "b"), "Upgrade 2.1.b PreHooks", begin.clone()),
        // It goes on from phase to phase.
        (
            Some((Install, 1, At::PreHooks)),
            render(1, 0, "a"),
            "Install 1.1.a PreHooks",
            vec![Do::RunPreHooks],
        ),
        (
            Some((Install, 1, At::PreHooks)),
            On::PreHooksSucceeded,
            "Install 1.1.a Apply",
            vec![Do::Apply],
        ),
        (
            Some((Install, 1, At::Apply)),
            On::PreHooksSucceeded,
            "Install 1.1.a Apply",
            vec![],
        ),
        (
            Some((Install, 1, At::Apply)),
            On::MembersApplied,
            "Install 1.1.a PostHooks",
            vec![Do::RunPostHooks],
        ),
        (
            Some((Install, 1, At::PreHooks)),
            On::MembersApplied,
            "Install 1.1.a PreHooks",
            vec![],
        ),
        (
            Some((Install, 1, At::PostHooks)),
            render(1, 1, "a"),
            "Install 1.1.a PostHooks",
            vec![Do::Apply],
        ),
        (
            Some((Install, 1, At::PostHooks)),
            On::MembersApplied,
            "Install 1.1.a PostHooks",
            vec![Do::RunPostHooks],
        ),
        (
            Some((Install, 1, At::PostHooks)),
            On::PostHooksSucceeded,
            "Install 1.1.a Done",
            vec![Do::Report],
        ),
        (
            Some((Install, 1, At::Done)),
            On::PostHooksSucceeded,
            "Install 1.1.a Done",
            vec![],
        ),
        (
            Some((Install, 1, At::PostHooks)),
            On::HookFailed,
            "Install 1.1.a PostHooks",
            vec![],
        ),
        (
            Some((Install, 1, At::PostHooks)),
            On::HookRetried,
            "Install 1.2.a PostHooks",
            vec![],
        ),
        // A new render continues an installation, and its hooks that succeeded do not run again.
        (
            Some((Install, 1, At::PreHooks)),
            render(1, 0, "b"),
            "Install 1.2.b PreHooks",
            go_on(Do::RunPreHooks),
        ),
        (
            Some((Install, 1, At::Apply)),
            render(1, 0, "b"),
            "Install 1.2.b PreHooks",
            go_on(Do::RunPreHooks),
        ),
        (
            Some((Install, 1, At::PostHooks)),
            render(2, 1, "b"),
            "Install 2.2.b PreHooks",
            go_on(Do::RunPreHooks),
        ),
        (
            Some((Install, 2, At::PreHooks)),
            render(1, 1, "b"),
            "Install 1.2.b PostHooks",
            go_on(Do::Apply),
        ),
        // Only then there are upgrades.
        (
            Some((Install, 1, At::Done)),
            render(2, 1, "b"),
            "Upgrade 2.1.b PreHooks",
            begin.clone(),
        ),
        (
            Some((Upgrade, 2, At::PreHooks)),
            render(2, 1, "b"),
            "Upgrade 2.2.b PreHooks",
            begin.clone(),
        ),
        (
            Some((Upgrade, 2, At::PostHooks)),
            render(3, 2, "b"),
            "Upgrade 3.1.b PreHooks",
            begin.clone(),
        ),
        (
            Some((Upgrade, 2, At::PostHooks)),
            rollback,
            "Rollback 3.1.b PreHooks",
            begin.clone(),
        ),
        (
            Some((Rollback, 3, At::Done)),
            render(4, 3, "b"),
            "Upgrade 4.1.b PreHooks",
            begin.clone(),
        ),
        // An upgrade that is no longer requested.
        (
            Some((Upgrade, 2, At::PreHooks)),
            render(1, 1, "b"),
            "Upgrade 2.1.a Done",
            vec![Do::StopHooks, Do::StoreDeleteHooks, Do::Begin, Do::Apply],
        ),
        // onFailure.
        (
            Some((Upgrade, 2, At::PostHooks)),
            On::GivenUp,
            "Upgrade 2.1.a Failed",
            vec![],
        ),
        (Some((Upgrade, 2, At::Done)), On::GivenUp, "Upgrade 2.1.a Done", vec![]),
        (
            Some((Upgrade, 2, At::Failed)),
            On::RetryRequested { recorded: 2 },
            "Upgrade 2.1.a PostHooks",
            vec![],
        ),
        (
            Some((Upgrade, 2, At::Failed)),
            On::RetryRequested { recorded: 1 },
            "Upgrade 2.1.a PreHooks",
            vec![],
        ),
        (
            Some((Upgrade, 2, At::Done)),
            On::RetryRequested { recorded: 2 },
            "Upgrade 2.1.a Done",
            vec![],
        ),
        (
            Some((Upgrade, 2, At::Failed)),
            render(2, 1, "a"),
            "Upgrade 2.2.a PreHooks",
            begin.clone(),
        ),
        (
            Some((Install, 1, At::Failed)),
            render(1, 1, "a"),
            "Install 1.1.a Failed",
            vec![Do::Apply],
        ),
        (
            Some((Install, 1, At::Failed)),
            render(2, 1, "b"),
            "Install 2.2.b PreHooks",
            go_on(Do::RunPreHooks),
        ),
        (
            Some((Install, 1, At::Failed)),
            render(1, 0, "a"),
            "Install 1.2.a PreHooks",
            go_on(Do::RunPreHooks),
        ),
        // A deletion replaces everything else, and continues after a crash.
        (
            Some((Install, 1, At::PreHooks)),
            deleting,
            "Delete 1.1.d PreHooks",
            vec![Do::StopHooks, Do::Begin, Do::ForgetRuns, Do::RunPreHooks],
        ),
        (
            Some((Delete, 1, At::PreHooks)),
            deleting,
            "Delete 1.1.a PreHooks",
            vec![Do::RunPreHooks],
        ),
        (
            Some((Delete, 1, At::PostHooks)),
            deleting,
            "Delete 1.1.a PostHooks",
            vec![Do::Apply],
        ),
        (
            Some((Delete, 1, At::PreHooks)),
            render(1, 1, "a"),
            "",
            vec![Do::StopHooks, Do::Begin, Do::StoreDeleteHooks, Do::Apply],
        ),
        (
            Some((Delete, 1, At::PreHooks)),
            render(2, 1, "b"),
            "Upgrade 2.1.b PreHooks",
            begin.clone(),
        ),
    ] {
        let before = before.map(|(kind, revision, phase)| operation(kind, revision, phase));
        let (next, done) = next(before.as_ref(), event);
        let case = format!("{before:?} {event:?}");
        assert_eq!(next.as_ref().map(text).unwrap_or_default(), after, "{case}");
        assert_eq!(done, effects, "{case}");
    }
}

/// The table of transitions of plans and rules.
#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn plans_and_rules_have_operations_of_their_own() {
    use OperationKind::{Install, Plan, Remediation};
    let act = vec![Do::Begin, Do::Store, Do::Apply];
    for (before, event, after, effects) in [
        (
            None,
            On::PlanBegun { number: 3 },
            "Plan 3.1. PreHooks",
            vec![Do::Begin, Do::ForgetRuns],
        ),
        (
            Some((Plan, 3, At::Failed)),
            On::PlanBegun { number: 4 },
            "Plan 4.1. PreHooks",
            vec![Do::Begin, Do::ForgetRuns],
        ),
        (
            Some((Plan, 3, At::PreHooks)),
            On::StepsRendered { digest: "b" },
            "Plan 3.1.b PreHooks",
            vec![Do::Store, Do::RunPreHooks],
        ),
        (
            Some((Plan, 3, At::PreHooks)),
            On::HookRetried,
            "Plan 3.2.a PreHooks",
            vec![],
        ),
        (
            Some((Plan, 3, At::PreHooks)),
            On::PreHooksSucceeded,
            "Plan 3.1.a Done",
            vec![Do::Report],
        ),
        (
            Some((Plan, 3, At::PreHooks)),
            On::GivenUp,
            "Plan 3.1.a Failed",
            vec![Do::Report],
        ),
        (Some((Plan, 3, At::Done)), On::GivenUp, "Plan 3.1.a Done", vec![]),
        (
            Some((Plan, 3, At::PreHooks)),
            On::MembersApplied,
            "Plan 3.1.a PreHooks",
            vec![],
        ),
        (None, On::ActionDue { number: 1 }, "Remediation 1.1. Apply", act.clone()),
        (
            Some((Remediation, 1, At::Apply)),
            On::MembersApplied,
            "Remediation 1.1.a Done",
            vec![Do::Report],
        ),
        (
            Some((Remediation, 1, At::Apply)),
            On::ActionRefused,
            "Remediation 1.1.a Failed",
            vec![],
        ),
        (
            Some((Remediation, 1, At::Failed)),
            On::ActionDue { number: 1 },
            "Remediation 1.2.a Apply",
            act.clone(),
        ),
        (Some((Remediation, 1, At::Failed)), On::ConditionEnded, "", vec![]),
        // After a crash, what was begun counts.
        (
            Some((Remediation, 1, At::Apply)),
            On::ActionDue { number: 2 },
            "Remediation 2.1. Apply",
            act.clone(),
        ),
        (
            Some((Remediation, 1, At::Done)),
            On::ActionDue { number: 2 },
            "Remediation 2.1. Apply",
            act,
        ),
        (
            Some((Remediation, 1, At::Done)),
            On::ActionRefused,
            "Remediation 1.1.a Done",
            vec![],
        ),
        (
            Some((Install, 1, At::Apply)),
            On::ActionRefused,
            "Install 1.1.a Apply",
            vec![],
        ),
    ] {
        let before = before.map(|(kind, number, phase)| operation(kind, number, phase));
        let (next, done) = next(before.as_ref(), event);
        let case = format!("{before:?} {event:?}");
        assert_eq!(next.as_ref().map(text).unwrap_or_default(), after, "{case}");
        assert_eq!(done, effects, "{case}");
    }
}

/// A release on which random events act: which hooks succeeded since the operation began, and what the record holds.
#[derive(Debug, Default)]
struct Model {
    operation: Option<Operation>,
    recorded: i64,
    /// Render of the record, and the one that is requested.
    applied: u8,
    wanted: u8,
    /// Events whose hooks have succeeded for the operation, with the render.
    succeeded: BTreeSet<&'static str>,
    installs: usize,
    ready: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Edit(u8),
    /// A reconcile in which hooks and applies succeed, or do not.
    Reconcile {
        pre: bool,
        apply: bool,
        post: bool,
    },
    GivenUp,
    Retry,
}

impl Model {
    fn advance(&mut self, event: On<'_>) -> Vec<Do> {
        let (next, effects) = next(self.operation.as_ref(), event);
        self.operation = next;
        effects
    }

    fn run(&mut self, event: &'static str, succeeds: bool) -> bool {
        let succeeds = succeeds || self.succeeded.contains(event);
        if succeeds {
            self.succeeded.insert(event);
        } else {
            self.advance(On::HookFailed);
        }
        succeeds
    }

    fn reconcile(&mut self, pre: bool, apply: bool, post: bool) {
        self.ready = false;
        let is_changed = self.recorded == 0 || self.applied != self.wanted;
        let revision = if is_changed { self.recorded + 1 } else { self.recorded };
        let digest = self.wanted.to_string();
        let before = self.operation.clone();
        let effects = self.advance(render(revision, self.recorded, &digest));
        let now = self.operation.clone();
        if let (Some(before), Some(now)) = (&before, &now)
            && before.kind == OperationKind::Install
            && now.kind == OperationKind::Upgrade
        {
            assert_eq!(
                before.phase,
                At::Done,
                "an upgrade replaced an installation: {before:?} {now:?}"
            );
        }
        if effects.contains(&Do::ForgetRuns) {
            self.succeeded.clear();
        }
        if effects.contains(&Do::RunPreHooks) {
            let kind = now.as_ref().unwrap().kind;
            if !self.run(kind.before(), pre) {
                return;
            }
            self.advance(On::PreHooksSucceeded);
        }
        if !apply {
            return;
        }
        if let Some(open) = self.operation.as_ref().filter(|operation| operation.is_open()) {
            assert!(
                self.succeeded.contains(open.kind.before()),
                "applied before its hooks: {open:?}"
            );
        }
        (self.recorded, self.applied) = (revision, self.wanted);
        self.advance(On::MembersApplied);
        if let Some(open) = self.operation.clone().filter(Operation::is_open) {
            assert_eq!(open.revision, self.recorded);
            if !self.run(open.kind.after(), post) {
                return;
            }
            let effects = self.advance(On::PostHooksSucceeded);
            assert_eq!(effects, [Do::Report]);
            if open.kind == OperationKind::Install {
                self.installs += 1;
                let hooks = ["pre-install", "post-install"];
                assert!(hooks.iter().all(|event| self.succeeded.contains(event)), "{self:?}");
            }
        }
        let has_failed = self
            .operation
            .as_ref()
            .is_some_and(|operation| operation.phase == At::Failed);
        self.ready = !has_failed;
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Edit(render) => self.wanted = render,
            Step::Reconcile { pre, apply, post } => self.reconcile(pre, apply, post),
            Step::GivenUp => drop(self.advance(On::GivenUp)),
            Step::Retry => drop(self.advance(On::RetryRequested {
                recorded: self.recorded,
            })),
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reconcile = any::<(bool, bool, bool)>().prop_map(|(pre, apply, post)| Step::Reconcile { pre, apply, post });
    let step = prop_oneof![
        2 => (0..3_u8).prop_map(Step::Edit),
        5 => reconcile,
        1 => Just(Step::GivenUp),
        1 => Just(Step::Retry),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn operations_end_once_and_in_order(steps in steps()) {
        let mut model = Model::default();
        let mut failures = 0;
        for step in steps {
            let before = model.operation.clone();
            model.step(step);
            if model.ready {
                let open = model.operation.as_ref().filter(|operation| operation.is_open());
                prop_assert!(open.is_none(), "ready in {open:?}");
            }
            // Failures grow until another render or a request.
            let now = model.operation.as_ref();
            let is_same = before.as_ref().zip(now).is_some_and(|(before, now)| before.run_name("") == now.run_name(""));
            if is_same && !matches!(step, Step::Retry) {
                prop_assert!(now.map_or(0, |now| now.failures) >= failures);
            }
            failures = now.map_or(0, |now| now.failures);
        }
        // Reconciles that succeed end it after any history.
        model.step(Step::Retry);
        for _ in 0..2 {
            model.step(Step::Reconcile { pre: true, apply: true, post: true });
        }
        prop_assert!(model.ready, "{model:?}");
        prop_assert!(model.operation.as_ref().is_none_or(|operation| !operation.is_open()), "{model:?}");
        prop_assert_eq!(model.installs, 1, "{:?}", model);
    }
}
