//! An API server that asks for patience gets it, and no worker sleeps through that time.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::fault::{Fault, Plan};
use crate::flavour::Flavour;
use crate::lane::{HEALED, Lane, in_real_time};
use crate::look::condition;

const PATIENCE: u64 = 8;

async fn await_ready(lane: &Lane, name: &str) -> Result<()> {
    lane.until(&format!("{name} is ready"), HEALED, async || {
        let widget = lane.widget(name).await?.unwrap_or_default();
        let ready = condition(&widget, "Ready").unwrap_or_default();
        ensure!(ready["status"] == "True", "{widget}");
        ensure!(ready["observedGeneration"] == widget["metadata"]["generation"]);
        Ok(())
    })
    .await
}

async fn await_told(lane: &Lane, count: usize) -> Result<()> {
    lane.until("it is told to wait", HEALED, async || {
        let told = lane.faults.log().iter().filter(|entry| entry.told == Some(429)).count();
        ensure!(told >= count, "{told} times");
        Ok(())
    })
    .await
}

async fn put_off() -> Result<()> {
    let lane = Lane::with("throttled", Flavour::Plain, &["maxConcurrentReconciles: 1"]).await?;
    lane.put("a", &json!({"color": "blue"})).await?;
    await_ready(&lane, "a").await?;
    let busy = |seconds, times| Plan {
        fault: Fault::Busy(seconds),
        position: 1,
        times,
        counts: Box::new(|call| call.is_write() && call.target().is_some_and(|target| target.resource == "configmaps")),
    };

    lane.faults.arm(lane.about("a", busy(PATIENCE, 1)));
    // It is told after this moment, and seen to be told some time later.
    let before = Instant::now();
    lane.put("a", &json!({"color": "red"})).await?;
    await_told(&lane, 1).await?;
    let told = Instant::now();
    lane.put("b", &json!({})).await?;
    await_ready(&lane, "b").await?;
    ensure!(
        told.elapsed() < Duration::from_secs(PATIENCE - 1),
        "the only worker was held up"
    );
    let widget = lane.widget("a").await?.unwrap_or_default();
    ensure!(
        widget["status"]["failures"].is_null(),
        "it was put off, no more: {widget}"
    );
    await_ready(&lane, "a").await?;
    ensure!(
        before.elapsed() >= Duration::from_secs(PATIENCE),
        "it came back too early"
    );
    ensure!(lane.faults.heal().len() == 1);

    // Where it goes on, the status says it.
    lane.faults.arm(lane.about("a", busy(1, 1000)));
    lane.put("a", &json!({"color": "green"})).await?;
    lane.until("the status says it", HEALED, async || {
        let widget = lane.widget("a").await?.unwrap_or_default();
        let ready = condition(&widget, "Ready").unwrap_or_default();
        ensure!(ready["reason"] == "ApplyFailed", "{ready}");
        ensure!(ready["message"].to_string().contains("too many requests"), "{ready}");
        Ok(())
    })
    .await?;
    lane.faults.heal();
    await_ready(&lane, "a").await
}

#[test]
fn who_is_told_to_wait_keeps_nobody_else_waiting() -> Result<()> {
    in_real_time(put_off())
}
