//! A custom resource that is deleted while it is claimed goes in spite of the finalizer that is written then: the API
//! server looked for one before. What was made for it must not stay.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::fault::{Fault, Plan};
use crate::history::{History, in_virtual_time};
use crate::report::{Report, everything};

const SECOND: Duration = Duration::from_secs(1);

/// Each request takes two seconds to arrive; so many seconds after the creation somebody deletes, which takes so long.
async fn case(after: u32, takes: u32, again: bool) -> Result<()> {
    let mut history = History::begin().await?;
    history.model.store().deletions_take = takes * SECOND;
    tokio::time::sleep(10 * SECOND).await;
    let faults = history.faults().context("no operator")?;
    faults.set_plan(Plan {
        fault: Fault::Tardy,
        position: 1,
        times: usize::MAX / 2,
        counts: Box::new(|call| call.target().is_some() && !call.is_watch()),
    });
    let spec = |color: &str| {
        json!({
            "color": color, "extra": ["one", "two"], "secret": {"enabled": true, "password": color},
            "priorityClass": {"enabled": true}, "fail": "",
        })
    };
    history.edit("a", spec("blue")).await?;
    tokio::time::sleep(after * SECOND).await;
    history.delete("a").await?;
    if again {
        history.edit("a", spec("red")).await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    faults.heal();
    history.end().await
}

#[test]
fn what_is_deleted_while_it_is_claimed_leaves_nothing() -> Result<()> {
    let mut report = Report::new("lost");
    let mut failures = Vec::new();
    // The finalizer arrives after two seconds, the last status after ten.
    let (durations, until): (&[u32], u32) = match everything() {
        true => (&[0, 1, 3, 5, 9, 20], 16),
        false => (&[1, 3, 9], 5),
    };
    for again in [false, true] {
        for takes in durations.iter().copied() {
            for after in 0..until {
                let outcome = in_virtual_time(case(after, takes, again));
                report.case();
                if let Err(error) = outcome {
                    failures.push(format!("after {after} s, in {takes} s, again {again}: {error:#}"));
                }
            }
        }
    }
    report.end_but_for(&failures, "")
}
