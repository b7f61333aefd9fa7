//! Rules of a watch that do something by themselves about a release that isn't well: when, how often, and when not.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::{eventually, until};
use crate::world::fields::{text, uid};
use crate::world::{SOON, World};

const BAD: &str = "members.ConfigMap['a-main'].data.state == 'bad'";

fn world(name: &str, action: &str) -> Result<World> {
    let rule = format!("remediation:\n- name: repair\n  when: {BAD}\n  {action}");
    World::staged(name, &[&rule], &[("apps", "deployments")])
}

fn become_state(world: &World, state: &str) -> Result<()> {
    world.patch("configmap", "a-main", &json!({"data": {"state": state}}))
}

/// Waits until a predicate holds for the rule's status. Returns that status.
fn await_remediation(world: &World, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually(what, SOON, || {
        let entry = world.live("a")?["status"]["remediation"][0].clone();
        ensure!(holds(&entry), "{entry}");
        Ok(Some(entry))
    })
}

fn plan_runs(world: &World) -> Result<Value> {
    Ok(world.live("a")?["status"]["plans"][0]["count"].clone())
}

#[test]
fn a_plan_repairs_a_member_after_the_unhealthy_period() -> Result<()> {
    let world = world(
        "remediation-plan",
        "for: 1s\n  do: {plan: repair, params: {label: rule}}",
    )?;
    let operator = world.start()?;
    world.install(
        "a",
        json!({"hooks": [{"name": "fix", "at": "plan-repair", "kind": "ConfigMap"}]}),
    )?;
    become_state(&world, "bad")?;
    become_state(&world, "good")?;
    sleep(Duration::from_millis(1500));
    ensure!(plan_runs(&world)? == 0, "it did not last");
    become_state(&world, "bad")?;
    world.await_event("a", "Remediated", &["rule repair: plan repair is run", BAD])?;
    let entry = await_remediation(&world, "it was done once", |entry| entry["count"] == 1)?;
    ensure!(entry["name"] == "repair" && !entry["last"].is_null(), "{entry}");
    let fixed = world.await_there("configmap", "a-fix")?;
    ensure!(fixed["data"]["label"] == "rule", "{fixed}");
    // It is as bad as before: not again before it has cooled down, nor after a restart.
    world.await_event("a", "RemediationHeld", &["the last time is less than 600s ago"])?;
    let operator = world.restart(operator)?;
    sleep(Duration::from_millis(1500));
    ensure!(plan_runs(&world)? == 1);
    await_remediation(&world, "it is held", |entry| {
        text(&entry["message"]).contains("600s ago")
    })?;
    become_state(&world, "good")?;
    await_remediation(&world, "it is well", |entry| {
        entry["since"].is_null() && entry["message"].is_null()
    })?;
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 1.0)
}

#[test]
fn a_member_is_recreated_within_the_budget() -> Result<()> {
    let action = "do: {recreate: {kind: Deployment, name: '{{ .metadata.name }}-web'}}\n  budget: 1\n  coolDown: 1s";
    let world = world("remediation-recreate", action)?;
    let _operator = world.start()?;
    let widget = world.install("a", json!({"deployment": {"tier": "web"}}))?;
    let before = uid(&world.expect("deployment", "a-web")?);
    become_state(&world, "bad")?;
    world.await_event("a", "Remediated", &["Deployment a-web is recreated"])?;
    let is_new = |object: &Value| !uid(object).is_empty() && uid(object) != before;
    let second = world.await_object("deployment", "a-web", "recreated", is_new)?;
    await_remediation(&world, "the budget is spent", |entry| {
        text(&entry["message"]).contains("it was done 1 times within an hour")
    })?;
    ensure!(uid(&world.expect("deployment", "a-web")?) == uid(&second), "only once");
    become_state(&world, "good")?;
    let ready = world.await_ready("a")?;
    ensure!(
        ready["status"]["release"]["revision"] == widget["status"]["release"]["revision"],
        "it is no upgrade"
    );
    Ok(())
}

