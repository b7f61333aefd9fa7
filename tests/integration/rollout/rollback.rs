//! Upgrades that fail: what goes back, to what, until when, and what people can do about it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::{condition, ensure_contains, text, uid, versions};
use crate::world::operator::METERED;
use crate::world::{CRASHES, HANGS, SOON, World, staged_chart};

const ROLLBACK: &str = "onFailure: rollback";

fn world(name: &str, keys: &[&str]) -> Result<World> {
    World::staged(name, keys, &[("", "persistentvolumeclaims"), ("apps", "statefulsets")])
}

fn job(name: &str, at: &str) -> Value {
    json!({"name": name, "at": at})
}

fn failing(name: &str, at: &str) -> Value {
    json!({"name": name, "at": at, "pod": {CRASHES: "true"}})
}

fn color(world: &World) -> Result<Value> {
    Ok(world.expect("configmap", "a-main")?["data"]["color"].clone())
}

/// What the status lists of revisions, each with what it is made of and why it failed.
fn revisions(widget: &Value) -> Vec<(i64, Option<i64>, bool)> {
    let items = widget["status"]["history"].as_array().into_iter().flatten();
    let item = |item: &Value| {
        let revision = item["revision"].as_i64().unwrap_or_default();
        (revision, item["rollbackTo"].as_i64(), item["failed"].is_string())
    };
    items.map(item).collect()
}

fn await_last(world: &World, expected: (i64, Option<i64>, bool)) -> Result<()> {
    eventually(&format!("{expected:?} is the last revision"), SOON, || {
        let listed = revisions(&world.live("a")?);
        ensure!(listed.last() == Some(&expected), "{listed:?}");
        Ok(Some(()))
    })
}

/// Secrets that keep the renders of a release.
fn renders(world: &World) -> Result<Vec<Value>> {
    let mut secrets = world.list("secrets", "")?;
    secrets.retain(|secret| secret["type"] == "chartwright.dev/render");
    Ok(secrets)
}

#[test]
fn an_upgrade_whose_hook_fails_is_rolled_back_to_the_healthy_revision() -> Result<()> {
    let world = world("rollback-hook", &[ROLLBACK, "retries: 1"])?;
    let operator = world.launch(&METERED)?;
    let around = [job("undo", "pre-rollback"), job("undone", "post-rollback")];
    world.install("a", json!({"hooks": around}))?;
    ensure!(world.get("job", "a-undo")?.is_none());
    world.edit(
        "a",
        json!({"color": "red", "hooks": [failing("migrate", "pre-upgrade")]}),
    )?;
    let message = world.await_stalled(
        "a",
        "RolledBack",
        &["revision 2, of generation 2, failed: HookFailed: pre-upgrade hook Job a-migrate failed"],
    )?;
    ensure_contains(
        &message,
        &[
            "revision 1, of generation 1, runs as revision 3",
            "until the custom resource",
        ],
    )?;
    world.await_event("a", "UpgradeFailed", &["a-migrate", "going back to revision 1"])?;
    world.await_event("a", "RolledBack", &["runs as revision 3"])?;
    let series = format!(
        "chartwright_failed_upgrades_total{{group=\"{}\",kind=\"Widget\"}}",
        world.group()
    );
    ensure!(operator.metric(&series)? == 1.0, "{}", operator.metrics()?);
    for name in ["a-undo", "a-undone"] {
        world.expect("job", name)?;
    }
    let widget = world.live("a")?;
    ensure!(
        color(&world)? == "blue" && widget["status"]["observedGeneration"] == 2,
        "{widget}"
    );
    let listed = [(1, None, false), (2, None, true), (3, Some(1), false)];
    ensure!(revisions(&widget) == listed, "{}", widget["status"]["history"]);
    ensure!(widget["status"]["release"]["revision"] == 3, "{widget}");
    world.await_quiet(&operator)?;

    // Who takes over leaves it so.
    let before = versions(&world.labelled("configmaps,jobs")?);
    let operator = world.replace_and_settle(operator)?;
    ensure!(versions(&world.labelled("configmaps,jobs")?) == before);
    world.paint("a-main", "by hand")?;
    world.await_color("a-main", "blue")?;
    world.await_stalled("a", "RolledBack", &[])?;

    // Force is for one attempt.
    world.annotate("a", json!({"chartwright.dev/force-at": "now"}))?;
    await_last(&world, (5, Some(3), false))?;
    world.await_stalled("a", "RolledBack", &["revision 4, of generation 2, failed"])?;
    world.await_quiet(&operator)?;

    // Any other request starts again.
    let widget = world.update("a", json!({"hooks": [job("migrate", "pre-upgrade")]}))?;
    ensure!(
        color(&world)? == "red" && widget["status"]["release"]["revision"] == 6,
        "{widget}"
    );
    ensure!(widget["status"]["release"]["fallback"].is_null(), "{widget}");
    world.await_quiet(&operator)?;
    world.delete("a")?;
    ensure!(renders(&world)?.is_empty(), "{:?}", renders(&world)?);
    Ok(())
}

