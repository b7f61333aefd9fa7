//! What can't be listed is not taken for gone: an operator that dies before it noted what it made, and whose successor
//! is to delete it and gets no answer to the question where it is.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::fault::{Fault, Plan};
use crate::history::{History, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

async fn unlisted() -> Result<()> {
    let mut history = History::begin().await?;
    let at_first_status = Plan {
        fault: Fault::KillBefore,
        position: 1,
        times: 1,
        counts: Box::new(|call| call.is_write() && call.target().is_some_and(|target| target.subresource == "status")),
    };
    history.faults().context("no operator")?.set_plan(at_first_status);
    let spec = json!({
        "color": "blue", "extra": ["one"], "secret": {"enabled": true, "password": "blue"},
        "priorityClass": {"enabled": true}, "fail": "",
    });
    history.edit("a", spec).await?;
    tokio::time::sleep(10 * SECOND).await;
    let left = history.widget("a").context("the custom resource is gone")?;
    ensure!(left["status"].is_null(), "nothing was to be noted: {}", left["status"]);
    history.delete("a").await?;
    history.restart(true).await?;
    let faults = history.faults().context("no operator")?;
    faults.set_plan(Plan {
        fault: Fault::Status(500),
        position: 1,
        times: usize::MAX / 2,
        counts: Box::new(|call| {
            call.verb() == "list" && call.target().is_some_and(|target| target.resource == "configmaps")
        }),
    });
    tokio::time::sleep(400 * SECOND).await;
    let left = history.widget("a").context("gone, though nobody knows what it has")?;
    let told = left["status"]["conditions"].to_string();
    ensure!(told.contains("DeleteFailed"), "{told}");
    ensure!(!faults.heal().is_empty(), "nothing was listed");
    history.end().await
}

#[test]
fn what_cannot_be_listed_is_not_taken_for_gone() -> Result<()> {
    in_virtual_time(unlisted())
}
