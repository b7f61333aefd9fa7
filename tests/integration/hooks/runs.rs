//! Helm's hooks: when they run, what waits for them, what becomes of them, and that no crash runs one twice.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::{HOOK_RUN, annotation, condition, ensure_contains, text, uid};
use crate::world::operator::Operator;
use crate::world::{COLLECTED, CRASHES, HANGS, SOON, World};

fn world(name: &str, keys: &[&str]) -> Result<World> {
    World::staged(name, keys, &[])
}

fn hook(name: &str, at: &str) -> Value {
    json!({"name": name, "at": at})
}

fn with(mut hook: Value, field: &str, value: Value) -> Value {
    hook[field] = value;
    hook
}

/// Waits until the status shows a hook's run in a phase. Returns the run.
fn await_run(world: &World, hook: &str, event: &str, phase: &str) -> Result<Value> {
    eventually(&format!("{event} hook {hook} is {phase}"), SOON, || {
        let widget = world.live("a")?;
        let mut runs = widget["status"]["hooks"]["runs"].as_array().into_iter().flatten();
        let found = runs.find(|run| run["name"] == hook && run["event"] == event && run["phase"] == phase);
        Ok(Some(found.with_context(|| widget["status"].to_string())?.clone()))
    })
}

/// The Job with which a hook is tried after this run.
fn await_new_job(world: &World, name: &str, former: &Value) -> Result<Value> {
    eventually("it is tried with a new Job", SOON, || {
        let job = world.get("job", name)?;
        Ok(job.filter(|job| former["uid"] != uid(job).as_str()))
    })
}

/// Has the pod of this very Job end, once there is one.
fn end_pod_of(world: &World, job: &Value, phase: &str) -> Result<()> {
    let selector = format!("batch.kubernetes.io/controller-uid={}", uid(job));
    let pod = eventually("it has a pod", SOON, || {
        let mut pods = world.list("pods", &selector)?;
        // From then on nothing but this test says how it is.
        pods.retain(|pod| pod["status"]["containerStatuses"].is_array());
        Ok(pods.pop())
    })?;
    let name = text(&pod["metadata"]["name"]);
    world
        .kubectl
        .patch_status("pod", name, &json!({"status": {"phase": phase}}))
}

fn job(world: &World, name: &str) -> Result<Value> {
    world.expect("job", name)
}

fn created(object: &Value) -> Result<jiff::Timestamp> {
    Ok(text(&object["metadata"]["creationTimestamp"]).parse()?)
}

fn ended(job: &Value) -> Result<jiff::Timestamp> {
    Ok(text(&job["status"]["completionTime"]).parse()?)
}

fn restart(world: &World, operator: Operator) -> Result<Operator> {
    operator.kill()?;
    world.start_and_settle()
}

#[test]
fn hooks_run_once_around_an_installation_and_once_around_each_upgrade() -> Result<()> {
    let world = world("hooks-order", &[])?;
    let operator = world.start()?;
    let hooks = json!([
        hook("before", "pre-install,pre-upgrade"),
        with(hook("config", "pre-install"), "kind", "ConfigMap".into()),
        hook("after", "post-install"),
        hook("upgraded", "post-upgrade"),
        hook("check", "test"),
    ]);
    let widget = world.install("a", json!({"hooks": hooks}))?;
    let first = job(&world, "a-before")?;
    let main = world.expect("configmap", "a-main")?;
    ensure!(ended(&first)? <= created(&main)?, "{first}\n{main}");
    ensure!(created(&main)? <= created(&job(&world, "a-after")?)?);
    world.expect("configmap", "a-config")?;
    ensure!(world.get("job", "a-upgraded")?.is_none() && world.get("job", "a-check")?.is_none());
    let hooks = &widget["status"]["hooks"];
    let operation = &hooks["operation"];
    ensure!(
        operation["kind"] == "install" && operation["phase"] == "Done",
        "{hooks}"
    );
    ensure!(widget["status"]["plans"][0]["name"] == "test", "{widget}");
    for name in ["a-before", "a-config", "a-after"] {
        let runs = hooks["runs"].as_array().context("there are runs")?;
        let has_run = |run: &Value| run["name"] == name && run["phase"] == "Succeeded";
        ensure!(runs.iter().any(has_run), "{name}: {hooks}");
    }

    // Neither drift, a restart nor a user's request runs a hook again, and changes to hooks are no drift.
    world.paint("a-main", "by hand")?;
    world.await_color("a-main", "blue")?;
    world.kubectl.delete("job", "a-after")?;
    world.annotate("a", json!({"chartwright.dev/requested-at": "now"}))?;
    world.await_ready("a")?;
    let operator = restart(&world, operator)?;
    ensure!(uid(&job(&world, "a-before")?) == uid(&first) && world.get("job", "a-after")?.is_none());

    let widget = world.update("a", json!({"color": "red"}))?;
    let second = job(&world, "a-before")?;
    ensure!(uid(&second) != uid(&first), "{second}");
    job(&world, "a-upgraded")?;
    ensure!(widget["status"]["hooks"]["operation"]["kind"] == "upgrade", "{widget}");
    world.await_color("a-main", "red")?;

    // A Job that the chart drops goes; what else hooks made may be needed, and goes with the release.
    world.update("a", json!({"hooks": []}))?;
    for name in ["a-before", "a-upgraded"] {
        world.await_gone("job", name)?;
    }
    world.expect("configmap", "a-config")?;
    world.await_quiet(&operator)?;
    world.delete("a")?;
    world.await_gone("configmap", "a-config")
}

