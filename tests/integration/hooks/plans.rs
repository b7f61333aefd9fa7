//! Plans: what starts them, what they wait for, and that none runs twice.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::security::forged_status::{keys, sign};
use crate::support::eventually;
use crate::world::fields::{condition, ensure_contains, text, uid};
use crate::world::operator::METERED;
use crate::world::{CRASHES, HANGS, SOON, World};

fn world(name: &str, keys: &[&str]) -> Result<World> {
    World::staged(name, keys, &[])
}

fn step(name: &str, at: &str, more: Value) -> Value {
    let mut step = json!({"name": name, "at": at});
    for (field, value) in more.as_object().into_iter().flatten() {
        step[field] = value.clone();
    }
    step
}

fn annotated(name: &str, at: &str, annotations: Value) -> Value {
    step(name, at, json!({"annotations": annotations}))
}

fn plan(world: &World, name: &str) -> Result<Value> {
    let widget = world.live("a")?;
    let mut plans = widget["status"]["plans"].as_array().into_iter().flatten();
    let found = plans.find(|plan| plan["name"] == name).cloned();
    found.with_context(|| format!("there is no plan {name}: {}", widget["status"]))
}

/// The plan, when its run of this number is in a phase.
fn await_plan(world: &World, name: &str, run: i64, phase: &str) -> Result<Value> {
    let waited = eventually(&format!("run {run} of {name} is {phase}"), SOON, || {
        let found = plan(world, name)?;
        ensure!(found["count"] == run && found["phase"] == phase, "{found}");
        Ok(Some(found))
    });
    waited.with_context(|| {
        world
            .live("a")
            .map(|widget| widget["status"].to_string())
            .unwrap_or_default()
    })
}

fn ask(world: &World, text: &str) -> Result<()> {
    world.annotate("a", json!({"chartwright.dev/run-plan": text}))
}

#[test]
fn a_plan_runs_once_per_request() -> Result<()> {
    let world = world("plans-request", &[])?;
    let mut operator = world.launch(&METERED)?;
    let weight = |weight: &str| json!({"helm.sh/hook-weight": weight});
    let hooks = json!([
        step(
            "mark",
            "plan-backup",
            json!({"kind": "ConfigMap", "annotations": weight("2")})
        ),
        annotated("dump", "plan-backup", weight("1")),
        step("check", "test", json!({"pod": {CRASHES: "true"}, "ttl": 1})),
    ]);
    let ready = world.install("a", json!({"hooks": hooks}))?;
    world.absent("job", ["a-dump", "a-check"])?;
    world.absent("configmap", ["a-mark"])?;
    ask(&world, "backup@1")?;
    let found = await_plan(&world, "backup", 1, "Succeeded")?;
    ensure!(found["runs"][0]["by"] == "request" && found["token"] == "1", "{found}");
    let first = world.expect("job", "a-dump")?;
    ensure!(world.expect("configmap", "a-mark")?["data"]["label"] == "none");
    world.await_event("a", "PlanSucceeded", &["plan backup succeeded"])?;
    let labels = format!(
        "group=\"{}\",kind=\"Widget\",plan=\"backup\",result=\"success\"",
        world.group()
    );
    let runs = operator.metric(&format!("chartwright_plan_runs_total{{{labels}}}"))?;
    ensure!(runs == 1.0, "{}", operator.metrics()?);
    // The release was well all the time.
    let since = |widget: &Value| condition(widget, "Ready")["lastTransitionTime"].clone();
    ensure!(since(&world.live("a")?) == since(&ready));

    operator = world.replace_and_settle(operator)?;
    world.annotate("a", json!({"chartwright.dev/requested-at": "now"}))?;
    world.await_quiet(&operator)?;
    ensure!(uid(&world.expect("job", "a-dump")?) == uid(&first), "it ran twice");
    ensure!(plan(&world, "backup")?["count"] == 1);

    // From the command line, with a parameter; its end decides.
    let kind = format!("widgets.{}", world.group());
    let run = |words: &[&str]| world.chartwright(&[&["plan"], words, &["-n", &world.name]].concat());
    let (status, said) = run(&["run", &kind, "a", "backup", "--set", "label=blue", "--wait"])?;
    ensure!(status.success(), "{said}");
    ensure_contains(&said, &["plan backup of Widget", "Job a-dump", "plan backup succeeded"])?;
    ensure!(uid(&world.expect("job", "a-dump")?) != uid(&first));
    ensure!(world.expect("configmap", "a-mark")?["data"]["label"] == "blue");
    let (status, said) = run(&["run", &kind, "a", "test", "--wait"])?;
    ensure!(!status.success(), "{said}");
    ensure_contains(&said, &["plan test failed: Job a-check"])?;
    let failed = world.await_condition("a", "PlanFailed", "True")?;
    ensure_contains(text(&failed["message"]), &["plan test failed", "a-check"])?;
    world.await_gone("job", "a-check")?;
    world.await_ready("a")?;
    let (status, said) = run(&["run", &kind, "a", "restore"])?;
    ensure!(!status.success());
    ensure_contains(&said, &["has no plan \"restore\"; it has backup, test"])?;
    let (_, listed) = run(&["list", &kind, "a"])?;
    ensure_contains(&listed, &["backup  2     Succeeded", "test    1     Failed"])?;

    // An unknown plan is reported. A request during suspension waits.
    ask(&world, "restore@1")?;
    let refused = world.await_event("a", "PlanRefused", &["restore", "the chart's plans are backup, test"])?;
    ensure!(!refused.is_empty());
    world.suspend("a")?;
    ask(&world, "backup@9")?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(plan(&world, "backup")?["count"] == 2);
    world.annotate("a", json!({"chartwright.dev/suspend": null}))?;
    await_plan(&world, "backup", 3, "Succeeded")?;
    world.await_quiet(&operator)?;
    world.delete("a")?;
    let mut left = world.list("secrets", "")?;
    left.retain(|secret| secret["type"] == "chartwright.dev/plan");
    ensure!(left.is_empty() && world.get("job", "a-dump")?.is_none(), "{left:?}");
    Ok(())
}

