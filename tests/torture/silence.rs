//! A watch that stays open and tells nothing any more, because what was behind its connection is gone: it is given up
//! and begun anew, and what it missed is made good.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::api::Patch;
use serde_json::{Value, json};

use crate::lane::{HEALED, Lane, in_real_time};
use crate::report::Report;
use crate::scenario::Scenario;

/// What a watch may be silent in this test, in seconds: far less than between two bookmarks.
const SILENCE: &str = "4";
/// Long enough for watches to end and begin anew some times.
const QUIET: Duration = Duration::from_secs(9);

fn calls(lane: &Lane, verb: &str) -> Vec<String> {
    let log = lane.faults.log();
    let of_it = log.iter().filter(|entry| entry.call.verb() == verb);
    of_it.map(|entry| entry.call.to_string()).collect()
}

async fn goes_on() -> Result<()> {
    let mut report = Report::new("silence");
    let mut lane = Lane::new("silence").await?;
    lane.environment.push(("CHARTWRIGHT_TEST_SILENCE", SILENCE));
    lane.start()?;
    let spec = Scenario::Install.spec();
    Scenario::Install.act(&mut lane, "a").await?;
    lane.until("a is installed", HEALED, async || {
        Scenario::Install.is_done(&lane, "a", false).await
    })
    .await?;

    // Where nothing happens, a watch goes on where it was: nothing is listed, and nothing is written.
    lane.faults.clear_log();
    tokio::time::sleep(QUIET).await;
    let (watches, lists) = (calls(&lane, "watch"), calls(&lane, "list"));
    ensure!(
        watches.iter().filter(|call| call.contains("configmaps")).count() >= 2,
        "no silent watch ended: {watches:?}"
    );
    ensure!(lists.is_empty(), "listed anew: {lists:?}");
    let written: Vec<String> = lane
        .faults
        .log()
        .iter()
        .filter(|entry| entry.call.is_write())
        .map(|entry| entry.call.to_string())
        .collect();
    ensure!(written.is_empty(), "written for nothing: {written:?}");

    // Nothing that happens from here on is told by the watches that are open.
    lane.faults.mute();
    let begun = Instant::now();
    let edit = Patch::Merge(json!({"data": {"color": "pink"}}));
    let maps = lane.of_kind("ConfigMap");
    maps.patch("a-main", &Default::default(), &edit).await?;
    maps.delete("a-one", &Default::default()).await?;
    lane.put("b", &spec).await?;
    lane.until(
        "what the silent watches kept to themselves is made good",
        HEALED,
        async || {
            Scenario::Install.is_done(&lane, "b", false).await?;
            let main: Value = serde_json::to_value(maps.get("a-main").await?)?;
            ensure!(main["data"]["color"] == spec["color"], "{main}");
            Scenario::Drift.is_done(&lane, "a", false).await
        },
    )
    .await?;
    ensure!(
        begun.elapsed() > Duration::from_secs(2),
        "the watches told: they were not silent"
    );
    report.case();

    // A deletion, too.
    lane.faults.mute();
    lane.delete("a").await?;
    lane.until("a is gone", HEALED, async || {
        Scenario::Delete.is_done(&lane, "a", false).await
    })
    .await?;
    report.case();
    report.end("");
    Ok(())
}

#[test]
fn a_watch_that_falls_silent_is_begun_anew() -> Result<()> {
    in_real_time(goes_on())
}