#[test]
fn a_failed_hook_changes_no_members_and_is_retried() -> Result<()> {
    let world = world("hooks-failed", &[])?;
    let _operator = world.start()?;
    world.install("a", json!({"hooks": []}))?;
    let failing = with(hook("migrate", "pre-upgrade"), "pod", json!({CRASHES: "true"}));
    world.edit("a", json!({"color": "red", "hooks": [failing]}))?;
    let run = await_run(&world, "a-migrate", "pre-upgrade", "Failed")?;
    let widget = world.live("a")?;
    let ready = condition(&widget, "Ready");
    ensure!(ready["reason"] == "HookFailed", "{ready}");
    ensure_contains(text(&ready["message"]), &["pre-upgrade hook Job a-migrate", "backoff"])?;
    world.await_event("a", "HookFailed", &["a-migrate"])?;
    let again = await_new_job(&world, "a-migrate", &run)?;
    let again = annotation(&again, HOOK_RUN);
    ensure!(again != run["run"].as_str(), "{again:?}");
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "blue");

    let widget = world.update("a", json!({"hooks": [hook("migrate", "pre-upgrade")]}))?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    ensure!(widget["status"]["release"]["revision"] == 2, "{widget}");
    Ok(())
}

#[test]
fn a_hanging_hook_delays_no_other_release_and_a_newer_edit_ends_it() -> Result<()> {
    let world = world("hooks-hanging", &["maxConcurrentReconciles: 1"])?;
    let _operator = world.start()?;
    let hanging = with(hook("wait", "pre-install"), "pod", json!({HANGS: "true"}));
    world.apply(&world.widget("a", json!({"hooks": [hanging]})))?;
    let run = await_run(&world, "a-wait", "pre-install", "Running")?;
    world.install("b", json!({}))?;
    ensure!(world.get("configmap", "a-main")?.is_none());
    world.update("a", json!({"hooks": [hook("other", "pre-install")]}))?;
    world.await_gone("job", "a-wait")?;
    job(&world, "a-other")?;

    // One that takes too long has failed.
    let late = with(hook("late", "pre-upgrade"), "pod", json!({HANGS: "true"}));
    let late = with(late, "annotations", json!({"chartwright.dev/timeout": "1s"}));
    world.edit("a", json!({"hooks": [late]}))?;
    let failed = await_run(&world, "a-late", "pre-upgrade", "Failed")?;
    ensure_contains(text(&failed["message"]), &["did not end within 1s"])?;
    ensure!(text(&run["run"]).starts_with("pre-install.1.1."), "{run}");
    ensure!(text(&failed["run"]).starts_with("pre-upgrade.2.1."), "{failed}");
    // It doesn't keep the release from going.
    world.delete("a")
}

#[test]
fn a_running_hook_continues_after_a_crash() -> Result<()> {
    let world = world("hooks-crash", &[])?;
    let mut operator = world.start()?;
    let slow = with(hook("slow", "pre-install"), "pod", json!({HANGS: "true"}));
    world.apply(&world.widget("a", json!({"hooks": [slow, hook("after", "post-install")]})))?;
    let running = await_run(&world, "a-slow", "pre-install", "Running")?;
    operator = restart(&world, operator)?;
    await_run(&world, "a-slow", "pre-install", "Running")?;
    ensure!(running["uid"] == uid(&job(&world, "a-slow")?).as_str());
    // It ends while no operator runs.
    operator.kill()?;
    world.end_pods_of("a-slow", "Succeeded")?;
    world.kubectl.wait("Complete", "job", "a-slow", SOON)?;
    let _operator = world.start()?;
    world.await_ready("a")?;
    ensure!(running["uid"] == uid(&job(&world, "a-slow")?).as_str(), "it ran twice");
    job(&world, "a-after").map(drop)
}

