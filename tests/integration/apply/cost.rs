//! What an operator asks of the API server, counted from its audit log.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::{eventually, until};
use crate::world::fields::{is_ready, versions};
use crate::world::operator::METERED;
use crate::world::{SOON, World, annotated_map, config_map};

#[test]
fn an_unchanged_release_makes_no_request() -> Result<()> {
    let world = World::new("cost-idle")?.watch_key("reconcilePeriod: 2s");
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"extra": ["one"], "deployment": {"enabled": true}}))?;
    world.install("b", json!({}))?;
    world.await_quiet(&operator)?;
    let (before, rendered) = (operator.reconciles(), operator.renders()?);

    let start = world.mark()?;
    world.ensure_no_requests(&operator, 6.0)?;
    let later = operator.reconciles();
    // The resync period is 2 s.
    ensure!(later >= before + 4, "nothing was looked at: {before}, then {later}");
    ensure!(operator.renders()? == rendered, "rendered although nothing changed");
    let watches = world.all_requests(&operator, start)?.verb("watch");
    ensure!(watches.len() <= 3, "watches restart all the time:\n{watches}");

    // Nor does what leaves the release as it is: a foreign label on the custom resource, the same spec once more.
    let start = world.mark()?;
    world.patch_widget("a", &json!({"metadata": {"labels": {"team": "x"}}}))?;
    world.edit("a", json!({"extra": ["one"]}))?;
    std::thread::sleep(Duration::from_secs(1));
    world.requests(&operator, start)?.none()
}

#[test]
fn many_new_releases_read_nothing_and_still_find_collisions() -> Result<()> {
    let world = World::new("cost-burst")?;
    let releases = 60;
    let names = || (0..releases).map(|n| format!("w{n}"));
    // None of its fields is one of the chart's: an apply would meet no conflict.
    let mut theirs = config_map("w30-two", json!({"theirs": "stays"}));
    theirs["immutable"] = false.into();
    world.apply(&theirs)?;
    let theirs = world.expect("configmap", "w30-two")?["metadata"]["resourceVersion"].clone();
    let widgets: Vec<String> = names()
        .map(|name| world.widget(&name, json!({"extra": ["one", "two"]})).to_string())
        .collect();
    world.kubectl.apply(&widgets.join("\n---\n"))?;
    let start = world.mark()?;
    let operator = world.start()?;
    world.await_stalled("w30", "Collision", &["ConfigMap", "w30-two"])?;
    until("the others are ready", SOON, || {
        let widgets = world.list(&world.widgets(), "")?;
        Ok(widgets.iter().filter(|widget| is_ready(widget)).count() == releases - 1)
    })?;
    let now = world.expect("configmap", "w30-two")?;
    ensure!(now["metadata"]["resourceVersion"] == theirs, "it was touched: {now}");
    let requests = world.requests(&operator, start)?.resource("configmaps");
    // The watch begins with a list; the others look at what is in the way, now and again.
    let looks = requests.clone().verb("get").len() + requests.clone().verb("list").len();
    ensure!(looks < 10, "{looks} looks:\n{requests}");
    ensure!(requests.verb("patch").len() == 3 * releases);
    Ok(())
}

#[test]
fn a_release_costs_only_the_requests_of_its_change() -> Result<()> {
    let world = World::new("cost-write")?;
    let operator = world.start()?;
    // The first release starts the watches that the others share.
    world.install("a", json!({}))?;
    world.await_quiet(&operator)?;

    let start = world.mark()?;
    world.install("b", json!({"extra": ["one", "two"]}))?;
    let requests = world.requests_until_quiet(&operator, start)?;
    requests.are("create events, 3 patch configmaps, patch widgets, patch widgets/status")?;
    // A member before the finalizer would be left behind if the custom resource were deleted now.
    let first = requests.clone().writes();
    let begins = first.iter().next().map(|write| write.resource.as_str());
    ensure!(begins == Some("widgets"), "{first}");

    let start = world.mark()?;
    world.update("b", json!({"color": "red"}))?;
    let requests = world.requests_until_quiet(&operator, start)?;
    requests.are("create events, patch configmaps, patch widgets/status")?;

    let start = world.mark()?;
    world.paint("b-main", "pink")?;
    world.await_color("b-main", "red")?;
    let requests = world.requests_until_quiet(&operator, start)?;
    // A correction, after a look at which field it is and who changed it.
    let corrections = requests.clone().resource("configmaps").writes();
    ensure!(corrections.len() == 1 && requests.len() <= 4, "{requests}");
    Ok(())
}