#[test]
fn a_plan_run_continues_after_a_crash_and_an_upgrade_waits_for_it() -> Result<()> {
    let world = world("plans-crash", &[])?;
    let operator = world.start()?;
    let hooks = json!([
        step("slow", "plan-move", json!({"pod": {HANGS: "true"}})),
        step("then", "plan-move", json!({})),
        step("other", "plan-other", json!({})),
    ]);
    world.install("a", json!({"hooks": hooks}))?;
    ask(&world, "move")?;
    await_plan(&world, "move", 1, "Running")?;
    world.await_there("job", "a-slow")?;
    let slow = uid(&world.expect("job", "a-slow")?);
    ask(&world, "other")?;
    let operator = world.replace(operator)?;
    world.edit("a", json!({"color": "red"}))?;
    world.await_unready("a", "PlanRunning", &["plan move runs"])?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "blue");
    ensure!(world.get("job", "a-other")?.is_none(), "one at a time");
    operator.kill()?;
    // It ends while no operator runs.
    world.end_pods_of("a-slow", "Succeeded")?;
    world.kubectl.wait("Complete", "job", "a-slow", SOON)?;
    let _operator = world.start()?;
    await_plan(&world, "move", 1, "Succeeded")?;
    ensure!(uid(&world.expect("job", "a-slow")?) == slow, "it ran twice");
    world.await_color("a-main", "red")?;
    await_plan(&world, "other", 1, "Succeeded")?;
    world.await_ready("a").map(drop)
}

#[test]
fn logs_of_a_step_after_a_restart_are_reported_redacted() -> Result<()> {
    let source = "valuesFrom: [{kind: Secret, name: token, valuesKey: color, targetPath: color}]";
    let world = world("plans-log", &[source])?;
    let logs = json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]});
    world.grant("logs", &[logs])?;
    let operator = world.start()?;
    let color = json!({"color": "Logged-secret-1d7f"});
    world.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": color}))?;
    let slow = step("slow", "plan-work", json!({"pod": {HANGS: "true"}}));
    world.install("a", json!({"hooks": [slow]}))?;
    ask(&world, "work@1")?;
    world.await_there("job", "a-slow")?;
    operator.kill()?;
    let operator = world.start_and_settle()?;
    world.end_pods_of("a-slow", "Failed")?;
    await_plan(&world, "work", 1, "Failed")?;
    world.await_event("a", "PlanFailed", &["a-slow", "signed in with [redacted]"])?;
    for text in [
        format!("{:?}", world.events("a")?),
        operator.log(),
        world.live("a")?["status"].to_string(),
    ] {
        ensure!(!text.contains("Logged-secret"), "{text}");
    }
    Ok(())
}