#[test]
fn a_hook_removed_by_its_ttl_succeeded_only_if_its_end_was_seen() -> Result<()> {
    let world = world("hooks-ttl", &[])?;
    let operator = world.start()?;
    let short = |hook: Value| with(hook, "ttl", 1.into());
    let first = short(hook("first", "pre-install"));
    world.install("a", json!({"hooks": [first]}))?;
    world.await_gone("job", "a-first")?;
    world.await_quiet(&operator)?;
    let done = await_run(&world, "a-first", "pre-install", "Succeeded")?;
    ensure!(done["ttl"].is_null(), "{done}");

    // It fails while no operator runs, for longer than its TTL.
    let migrate = with(short(hook("migrate", "pre-upgrade")), "pod", json!({HANGS: "true"}));
    world.edit("a", json!({"color": "red", "hooks": [first, migrate]}))?;
    let run = await_run(&world, "a-migrate", "pre-upgrade", "Running")?;
    operator.kill()?;
    end_pod_of(&world, &job(&world, "a-migrate")?, "Failed")?;
    world.kubectl.wait("Failed", "job", "a-migrate", SOON)?;
    std::thread::sleep(Duration::from_secs(3));
    job(&world, "a-migrate")?;
    let _operator = world.start()?;
    await_new_job(&world, "a-migrate", &run)?;
    world.await_event("a", "HookFailed", &["a-migrate", "backoff"])?;

    // A user deletes it while it runs.
    let run = await_run(&world, "a-migrate", "pre-upgrade", "Running")?;
    world.kubectl.delete("job", "a-migrate")?;
    world.await_event("a", "HookFailed", &["a-migrate", "was deleted before"])?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "blue");

    // It is tried until it succeeds, and then goes; what had succeeded doesn't run again.
    let last = await_new_job(&world, "a-migrate", &run)?;
    end_pod_of(&world, &last, "Succeeded")?;
    let widget = world.await_ready("a")?;
    world.await_color("a-main", "red")?;
    world.await_gone("job", "a-migrate")?;
    let mut runs = widget["status"]["hooks"]["runs"].as_array().into_iter().flatten();
    ensure!(runs.any(|run| run["run"] == done["run"]), "{widget}");
    world.absent("job", ["a-first"])
}

#[test]
fn delete_policies_of_hooks_are_followed() -> Result<()> {
    let world = world("hooks-policies", &["timeout: 2s"])?;
    let _operator = world.start()?;
    let policy = |hook: Value, policy: &str| with(hook, "annotations", json!({"helm.sh/hook-delete-policy": policy}));
    let map = with(hook("map", "pre-install"), "kind", "ConfigMap".into());
    let hooks = json!([
        policy(hook("gone", "pre-install"), "hook-succeeded"),
        policy(hook("stays", "pre-install"), "hook-failed"),
        policy(map, "hook-succeeded"),
    ]);
    world.install("a", json!({"hooks": hooks}))?;
    world.absent("job", ["a-gone"])?;
    world.absent("configmap", ["a-map"])?;
    job(&world, "a-stays")?;
    let failing = with(hook("fails", "pre-upgrade"), "pod", json!({CRASHES: "true"}));
    let failing = policy(failing, "hook-failed");
    world.edit("a", json!({"hooks": [failing], "color": "red"}))?;
    await_run(&world, "a-fails", "pre-upgrade", "Failed")?;
    // The watch's time-out is for all of them; and what waits for health doesn't begin before.
    let healthy = json!({"chartwright.dev/after": "healthy"});
    let after = with(hook("after", "post-upgrade"), "annotations", healthy);
    let late = with(hook("late", "post-upgrade"), "pod", json!({HANGS: "true"}));
    world.edit("a", json!({"hooks": [after], "deployment": {HANGS: "true"}}))?;
    world.await_object("deployment", "a-web", "is there", |_| true)?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(world.get("job", "a-after")?.is_none());
    world.update("a", json!({"deployment": {HANGS: null, "ready": "yes"}}))?;
    job(&world, "a-after")?;
    world.edit("a", json!({"hooks": [late], "color": "green"}))?;
    let failed = await_run(&world, "a-late", "post-upgrade", "Failed")?;
    ensure_contains(text(&failed["message"]), &["did not end within 2s"])?;
    // After everything is applied.
    world.await_color("a-main", "green").map(drop)
}