#[test]
fn an_unhealthy_upgrade_is_rolled_back_and_keeps_data() -> Result<()> {
    let world = world("rollback-health", &[ROLLBACK, "timeout: 2s"])?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.edit(
        "a",
        json!({"color": "red", "deployment": {HANGS: "true"}, "claim": "data"}),
    )?;
    world.await_stalled(
        "a",
        "RolledBack",
        &["not healthy within 2s", "a-web", "runs as revision 3"],
    )?;
    ensure!(color(&world)? == "blue");
    world.await_gone("deployment", "a-web")?;
    for kind in ["persistentvolumeclaim", "statefulset"] {
        let data = world.expect(kind, "a-data")?;
        ensure!(data["metadata"]["deletionTimestamp"].is_null(), "{data}");
    }
    world.await_quiet(&operator)?;

    // The same again on request: nothing has changed.
    world.annotate("a", json!({"chartwright.dev/reset-at": "now"}))?;
    await_last(&world, (5, Some(3), false))?;
    world.await_stalled("a", "RolledBack", &["revision 4, of generation 2"])?;
    world.update("a", json!({"deployment": null, "claim": null}))?;
    ensure!(color(&world)? == "red");
    world.await_gone("statefulset", "a-data")?;
    world.await_gone("persistentvolumeclaim", "a-data")
}

#[test]
fn the_health_timeout_excludes_hooks() -> Result<()> {
    let world = world("rollback-slow", &[ROLLBACK, "timeout: 5s"])?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let slow = json!({
        "name": "slow", "at": "pre-upgrade", "pod": {HANGS: "true"},
        "annotations": {"chartwright.dev/timeout": "1m"},
    });
    world.edit(
        "a",
        json!({"color": "red", "hooks": [slow], "deployment": {"app": "x"}}),
    )?;
    world.await_there("job", "a-slow")?;
    std::thread::sleep(Duration::from_secs(6));
    world.end_pods_of("a-slow", "Succeeded")?;
    let widget = world.await_ready("a")?;
    ensure!(color(&world)? == "red" && revisions(&widget).len() == 2, "{widget}");
    Ok(())
}

#[test]
fn a_refused_upgrade_is_rolled_back_immediately_and_an_install_is_not() -> Result<()> {
    let world = world("rollback-refused", &[ROLLBACK, "retries: 9"])?;
    let _operator = world.start()?;
    let bad = json!({"color": "red", "deployment": {"team": "no label!"}});
    world.apply_widget("a", bad.clone())?;
    world.await_stalled("a", "ObjectInvalid", &["a-web"])?;
    world.update("a", json!({"color": "blue", "deployment": null}))?;
    world.edit("a", bad)?;
    world.await_stalled("a", "RolledBack", &["ObjectInvalid", "a-web", "revision 1"])?;
    ensure!(color(&world)? == "blue");
    // A problem of the values is reported, and nothing was touched.
    world.edit("a", json!({"hooks": 3}))?;
    world.await_stalled("a", "RenderFailed", &[])?;
    ensure!(color(&world)? == "blue");
    Ok(())
}

#[test]
fn a_stalled_upgrade_is_not_rolled_back() -> Result<()> {
    let world = world("rollback-stall", &["onFailure: stall", "timeout: 2s"])?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.edit(
        "a",
        json!({"color": "red", "hooks": [failing("migrate", "pre-upgrade")]}),
    )?;
    let message = world.await_stalled("a", "UpgradeFailed", &["a-migrate", "it is not tried again"])?;
    ensure!(!message.contains("runs as revision"), "{message}");
    let first = uid(&world.expect("job", "a-migrate")?);
    world.await_quiet(&operator)?;
    std::thread::sleep(Duration::from_secs(3));
    let operator = world.replace_and_settle(operator)?;
    ensure!(uid(&world.expect("job", "a-migrate")?) == first && color(&world)? == "blue");
    ensure!(renders(&world)?.is_empty());

    // What takes too long may come right by itself.
    world.edit("a", json!({"hooks": [], "deployment": {HANGS: "true"}}))?;
    world.await_stalled("a", "UpgradeFailed", &["not healthy within 2s", "a-web"])?;
    let pods = world.list("pods", "app=a-web")?;
    let pod = text(&pods.first().context("a pod")?["metadata"]["name"]).to_owned();
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
    world.kubectl.patch_status("pod", &pod, &status)?;
    world.await_ready("a")?;
    world.await_quiet(&operator)
}

