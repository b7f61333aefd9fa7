//! Every interruption in every phase of every operation, on the model. After each, the operation ends, or the one that
//! replaces it: no hook is skipped or runs again after its success, and nothing is ready before its last hook.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::histories::history::{MEMBERS, ModelHistory, SECOND, SOURCE, in_virtual_time, writes_a_member};
use crate::histories::place::{NAMESPACE, ReleasePlace};
use crate::model::kinds::JOB;
use crate::model::store::StoreChange;
use crate::real_server::release::{claims_ready, spec};
use crate::report::TortureReport;
use crate::world::fields::{HOOK_RUN, annotation};

/// Colors come from a ConfigMap. A marked member is recreated by remediation.
const WATCH_KEYS: &str = "  onFailure: rollback
  valuesFrom: [{kind: ConfigMap, name: source, valuesKey: color, targetPath: color, optional: true}]
  remediation:
  - name: stuck
    when: has(members.ConfigMap['a-main'].metadata.labels.stuck)
    do: {recreate: {kind: ConfigMap, name: a-main}}
    budget: 1
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationUnderTest {
    Install,
    Upgrade,
    Rollback,
    Delete,
    PlanRun,
    Remediation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseUnderTest {
    /// The first hook, or the step of a plan, runs.
    Hooks,
    /// The first member was written, and others follow.
    Members,
    /// The last hook runs.
    PostHooks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    Edit,
    OtherLookup,
    OtherValues,
    NewerChart,
    Suspend,
    Delete,
    Kill,
    LostStatus,
    /// The status is lost while no operator runs, and with it the record.
    LostRecord,
}

use OperationUnderTest::{Install, PlanRun, Remediation, Rollback, Upgrade};
use PhaseUnderTest::{Hooks, Members, PostHooks};

const INTERRUPTIONS: [Interruption; 9] = [
    Interruption::Edit,
    Interruption::OtherLookup,
    Interruption::OtherValues,
    Interruption::NewerChart,
    Interruption::Suspend,
    Interruption::Delete,
    Interruption::Kill,
    Interruption::LostStatus,
    Interruption::LostRecord,
];

const PHASES: [(OperationUnderTest, &[PhaseUnderTest]); 6] = [
    (Install, &[Hooks, Members, PostHooks]),
    (Upgrade, &[Hooks, Members, PostHooks]),
    (Rollback, &[Hooks, Members, PostHooks]),
    (OperationUnderTest::Delete, &[Hooks, Members]),
    (PlanRun, &[Hooks]),
    (Remediation, &[Members]),
];

/// A spec without a color, with hooks, a plan and a lookup.
fn staged(extra: &[&str]) -> Value {
    let mut spec = spec("", extra, true);
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("color");
    }
    for (field, value) in [
        ("hooks", json!("ends")),
        ("plan", json!(true)),
        ("lookup", json!(SOURCE)),
        ("part", json!(true)),
    ] {
        spec[field] = value;
    }
    spec
}

/// What releases look up and take their color from.
async fn source(history: &ModelHistory, word: &str, color: &str) -> Result<()> {
    let path = ReleasePlace::of(&format!("{NAMESPACE}/{SOURCE}")).map_path();
    let data = json!({"word": word, "color": color});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SOURCE}, "data": data});
    let (status, answer) = history.ask("APPLY", &path, "other", map).await?;
    ensure!(status < 300, "{answer}");
    Ok(())
}

fn is_member_write(call: &ApiCall) -> bool {
    writes_a_member(call)
        && call
            .target()
            .is_some_and(|target| !target.name.starts_with("chartwright-"))
}

/// An installed release, twice upgraded for a rollback.
async fn prepare(operation: OperationUnderTest) -> Result<ModelHistory> {
    let mut history = ModelHistory::begin_with_keys(WATCH_KEYS).await?;
    source(&history, "first", "blue").await?;
    let specs: &[&[&str]] = match operation {
        Install => &[],
        Rollback => &[&["one"], &["two"]],
        _ => &[&["one"]],
    };
    for extra in specs {
        history.edit("a", staged(extra)).await?;
        history
            .until(120, ModelHistory::is_as_wanted)
            .await
            .context("before anything happens")?;
    }
    Ok(history)
}