#[test]
fn the_last_log_lines_of_a_hook_are_reported_redacted() -> Result<()> {
    let source = "valuesFrom: [{kind: Secret, name: token, valuesKey: color, targetPath: color}]";
    let world = world("hooks-log", &[source])?;
    let logs = json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]});
    world.grant("logs", &[logs])?;
    let operator = world.start()?;
    let color = json!({"color": "Logged-secret-1d7f"});
    world.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": color}))?;
    let logged = with(
        hook("logged", "pre-install"),
        "annotations",
        json!({"helm.sh/hook-output-log-policy": "hook-succeeded"}),
    );
    world.install("a", json!({"hooks": [logged, hook("silent", "post-install")]}))?;
    let last = ["line 4", "line 12", "signed in with [redacted]"];
    world.await_event(
        "a",
        "HookSucceeded",
        &["pre-install hook Job a-logged succeeded", last[1], last[2]],
    )?;
    let failing = with(hook("fails", "pre-upgrade"), "pod", json!({CRASHES: "true"}));
    world.edit("a", json!({"hooks": [failing]}))?;
    world.await_unready("a", "HookFailed", &last)?;
    world.await_event("a", "HookFailed", &last)?;
    let events = format!("{:?}", world.events("a")?);
    ensure!(!events.contains("line 3") && !events.contains("a-silent"), "{events}");
    for text in [
        events,
        operator.log(),
        world.expect(&world.widgets(), "a")?["status"].to_string(),
    ] {
        ensure!(!text.contains("Logged-secret"), "{text}");
    }
    Ok(())
}

#[test]
fn foreign_objects_with_a_hooks_name_are_not_read() -> Result<()> {
    let world = World::new("hooks-foreign")?
        .granted("batch", "jobs")?
        .granted("", "pods")?;
    let logs = json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]});
    world.grant("logs", &[logs])?;
    let containers = json!([{"name": "main", "image": "example/main"}]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs"},
        "spec": {"containers": containers, "restartPolicy": "Never"},
    });
    let template = json!({"metadata": {"labels": {CRASHES: "true"}}, "spec": pod["spec"]});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "theirs"},
        "spec": {"backoffLimit": 0, "template": template},
    });
    let _operator = world.start()?;
    for (name, mut object) in [("a", pod), ("b", job)] {
        world.apply(&object)?;
        if name == "b" {
            world.kubectl.wait("Failed", "job", "theirs", SOON)?;
        }
        object["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-install"});
        world.apply_widget(name, json!({"extraDeploy": [object]}))?;
        let ready = world.await_unready(name, "HookFailed", &["theirs is left untouched", "exists already"])?;
        let output = format!("{ready}{:?}{}", world.events(name)?, world.live(name)?["status"]);
        ensure!(!output.contains("its log") && !output.contains("signed in"), "{output}");
    }
    Ok(())
}

#[test]
fn a_hook_waits_while_its_previous_job_is_still_being_deleted() -> Result<()> {
    // Time enough for a Job on a busy machine, and less than what it waits for the removal.
    let world = world("hooks-owed", &["timeout: 10s", "onFailure: stall"])?;
    let _operator = world.start()?;
    world.install("a", json!({"hooks": [hook("first", "pre-install,pre-upgrade")]}))?;
    let first = job(&world, "a-first")?;
    let pods = world.list("pods", &format!("batch.kubernetes.io/controller-uid={}", uid(&first)))?;
    let pod = text(&pods.first().context("it had a pod")?["metadata"]["name"]);
    // The garbage collector waits for the pod, as it does for nothing while it reads discovery.
    world.hold("pod", pod)?;
    world.edit("a", json!({"color": "red"}))?;
    let parts = [
        "pre-upgrade hook Job a-first: waiting until",
        "a-first, which an earlier run left",
        "garbage collector",
    ];
    world.await_unready("a", "HookRunning", &parts)?;
    std::thread::sleep(Duration::from_secs(12));
    world.await_unready("a", "HookRunning", &parts)?;
    let output = format!("{:?}", world.events("a")?);
    ensure!(
        !output.contains("HookFailed") && !output.contains("UpgradeFailed"),
        "{output}"
    );
    ensure!(uid(&job(&world, "a-first")?) == uid(&first));
    world.remove_finalizers("pod", pod)?;
    eventually("the upgrade is over", COLLECTED, || {
        let ready = condition(&world.live("a")?, "Ready");
        ensure!(ready["status"] == "True", "{ready}");
        Ok(Some(()))
    })?;
    world.await_color("a-main", "red")?;
    ensure!(uid(&job(&world, "a-first")?) != uid(&first));
    Ok(())
}

