//! What people ask for in annotations of a custom resource: done once, and acknowledged in the status.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::fields::{condition, versions};
use crate::world::operator::METERED;
use crate::world::{SOON, World, annotated_map};

fn annotate(world: &World, key: &str, value: Option<&str>) -> Result<()> {
    world.annotate("a", json!({key: value}))
}

fn await_handled(world: &World, field: &str, token: &str) -> Result<Value> {
    world.await_field(&world.widgets(), "a", &format!("/status/{field}"), token)
}

#[test]
fn annotation_requests_are_handled_once_and_acknowledged() -> Result<()> {
    let world = World::new("requested")?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"extra": ["one", "two"]}))?;
    world.await_quiet(&operator)?;
    let before = versions(&world.labelled("configmaps")?);
    let renders = || operator.renders();

    let (rendered, start) = (renders()?, world.mark()?);
    annotate(&world, "chartwright.dev/requested-at", Some("t1"))?;
    await_handled(&world, "lastHandledReconcileAt", "t1")?;
    ensure!(renders()? > rendered, "nothing was rendered");
    let requests = world.requests(&operator, start)?;
    requests.resource("configmaps").none()?;

    let start = world.mark()?;
    annotate(&world, "chartwright.dev/force-at", Some("t2"))?;
    await_handled(&world, "lastHandledForceAt", "t2")?;
    let sent = world
        .requests_until_quiet(&operator, start)?
        .resource("configmaps")
        .verb("patch");
    ensure!(sent.len() == 3, "every member, once:\n{sent}");
    ensure!(versions(&world.labelled("configmaps")?) == before);

    // Done once: neither a restart nor another change does it again.
    ensure!(operator.terminate()?.success());
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    world.update("a", json!({"color": "red"}))?;
    let sent = world
        .requests_until_quiet(&operator, start)?
        .resource("configmaps")
        .verb("patch");
    ensure!(sent.len() == 1, "{sent}");

    // P1: a suspended release does nothing of the kind, and doesn't say so either.
    annotate(&world, "chartwright.dev/suspend", Some("true"))?;
    world.await_condition("a", "Suspended", "True")?;
    world.kubectl.delete("configmap", "a-one")?;
    for key in ["requested-at", "force-at", "reset-at"] {
        annotate(&world, &format!("chartwright.dev/{key}"), Some("t3"))?;
    }
    std::thread::sleep(Duration::from_secs(1));
    let widget = world.live("a")?;
    let handled = ["Reconcile", "Force", "Reset"].map(|what| &widget["status"][format!("lastHandled{what}At")]);
    ensure!(handled == [&json!("t1"), &json!("t2"), &Value::Null], "{handled:?}");
    world.absent("configmap", ["a-one"])?;
    annotate(&world, "chartwright.dev/suspend", None)?;
    for field in ["lastHandledReconcileAt", "lastHandledForceAt", "lastHandledResetAt"] {
        await_handled(&world, field, "t3")?;
    }
    world.await_there("configmap", "a-one").map(drop)
}

#[test]
fn a_request_is_not_acknowledged_while_a_member_fails() -> Result<()> {
    let world = World::new("requested-failing")?;
    let operator = world.start()?;
    let odd = |field: &str| {
        json!({"extraDeploy": [{
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, (field): {"a": "b"},
        }]})
    };
    world.apply_widget("a", odd("dta"))?;
    world.await_stalled("a", "ObjectInvalid", &[])?;
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    annotate(&world, "chartwright.dev/force-at", Some("t1"))?;
    until("the others are sent", SOON, || {
        let sent = world.requests(&operator, start)?.name("a-main").verb("patch");
        Ok(!sent.is_empty())
    })?;
    world.await_quiet(&operator)?;
    world.await_stalled("a", "ObjectInvalid", &[])?;
    let status = &world.live("a")?["status"];
    ensure!(status["lastHandledForceAt"].is_null(), "{status}");
    world.edit("a", odd("data"))?;
    await_handled(&world, "lastHandledForceAt", "t1")?;
    world.await_ready("a").map(drop)
}

#[test]
fn invalid_annotations_are_reported_and_have_no_effect() -> Result<()> {
    let world = World::new("requested-badly")?.watch_key("watchDependentResources: false");
    let _operator = world.start()?;
    let sdk = "helm.sdk.operatorframework.io";
    let mut widget = world.widget("a", json!({}));
    widget["metadata"]["annotations"] = json!({
        "chartwright.dev/reconcile-period": "soon", "chartwright.dev/suspend": "yes",
        format!("{sdk}/upgrade-force"): "true", format!("{sdk}/rollback-force"): "false",
    });
    world.apply(&widget)?;
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "Suspended").is_null());
    let events = world.events("a")?;
    for part in ["not a duration", "counts as \"false\"", "upgrade-force has no effect"] {
        let is_it = |(reason, note): &&(String, String)| reason == "AnnotationInvalid" && note.contains(part);
        ensure!(events.iter().filter(is_it).count() == 1, "{part}: {events:?}");
    }
    // A good one counts, operator-sdk's own as well: without the watches' help, time brings the member back.
    annotate(&world, "chartwright.dev/reconcile-period", None)?;
    annotate(&world, &format!("{sdk}/reconcile-period"), Some("1s"))?;
    world.await_ready("a")?;
    std::thread::sleep(Duration::from_millis(1500));
    world.kubectl.delete("configmap", "a-main")?;
    world.await_there("configmap", "a-main").map(drop)
}

#[test]
fn waves_are_applied_in_order_and_an_edit_ends_the_wait() -> Result<()> {
    let world = World::new("waves")?.granted("batch", "jobs")?;
    let _operator = world.start()?;
    let map = |name: &str, wave: &str| annotated_map(name, "chartwright.dev/wave", wave);
    // Wave 0 never gets ready by itself.
    let spec = |failing: bool| {
        json!({
            "deployment": {"enabled": true, "failing": failing},
            "extraDeploy": [map("early", "-1"), map("late", "1")],
        })
    };
    world.apply_widget("a", spec(true))?;
    world.await_there("deployment", "a")?;
    world.await_condition("a", "Ready", "False")?;
    std::thread::sleep(Duration::from_secs(1));
    world.expect("configmap", "early")?;
    world.absent("configmap", ["late"])?;
    // P7, and the newest generation wins: the old one is not waited for.
    world.edit("a", spec(false))?;
    world.await_there("configmap", "late")?;
    world.await_ready("a").map(drop)
}

/// As many of them as there are threads, and more: none of them may keep one to itself.
#[test]
fn a_too_short_reconcile_period_starves_no_release() -> Result<()> {
    let world = World::new("requested-often")?;
    let operator = world.start()?;
    for number in 0..5 {
        let mut widget = world.widget(&format!("often{number}"), json!({}));
        widget["metadata"]["annotations"] = json!({"chartwright.dev/reconcile-period": "1ns"});
        world.apply(&widget)?;
    }
    (0..5).try_for_each(|number| world.await_ready(&format!("often{number}")).map(drop))?;
    let before = operator.reconciles();
    std::thread::sleep(Duration::from_secs(4));
    let more = operator.reconciles() - before;
    ensure!((5..40).contains(&more), "{more} reconciles in 4 s");
    world.install("a", json!({"color": "red"}))?;
    world.update("a", json!({"color": "blue"}))?;
    world.await_event("often0", "AnnotationInvalid", &["counts as 1s"])?;
    ensure!(operator.terminate()?.success());
    Ok(())
}
