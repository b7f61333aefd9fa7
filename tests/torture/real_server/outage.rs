//! Parts of the API server do not answer, or throttle: the operator waits, and delays no other release.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::Patch;
use serde_json::{Value, json};

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::faults::watches::WatchEnd;
use crate::real_server::process::{TortureLane, in_real_time};
use crate::real_server::release::live;
use crate::real_server::scenario::Scenario;
use crate::real_server::variant::{ReleaseVariant, record_secrets};
use crate::world::fields::text;

/// The group of PriorityClass, of which the release has one.
const GROUP: &str = "scheduling.k8s.io";

/// The API server of one group is down: discovery is partial, and what it hides is neither pruned nor forgotten.
async fn discovery_is_partial() -> Result<()> {
    let mut lane = TortureLane::new("discovery", ReleaseVariant::Plain, &[]).await?;
    for scenario in [Scenario::PruneKinds, Scenario::Delete] {
        let release = format!("{scenario:?}").to_lowercase();
        scenario.prepare(&mut lane, &release).await?;
        lane.stop()?;
        lane.faults.set_missing_group(GROUP);
        let before = live(&lane, &release).await?;
        scenario.act(&mut lane, &release).await?;
        lane.start()?;
        lane.until("it says what it doesn't know", async || {
            let widget = lane.widget(&release).await?.context("the custom resource is gone")?;
            let conditions = widget["status"]["conditions"].to_string();
            ensure!(conditions.contains(GROUP), "{conditions}");
            Ok(())
        })
        .await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let found = live(&lane, &release).await?;
        let left = found.keys();
        let all = left.clone().eq(before.keys());
        ensure!(all, "deleted on partial knowledge: {left:?} are left");
        // No event informs the operator: it has to read by itself.
        lane.faults.disarm();
        let done = async || scenario.is_done(&lane, &release, false).await;
        lane.until("it ends what it began", done).await?;
    }
    Ok(())
}

#[test]
fn the_operator_waits_for_an_api_group_that_does_not_answer() -> Result<()> {
    in_real_time(discovery_is_partial())
}

/// Calls of the operator since the log began.
fn calls(lane: &TortureLane, counts: impl Fn(&ApiCall) -> bool) -> Vec<String> {
    let log = lane.faults.log();
    let of_it = log.iter().filter(|entry| counts(&entry.call));
    of_it.map(|entry| entry.call.to_string()).collect()
}

/// What a watch may be silent in this test, in seconds: far less than between two bookmarks.
const SILENCE: &str = "4";
/// Long enough for watches to end and restart several times.
const QUIET: Duration = Duration::from_secs(9);

/// A watch stays open and sends nothing any more, because the server behind its connection is gone: it is closed and
/// restarted, and the missed changes are corrected.
async fn watches_are_mute() -> Result<()> {
    let mut lane = TortureLane::new("silence", ReleaseVariant::Plain, &[]).await?;
    lane.environment.push(("CHARTWRIGHT_TEST_SILENCE", SILENCE));
    lane.start()?;
    let spec = Scenario::Install.spec();
    lane.put("a", &spec).await?;
    lane.await_release("a", &spec).await?;

    lane.until("all is written", async || {
        lane.faults.clear_log();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let written = calls(&lane, ApiCall::is_write);
        ensure!(written.is_empty(), "{written:?}");
        Ok(())
    })
    .await?;

    // Where nothing happens, a watch goes on where it was: nothing is listed, and nothing is written.
    tokio::time::sleep(QUIET).await;
    let watches = calls(&lane, |call| call.verb() == "watch" && call.is_of("configmaps"));
    ensure!(watches.len() >= 2, "no silent watch ended: {watches:?}");
    let lists = calls(&lane, |call| call.verb() == "list");
    ensure!(lists.is_empty(), "listed again: {lists:?}");
    let written = calls(&lane, ApiCall::is_write);
    ensure!(written.is_empty(), "written for nothing: {written:?}");

    // The open watches report no event from here on.
    lane.faults.end_watches(WatchEnd::Mute);
    lane.faults.clear_log();
    let edit = Patch::Merge(json!({"data": {"color": "pink"}}));
    let maps = lane.maps();
    maps.patch("a-main", &Default::default(), &edit).await?;
    maps.delete("a-one", &Default::default()).await?;
    lane.put("b", &spec).await?;
    lane.until("what the watches kept to themselves is made good", async || {
        Scenario::Install.is_done(&lane, "b", false).await?;
        let main: Value = serde_json::to_value(maps.get("a-main").await?)?;
        ensure!(main["data"]["color"] == spec["color"], "{main}");
        Scenario::Drift.is_done(&lane, "a", false).await
    })
    .await?;
    let is_correction = |call: &ApiCall| call.is_write() && ["a-main", "a-one"].iter().any(|name| call.names(name));
    let read = calls(&lane, |call| {
        call.is_of("configmaps") && (call.is_watch() || is_correction(call))
    });
    let watches = calls(&lane, |call| call.is_of("configmaps") && call.is_watch());
    ensure!(read.first() == watches.first(), "read before a watch began: {read:?}");

    // A deletion, too.
    lane.faults.end_watches(WatchEnd::Mute);
    lane.delete("a").await?;
    let gone = async || Scenario::Delete.is_done(&lane, "a", false).await;
    lane.until("a is gone", gone).await
}