async fn begin(history: &mut ModelHistory, operation: OperationUnderTest) -> Result<()> {
    match operation {
        Install => history.edit("a", staged(&["one"])).await,
        Upgrade => history.edit("a", staged(&["two"])).await,
        Rollback => {
            let patch = json!({"metadata": {"annotations": {"chartwright.dev/rollback-to": "1"}}});
            history
                .ask("MERGE", &ReleasePlace::of("a").path(), "user", patch)
                .await
                .map(drop)
        }
        OperationUnderTest::Delete => history.delete("a").await,
        PlanRun => history.run_plan("a", "ends").await,
        Remediation => history
            .mark("a-main", json!({"labels": {"stuck": "1"}}))
            .await
            .map(drop),
    }
}

/// Waits until the operation is in the phase. `start`: how many changes there were when it began.
async fn reach(
    history: &ModelHistory,
    operation: OperationUnderTest,
    phase: PhaseUnderTest,
    start: usize,
) -> Result<()> {
    let job = match (operation, phase) {
        (_, PostHooks) => "a-after",
        (OperationUnderTest::Delete, _) => "a-bye",
        (PlanRun, _) => "a-work",
        _ => "a-before",
    };
    for _ in 0..600 {
        let is_reached = {
            let store = history.model.store();
            let is_open = store
                .objects
                .iter()
                .any(|(key, object)| key.0 == JOB.plural && key.2 == job && object["status"].is_null());
            let is_member = |change: &StoreChange| MEMBERS.contains(&change.key.0) && change.key.2.starts_with("a-");
            let marks = usize::from(operation == Remediation);
            match phase {
                Members => store.changes[start..].iter().filter(|change| is_member(change)).count() > marks,
                Hooks | PostHooks => is_open,
            }
        };
        if is_reached {
            return Ok(());
        }
        tokio::time::sleep(SECOND / 10).await;
    }
    bail!(
        "the phase is never reached: {}",
        history.widget("a").unwrap_or_default()["status"]
    )
}

async fn interrupt(history: &mut ModelHistory, interruption: Interruption) -> Result<()> {
    let lost = json!({"status": null});
    let status = format!("{}/status", ReleasePlace::of("a").path());
    match interruption {
        Interruption::Edit => history.edit("a", staged(&["three"])).await,
        Interruption::OtherLookup => source(history, "second", "blue").await,
        Interruption::OtherValues => {
            source(history, "first", "green").await?;
            if let Some(wanted) = history.wanted.get_mut("a") {
                wanted.spec["color"] = "green".into();
            }
            Ok(())
        }
        Interruption::NewerChart => history.other_chart(false).await,
        Interruption::Suspend => {
            history.suspend("a", true).await?;
            history.suspend("a", false).await
        }
        Interruption::Delete => history.delete("a").await,
        Interruption::Kill => history.restart(true).await,
        Interruption::LostStatus => history.ask("MERGE", &status, "other", lost).await.map(drop),
        Interruption::LostRecord => {
            history.halt().await?;
            history.ask("MERGE", &status, "other", lost).await?;
            history.resume()
        }
    }
}

async fn case(operation: OperationUnderTest, phase: PhaseUnderTest, interruption: Interruption) -> Result<()> {
    let mut history = prepare(operation).await?;
    let start = history.model.store().changes.len();
    if phase == Members {
        history.set_plan(FaultPlan::new(Fault::Slow, 1, 1, is_member_write));
    }
    begin(&mut history, operation).await?;
    reach(&history, operation, phase, start).await?;
    interrupt(&mut history, interruption).await?;
    tokio::time::sleep(120 * SECOND).await;
    if operation == Rollback && interruption != Interruption::Delete {
        // It lasts until the next edit.
        let mut last = staged(&["two", "three"]);
        if let Some(color) = history.wanted["a"].spec.get("color") {
            last["color"] = color.clone();
        }
        history.edit("a", last).await?;
    }
    if interruption == Interruption::LostRecord
        && let Some(wanted) = history.wanted.get_mut("a")
    {
        // A request without a record counts as handled.
        wanted.requested.clear();
    }
    if history.wanted.contains_key("a") {
        history.until(600, ModelHistory::is_as_wanted).await?;
        let status = history.widget("a").unwrap_or_default()["status"].take();
        let phase = &status["hooks"]["operation"]["phase"];
        ensure!(phase == "Done", "the operation does not end: {status}");
        let last = status["history"]
            .as_array()
            .and_then(|all| all.last())
            .cloned()
            .unwrap_or_default();
        ensure!(
            last["revision"] == status["release"]["revision"],
            "no history of its end: {status}"
        );
    }
    hooks_ran_once(&history, operation, interruption)?;
    ready_after_hooks(&history)?;
    history.end().await
}

