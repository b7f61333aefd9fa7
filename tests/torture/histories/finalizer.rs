//! The finalizer on a custom resource: another client removes it, it comes too late, or its operator dies before it noted what
//! it made.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::histories::history::{MEMBERS, ModelHistory, SECOND, in_virtual_time};
use crate::histories::place::ReleasePlace;
use crate::real_server::release::spec;
use crate::real_server::variant::OURS;
use crate::report::{TortureReport, everything};

fn is_held(history: &ModelHistory) -> bool {
    let finalizers = history.widget("a").unwrap_or_default()["metadata"]["finalizers"].take();
    finalizers.as_array().is_some_and(|all| all.contains(&OURS.into()))
}

/// It is added again in any state of the release, and nothing else is written.
async fn remove_finalizer(fail: &str, restarts: bool) -> Result<()> {
    let mut history = ModelHistory::with("a", spec("blue", &["one"], true)).await?;
    ensure!(is_held(&history), "it has no finalizer");
    if !fail.is_empty() {
        let mut failing = spec("blue", &["one"], true);
        failing["fail"] = fail.into();
        history.edit("a", failing).await?;
        tokio::time::sleep(60 * SECOND).await;
    }
    let since = history.model.store().version;
    let bare = json!({"metadata": {"finalizers": Value::Null}});
    history
        .ask("MERGE", &ReleasePlace::of("a").path(), "user", bare)
        .await?;
    ensure!(!is_held(&history), "it was not taken off");
    if restarts {
        history.restart(true).await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    ensure!(is_held(&history), "its finalizer never comes back");
    let written: Vec<_> = {
        let store = history.model.store();
        let news = store.changes.iter().filter(|change| change.version > since);
        let keys = news.map(|change| change.key.clone());
        keys.filter(|key| MEMBERS.contains(&key.0)).collect()
    };
    ensure!(written.is_empty(), "written: {written:?}");
    history.end().await
}

#[test]
fn a_removed_finalizer_is_restored() -> Result<()> {
    for fail in ["", "on purpose"] {
        for restarts in [false, true] {
            let outcome = in_virtual_time(remove_finalizer(fail, restarts));
            outcome.with_context(|| format!("{fail:?}, restarts: {restarts}"))?;
        }
    }
    Ok(())
}

/// A custom resource that is deleted while it is claimed goes in spite of the finalizer that is written then: the API
/// server looked for one before. Each request takes two seconds to arrive; so many seconds after the creation another client
/// deletes, which takes so long.
async fn deleted(after: u32, takes: u32, again: bool) -> Result<()> {
    let mut history = ModelHistory::begin().await?;
    history.model.store().deletions_take = takes * SECOND;
    tokio::time::sleep(10 * SECOND).await;
    let faults = history.faults();
    let asks = |call: &ApiCall| call.target().is_some() && !call.is_watch();
    faults.set_plan(FaultPlan::always(Fault::Tardy, asks));
    history.edit("a", spec("blue", &["one", "two"], true)).await?;
    tokio::time::sleep(after * SECOND).await;
    history.delete("a").await?;
    if again {
        history.edit("a", spec("red", &["one", "two"], true)).await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    faults.disarm();
    history.end().await
}

#[test]
fn a_custom_resource_deleted_during_the_claim_leaves_nothing() -> Result<()> {
    let mut report = TortureReport::new("lost");
    // The finalizer arrives after two seconds, the last status after ten.
    let (durations, until): (&[u32], u32) = if everything() {
        (&[0, 1, 3, 5, 9, 20], 16)
    } else {
        (&[1, 3, 9], 5)
    };
    for again in [false, true] {
        for takes in durations.iter().copied() {
            for after in 0..until {
                let outcome = in_virtual_time(deleted(after, takes, again));
                report.case(("after, takes, again", after, takes, again), outcome);
            }
        }
    }
    report.end("")
}

/// An operator dies before it noted what it made, and its successor is to delete that and gets no answer to the question
/// where it is.
async fn unlisted() -> Result<()> {
    let mut history = ModelHistory::begin().await?;
    let notes = |call: &ApiCall| call.is_write() && call.target().is_some_and(|target| target.subresource == "status");
    history.set_plan(FaultPlan::new(Fault::KillBefore, 1, 1, notes));
    history.edit("a", spec("blue", &["one"], true)).await?;
    tokio::time::sleep(10 * SECOND).await;
    let left = history.widget("a").context("the custom resource is gone")?;
    ensure!(left["status"].is_null(), "nothing was to be noted: {}", left["status"]);
    history.delete("a").await?;
    history.restart(true).await?;
    let lists_maps = |call: &ApiCall| call.verb() == "list" && call.is_of("configmaps");
    history.set_plan(FaultPlan::always(Fault::Status(500), lists_maps));
    tokio::time::sleep(400 * SECOND).await;
    let left = history.widget("a").context("gone, though its members are unknown")?;
    let conditions = left["status"]["conditions"].to_string();
    ensure!(conditions.contains("DeleteFailed"), "{conditions}");
    ensure!(!history.faults().disarm().is_empty(), "nothing was listed");
    history.end().await
}

#[test]
fn a_kind_that_cannot_be_listed_does_not_count_as_deleted() -> Result<()> {
    in_virtual_time(unlisted())
}