#[test]
fn remediation_does_not_compete_with_other_controllers() -> Result<()> {
    let world = world(
        "remediation-quiet",
        "do: {recreate: {kind: Deployment, name: a-web}}\n  coolDown: 1s",
    )?;
    let world = world.granted("autoscaling", "horizontalpodautoscalers")?;
    let _operator = world.start()?;
    world.install("a", json!({"deployment": {"tier": "web"}}))?;
    let before = uid(&world.expect("deployment", "a-web")?);
    // A user works on it by hand.
    world.suspend("a")?;
    become_state(&world, "bad")?;
    sleep(Duration::from_millis(1500));
    ensure!(world.live("a")?["status"]["remediation"][0]["since"].is_null());
    world.patch("deployment", "a-web", &json!({"spec": {"paused": true}}))?;
    world.annotate("a", json!({"chartwright.dev/suspend": null}))?;
    await_remediation(&world, "it is paused", |entry| {
        text(&entry["message"]).contains("is suspended")
    })?;
    world.run(["autoscale", "deployment", "a-web", "--max=9", "--min=1", "--cpu=80%"])?;
    world.patch("deployment", "a-web", &json!({"spec": {"paused": null}}))?;
    await_remediation(&world, "an autoscaler's work would be lost", |entry| {
        text(&entry["message"]).contains("sets the replicas")
    })?;
    let left = json!({"metadata": {"annotations": {"chartwright.dev/reconcile": "disabled"}}});
    world.patch("deployment", "a-web", &left)?;
    await_remediation(&world, "a user excludes it", |entry| {
        text(&entry["message"]).contains("is to be left as it is")
    })?;
    ensure!(uid(&world.expect("deployment", "a-web")?) == before);
    Ok(())
}

#[test]
fn a_dry_run_reports_the_remediation_it_skips() -> Result<()> {
    let world = world(
        "remediation-dry",
        "do: {recreate: {kind: Deployment, name: a-web}}\n  dryRun: true",
    )?;
    let _operator = world.start()?;
    world.install("a", json!({"deployment": {"tier": "web"}}))?;
    let before = uid(&world.expect("deployment", "a-web")?);
    become_state(&world, "bad")?;
    world.await_event("a", "RemediationDue", &["Deployment a-web would be recreated"])?;
    ensure!(uid(&world.expect("deployment", "a-web")?) == before);
    Ok(())
}

#[test]
fn a_refused_remediation_uses_up_no_budget() -> Result<()> {
    let action = "do: {recreate: {kind: ConfigMap, name: a-main}}\n  budget: 1\n  coolDown: 1h";
    for dry_run in [true, false] {
        let keys = if dry_run {
            format!("{action}\n  dryRun: true")
        } else {
            action.to_owned()
        };
        let world = world(&format!("remediation-refused-{dry_run}"), &keys)?;
        let _operator = world.start()?;
        world.install("a", json!({}))?;
        world.deny_writes("DELETE", "false", "ConfigMaps stay")?;
        let probe = || world.run(["delete", "configmap", "a-main", "--dry-run=server"]);
        until("the policy is at work", SOON, || Ok(probe().is_err()))?;
        become_state(&world, "bad")?;
        let held = await_remediation(&world, "the policy's words", |entry| {
            text(&entry["message"]).contains("ConfigMaps stay")
        })?;
        ensure!(held["count"].is_null() && held["recent"].is_null(), "{held}");
        ensure!(held["operation"]["failures"].as_u64() >= Some(1), "{held}");
        world.await_event("a", "RemediationHeld", &["ConfigMaps stay"])?;
        // The reason stays while the operator waits.
        sleep(Duration::from_secs(2));
        await_remediation(&world, "the policy's words stay", |entry| {
            text(&entry["message"]).contains("ConfigMaps stay")
        })?;
        world.allow_writes()?;
        let reason = if dry_run { "RemediationDue" } else { "Remediated" };
        eventually("it is done once it may be", Duration::from_secs(60), || {
            let events = world.events("a")?;
            Ok(events.into_iter().find(|(found, _)| found == reason))
        })?;
    }
    Ok(())
}

#[test]
fn remediation_that_is_impossible_is_reported() -> Result<()> {
    for (name, action, why) in [
        ("plan", "do: {plan: nowhere}", "the chart has no plan nowhere"),
        (
            "member",
            "do: {recreate: {kind: Deployment, name: none}}",
            "the release has no Deployment none",
        ),
    ] {
        let name = format!("remediation-no-{name}");
        let rule = format!("remediation:\n- name: repair\n  when: {BAD}\n  {action}");
        let world = World::staged(&name, &[&rule], &[])?;
        let _operator = world.start()?;
        world.install("a", json!({}))?;
        become_state(&world, "bad")?;
        await_remediation(&world, why, |entry| text(&entry["message"]).contains(why))?;
        world.await_ready("a")?;
    }
    Ok(())
}