#[test]
fn a_terminating_namespace_does_not_wait_for_hooks_that_cannot_run() -> Result<()> {
    let world = world("hooks-namespace", &[])?;
    let operator = world.start()?;
    let elsewhere = world.kubectl.create_namespace("hooks-namespace-2")?;
    let hooks = json!([hook("bye", "pre-delete"), hook("gone", "post-delete")]);
    let mut widget = world.widget("a", json!({"hooks": hooks}));
    widget["metadata"]["namespace"] = "hooks-namespace-2".into();
    elsewhere.apply(&widget.to_string())?;
    elsewhere.wait("Ready", &world.widgets(), "a", SOON)?;
    world.kubectl.begin_delete("namespace", "hooks-namespace-2")?;
    eventually("the namespace is gone", Duration::from_secs(60), || {
        let space = world.get("namespace", "hooks-namespace-2")?;
        ensure!(space.is_none(), "{space:?}\n{}", operator.log());
        Ok(Some(()))
    })
}

#[test]
fn hooks_added_after_a_failed_install_are_run() -> Result<()> {
    let world = world("hooks-late", &[])?;
    let _operator = world.start()?;
    world.apply_widget("a", json!({"hooks": [], "deployment": {"team": "no label!"}}))?;
    world.await_unready("a", "ObjectInvalid", &["a-web"])?;
    world.expect("configmap", "a-main")?;
    world.update(
        "a",
        json!({"hooks": [hook("first", "pre-install")], "deployment": null}),
    )?;
    job(&world, "a-first").map(drop)
}

#[test]
fn forged_delete_hooks_are_not_run() -> Result<()> {
    let world = world("hooks-forged", &[])?;
    let _operator = world.start()?;
    let widget = world.install("a", json!({"hooks": [hook("bye", "pre-delete")]}))?;
    let other = world.install("b", json!({"hooks": [hook("forged", "pre-delete")]}))?;
    let secret = |widget: &Value| format!("chartwright-hooks-{}", uid(widget));
    let forged = world.expect("secret", &secret(&other))?["data"].clone();
    world.patch("secret", &secret(&widget), &json!({"data": forged}))?;
    world.delete("a")?;
    world.absent("job", ["a-bye", "b-forged"])
}

#[test]
fn a_deletion_runs_the_stored_hooks_without_the_chart() -> Result<()> {
    let world = world("hooks-delete", &["timeout: 3s"])?;
    let operator = world.start()?;
    let hooks = json!([hook("bye", "pre-delete"), hook("gone", "post-delete")]);
    let widget = world.install("a", json!({"hooks": hooks}))?;
    ensure!(world.expect("configmap", "a-main")?["metadata"]["ownerReferences"].is_null());
    let secret = format!("chartwright-hooks-{}", uid(&widget));
    world.expect("secret", &secret)?;
    let hanging = with(hook("bye", "pre-delete"), "pod", json!({HANGS: "true"}));
    let before = json!([hanging]);
    world.install("b", json!({"hooks": before}))?;
    world.await_quiet(&operator)?;
    operator.terminate()?;
    world.write_watches_of(&[("Widget", Path::new("/nowhere"), &["timeout: 3s"])])?;
    let start = world.mark()?;
    let operator = world.start()?;
    world.delete("a")?;
    let requests = world.all_requests(&operator, start)?;
    let position = |verb: &str, name: &str| {
        let found = requests
            .iter()
            .position(|request| request.verb == verb && request.name == name);
        found.with_context(|| format!("{verb} {name}:\n{requests}"))
    };
    let bye = position("patch", "a-bye")?..position("delete", "a-main")?;
    let gone = position("patch", "a-gone")?..position("delete", "a-gone")?;
    ensure!(bye.start <= bye.end, "{requests}");
    ensure!(bye.end <= gone.start, "{requests}");
    ensure!(gone.start <= gone.end, "{requests}");
    for (kind, name) in [("job", "a-bye"), ("job", "a-gone"), ("secret", secret.as_str())] {
        world.await_gone(kind, name)?;
    }
    // It waits for as long as the hook may take, says that it goes on, and leaves nothing.
    world.delete("b")?;
    world.await_event("b", "HookGivenUp", &["b-bye"])?;
    world.await_gone("job", "b-bye")
}