#[test]
fn rollback_to_applies_until_the_spec_changes() -> Result<()> {
    let world = world("rollback-people", &[ROLLBACK])?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    for color in ["red", "green"] {
        world.update("a", json!({"color": color}))?;
    }
    let kind = format!("widgets.{}", world.group());
    let run = |command: &str, more: &[&str]| {
        let target = [command, &kind, "a", "-n", &world.name];
        world.chartwright(&[&target, more].concat())
    };
    let (_, listed) = run("history", &[])?;
    let words: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let states: Vec<&str> = words[1..].iter().filter_map(|row| row.get(2).copied()).collect();
    ensure!(states == ["superseded", "superseded", "deployed"], "{listed}");

    let (status, said) = run("rollback", &["1", "--wait"])?;
    ensure!(status.success(), "{said}");
    ensure_contains(
        &said,
        &[
            "goes back to revision 1",
            "of generation 1, runs as revision 4",
            "generation 3 is not carried out",
        ],
    )?;
    ensure!(color(&world)? == "blue");
    let ready = condition(&world.live("a")?, "Ready");
    ensure!(
        ready["reason"] == "RolledBack" && ready["observedGeneration"] == 3,
        "{ready}"
    );
    world.await_quiet(&operator)?;
    let operator = world.replace_and_settle(operator)?;
    ensure!(color(&world)? == "blue");

    // Without a revision, to the one before that.
    let (status, said) = run("rollback", &["9"])?;
    ensure!(!status.success());
    ensure_contains(&said, &["revision 9 is not kept", "1, 2, 3, 4"])?;
    world.annotate("a", json!({"chartwright.dev/rollback-to": "9"}))?;
    world.await_event("a", "RollbackRefused", &["revision 9 is not kept"])?;
    let (_, listed) = run("history", &["-o", "json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    ensure!(
        listed[3]["rollbackTo"] == 1 && listed[3]["status"] == "deployed",
        "{listed}"
    );
    let (status, said) = run("rollback", &[])?;
    ensure!(!status.success(), "{said}");
    ensure_contains(&said, &["no revision before 1"])?;

    world.annotate("a", json!({"chartwright.dev/rollback-to": null}))?;
    world.await_ready("a")?;
    ensure!(color(&world)? == "green");
    world.annotate("a", json!({"chartwright.dev/rollback-to": "1"}))?;
    world.await_stalled("a", "RolledBack", &[])?;
    world.update("a", json!({"color": "green", "hooks": []}))?;
    ensure!(color(&world)? == "green");
    world.await_quiet(&operator)?;
    // Where nothing is kept, nothing is.
    world.write_watches_of(&[("Widget", &staged_chart(), &[])])?;
    let operator = world.restart(operator)?;
    world.await_quiet(&operator)?;
    ensure!(renders(&world)?.is_empty(), "{:?}", renders(&world)?);
    let (status, said) = run("rollback", &[])?;
    ensure!(!status.success());
    ensure_contains(&said, &["`onFailure: rollback`"])
}

#[test]
fn foreign_writes_to_a_stored_render_are_not_applied() -> Result<()> {
    let world = world("rollback-forged", &[ROLLBACK])?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let secret = renders(&world)?.remove(0);
    let content = secret["data"]["content.json.gz"].clone();
    // Of another release, and whole.
    world.install("b", json!({"color": "black"}))?;
    let other = renders(&world)?
        .into_iter()
        .find(|found| found["data"]["content.json.gz"] != content);
    let forged = other.context("the other's")?["data"].clone();
    world.patch("secret", text(&secret["metadata"]["name"]), &json!({"data": forged}))?;
    world.edit(
        "a",
        json!({"color": "red", "hooks": [failing("migrate", "pre-upgrade")]}),
    )?;
    world.await_stalled("a", "UpgradeFailed", &["a-migrate", "the render of revision 1 is lost"])?;
    ensure!(color(&world)? == "blue");
    Ok(())
}
