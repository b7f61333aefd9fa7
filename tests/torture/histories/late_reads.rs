//! Reads that are late, in the ways that Sieve (Sun et al., OSDI 2022) describes: one stream lags behind all others, each in
//! turn; a deletion and recreation is seen as one change; an event is lost; after a restart or a reconnect everything
//! is read in an older state. In the end this has no effect, not even in how often an object was made or deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::faults::watches::WatchEnd;
use crate::histories::history::{MEMBERS, ModelHistory, SECOND, in_virtual_time};
use crate::model::stale::Stale;
use crate::model::store::ObjectKey;
use crate::real_server::release;
use crate::report::{TortureReport, everything};
use crate::world::fields::uid;

/// Of everything that the operator watches here.
const STREAMS: [&str; 6] = ["", "widgets", "configmaps", "secrets", "priorityclasses", "parts"];

#[derive(Clone, Copy, Debug)]
enum Disturbance {
    /// In each step; an event is lost once in each.
    Late(Stale),
    /// After each step the operator restarts, or (`false`) its watches do, and first reads the state before the step.
    Read { restarts: bool },
}

/// Creations and deletions.
type Counts = BTreeMap<ObjectKey, (usize, usize)>;

fn spec(color: &str, extra: &[&str], full_body: bool) -> Value {
    let mut spec = release::spec(color, extra, full_body);
    spec["part"] = full_body.into();
    spec
}

/// From here on it matters who is first, the operator or the garbage collector.
const SUPPLANTED: usize = 9;

/// What is done, one after the other.
async fn step(history: &mut ModelHistory, number: usize) -> Result<bool> {
    match number {
        0 => history.edit("a", spec("blue", &["one", "two"], true)).await?,
        1 => history.edit("a", spec("red", &["two", "three"], true)).await?,
        // A user edits a member and deletes another.
        2 => {
            history.by_hand("a-main", 0).await?;
            history.by_hand("a-two", 4).await?;
        }
        // Another client puts its object in a member's place, and deletes it again.
        3 => {
            history.by_hand("a-three", 4).await?;
            history.by_others("a-three", None).await?;
        }
        4 => history.by_others_no_more("a-three").await?,
        5 => history.edit("a", spec("red", &["three"], false)).await?,
        6 => history.edit("a", spec("red", &["three"], true)).await?,
        7 => history.delete("a").await?,
        8 => history.edit("a", spec("green", &["one"], true)).await?,
        9 => {
            let all = spec("green", &["one", "two", "three"], true);
            history.supplant("a", all).await?
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// What came of a disturbed story, with so long between two steps.
async fn run_late_reads(disturbance: Disturbance, pause: Duration) -> Result<Counts> {
    let mut history = ModelHistory::begin().await?;
    tokio::time::sleep(10 * SECOND).await;
    let mut counts = Counts::new();
    for number in 0.. {
        if number == SUPPLANTED {
            counts = counted(&history);
        }
        let before = history.model.store().version;
        if let Disturbance::Late(stale) = disturbance {
            history.model.store().stale = stale;
        }
        if !step(&mut history, number).await? {
            break;
        }
        tokio::time::sleep(pause).await;
        if let Disturbance::Read { restarts } = disturbance {
            history.model.store().read_at(Some(before));
            if restarts {
                history.restart(true).await?
            } else {
                history.faults().end_watches(WatchEnd::Gone)
            }
            tokio::time::sleep(20 * SECOND).await;
            history.model.store().read_at(None);
        }
        tokio::time::sleep(pause).await;
        history.all_careful().with_context(|| format!("in step {number}"))?;
    }
    history.model.store().stale = Stale::default();
    history.end().await?;
    Ok(counts)
}

fn counted(history: &ModelHistory) -> Counts {
    let store = history.model.store();
    let mut counts = Counts::new();
    // The operator's own Secrets are named after UIDs.
    let is_member = |key: &ObjectKey| MEMBERS.contains(&key.0) && !key.2.starts_with("chartwright-");
    for change in store.changes.iter().filter(|change| is_member(&change.key)) {
        let count = counts.entry(change.key.clone()).or_default();
        let (was, is) = (change.before.as_deref().map(uid), change.after.as_deref().map(uid));
        count.0 += usize::from(is.is_some() && was != is);
        count.1 += usize::from(was.is_some() && was != is);
    }
    counts
}

fn disturbances() -> Vec<Disturbance> {
    let disturbed = |late, gathers, loses| {
        Disturbance::Late(Stale {
            late,
            gathers,
            loses,
            ..Stale::default()
        })
    };
    let late = |plural, delay, gathers| disturbed(Some((plural, Duration::from_millis(delay))), gathers, None);
    let lost = |plural| disturbed(None, false, Some(plural));
    let mut all = vec![
        Disturbance::Read { restarts: true },
        Disturbance::Read { restarts: false },
    ];
    for plural in STREAMS {
        all.push(late(plural, 3_000, false));
        if everything() || matches!(plural, "widgets" | "configmaps") {
            all.extend([late(plural, 3_000, true), lost(plural)]);
        }
        if everything() {
            for delay in [50, 1_000, 10_000, 60_000] {
                all.extend([late(plural, delay, false), late(plural, delay, true)]);
            }
        }
    }
    all
}

#[test]
fn late_reads_leave_no_trace() -> Result<()> {
    let mut report = TortureReport::new("sieve");
    // Long enough for what is late to come, and to be seen at the next LIST.
    let pause = 120 * SECOND;
    let undisturbed =
        in_virtual_time(run_late_reads(Disturbance::Late(Stale::default()), pause)).context("undisturbed")?;
    ensure!(undisturbed.len() > 6, "{undisturbed:?}");
    for disturbance in disturbances() {
        let outcome = in_virtual_time(run_late_reads(disturbance, pause)).and_then(|counts| {
            let other = counts.iter().filter(|(key, count)| undisturbed.get(key) != Some(count));
            let other: Vec<_> = other.map(|(key, count)| (key, count, undisturbed.get(key))).collect();
            ensure!(counts == undisturbed, "made and deleted {other:?}");
            Ok(())
        });
        report.case(disturbance, outcome);
    }
    report.end("")
}

/// Nothing waits for late reads: only the final state counts.
#[test]
fn releases_converge_despite_late_reads() -> Result<()> {
    let mut report = TortureReport::new("sieve-hasty");
    for disturbance in disturbances() {
        for pause in if everything() { &[0, 700, 5_000][..] } else { &[700] } {
            let outcome = in_virtual_time(run_late_reads(disturbance, Duration::from_millis(*pause)));
            report.case((disturbance, "ms apart", pause), outcome);
        }
    }
    report.end("")
}
