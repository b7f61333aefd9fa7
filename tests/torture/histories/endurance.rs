//! What goes on and on: something that fails again and again, and releases that come and go.

use anyhow::{Context, Result, ensure};

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::histories::history::{ModelHistory, SECOND, in_virtual_time};
use crate::real_server::release::spec;

fn writes_a_status(call: &ApiCall) -> bool {
    call.is_write() && call.target().is_some_and(|target| target.subresource == "status")
}

fn writes_a_map(call: &ApiCall) -> bool {
    call.is_write() && call.is_of("configmaps")
}

/// How many status writes fail in ten minutes in which all such calls fail.
async fn tries(fails: fn(&ApiCall) -> bool, restarts: bool) -> Result<usize> {
    let mut history = ModelHistory::begin().await?;
    history.set_plan(FaultPlan::always(Fault::Status(503), fails));
    history.edit("a", spec("blue", &[], false)).await?;
    let count_writes = |history: &ModelHistory| {
        let log = history.faults().log();
        log.iter().filter(|entry| writes_a_status(&entry.call)).count()
    };
    let mut count = 0;
    for _ in 0..10 {
        tokio::time::sleep(60 * SECOND).await;
        if restarts {
            count += count_writes(&history);
            history.restart(true).await?;
            history.set_plan(FaultPlan::always(Fault::Status(503), fails));
        }
    }
    count += count_writes(&history);
    history.faults().disarm();
    history.end().await?;
    Ok(count)
}

#[test]
fn each_retry_waits_twice_as_long() -> Result<()> {
    for (what, fails, restarts, most) in [
        // 1, 2, 4, ... 256 seconds; the first immediately.
        ("a member", writes_a_map as fn(&ApiCall) -> bool, false, 13),
        ("the status", writes_a_status, false, 13),
        ("both", |call| writes_a_map(call) || writes_a_status(call), false, 13),
        // A new process tries immediately, and then continues with the backoff of the former one.
        ("a member, with restarts", writes_a_map, true, 20),
    ] {
        let tries = in_virtual_time(tries(fails, restarts))?;
        ensure!((8..=most).contains(&tries), "{what}: {tries} tries in ten minutes");
    }
    Ok(())
}

const ROUNDS: usize = 1000;
/// By then, every kind of series has been seen.
const FIRST: usize = 50;

/// Without Events, which stay as long as a server keeps them.
fn objects(history: &ModelHistory) -> Vec<String> {
    let store = history.model.store();
    let keys = store.objects.keys().filter(|(kind, ..)| *kind != "events");
    keys.map(|(kind, _, name)| format!("{kind}/{name}")).collect()
}

/// Releases that come and go, each with a name of its own.
async fn rounds() -> Result<()> {
    let mut history = ModelHistory::begin().await?;
    let mut first = None;
    for round in 0..ROUNDS {
        let name = format!("release-{round}");
        for color in ["blue", "red"] {
            let mut spec = spec(color, &[&format!("extra-{round}")], false);
            spec["secret"]["enabled"] = true.into();
            history.edit(&name, spec).await?;
            tokio::time::sleep(SECOND).await;
        }
        history.delete(&name).await?;
        tokio::time::sleep(SECOND).await;
        history.faults().clear_log();
        if round == FIRST {
            tokio::time::sleep(60 * SECOND).await;
            first = Some((history.metrics.encode()?.lines().count(), objects(&history).len()));
        }
    }
    tokio::time::sleep(60 * SECOND).await;
    let (lines, count) = first.context("too few rounds")?;
    let metrics = history.metrics.encode()?;
    let last = metrics.lines().count();
    ensure!(last <= lines, "{lines} lines of metrics became {last}:\n{metrics}");
    let left = objects(&history);
    ensure!(left.len() <= count, "{count} objects became {}: {left:?}", left.len());
    history.end().await
}

#[test]
fn releases_that_come_and_go_leave_nothing() -> Result<()> {
    in_virtual_time(rounds())
}
