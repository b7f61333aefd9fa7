//! Every fault at every request of what an operator does most, on the model: enumerated, where histories draw. As time
//! costs nothing there, a good part of it runs with `cargo test`.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::call::Call;
use crate::fault::{Fault, Plan};
use crate::history::{History, THEIRS, in_virtual_time};
use crate::look::{OPERATOR, PART_OF, condition};
use crate::report::{Report, everything};
use crate::sequences::FAULTS;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Install,
    /// Two members change, one comes, one goes, and one stays.
    Upgrade,
    /// Another chart, whose operator is started anew.
    OtherChart,
    /// All members of two kinds go.
    Prune,
    Delete,
    /// Deleted, and at once made anew.
    Replace,
    /// Somebody edits a member and deletes another.
    Drift,
    /// Somebody else's object has the name of a member; nothing of it is in the way of ours.
    Collision,
    /// Somebody has a member left as it is, and takes our labels off it: no watch shows it any more.
    Hide,
}

/// What somebody does while the operator waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
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

const WORKS: [Work; 8] = [
    Work::Install,
    Work::Upgrade,
    Work::OtherChart,
    Work::Prune,
    Work::Delete,
    Work::Replace,
    Work::Drift,
    Work::Collision,
];

fn spec(color: &str, extra: &[&str], whole: bool) -> Value {
    json!({
        "color": color, "extra": extra, "secret": {"enabled": whole, "password": color},
        "priorityClass": {"enabled": whole}, "fail": "",
    })
}

fn first() -> Value {
    spec("blue", &["one", "two"], true)
}

/// More requests than any work takes that goes well.
const MANY: usize = 60;

/// One case; true if the position was reached.
async fn case(work: Work, fault: Fault, position: usize, times: usize) -> Result<bool> {
    let mut history = History::begin().await?;
    if !matches!(work, Work::Install | Work::Collision) {
        history.edit("a", first()).await?;
        tokio::time::sleep(10 * SECOND).await;
        history.is_as_wanted().context("before anything goes wrong")?;
    }
    if work == Work::Collision {
        history.by_others("a-two", None).await?;
    }
    let counts = |call: &Call| call.target().is_some() && !call.is_watch();
    let plan = Plan {
        fault,
        position,
        times,
        counts: Box::new(counts),
    };
    history.set_plan(plan);
    match work {
        Work::Install | Work::Collision => history.edit("a", first()).await?,
        Work::Upgrade => history.edit("a", spec("red", &["two", "three"], true)).await?,
        Work::OtherChart => {
            let plan = Plan {
                fault,
                position,
                times,
                counts: Box::new(counts),
            };
            history.other_chart(true).await?;
            history.set_plan(plan);
        }
        Work::Prune => history.edit("a", spec("blue", &["one", "two"], false)).await?,
        Work::Delete => history.delete("a").await?,
        Work::Replace => {
            history.delete("a").await?;
            history.edit("a", spec("red", &["two"], true)).await?;
        }
        Work::Drift => {
            history.by_hand("a-main", 0).await?;
            history.by_hand("a-one", 4).await?;
        }
        Work::Hide => bail!("nothing is to be made good"),
    }
    let faults = history.faults().context("no operator")?;
    for _ in 0..240 {
        tokio::time::sleep(SECOND / 4).await;
        // Of another chart nobody knows before its operator has looked.
        if !matches!(work, Work::Drift | Work::OtherChart) {
            history.is_no_lie()?;
        }
    }
    let hit = faults.heal();
    if !matches!(work, Work::Drift | Work::OtherChart | Work::Collision) {
        history.never_lied().with_context(|| format!("hit {hit:?}"))?;
    }
    history.end().await.with_context(|| format!("hit {hit:?}"))?;
    Ok(!hit.is_empty())
}

