//! Operations: an installation ends before the first upgrade, failed hooks are retried with backoff, and `onFailure: stall` ends
//! each attempt.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::{eventually, until};
use crate::world::fields::{condition, ensure_contains, text, uid};
use crate::world::operator::Operator;
use crate::world::{CRASHES, HANGS, RequestsStart, SOON, World, crd, member_rule};

fn hook(name: &str, at: &str, pod: &str) -> Value {
    json!({"name": name, "at": at, "pod": if pod.is_empty() { json!({}) } else { json!({pod: "true"}) }})
}

/// How often a Job of this name was created.
fn jobs(world: &World, operator: &Operator, since: RequestsStart, name: &str) -> Result<usize> {
    let requests = world.all_requests(operator, since)?.resource("jobs").verb("patch");
    Ok(requests.iter().filter(|request| request.name == name).count())
}

fn await_phase(world: &World, name: &str, phase: &str) -> Result<Value> {
    eventually(&format!("the operation is in {phase}"), SOON, || {
        let widget = world.live(name)?;
        let operation = &widget["status"]["hooks"]["operation"];
        ensure!(operation["phase"] == phase, "{}", widget["status"]);
        Ok(Some(widget))
    })
}

#[test]
fn an_overtaken_installation_continues_as_an_installation() -> Result<()> {
    let world = World::staged("operation-overtaken", &[], &[])?;
    let _operator = world.start()?;
    let hooks = |after: Value| {
        json!([
            hook("before", "pre-install", ""),
            hook("migrate", "pre-upgrade", ""),
            after
        ])
    };
    let healthy = || {
        let mut hook = hook("after", "post-install", "");
        hook["annotations"] = json!({"chartwright.dev/after": "healthy"});
        hook
    };
    for (case, name, after, members) in [
        ("hangs", "a", hook("after", "post-install", HANGS), json!({})),
        ("crashes", "b", hook("after", "post-install", CRASHES), json!({})),
        ("unhealthy", "c", healthy(), json!({HANGS: "true"})),
    ] {
        world.apply_widget(name, json!({"hooks": hooks(after), "deployment": members}))?;
        let widget = await_phase(&world, name, "PostHooks")?;
        ensure!(widget["status"]["release"]["revision"] == 1, "{case}: {widget}");
        let before = uid(&world.expect("job", &format!("{name}-before"))?);
        let fixed = if case == "unhealthy" {
            healthy()
        } else {
            hook("after", "post-install", "")
        };
        let spec = json!({"hooks": hooks(fixed), "deployment": {HANGS: null, "ready": "yes"}, "color": "red"});
        let widget = world.update(name, spec)?;
        world.expect("job", &format!("{name}-after"))?;
        world.absent("job", [format!("{name}-migrate").as_str()])?;
        ensure!(
            uid(&world.expect("job", &format!("{name}-before"))?) == before,
            "{case}: pre-install ran again"
        );
        let operation = &widget["status"]["hooks"]["operation"];
        ensure!(
            operation["kind"] == "install" && operation["phase"] == "Done",
            "{case}: {operation}"
        );
        world.await_event(name, "InstallSuccessful", &[])?;
        let events = format!("{:?}", world.events(name)?);
        ensure!(!events.contains("UpgradeSuccessful"), "{case}: {events}");
        // From now on, an edit is an upgrade.
        world.update(
            name,
            json!({"hooks": hooks(hook("after", "post-install", "")), "color": "green"}),
        )?;
        world.expect("job", &format!("{name}-migrate"))?;
        world.delete(name)?;
        world.await_gone("job", &format!("{name}-migrate"))?;
    }
    Ok(())
}

#[test]
fn another_value_source_continues_an_installation() -> Result<()> {
    let source = "valuesFrom: [{kind: ConfigMap, name: colors, valuesKey: color, targetPath: color}]";
    let world = World::staged("operation-source", &[source], &[])?;
    let _operator = world.start()?;
    let colors = |color: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colors"}, "data": {"color": color}});
    world.apply(&colors("red"))?;
    let hooks = json!([hook("before", "pre-install", ""), hook("after", "post-install", HANGS)]);
    world.apply_widget("a", json!({"hooks": hooks}))?;
    await_phase(&world, "a", "PostHooks")?;
    let first = uid(&world.expect("job", "a-before")?);
    world.apply(&colors("blue"))?;
    world.await_color("a-main", "blue")?;
    let widget = await_phase(&world, "a", "PostHooks")?;
    ensure!(condition(&widget, "Ready")["status"] == "False", "{widget}");
    world.await_there("job", "a-after")?;
    world.end_pods_of("a-after", "Succeeded")?;
    world.await_ready("a")?;
    ensure!(uid(&world.expect("job", "a-before")?) == first);
    Ok(())
}