#[test]
fn a_restart_only_lists_and_watches() -> Result<()> {
    let world = World::new("cost-restart")?;
    let operator = world.start()?;
    let names = ["a", "b", "c", "d", "e"];
    let spec = |name: &str| json!({"extra": ["one"], "deployment": {"enabled": name == "a"}});
    world.install_all(&names, spec)?;
    world.await_quiet(&operator)?;
    let objects = || world.list(&format!("configmaps,deployments,{}", world.widgets()), "");
    let before = versions(&objects()?);
    ensure!(operator.terminate()?.success());

    let start = world.mark()?;
    let operator = world.launch(&METERED)?;
    operator.await_log("watching")?;
    std::thread::sleep(Duration::from_secs(2));
    let requests = world.requests_until_quiet(&operator, start)?;
    requests.clone().writes().none()?;
    let reads = requests.filter(|request| request.verb == "get" && !request.resource.is_empty());
    ensure!(reads.iter().all(|read| read.resource == "secrets"), "{reads}");
    ensure!(versions(&objects()?) == before);
    ensure!(operator.renders()? == 0.0);
    ensure!(operator.metric("chartwright_reconcile_total")? > 0.0);

    // Awake all the same.
    world.update("c", json!({"color": "red"}))?;
    ensure!(operator.renders()? > 0.0);
    world.kubectl.delete("configmap", "d-one")?;
    world.await_there("configmap", "d-one").map(drop)
}

/// Why a pod isn't ready is looked up, not watched: a new process must not report less than the one before.
#[test]
fn a_restart_while_members_are_unhealthy_applies_nothing() -> Result<()> {
    let world = World::new("cost-unhealthy")?;
    let operator = world.start()?;
    let failing = json!({"enabled": true, "failing": true});
    // What comes later waits for the Deployment, so that not all is applied.
    let later = [annotated_map("{{ .Release.Name }}-later", "chartwright.dev/wave", "1")];
    let mut names: Vec<String> = (0..8).map(|n| format!("w{n}")).collect();
    for name in &names {
        world.apply_widget(name, json!({"extra": ["one"], "deployment": failing}))?;
    }
    names.push("waves".to_owned());
    world.apply_widget("waves", json!({"extraDeploy": later, "deployment": failing}))?;
    let await_reason = |name: &str, what: &str| {
        eventually(&format!("{name}: {what}"), SOON, || {
            let ready = world.await_condition(name, "Ready", "False")?;
            ensure!(ready["message"].to_string().contains(what), "{ready}");
            Ok(Some(()))
        })
    };
    for name in &names {
        let what = match name.as_str() {
            "waves" => "Deployment waves",
            _ => "ImagePullBackOff",
        };
        await_reason(name, what)?;
    }
    // Of a change that never got ready, either.
    world.edit("w0", json!({"color": "red"}))?;
    await_reason("w0", "ImagePullBackOff")?;
    world.await_quiet(&operator)?;
    let objects = || world.list(&format!("configmaps,deployments,{}", world.widgets()), "");
    let before = versions(&objects()?);
    ensure!(operator.terminate()?.success());

    let start = world.mark()?;
    let operator = world.start()?;
    operator.await_log("watching")?;
    // Longer than it takes until the pods of what has just begun are looked at.
    std::thread::sleep(Duration::from_secs(8));
    let requests = world.requests_until_quiet(&operator, start)?;
    ensure!(!requests.clone().resource("pods").is_empty(), "{requests}");
    requests.writes().none()?;
    ensure!(versions(&objects()?) == before);
    Ok(())
}