#[test]
fn a_schedule_catches_up_once_after_missed_runs() -> Result<()> {
    let world = world("plans-schedule", &[])?;
    let operator = world.start()?;
    let hourly = json!({"chartwright.dev/schedule": "0 * * * *"});
    let mut strict = hourly.clone();
    strict["chartwright.dev/starting-deadline"] = "1s".into();
    let hooks = json!([
        annotated("dump", "plan-backup", hourly),
        annotated("late", "plan-strict", strict)
    ]);
    let widget = world.install("a", json!({"hooks": hooks}))?;
    let next: jiff::Timestamp = text(&widget["status"]["plans"][0]["next"]).parse()?;
    ensure!(next > jiff::Timestamp::now(), "{widget}");
    world.await_quiet(&operator)?;
    operator.terminate()?;
    // No operator ran for a day.
    let mut plans = widget["status"]["plans"].clone();
    for plan in plans.as_array_mut().into_iter().flatten() {
        for (field, hours) in [("scheduled", 25), ("next", 24)] {
            let time = next - Duration::from_secs(3600 * hours);
            plan[field] = time.to_string().into();
        }
    }
    let mut status = widget["status"].clone();
    status["plans"] = plans;
    sign(&world, &keys(&world)?, &widget, &mut status);
    world.patch_status("a", &json!({"status": status}))?;
    let operator = world.start_and_settle()?;
    let found = await_plan(&world, "backup", 1, "Succeeded")?;
    ensure!(
        found["runs"][0]["by"] == "schedule" && found["next"] == next.to_string(),
        "{found}"
    );
    ensure!(plan(&world, "strict")?["count"] == 0);
    world.await_event("a", "PlanMissed", &["plan strict", "too late"])?;

    // An invalid schedule is reported with its file, and the rest works.
    let bad = json!({"chartwright.dev/schedule": "61 * * * *"});
    world.update("a", json!({"hooks": [annotated("dump", "plan-backup", bad)]}))?;
    let failed = world.await_condition("a", "PlanFailed", "True")?;
    ensure_contains(text(&failed["message"]), &["templates/hooks.yaml", "61 * * * *"])?;
    world.update("a", json!({"hooks": []}))?;
    ensure!(condition(&world.live("a")?, "PlanFailed").is_null());
    world.await_quiet(&operator)
}

#[test]
fn plans_of_one_author_have_few_series_and_none_when_the_custom_resource_is_gone() -> Result<()> {
    let world = world("plans-series", &[])?;
    let operator = world.launch(&METERED)?;
    let names: Vec<String> = (0..23).map(|number| format!("p{number}")).collect();
    let hooks = names
        .iter()
        .map(|name| step(name, &format!("plan-{name}"), json!({"kind": "ConfigMap"})));
    world.install("a", json!({"hooks": hooks.collect::<Vec<_>>()}))?;
    let series = || -> Result<Vec<String>> {
        let metrics = operator.metrics()?;
        let lines = metrics
            .lines()
            .filter(|line| line.starts_with("chartwright_plan_runs_total{"));
        Ok(lines.map(str::to_owned).collect())
    };
    for name in &names {
        ask(&world, name)?;
        await_plan(&world, name, 1, "Succeeded")?;
    }
    let found = series()?;
    ensure!(found.len() == 21, "{found:#?}");
    ensure!(
        found
            .iter()
            .any(|line| line.contains("plan=\"other\"") && line.ends_with(" 3")),
        "{found:#?}"
    );
    world.delete("a")?;
    eventually("no series is left", SOON, || {
        let found = series()?;
        ensure!(found.is_empty(), "{found:#?}");
        Ok(Some(()))
    })
}