#[test]
fn nothing_is_made_while_a_hook_has_an_unknown_kind() -> Result<()> {
    let world = World::new("operation-unknown")?.granted("batch", "jobs")?;
    let group = format!("{}.parts", world.name);
    world.grant("providers", &[member_rule(&group, "providers")])?;
    let operator = world.start_and_settle()?;
    let at = |weight: &str| json!({"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": weight});
    let pod = json!({"metadata": {}, "spec": {
        "containers": [{"name": "main", "image": "example/main"}], "restartPolicy": "Never",
    }});
    let objects = json!([
        {"apiVersion": format!("{group}/v1"), "kind": "Provider", "metadata": {"name": "backup", "annotations": at("0")}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "annotations": at("5")}, "spec": {"template": pod}},
    ]);
    let start = world.mark()?;
    world.apply_widget("a", json!({"extraDeploy": objects}))?;
    let parts = ["pre-install hooks wait", "Provider", "CustomResourceDefinition"];
    world.await_unready("a", "KindUnknown", &parts)?;
    world.edit("a", json!({"extraDeploy": objects, "color": "red"}))?;
    std::thread::sleep(Duration::from_secs(2));
    world.await_unready("a", "KindUnknown", &parts)?;
    world.absent("job", ["job"])?;
    world.absent("configmap", ["a-main"])?;
    world.serve(&crd(&group, "Provider"))?;
    world.await_ready("a")?;
    ensure!(jobs(&world, &operator, start, "job")? == 1, "the Job ran once");
    Ok(())
}

#[test]
fn a_failing_hook_is_retried_less_and_less_often() -> Result<()> {
    let world = World::staged("operation-backoff", &[], &[])?;
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    world.apply_widget("a", json!({"hooks": [hook("before", "pre-install", CRASHES)]}))?;
    std::thread::sleep(Duration::from_secs(20));
    // After 1 s, 2 s, 4 s and 8 s.
    let tries = jobs(&world, &operator, start, "a-before")?;
    ensure!((3..=6).contains(&tries), "{tries} attempts");
    let widget = world.live("a")?;
    ensure!(widget["status"]["failures"].as_u64() >= Some(2), "{}", widget["status"]);
    // A run in progress names the last failure.
    world.edit(
        "a",
        json!({"hooks": [hook("before", "pre-install", CRASHES)], "color": "red"}),
    )?;
    world.await_unready("a", "HookRunning", &["attempt 2", "the last one failed"])?;
    world
        .update("a", json!({"hooks": [hook("before", "pre-install", "")]}))
        .map(drop)
}

#[test]
fn a_hook_whose_pods_are_refused_says_so() -> Result<()> {
    let world = World::staged("operation-restricted", &[], &[])?;
    let _operator = world.start()?;
    let label = "pod-security.kubernetes.io/enforce=restricted";
    world.run(["label", "namespace", &world.name, label])?;
    world.apply_widget("a", json!({"hooks": [hook("before", "pre-install", "")]}))?;
    world.await_unready(
        "a",
        "HookRunning",
        &["FailedCreate", "violates PodSecurity", "a-before-..."],
    )?;
    // Members say so as well.
    let deployment = json!({"tier": "web"});
    world.apply_widget("b", json!({"hooks": [], "deployment": deployment}))?;
    world
        .await_unready("b", "Progressing", &["violates PodSecurity"])
        .map(drop)
}

#[test]
fn each_attempt_at_a_stalled_operation_ends() -> Result<()> {
    let world = World::staged("operation-stall", &["onFailure: stall", "retries: 1"], &[])?;
    let operator = world.start_and_settle()?;
    for (reason, event) in [("InstallFailed", "post-install"), ("UpgradeFailed", "post-upgrade")] {
        let hooks = json!([hook("after", event, CRASHES)]);
        let spec = json!({"hooks": hooks, "color": event});
        if event == "post-install" {
            world.apply_widget("a", spec)?;
        } else {
            world.edit("a", spec)?;
        }
        let mut before = world.await_stalled("a", reason, &["a-after", "not tried again"])?;
        for key in ["reset-at", "requested-at", "force-at"] {
            let start = world.mark()?;
            world.annotate("a", json!({(format!("chartwright.dev/{key}")): event}))?;
            until("it is tried again", SOON, || {
                Ok(jobs(&world, &operator, start, "a-after")? > 0)
            })?;
            before = world.await_stalled("a", reason, &["a-after", "not tried again"])?;
            std::thread::sleep(Duration::from_secs(5));
            let tries = jobs(&world, &operator, start, "a-after")?;
            ensure!(tries <= 2, "{key}: {tries} Jobs where 2 are due");
        }
        ensure_contains(&before, &["backoff"])?;
        let widget = world.live("a")?;
        ensure!(
            text(&widget["status"]["hooks"]["operation"]["phase"]) == "Failed",
            "{}",
            widget["status"]
        );
        world.update("a", json!({"hooks": []}))?;
    }
    Ok(())
}
