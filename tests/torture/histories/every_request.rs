//! Every fault at every request of what an operator does most, on the model: enumerated, where histories draw. As time
//! costs nothing there, a good part of it runs with `cargo test`. In no case is an object of another owner taken (P9).

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::histories::history::{ModelHistory, SECOND, THEIRS, in_virtual_time};
use crate::histories::random::FAULTS;
use crate::real_server::release::spec;
use crate::report::{TortureReport, everything};
use crate::world::fields::{OPERATOR, PART_OF};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperatorWork {
    Install,
    /// Two members change, one comes, one goes, and one stays.
    Upgrade,
    /// Another chart, with a restart of the operator.
    OtherChart,
    /// All members of two kinds go.
    Prune,
    Delete,
    /// Deleted and immediately recreated.
    Replace,
    /// A user edits a member and deletes another.
    Drift,
    /// An object of another owner has the name of a member; its fields don't conflict with ours.
    Collision,
    /// A user excludes a member from reconciles, and removes our labels: no watch shows it any more.
    Hide,
}

/// A change by another client while the operator waits for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConcurrentChange {
    /// Deletes the custom resource, which goes if the operator has not claimed it yet.
    Deletes,
    /// Puts another custom resource of the same name in its place. What the former made and this one doesn't render would
    /// stay, so it renders all of it.
    Supplants,
    /// Puts an object of his own in the place of a member that is to go.
    Robs,
    /// Puts one in the place of a member that comes, or changes.
    Usurps,
    /// Marks a member that is to go as one that stays.
    Keeps,
    /// Wants it otherwise.
    Edits,
    /// Puts our labels back on a member that was hidden, and deletes it.
    Removes,
}

use ConcurrentChange::*;
use OperatorWork::*;

const WORKS: [OperatorWork; 8] = [Install, Upgrade, OtherChart, Prune, Delete, Replace, Drift, Collision];

fn first() -> Value {
    spec("blue", &["one", "two"], true)
}

/// More requests than any work takes that goes well.
const MANY: usize = 60;

fn asks(call: &ApiCall) -> bool {
    call.target().is_some() && !call.is_watch()
}

async fn begin(work: OperatorWork) -> Result<ModelHistory> {
    match work {
        Install | Collision => ModelHistory::begin().await,
        _ => ModelHistory::with("a", first()).await,
    }
}

/// A minute in which no status is ever a lie, if it is `watched` for that. Gives what was hit.
async fn settle(history: &ModelHistory, watched: bool) -> Result<Vec<String>> {
    for _ in 0..240 {
        tokio::time::sleep(SECOND / 4).await;
        if watched {
            history.is_truthful()?;
        }
    }
    Ok(history.faults().disarm())
}

/// One case; true if the position was reached.
async fn case(work: OperatorWork, fault: Fault, position: usize, times: usize) -> Result<bool> {
    let mut history = begin(work).await?;
    if work == Collision {
        history.by_others("a-two", None).await?;
    }
    let plan = || FaultPlan::new(fault, position, times, asks);
    history.set_plan(plan());
    match work {
        Install | Collision => history.edit("a", first()).await?,
        Upgrade => history.edit("a", spec("red", &["two", "three"], true)).await?,
        OtherChart => {
            history.other_chart(true).await?;
            history.set_plan(plan());
        }
        Prune => history.edit("a", spec("blue", &["one", "two"], false)).await?,
        Delete => history.delete("a").await?,
        Replace => {
            history.delete("a").await?;
            history.edit("a", spec("red", &["two"], true)).await?;
        }
        Drift => {
            history.by_hand("a-main", 0).await?;
            history.by_hand("a-one", 4).await?;
        }
        Hide => bail!("nothing is to be made good"),
    }
    // The state of another chart is unknown before its operator has read it.
    let watched = !matches!(work, Drift | OtherChart);
    let hit = settle(&history, watched).await?;
    if work == Collision {
        // What is refused for good comes before a collision in the status, and is tried again on request only.
        if matches!(fault, Fault::Status(413 | 422)) {
            history.request("a").await?;
        }
        // A retry may wait six minutes.
        let reported = history.until(400, |history| {
            let stalled = history.condition("a", "Stalled");
            ensure!(stalled["reason"] == "Collision", "{stalled}");
            Ok(())
        });
        reported.await.with_context(|| format!("hit {hit:?}"))?;
    } else if watched {
        history.never_lied().with_context(|| format!("hit {hit:?}"))?;
    }
    history.end().await.with_context(|| format!("hit {hit:?}"))?;
    Ok(!hit.is_empty())
}