#[test]
fn a_silent_watch_is_restarted() -> Result<()> {
    in_real_time(watches_are_mute())
}

const TIMEOUT: u64 = 8;

/// Throttling is respected, and no worker sleeps during that time.
async fn put_off() -> Result<()> {
    let lane = TortureLane::new("throttled", ReleaseVariant::Plain, &["maxConcurrentReconciles: 1"]).await?;
    lane.put("a", &json!({"color": "blue"})).await?;
    lane.await_ready("a").await?;
    let busy = |seconds, times| {
        let counts = |call: &ApiCall| call.is_write() && call.is_of("configmaps");
        FaultPlan::new(Fault::Busy(seconds), 1, times, counts)
    };

    lane.arm("a", busy(TIMEOUT, 1));
    // It is reported after this moment, and the report is seen some time later.
    let before = Instant::now();
    lane.put("a", &json!({"color": "red"})).await?;
    lane.await_hit().await?;
    let start = Instant::now();
    lane.put("b", &json!({})).await?;
    lane.await_ready("b").await?;
    let took = start.elapsed();
    ensure!(took < Duration::from_secs(TIMEOUT - 1), "the only worker was held up");
    let widget = lane.widget("a").await?.unwrap_or_default();
    ensure!(widget["status"]["failures"].is_null(), "it was put off: {widget}");
    lane.await_ready("a").await?;
    let took = before.elapsed();
    ensure!(took >= Duration::from_secs(TIMEOUT), "it came back too early");
    ensure!(lane.faults.disarm().len() == 1);

    // Where it goes on, the status says it.
    lane.arm("a", busy(1, 1000));
    lane.put("a", &json!({"color": "green"})).await?;
    let ready = lane.await_reason("a", "Ready", "ApplyFailed").await?;
    ensure!(text(&ready["message"]).contains("too many requests"), "{ready}");
    lane.faults.disarm();
    lane.await_ready("a").await.map(drop)
}

#[test]
fn a_throttled_release_delays_no_other() -> Result<()> {
    in_real_time(put_off())
}

/// Requests that write members, or the Secrets of the release.
fn writes(lane: &TortureLane) -> Vec<String> {
    let is_report = |call: &ApiCall| call.is_of("widgets") || call.is_of("events");
    calls(lane, |call| call.is_write() && !is_report(call))
}

/// A record in Secrets can't be read when an operator starts: it is not lost, and nothing is done until it is there.
async fn record_is_unread() -> Result<()> {
    let mut lane = TortureLane::new("unread", ReleaseVariant::Lossy, &[]).await?;
    let spec = Scenario::Install.spec();
    lane.put("a", &spec).await?;
    lane.await_release("a", &spec).await?;
    let secrets = record_secrets(&lane, "a").await?;
    let names = secrets
        .iter()
        .map(|secret| text(&secret["metadata"]["name"]).to_owned());
    let names: Vec<String> = names.collect();
    ensure!(!names.is_empty(), "there is no record in Secrets");

    lane.stop()?;
    let reads_it = move |call: &ApiCall| {
        let secret = call.target().filter(|target| target.resource == "secrets");
        call.verb() == "get" && secret.is_some_and(|target| names.contains(&target.name))
    };
    lane.faults.arm(FaultPlan::always(Fault::Status(500), reads_it));
    lane.start()?;
    lane.until("the status reports it", async || {
        let ready = lane.condition("a", "Ready").await?;
        ensure!(ready["status"] == "False", "{ready}");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(writes(&lane).is_empty(), "{:?}", writes(&lane));

    ensure!(!lane.faults.disarm().is_empty());
    lane.await_release("a", &spec).await?;
    let written = writes(&lane);
    ensure!(written.is_empty(), "written for nothing: {written:?}");
    Ok(())
}

#[test]
fn the_operator_waits_for_a_record_that_cannot_be_read() -> Result<()> {
    in_real_time(record_is_unread())
}