#[test]
fn plans_are_part_of_creation_change_and_deletion() -> Result<()> {
    let world = world("plans-part", &["timeout: 2s"])?;
    let operator = world.start()?;
    let on = |name: &str, event: &str| annotated(name, &format!("plan-{name}"), json!({(event): "true"}));
    let change = annotated(
        "rotate",
        "plan-rotate",
        json!({"chartwright.dev/run-on-change": "color"}),
    );
    let hooks = json!([
        on("restore", "chartwright.dev/on-create"),
        on("snapshot", "chartwright.dev/on-delete"),
        change,
        step("after", "pre-install", json!({})),
    ]);
    world.install("a", json!({"hooks": hooks}))?;
    let ended =
        |name: &str| Ok::<_, anyhow::Error>(text(&world.expect("job", name)?["status"]["completionTime"]).to_owned());
    let created = |kind: &str, name: &str| {
        let object = world.expect(kind, name)?;
        Ok::<_, anyhow::Error>(text(&object["metadata"]["creationTimestamp"]).to_owned())
    };
    let found = await_plan(&world, "restore", 1, "Succeeded")?;
    ensure!(found["runs"][0]["by"] == "create", "{found}");
    ensure!(ended("a-restore")? <= created("job", "a-after")?);
    ensure!(ended("a-restore")? <= created("configmap", "a-main")?);
    world.absent("job", ["a-rotate", "a-snapshot"])?;
    let restored = uid(&world.expect("job", "a-restore")?);
    world.update("a", json!({"color": "red"}))?;
    await_plan(&world, "rotate", 1, "Succeeded")?;
    ensure!(
        uid(&world.expect("job", "a-restore")?) == restored,
        "it belongs to the installation"
    );
    world.await_quiet(&operator)?;

    // Who deletes in the foreground takes nothing before the snapshot.
    ensure!(world.expect("configmap", "a-main")?["metadata"]["ownerReferences"].is_null());
    // Nothing goes without the snapshot, however long that fails; and it needs no chart.
    let mut failing = on("snapshot", "chartwright.dev/on-delete");
    failing["pod"] = json!({HANGS: "true"});
    world.update("a", json!({"hooks": [failing]}))?;
    failing["pod"] = json!({CRASHES: "true"});
    world.install("b", json!({"hooks": [failing]}))?;
    operator.terminate()?;
    world.write_watches_of(&[("Widget", Path::new("/nowhere"), &["timeout: 2s"])])?;
    let _operator = world.start()?;
    world.begin_delete("a")?;
    world.await_unready(
        "a",
        "HookFailed",
        &["plan-snapshot", "a-snapshot", "did not end within 2s"],
    )?;
    let found = plan(&world, "snapshot")?;
    ensure!(
        found["runs"][0]["by"] == "delete" && found["runs"][0]["phase"] == "Failed",
        "{found}"
    );
    world.begin_delete("b")?;
    std::thread::sleep(Duration::from_secs(4));
    for name in ["a-main", "b-main"] {
        world.expect("configmap", name)?;
    }
    // One that succeeds at last is enough.
    eventually("a snapshot is made", SOON, || {
        // There may be none now, or one that has ended.
        let _ = world.end_pods_of("a-snapshot", "Succeeded");
        let left = world.get(&world.widgets(), "a")?;
        ensure!(left.is_none(), "{left:?}");
        Ok(Some(()))
    })?;
    // A user gives up what it was to save.
    world.annotate("b", json!({"chartwright.dev/skip-plans": "true"}))?;
    world.await_gone(&world.widgets(), "b")?;
    world.absent("configmap", ["a-main", "b-main"])
}

#[test]
fn a_failed_upgrade_blocks_no_plan() -> Result<()> {
    let world = world("plans-stuck", &[])?;
    let _operator = world.start()?;
    let dump = step("dump", "plan-backup", json!({}));
    world.install("a", json!({"hooks": [dump]}))?;
    let failing = step("migrate", "pre-upgrade", json!({"pod": {CRASHES: "true"}}));
    world.edit("a", json!({"color": "red", "hooks": [dump, failing]}))?;
    world.await_unready("a", "HookFailed", &["a-migrate"])?;
    ask(&world, "backup@1")?;
    await_plan(&world, "backup", 1, "Succeeded")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "blue");
    world.update("a", json!({"hooks": [dump, step("migrate", "pre-upgrade", json!({}))]}))?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    ensure!(plan(&world, "backup")?["count"] == 1);
    Ok(())
}

#[test]
fn a_rolled_back_upgrade_keeps_the_snapshot_at_deletion() -> Result<()> {
    let world = world("plans-reverted", &[])?;
    let _operator = world.start()?;
    let mut snapshot = annotated(
        "snapshot",
        "plan-snapshot",
        json!({"chartwright.dev/on-delete": "true"}),
    );
    snapshot["pod"] = json!({HANGS: "true"});
    world.install("a", json!({"hooks": [snapshot]}))?;
    let failing = step("migrate", "pre-upgrade", json!({"pod": {CRASHES: "true"}}));
    world.edit("a", json!({"color": "red", "hooks": [failing]}))?;
    world.await_unready("a", "HookFailed", &["a-migrate"])?;
    world.update("a", json!({"color": "blue", "hooks": [snapshot]}))?;
    world.begin_delete("a")?;
    world.await_there("job", "a-snapshot")?;
    world.expect("configmap", "a-main")?;
    eventually("the snapshot is made", SOON, || {
        let _ = world.end_pods_of("a-snapshot", "Succeeded");
        let left = world.get(&world.widgets(), "a")?;
        ensure!(left.is_none(), "{left:?}");
        Ok(Some(()))
    })
}

