//! Watches that worked and work no more: the right to them is taken away, the version that they are of, or the versions
//! that they count by.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::faults::watches::WatchEnd;
use crate::histories::history::{ModelHistory, NAMESPACE, SECOND, in_virtual_time};
use crate::model::kinds::{begin_early, end_early};
use crate::model::new_model;
use crate::real_server::release::spec;

fn watches_maps(call: &ApiCall) -> bool {
    call.is_watch() && call.is_of("configmaps")
}

fn sees_maps(call: &ApiCall) -> bool {
    watches_maps(call) || call.verb() == "list" && call.is_of("configmaps")
}

/// The state of the ConfigMaps is unknown: nothing is pruned, the status says so and claims nothing,
/// and the missed changes are corrected when they can be watched again.
async fn refused(code: u16, counts: fn(&ApiCall) -> bool, at_once: bool) -> Result<()> {
    let with_secret = |extra: &[&str], enabled: bool| {
        let mut spec = spec("blue", extra, false);
        spec["secret"]["enabled"] = enabled.into();
        spec
    };
    let mut history = ModelHistory::with("a", with_secret(&["one", "two"], true)).await?;
    let faults = history.faults();
    faults.set_plan(FaultPlan::always(Fault::Status(code), counts));
    if at_once {
        faults.end_watches(WatchEnd::Cut);
    }
    // The watches that are open end by themselves.
    tokio::time::sleep(400 * SECOND).await;
    let ready = history.condition("a", "Ready");
    let message = ready["message"].as_str().unwrap_or_default();
    ensure!(ready["status"] == "False", "{ready}");
    ensure!(ready["reason"] == "WatchFailed", "{ready}");
    ensure!(message.contains("ConfigMap: not known since "), "{ready}");
    history.by_hand("a-one", 4).await?;
    history.by_hand("a-main", 0).await?;
    history.edit("a", with_secret(&["one"], false)).await?;
    tokio::time::sleep(600 * SECOND).await;
    let secret = ("secrets", NAMESPACE.to_owned(), "a-secret".to_owned());
    let has_secret = history.model.store().objects.contains_key(&secret);
    let has_map = history.map("a-two").is_some();
    ensure!(has_secret && has_map, "pruned on partial knowledge");
    let ready = history.condition("a", "Ready");
    ensure!(ready["status"] == "False", "{ready}");
    let status = |history: &ModelHistory| history.widget("a").unwrap_or_default()["status"].take();
    let before = status(&history);
    tokio::time::sleep(900 * SECOND).await;
    let after = status(&history);
    ensure!(before == after, "the same in other words: {before}, then {after}");
    faults.disarm();
    tokio::time::sleep(120 * SECOND).await;
    history.is_as_wanted().context("given back")?;
    history.end().await
}

#[test]
fn a_kind_that_can_no_longer_be_watched_counts_as_unknown() -> Result<()> {
    for (codes, counts, at_once) in [
        (&[403, 404][..], sees_maps as fn(&ApiCall) -> bool, false),
        (&[403, 410], watches_maps, false),
        (&[403, 404, 410, 500], sees_maps, true),
    ] {
        for code in codes {
            let outcome = in_virtual_time(refused(*code, counts, at_once));
            outcome.with_context(|| format!("with {code}, immediately: {at_once}"))?;
        }
    }
    Ok(())
}

/// The kind is served in another version, and its members go on being watched.
async fn version_ends(restarts: bool) -> Result<()> {
    let mut spec = spec("blue", &["one"], false);
    spec["part"] = true.into();
    let model = new_model();
    begin_early(&model);
    let mut history = ModelHistory::begin_on(model).await?;
    history.edit("a", spec).await?;
    tokio::time::sleep(30 * SECOND).await;
    history.is_as_wanted()?;
    end_early(&history.model);
    if restarts {
        history.restart(true).await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    let part = "/apis/parts.test/v1/namespaces/shop/parts/a-part";
    history.ask("DELETE", part, "hand", json!({})).await?;
    tokio::time::sleep(60 * SECOND).await;
    history.is_as_wanted().context("a member was deleted a minute ago")?;
    history.end().await
}

#[test]
fn members_are_watched_in_a_version_that_is_served() -> Result<()> {
    in_virtual_time(version_ends(false))?;
    in_virtual_time(version_ends(true)).context("after a restart")
}

/// What is looked up is to be watched in a version that ended before anybody could see that.
async fn lookup_in_a_version_that_ends() -> Result<()> {
    let model = new_model();
    begin_early(&model);
    let mut history = ModelHistory::begin_on(model).await?;
    let lists_definitions = |call: &ApiCall| call.is_of("customresourcedefinitions");
    history.set_plan(FaultPlan::new(Fault::Tardy, 1, 1, lists_definitions));
    let found = r#"{{ lookup "parts.test/v1" "Part" .Release.Namespace "one" | dig "data" "color" "none" }}"#;
    let mut spec = spec("blue", &[], false);
    spec["extraDeploy"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-copy"}, "data": {"color": found},
    }]);
    tokio::time::sleep(SECOND).await;
    end_early(&history.model);
    history.edit("a", spec).await?;
    tokio::time::sleep(60 * SECOND).await;
    let ready = history.condition("a", "Ready");
    ensure!(ready["status"] == "True", "{ready}");
    history.close().await
}

#[test]
fn looked_up_objects_are_watched_in_a_served_version() -> Result<()> {
    in_virtual_time(lookup_in_a_version_that_ends())
}

async fn await_color(history: &ModelHistory, color: &str, what: &str) -> Result<()> {
    let is_it = |history: &ModelHistory| {
        let map = history.map("a-main").unwrap_or_default();
        ensure!(map["data"]["color"] == color, "{what}: {map}");
        Ok(())
    };
    history.until(120, is_it).await
}

/// etcd is restored: everything is as it was some time ago, in lower versions than were sent since.
async fn restored() -> Result<()> {
    let mut history = ModelHistory::with("a", spec("blue", &["one"], false)).await?;
    let has = |history: &ModelHistory, name: &str| history.map(name).is_some();
    let backup = history.model.store().backup();
    for number in 0..20 {
        let color = format!("red{number}");
        history.edit("a", spec(&color, &["two"], false)).await?;
        await_color(&history, &color, "edited").await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    ensure!(!has(&history, "a-one") && has(&history, "a-two"));

    history.model.store().restore(backup);
    history.faults().end_watches(WatchEnd::Gone);
    tokio::time::sleep(60 * SECOND).await;
    ensure!(has(&history, "a-one") && !has(&history, "a-two"), "what the backup has");
    await_color(&history, "blue", "restored").await?;

    // Versions are still lower than those that the operator knew.
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/a-main");
    let patch = json!({"data": {"color": "by hand"}});
    history.ask("MERGE", &path, "hand", patch).await?;
    await_color(&history, "blue", "corrected").await?;
    history.edit("a", spec("green", &["three"], false)).await?;
    await_color(&history, "green", "edited after that").await?;
    tokio::time::sleep(60 * SECOND).await;
    ensure!(!has(&history, "a-one") && has(&history, "a-three"));
    history.end().await
}

#[test]
fn objects_restored_from_a_backup_are_reconciled() -> Result<()> {
    in_virtual_time(restored())
}
