//! How often something is tried that fails again and again: doubling, whatever it is that fails.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::call::Call;
use crate::fault::{Fault, Plan};
use crate::history::{History, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

fn writes_a_status(call: &Call) -> bool {
    call.is_write() && call.target().is_some_and(|target| target.subresource == "status")
}

fn writes_a_map(call: &Call) -> bool {
    call.is_write() && call.target().is_some_and(|target| target.resource == "configmaps")
}

/// How many statuses were written in vain in ten minutes in which all such calls fail.
async fn tries(fails: fn(&Call) -> bool, restarts: bool) -> Result<usize> {
    let mut history = History::begin().await?;
    let spec = json!({
        "color": "blue", "extra": [], "secret": {"enabled": false}, "priorityClass": {"enabled": false}, "fail": "",
    });
    let always = || Plan {
        fault: Fault::Status(503),
        position: 1,
        times: usize::MAX / 2,
        counts: Box::new(fails),
    };
    history.faults().context("no operator")?.set_plan(always());
    history.edit("a", spec).await?;
    let told = |history: &History| {
        let log = history.faults().map(|faults| faults.log()).unwrap_or_default();
        log.iter().filter(|entry| writes_a_status(&entry.call)).count()
    };
    let mut count = 0;
    for _ in 0..10 {
        tokio::time::sleep(60 * SECOND).await;
        if restarts {
            count += told(&history);
            history.restart(true).await?;
            history.faults().context("no operator")?.set_plan(always());
        }
    }
    count += told(&history);
    history.faults().context("no operator")?.heal();
    history.end().await?;
    Ok(count)
}

#[test]
fn what_fails_is_tried_half_as_often_each_time() -> Result<()> {
    // 1, 2, 4, ... 256 seconds, and the first at once.
    for (what, fails) in [
        ("a member", writes_a_map as fn(&Call) -> bool),
        ("the status", writes_a_status),
        ("both", |call| writes_a_map(call) || writes_a_status(call)),
    ] {
        let tries = in_virtual_time(tries(fails, false))?;
        ensure!((8..=13).contains(&tries), "{what}: {tries} tries in ten minutes");
    }
    // A new process tries at once, and then goes on where the former was.
    let tries = in_virtual_time(tries(writes_a_map, true))?;
    ensure!((8..=20).contains(&tries), "with restarts: {tries} tries in ten minutes");
    Ok(())
}