/// The request at `position`, or the answer to it, takes two seconds, and after one of them another client acts.
async fn interrupted(work: OperatorWork, event: ConcurrentChange, fault: Fault, position: usize) -> Result<bool> {
    let mut history = begin(work).await?;
    history.set_plan(FaultPlan::new(fault, position, 1, asks));
    let labels = history.map("a-one").unwrap_or_default()["metadata"]["labels"].take();
    match work {
        Delete => history.delete("a").await?,
        Hide => {
            let disabled = json!({"chartwright.dev/reconcile": "disabled"});
            let marks = json!({"labels": {(OPERATOR): null, (PART_OF): null}, "annotations": disabled});
            history.mark("a-one", marks).await?;
        }
        Upgrade => history.edit("a", spec("red", &["one"], true)).await?,
        _ => history.edit("a", first()).await?,
    }
    tokio::time::sleep(SECOND).await;
    let mut kept = false;
    let everything = spec("green", &["one", "two", "three"], true);
    match event {
        Deletes => history.delete("a").await?,
        Supplants => history.supplant("a", everything).await?,
        Edits => history.edit("a", spec("green", &["three"], false)).await?,
        Keeps => {
            let policy = json!({"annotations": {"helm.sh/resource-policy": "keep"}});
            kept = history.mark("a-two", policy).await?;
        }
        Removes => {
            history.mark("a-one", json!({"labels": labels})).await?;
            history.by_hand("a-one", 4).await?;
        }
        Robs | Usurps => {
            let name = if event == Robs { "a-two" } else { "a-main" };
            history.by_hand(name, 4).await?;
            history.by_others(name, None).await?;
        }
    }
    let hit = settle(&history, !matches!(event, Usurps | Removes)).await?;
    saw(&history, event, kept)
        .and_then(|()| match event {
            Robs | Usurps | Removes => Ok(()),
            _ => history.never_lied(),
        })
        .with_context(|| format!("hit {hit:?}"))?;
    history.end().await.with_context(|| format!("hit {hit:?}"))?;
    Ok(!hit.is_empty())
}

/// The operator saw the change.
fn saw(history: &ModelHistory, event: ConcurrentChange, kept: bool) -> Result<()> {
    let is_there = history.map("a-two").is_some();
    ensure!(!kept || is_there, "what is to be kept was deleted");
    if event == Usurps {
        let stalled = history.condition("a", "Stalled");
        ensure!(stalled["reason"] == "Collision", "{stalled}");
    }
    if event == Supplants {
        let finalizers = history.widget("a").unwrap_or_default()["metadata"]["finalizers"].take();
        let has_theirs = finalizers.as_array().is_some_and(|all| all.contains(&THEIRS.into()));
        ensure!(has_theirs, "a foreign finalizer is gone: {finalizers}");
    }
    Ok(())
}

/// Position after position until there is none; each is a case of its own. Gives how many there are.
fn each_position(
    report: &mut TortureReport,
    what: &str,
    mut run: impl AsyncFnMut(usize) -> Result<bool>,
) -> Result<usize> {
    for position in 1..=MANY {
        let outcome = in_virtual_time(run(position));
        if report.case((what, "at", position), outcome) == Some(false) {
            return Ok(position - 1);
        }
        report.go_on_below(20)?;
    }
    bail!("{what} never ends");
}

#[test]
fn a_concurrent_change_at_any_request_is_seen_on_the_model() -> Result<()> {
    let mut report = TortureReport::new("interrupted");
    let cases: [(ConcurrentChange, &[OperatorWork]); 7] = [
        (Deletes, &[Install, Upgrade]),
        (Supplants, &[Install, Upgrade, Delete]),
        (Robs, &[Upgrade, Delete]),
        (Keeps, &[Upgrade]),
        (Edits, &[Upgrade]),
        (Usurps, &[Install, Upgrade]),
        (Removes, &[Hide]),
    ];
    let each =
        |(event, works): (ConcurrentChange, &'static [OperatorWork])| works.iter().map(move |work| (*work, event));
    for (work, event) in cases.into_iter().flat_map(each) {
        for fault in [Fault::Slow, Fault::Tardy] {
            let what = format!("{work:?}, {event:?}, {fault:?}");
            let run = async |position| interrupted(work, event, fault, position).await;
            each_position(&mut report, &what, run)?;
        }
    }
    report.end("")
}

#[test]
fn the_operator_recovers_from_any_fault_at_any_request_on_the_model() -> Result<()> {
    let faults: &[Fault] = if everything() {
        &FAULTS
    } else {
        &[Fault::Status(409), Fault::Status(503), Fault::CutAfter]
    };
    let mut report = TortureReport::new("enumerated");
    for work in WORKS {
        for fault in faults {
            for times in if everything() { &[1, 3][..] } else { &[1] } {
                let what = format!("{work:?}, {times} x {fault:?}");
                let run = async |position| case(work, *fault, position, *times).await;
                let reached = each_position(&mut report, &what, run)?;
                ensure!(reached > 1, "{what}: only {reached} requests were seen");
            }
        }
    }
    report.end("")
}