/// How often each hook succeeded for each custom resource, by event.
fn successes(history: &ModelHistory) -> BTreeMap<(String, String), usize> {
    let store = history.model.store();
    let mut found = BTreeMap::new();
    let is_complete = |job: &Value| job["status"]["conditions"][0]["type"] == "Complete";
    for change in store.changes.iter().filter(|change| change.key.0 == JOB.plural) {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let Some(job) = after.filter(|job| is_complete(job) && !before.is_some_and(is_complete)) else {
            continue;
        };
        let run = annotation(job, HOOK_RUN).unwrap_or_default();
        let event = run.split('.').next().unwrap_or_default().to_owned();
        let owner = annotation(job, crate::world::fields::TRACKING).unwrap_or_default();
        let owner = owner.split(':').next().unwrap_or_default().to_owned();
        *found.entry((owner, event)).or_insert(0) += 1;
    }
    found
}

fn hooks_ran_once(history: &ModelHistory, operation: OperationUnderTest, interruption: Interruption) -> Result<()> {
    let found = successes(history);
    let counts = |event: &str| -> Vec<usize> {
        let of_event = found.iter().filter(|((_, found), _)| found == event);
        of_event.map(|(_, count)| *count).collect()
    };
    if interruption != Interruption::Delete {
        for event in ["pre-install", "post-install"] {
            let counts = counts(event);
            ensure!(!counts.is_empty(), "{event} never succeeded: {found:?}");
            ensure!(
                counts.iter().all(|count| *count == 1),
                "{event} succeeded again: {found:?}"
            );
        }
    }
    if operation == OperationUnderTest::Delete {
        // Without a record, a backup rather runs again than never.
        let most = if interruption == Interruption::LostRecord { 2 } else { 1 };
        let counts = counts("pre-delete");
        ensure!(counts.len() == 1 && (1..=most).contains(&counts[0]), "{found:?}");
    }
    if operation == PlanRun && interruption != Interruption::Delete {
        ensure!(counts("plan-work") == [1], "{found:?}");
    }
    Ok(())
}

/// No status was ready while a hook of its operation had not succeeded.
fn ready_after_hooks(history: &ModelHistory) -> Result<()> {
    let store = history.model.store();
    let widgets = store
        .changes
        .iter()
        .filter(|change| ReleasePlace::PLURALS.contains(&change.key.0));
    for widget in widgets.filter_map(|change| change.after.as_deref()) {
        let phase = &widget["status"]["hooks"]["operation"]["phase"];
        let is_over = phase.is_null() || phase == "Done";
        ensure!(
            is_over || !claims_ready(widget),
            "ready in {phase}: {}",
            widget["status"]
        );
    }
    Ok(())
}

#[test]
fn an_operation_survives_any_interruption_in_any_phase_on_the_model() -> Result<()> {
    let mut report = TortureReport::new("phases");
    for (operation, phases) in PHASES {
        for phase in phases {
            for interruption in INTERRUPTIONS {
                let is_twice = operation == OperationUnderTest::Delete
                    && matches!(interruption, Interruption::Delete | Interruption::Suspend);
                if is_twice {
                    continue;
                }
                let outcome = in_virtual_time(case(operation, *phase, interruption));
                report.case((operation, phase, interruption), outcome);
            }
        }
    }
    report.end("")
}