/// The request at `position`, or the answer to it, takes two seconds, and after one of them somebody does something.
async fn interrupted(work: Work, meanwhile: Meanwhile, fault: Fault, position: usize) -> Result<bool> {
    let mut history = History::begin().await?;
    if work != Work::Install {
        history.edit("a", first()).await?;
        tokio::time::sleep(10 * SECOND).await;
        history.is_as_wanted().context("before anything happens")?;
    }
    let plan = Plan {
        fault,
        position,
        times: 1,
        counts: Box::new(|call| call.target().is_some() && !call.is_watch()),
    };
    let faults = history.faults().context("no operator")?;
    faults.set_plan(plan);
    let labels = history.map("a-one").unwrap_or_default()["metadata"]["labels"].take();
    match work {
        Work::Delete => history.delete("a").await?,
        Work::Hide => {
            let disabled = json!({"chartwright.dev/reconcile": "disabled"});
            let marks = json!({"labels": {(OPERATOR): null, (PART_OF): null}, "annotations": disabled});
            history.mark("a-one", marks).await?;
        }
        Work::Upgrade => history.edit("a", spec("red", &["one"], true)).await?,
        _ => history.edit("a", first()).await?,
    }
    tokio::time::sleep(SECOND).await;
    let mut kept = false;
    match meanwhile {
        Meanwhile::Deletes => history.delete("a").await?,
        Meanwhile::Supplants => {
            history
                .supplant("a", spec("green", &["one", "two", "three"], true))
                .await?
        }
        Meanwhile::Edits => history.edit("a", spec("green", &["three"], false)).await?,
        Meanwhile::Keeps => {
            let policy = json!({"annotations": {"helm.sh/resource-policy": "keep"}});
            kept = history.mark("a-two", policy).await?;
        }
        Meanwhile::Removes => {
            history.mark("a-one", json!({"labels": labels})).await?;
            history.by_hand("a-one", 4).await?;
        }
        Meanwhile::Robs => {
            history.by_hand("a-two", 4).await?;
            history.by_others("a-two", None).await?;
        }
        Meanwhile::Usurps => {
            history.by_hand("a-main", 4).await?;
            history.by_others("a-main", None).await?;
        }
    }
    for _ in 0..240 {
        tokio::time::sleep(SECOND / 4).await;
        if !matches!(meanwhile, Meanwhile::Usurps | Meanwhile::Removes) {
            history.is_no_lie()?;
        }
    }
    let hit = faults.heal();
    if meanwhile == Meanwhile::Usurps {
        let stalled = condition(&history.widget("a").unwrap_or_default(), "Stalled").unwrap_or_default();
        ensure!(stalled["reason"] == "Collision", "{stalled}, hit {hit:?}");
    }
    ensure!(
        !kept || history.map("a-two").is_some(),
        "what is to be kept was deleted: hit {hit:?}"
    );
    if meanwhile == Meanwhile::Supplants {
        let finalizers = history.widget("a").unwrap_or_default()["metadata"]["finalizers"].take();
        let is_theirs = |finalizer: &Value| *finalizer == THEIRS;
        ensure!(
            finalizers.as_array().is_some_and(|all| all.iter().any(is_theirs)),
            "somebody else's finalizer is gone: {finalizers}, hit {hit:?}"
        );
    }
    if !matches!(meanwhile, Meanwhile::Robs | Meanwhile::Usurps | Meanwhile::Removes) {
        history.never_lied().with_context(|| format!("hit {hit:?}"))?;
    }
    history.end().await.with_context(|| format!("hit {hit:?}"))?;
    Ok(!hit.is_empty())
}

#[test]
fn what_happens_during_any_request_is_seen_on_the_model() -> Result<()> {
    let mut report = Report::new("interrupted");
    let mut failures = Vec::new();
    let all = [
        (Work::Install, Meanwhile::Deletes),
        (Work::Upgrade, Meanwhile::Deletes),
        (Work::Install, Meanwhile::Supplants),
        (Work::Upgrade, Meanwhile::Supplants),
        (Work::Upgrade, Meanwhile::Robs),
        (Work::Delete, Meanwhile::Robs),
        (Work::Delete, Meanwhile::Supplants),
        (Work::Upgrade, Meanwhile::Keeps),
        (Work::Upgrade, Meanwhile::Edits),
        (Work::Install, Meanwhile::Usurps),
        (Work::Upgrade, Meanwhile::Usurps),
        (Work::Hide, Meanwhile::Removes),
    ];
    for ((work, meanwhile), fault) in all
        .into_iter()
        .flat_map(|one| [(one, Fault::Slow), (one, Fault::Tardy)])
    {
        for position in 1..=MANY {
            let reached = in_virtual_time(interrupted(work, meanwhile, fault, position));
            report.case();
            match reached {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failures.push(format!("{work:?}, {meanwhile:?}, {fault:?} at {position}: {error:#}"));
                    if failures.len() > 20 {
                        break;
                    }
                }
            }
        }
    }
    report.end_but_for(&failures, "")
}

#[test]
fn any_fault_at_any_request_is_made_good_on_the_model() -> Result<()> {
    let faults: &[Fault] = match everything() {
        true => &FAULTS,
        // Not carried out, carried out or not, carried out.
        false => &[Fault::Status(409), Fault::Status(503), Fault::CutAfter],
    };
    let mut report = Report::new("enumerated");
    let mut failures = Vec::new();
    for work in WORKS {
        for fault in faults {
            for times in if everything() { &[1, 3][..] } else { &[1] } {
                let mut position = 1;
                loop {
                    let reached = in_virtual_time(case(work, *fault, position, *times));
                    report.case();
                    match reached {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(error) => {
                            failures.push(format!("{work:?}, {times} x {fault:?} at {position}: {error:#}"));
                            if failures.len() > 20 {
                                break;
                            }
                        }
                    }
                    position += 1;
                    if position > MANY {
                        bail!("{work:?} never ends; {}", failures.join("\n"));
                    }
                }
                ensure!(
                    position > 2 || !failures.is_empty(),
                    "{work:?}: only {} requests were seen",
                    position - 1
                );
            }
        }
    }
    report.end_but_for(&failures, "")
}
