//! What people ask for in annotations of a custom resource: done once, and acknowledged in the status.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::look::{condition, versions};
use crate::operator::METERED;
use crate::support::eventually;
use crate::world::{SOON, World, annotated_map, member_rule};

fn annotate(world: &World, key: &str, value: Option<&str>) -> Result<()> {
    world.annotate("a", json!({key: value}))
}

fn await_handled(world: &World, field: &str, token: &str) -> Result<Value> {
    world.await_field(&world.widgets(), "a", &format!("/status/{field}"), token)
}

#[test]
fn requests_are_carried_out_once_and_acknowledged() -> Result<()> {
    let world = World::new("asked")?;
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
    let members = requests.resource("configmaps");
    ensure!(members.is_empty(), "unchanged members are not sent:\n{members}");

    let start = world.mark()?;
    annotate(&world, "chartwright.dev/force-at", Some("t2"))?;
    await_handled(&world, "lastHandledForceAt", "t2")?;
    world.await_quiet(&operator)?;
    let sent = world.requests(&operator, start)?.resource("configmaps").verb("patch");
    ensure!(sent.len() == 3, "every member, once:\n{sent}");
    ensure!(versions(&world.labelled("configmaps")?) == before);

    // Done once: neither a restart nor another change does it again.
    ensure!(operator.terminate()?.success());
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    world.update("a", json!({"color": "red"}))?;
    world.await_quiet(&operator)?;
    let sent = world.requests(&operator, start)?.resource("configmaps").verb("patch");
    ensure!(sent.len() == 1, "{sent}");

    // P1: a suspended release does nothing of the kind, and doesn't say so either.
    annotate(&world, "chartwright.dev/suspend", Some("true"))?;
    world.await_condition("a", "Suspended", "True")?;
    world.kubectl.delete("configmap", "a-one")?;
    for key in ["requested-at", "force-at", "reset-at"] {
        annotate(&world, &format!("chartwright.dev/{key}"), Some("t3"))?;
    }
    std::thread::sleep(Duration::from_secs(1));
    let widget = world.expect(&world.widgets(), "a")?;
    let status = &widget["status"];
    ensure!(status["lastHandledReconcileAt"] == "t1");
    ensure!(status["lastHandledForceAt"] == "t2");
    ensure!(status["lastHandledResetAt"].is_null(), "{status}");
    ensure!(world.get("configmap", "a-one")?.is_none(), "{status}");
    annotate(&world, "chartwright.dev/suspend", None)?;
    for field in ["lastHandledReconcileAt", "lastHandledForceAt", "lastHandledResetAt"] {
        await_handled(&world, field, "t3")?;
    }
    world.await_there("configmap", "a-one")?;
    Ok(())
}

#[test]
fn a_request_is_not_done_while_a_member_fails() -> Result<()> {
    let world = World::new("asked-failing")?;
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
    eventually("the others are sent", SOON, || {
        let sent = world.requests(&operator, start)?.name("a-main").verb("patch");
        Ok((!sent.is_empty()).then_some(()))
    })?;
    world.await_quiet(&operator)?;
    world.await_stalled("a", "ObjectInvalid", &[])?;
    let status = &world.expect(&world.widgets(), "a")?["status"];
    ensure!(status["lastHandledForceAt"].is_null(), "{status}");
    world.edit("a", odd("data"))?;
    await_handled(&world, "lastHandledForceAt", "t1")?;
    world.await_ready("a")?;
    Ok(())
}

#[test]
fn what_an_annotation_cannot_mean_is_told_and_harmless() -> Result<()> {
    let world = World::new("asked-badly")?.watch_key("watchDependentResources: false");
    let _operator = world.start()?;
    let sdk = "helm.sdk.operatorframework.io";
    let mut widget = world.widget("a", json!({}));
    widget["metadata"]["annotations"] = json!({
        "chartwright.dev/reconcile-period": "soon", "chartwright.dev/suspend": "yes",
        format!("{sdk}/upgrade-force"): "true", format!("{sdk}/rollback-force"): "false",
    });
    world.apply(&widget)?;
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "Suspended").is_none());
    let told = world.events("a")?;
    for part in ["not a duration", "counts as \"false\"", "upgrade-force has no effect"] {
        let found = told
            .iter()
            .filter(|(reason, note)| reason == "AnnotationInvalid" && note.contains(part));
        ensure!(found.count() == 1, "{part}: {told:?}");
    }
    // A good one counts, operator-sdk's own as well: without the watches' help, time brings the member back.
    annotate(&world, "chartwright.dev/reconcile-period", None)?;
    annotate(&world, &format!("{sdk}/reconcile-period"), Some("1s"))?;
    world.await_ready("a")?;
    std::thread::sleep(Duration::from_millis(1500));
    world.kubectl.delete("configmap", "a-main")?;
    world.await_there("configmap", "a-main")?;
    Ok(())
}

#[test]
fn waves_open_one_after_the_other_and_an_edit_ends_the_waiting() -> Result<()> {
    let world = World::new("waves")?;
    world.grant("jobs", &[member_rule("batch", "jobs")])?;
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
    let ready = world.await_condition("a", "Ready", "False")?;
    std::thread::sleep(Duration::from_secs(1));
    ensure!(world.get("configmap", "early")?.is_some(), "{ready}");
    ensure!(world.get("configmap", "late")?.is_none(), "{ready}");
    // P7, and the newest generation wins: nobody waits for the old one.
    world.edit("a", spec(false))?;
    world.await_there("configmap", "late")?;
    world.await_ready("a")?;
    Ok(())
}

/// As many of them as there are threads, and more: none of them may keep one to itself.
#[test]
fn a_period_that_is_too_short_starves_nobody() -> Result<()> {
    let world = World::new("asked-often")?;
    let operator = world.start()?;
    for number in 0..5 {
        let mut widget = world.widget(&format!("often{number}"), json!({}));
        widget["metadata"]["annotations"] = json!({"chartwright.dev/reconcile-period": "1ns"});
        world.apply(&widget)?;
    }
    for number in 0..5 {
        world.await_ready(&format!("often{number}"))?;
    }
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
