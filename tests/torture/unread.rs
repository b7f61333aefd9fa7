//! A record in Secrets that can't be read when an operator starts is not lost: it is waited for, and nothing is done
//! until it is there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::fault::{Fault, Plan};
use crate::flavour::{Flavour, keepers};
use crate::lane::{HEALED, Lane, in_real_time};
use crate::look::condition;
use crate::release::holds;
use crate::scenario::Scenario;

/// Requests that write members, or the Secrets of the release.
fn writes(lane: &Lane) -> Vec<String> {
    let log = lane.faults.log();
    let targets = log.iter().filter(|entry| entry.call.is_write());
    let targets = targets.filter_map(|entry| entry.call.target());
    targets
        .filter(|target| !["widgets", "events"].contains(&target.resource.as_str()))
        .map(|target| format!("{}/{}", target.resource, target.name))
        .collect()
}

async fn wait() -> Result<()> {
    let mut lane = Lane::of("unread", Flavour::Lossy).await?;
    let spec = Scenario::Install.spec();
    lane.put("a", &spec).await?;
    let installed = async || holds(&lane, "a", &spec).await.map(drop);
    lane.until("it is installed", HEALED, installed).await?;
    let mut names = Vec::new();
    for secret in keepers(&lane, "a").await? {
        let name = secret["metadata"]["name"].as_str().context("a Secret has a name")?;
        names.push(name.to_owned());
    }
    ensure!(!names.is_empty(), "there is no record in Secrets");

    lane.stop()?;
    lane.faults.clear_log();
    lane.faults.arm(Plan {
        fault: Fault::Status(500),
        position: 1,
        times: 1000,
        counts: Box::new(move |call| {
            let secret = call.target().filter(|target| target.resource == "secrets");
            call.verb() == "get" && secret.is_some_and(|target| names.contains(&target.name))
        }),
    });
    lane.start()?;
    lane.until("the status tells of it", HEALED, async || {
        let widget = lane.widget("a").await?.unwrap_or_default();
        let ready = condition(&widget, "Ready").unwrap_or_default();
        ensure!(ready["status"] == "False", "{ready}");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(writes(&lane).is_empty(), "{:?}", writes(&lane));

    ensure!(!lane.faults.heal().is_empty());
    let whole = async || holds(&lane, "a", &spec).await.map(drop);
    lane.until("it goes on", HEALED, whole).await?;
    ensure!(
        writes(&lane).is_empty(),
        "nothing had changed, and this was written: {:?}",
        writes(&lane)
    );
    Ok(())
}

#[test]
fn a_record_that_cannot_be_read_is_waited_for() -> Result<()> {
    in_real_time(wait())
}
