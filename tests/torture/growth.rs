//! Releases that come and go, each with a name of its own, leave nothing behind: neither in the metrics nor on the server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::history::{History, in_virtual_time};

const ROUNDS: usize = 1000;
/// By then, every kind of series has been seen.
const FIRST: usize = 50;

fn series(history: &History) -> Result<usize> {
    Ok(history.metrics.encode()?.lines().count())
}

/// Without Events, which stay as long as a server keeps them.
fn objects(history: &History) -> Vec<String> {
    let store = history.model.store();
    let keys = store.objects.keys().filter(|(kind, ..)| *kind != "events");
    keys.map(|(kind, _, name)| format!("{kind}/{name}")).collect()
}

async fn rounds() -> Result<()> {
    let mut history = History::begin().await?;
    let second = Duration::from_secs(1);
    let mut first = None;
    for round in 0..ROUNDS {
        let name = format!("release-{round}");
        let extra = vec![format!("extra-{round}")];
        let spec = |color: &str| {
            json!({
                "color": color, "extra": extra, "secret": {"enabled": true}, "priorityClass": {"enabled": false}, "fail": "",
            })
        };
        history.edit(&name, spec("blue")).await?;
        tokio::time::sleep(second).await;
        history.edit(&name, spec("red")).await?;
        tokio::time::sleep(second).await;
        history.delete(&name).await?;
        tokio::time::sleep(second).await;
        history.faults().context("no operator")?.clear_log();
        if round == FIRST {
            tokio::time::sleep(60 * second).await;
            first = Some((series(&history)?, objects(&history).len()));
        }
    }
    tokio::time::sleep(60 * second).await;
    let (lines, count) = first.context("too few rounds")?;
    let last = series(&history)?;
    ensure!(
        last <= lines,
        "{lines} lines of metrics became {last}:\n{}",
        history.metrics.encode()?
    );
    let left = objects(&history);
    ensure!(left.len() <= count, "{count} objects became {}: {left:?}", left.len());
    history.end().await
}

#[test]
fn releases_that_come_and_go_leave_nothing() -> Result<()> {
    in_virtual_time(rounds())
}