#[test]
fn a_plan_on_change_runs_when_all_members_are_applied_and_a_rollback_does_not_run_it() -> Result<()> {
    let world = world("plans-rolled-back", &["onFailure: rollback", "timeout: 2s"])?;
    let operator = world.start()?;
    let on_change = json!({"kind": "ConfigMap", "annotations": {"chartwright.dev/run-on-change": "color"}});
    let rotate = step("rotate", "plan-rotate", on_change);
    world.install("a", json!({"hooks": [rotate]}))?;
    // This upgrade fails before its first member.
    let failing = step("migrate", "pre-upgrade", json!({"pod": {CRASHES: "true"}}));
    world.edit("a", json!({"color": "red", "hooks": [rotate, failing]}))?;
    world.await_stalled("a", "RolledBack", &["a-migrate"])?;
    world.await_quiet(&operator)?;
    ensure!(plan(&world, "rotate")?["count"] == 0);
    // This one fails when all members are applied.
    let start = world.mark()?;
    let unhealthy = json!({"color": "green", "hooks": [rotate], "deployment": {HANGS: "true"}});
    world.edit("a", unhealthy)?;
    world.await_stalled("a", "RolledBack", &["a-web"])?;
    world.await_quiet(&operator)?;
    let writes = world
        .all_requests(&operator, start)?
        .resource("configmaps")
        .verb("patch");
    let names: Vec<&str> = writes.iter().map(|request| request.name.as_str()).collect();
    ensure!(names == ["a-main", "a-rotate", "a-main"], "{writes}");
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "blue");
    ensure!(world.expect("configmap", "a-rotate")?["data"]["color"] == "green");
    // The value is known now.
    world.update("a", json!({"deployment": null}))?;
    world.await_quiet(&operator)?;
    ensure!(plan(&world, "rotate")?["count"] == 1);
    // This one is rolled back before the plan begins, so that the next one begins it.
    let failing = step("check", "post-upgrade", json!({"pod": {CRASHES: "true"}}));
    world.edit("a", json!({"color": "red", "hooks": [rotate, failing]}))?;
    world.await_stalled("a", "RolledBack", &["a-check"])?;
    world.await_quiet(&operator)?;
    ensure!(plan(&world, "rotate")?["count"] == 1);
    ensure!(world.expect("configmap", "a-rotate")?["data"]["color"] == "green");
    world.update("a", json!({"hooks": [rotate]}))?;
    await_plan(&world, "rotate", 2, "Succeeded")?;
    ensure!(world.expect("configmap", "a-rotate")?["data"]["color"] == "red");
    Ok(())
}

/// As after `make undeploy deploy`: the operator's namespace goes, and its key with it.
#[test]
fn a_new_key_upgrades_nothing_and_keeps_the_snapshot_at_deletion() -> Result<()> {
    let world = world("plans-rekeyed", &[])?;
    let operator = world.start()?;
    let on_delete = |name: &str| {
        let on = json!({"chartwright.dev/on-delete": "true"});
        annotated(name, &format!("plan-{name}"), on)
    };
    let on_change = json!({"chartwright.dev/run-on-change": "color"});
    let hooks = json!([
        step("migrate", "pre-upgrade", json!({})),
        annotated("rotate", "plan-rotate", on_change),
        on_delete("snapshot"),
    ]);
    world.install("a", json!({"hooks": hooks}))?;
    world.install("b", json!({"hooks": hooks}))?;
    world.await_quiet(&operator)?;
    operator.terminate()?;
    world.kubectl.delete("secret", &format!("{}-hmac-key", world.name))?;
    // This one is deleted while no operator can store its hooks again.
    world.begin_delete("b")?;
    let operator = world.start()?;
    world.await_unready(
        "b",
        "HookFailed",
        &["is absent or not ours", "plan snapshot", "skip-plans"],
    )?;
    world.await_quiet(&operator)?;
    world.expect("configmap", "b-main")?;
    let widget = world.await_ready("a")?;
    ensure!(widget["status"]["release"]["revision"] == 1, "{widget}");
    world.absent("job", ["a-migrate", "a-rotate", "b-snapshot"])?;
    let _operator = world.restart(operator)?;
    world.update("a", json!({"color": "red"}))?;
    await_plan(&world, "rotate", 1, "Succeeded")?;

    world.annotate("b", json!({"chartwright.dev/skip-plans": "true"}))?;
    world.await_gone(&world.widgets(), "b")?;
    world.delete("a")
}
