//! Watches that worked and are refused from then on: nothing is taken for known that they would have to show.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::call::Call;
use crate::fault::{Fault, Plan};
use crate::history::{History, NAMESPACE, in_virtual_time};
use crate::look::condition;

const SECOND: Duration = Duration::from_secs(1);

fn watches_maps(call: &Call) -> bool {
    call.is_watch() && call.target().is_some_and(|target| target.resource == "configmaps")
}

fn sees_maps(call: &Call) -> bool {
    watches_maps(call) || call.verb() == "list" && call.target().is_some_and(|target| target.resource == "configmaps")
}

async fn refused(code: u16, counts: fn(&Call) -> bool) -> Result<()> {
    let mut history = History::begin().await?;
    let spec = |extra: &[&str], secret: bool| {
        json!({
            "color": "blue", "extra": extra, "secret": {"enabled": secret, "password": "blue"},
            "priorityClass": {"enabled": false}, "fail": "",
        })
    };
    history.edit("a", spec(&["one", "two"], true)).await?;
    tokio::time::sleep(10 * SECOND).await;
    history.is_as_wanted().context("before anything is refused")?;
    let faults = history.faults().context("no operator")?;
    faults.set_plan(Plan {
        fault: Fault::Status(code),
        position: 1,
        times: usize::MAX / 2,
        counts: Box::new(counts),
    });
    // The watches that are open end by themselves.
    tokio::time::sleep(400 * SECOND).await;
    let ready = |history: &History| condition(&history.widget("a").unwrap_or_default(), "Ready").unwrap_or_default();
    let told = ready(&history);
    let message = told["message"].as_str().unwrap_or_default();
    ensure!(
        told["status"] == "False" && told["reason"] == "WatchFailed" && message.contains("ConfigMap: not known since "),
        "{told}"
    );
    history.by_hand("a-one", 4).await?;
    history.by_hand("a-main", 0).await?;
    history.edit("a", spec(&["one", "two"], false)).await?;
    tokio::time::sleep(200 * SECOND).await;
    let secret = ("secrets", NAMESPACE.to_owned(), "a-secret".to_owned());
    ensure!(
        history.model.store().objects.contains_key(&secret),
        "pruned on partial knowledge"
    );
    ensure!(ready(&history)["status"] == "False", "{}", ready(&history));
    let status = |history: &History| history.widget("a").unwrap_or_default()["status"].take();
    let before = status(&history);
    tokio::time::sleep(900 * SECOND).await;
    let after = status(&history);
    ensure!(
        before == after,
        "the same is told in other words: {before}, then {after}"
    );
    faults.heal();
    tokio::time::sleep(120 * SECOND).await;
    history.is_as_wanted().context("given back")?;
    history.end().await
}

#[test]
fn a_watch_that_is_refused_for_good_shows_nothing_any_more() -> Result<()> {
    for (code, counts) in [
        (403, sees_maps as fn(&Call) -> bool),
        (404, sees_maps),
        (403, watches_maps),
        (410, watches_maps),
    ] {
        in_virtual_time(refused(code, counts)).with_context(|| format!("{code}"))?;
    }
    Ok(())
}
