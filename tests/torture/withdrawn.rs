//! Watches that worked and work no more: the right to them is taken away, or the version that they are of.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::history::{History, SECOND, in_virtual_time};
use crate::look::condition;
use crate::model::Model;

/// For as long as nobody mends it.
const FOR_GOOD: Duration = Duration::from_secs(1_000_000);

fn spec(extra: &[&str]) -> Value {
    json!({
        "color": "blue", "extra": extra, "secret": {"enabled": false}, "priorityClass": {"enabled": false}, "fail": "",
        "part": true,
    })
}

fn is_ready(history: &History) -> bool {
    let ready = condition(&history.widget("a").unwrap_or_default(), "Ready").unwrap_or_default();
    ready["status"] == "True"
}

/// Nobody can tell any more what becomes of the ConfigMaps: nothing is pruned, the status claims nothing, and what
/// happened meanwhile is corrected when they can be watched again.
async fn unwatched(code: u16) -> Result<()> {
    let mut history = History::begin().await?;
    history.edit("a", spec(&["one", "two"])).await?;
    tokio::time::sleep(30 * SECOND).await;
    history.is_as_wanted()?;
    let faults = history.faults().context("no operator")?;
    faults.break_watches("configmaps", code, FOR_GOOD);
    tokio::time::sleep(60 * SECOND).await;
    history.by_hand("a-one", 4).await?;
    tokio::time::sleep(600 * SECOND).await;
    ensure!(
        history.map("a-one").is_some() || !is_ready(&history),
        "Ready for ten minutes without a member: {}",
        history.widget("a").unwrap_or_default()["status"]["conditions"]
    );
    history.edit("a", spec(&["one"])).await?;
    tokio::time::sleep(600 * SECOND).await;
    ensure!(
        history.map("a-two").is_some(),
        "pruned by what was known ten minutes ago"
    );
    faults.mend_watches();
    history.end().await
}

/// The kind is served in another version, and its members go on being watched.
async fn version_ends(restarts: bool) -> Result<()> {
    let model = Model::new();
    model.store().has_early = true;
    let mut history = History::begin_on(model).await?;
    history.edit("a", spec(&["one"])).await?;
    tokio::time::sleep(30 * SECOND).await;
    history.is_as_wanted()?;
    history.model.store().end_early();
    if restarts {
        history.restart(true).await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    history.take_part("shop", "a-part").await?;
    tokio::time::sleep(60 * SECOND).await;
    history.is_as_wanted().context("a member was deleted a minute ago")?;
    history.end().await
}

#[test]
fn what_cannot_be_watched_any_more_is_not_known() -> Result<()> {
    for code in [403, 404, 410, 500] {
        in_virtual_time(unwatched(code)).with_context(|| format!("with {code}"))?;
    }
    Ok(())
}

#[test]
fn members_are_watched_in_a_version_that_is_served() -> Result<()> {
    in_virtual_time(version_ends(false))
}

#[test]
fn members_are_watched_in_a_version_that_is_served_after_a_restart() -> Result<()> {
    in_virtual_time(version_ends(true))
}
