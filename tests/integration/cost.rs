//! What an operator asks of the API server, counted from its audit log.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::look::{is_ready, versions};
use crate::operator::METERED;
use crate::support::{Requests, eventually};
use crate::world::{SOON, World, annotated_map};

/// `verb resource/subresource`, sorted.
fn kinds(requests: &Requests) -> Vec<String> {
    let mut kinds: Vec<String> = requests
        .iter()
        .map(|request| format!("{} {}/{}", request.verb, request.resource, request.subresource))
        .map(|kind| kind.trim_end_matches('/').to_owned())
        .collect();
    kinds.sort();
    kinds
}

#[test]
fn an_unchanged_release_makes_no_request() -> Result<()> {
    let world = World::new("cost-idle")?.watch_key("reconcilePeriod: 2s");
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"extra": ["one"], "deployment": {"enabled": true}}))?;
    world.install("b", json!({}))?;
    world.await_quiet(&operator)?;
    let (before, rendered) = (operator.reconciles(), operator.renders()?);

    let start = world.mark()?;
    world.asks_nothing(&operator, 6.0)?;
    let later = operator.reconciles();
    ensure!(
        later >= before + 4,
        "the resync period is 2 s, and nothing was looked at: {before}, then {later}"
    );
    ensure!(operator.renders()? == rendered, "rendered although nothing changed");
    let watches = world.all_requests(&operator, start)?.verb("watch");
    ensure!(watches.len() <= 3, "watches begin anew all the time:\n{watches}");

    // Nor does what leaves the release as it is: a foreign label on the custom resource, the same spec once more.
    let start = world.mark()?;
    world.patch(&world.widgets(), "a", &json!({"metadata": {"labels": {"team": "x"}}}))?;
    world.edit("a", json!({"extra": ["one"]}))?;
    std::thread::sleep(Duration::from_secs(1));
    let requests = world.requests(&operator, start)?;
    ensure!(requests.is_empty(), "{requests}");
    Ok(())
}

#[test]
fn many_new_releases_look_at_nothing_and_still_find_what_is_in_the_way() -> Result<()> {
    let world = World::new("cost-burst")?;
    let releases = 60;
    let names = || (0..releases).map(|n| format!("w{n}"));
    // None of its fields is one of the chart's: an apply would meet no conflict.
    world.kubectl.apply(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: w30-two}, data: {theirs: stays}, immutable: false}",
    )?;
    let theirs = world.expect("configmap", "w30-two")?["metadata"]["resourceVersion"].clone();
    let widgets: Vec<String> = names()
        .map(|name| world.widget(&name, json!({"extra": ["one", "two"]})).to_string())
        .collect();
    world.kubectl.apply(&widgets.join("\n---\n"))?;
    let start = world.mark()?;
    let operator = world.start()?;
    world.await_stalled("w30", "Collision", &["ConfigMap", "w30-two"])?;
    eventually("the others are ready", SOON, || {
        let widgets = world.list(&world.widgets(), "")?;
        Ok((widgets.iter().filter(|widget| is_ready(widget)).count() == releases - 1).then_some(()))
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
fn a_release_costs_what_changes_and_no_more() -> Result<()> {
    let world = World::new("cost-write")?;
    let operator = world.start()?;
    // The first release starts the watches that the others share.
    world.install("a", json!({}))?;
    world.await_quiet(&operator)?;

    let start = world.mark()?;
    world.install("b", json!({"extra": ["one", "two"]}))?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    let expected = [
        "create events",
        "patch configmaps",
        "patch configmaps",
        "patch configmaps",
        "patch widgets",
        "patch widgets/status",
    ];
    ensure!(kinds(&requests) == expected, "{requests}");
    let first = requests.clone().writes();
    ensure!(
        first.iter().next().is_some_and(|write| write.resource == "widgets"),
        "a member before the finalizer: whoever deletes the custom resource now leaves it behind\n{first}"
    );

    let start = world.mark()?;
    world.update("b", json!({"color": "red"}))?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(
        kinds(&requests) == ["create events", "patch configmaps", "patch widgets/status"],
        "an edit:\n{requests}"
    );

    let start = world.mark()?;
    world.paint("b-main", "pink")?;
    world.await_color("b-main", "red")?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(
        requests.clone().resource("configmaps").writes().len() == 1 && requests.len() <= 4,
        "a correction, after a look at which field it is and who changed it:\n{requests}"
    );
    Ok(())
}

#[test]
fn a_restart_lists_and_watches_and_does_nothing_else() -> Result<()> {
    let world = World::new("cost-restart")?;
    let operator = world.start()?;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        world.apply_widget(name, json!({"extra": ["one"], "deployment": {"enabled": name == "a"}}))?;
    }
    for name in names {
        world.await_ready(name)?;
    }
    world.await_quiet(&operator)?;
    let objects = || world.list(&format!("configmaps,deployments,{}", world.widgets()), "");
    let before = versions(&objects()?);
    ensure!(operator.terminate()?.success());

    let start = world.mark()?;
    let operator = world.launch(&METERED)?;
    operator.await_log("watching")?;
    std::thread::sleep(Duration::from_secs(2));
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(requests.clone().writes().is_empty(), "{}", requests.writes());
    let reads = requests.filter(|request| request.verb == "get" && !request.resource.is_empty());
    ensure!(reads.iter().all(|read| read.resource == "secrets"), "{reads}");
    ensure!(versions(&objects()?) == before);
    ensure!(operator.renders()? == 0.0);
    let looked = operator.metric("chartwright_reconcile_total")?;
    ensure!(looked > 0.0, "nothing was reconciled");

    // Awake all the same.
    world.update("c", json!({"color": "red"}))?;
    ensure!(operator.renders()? > 0.0);
    world.kubectl.delete("configmap", "d-one")?;
    world.await_there("configmap", "d-one")?;
    Ok(())
}

/// Why a pod isn't ready is looked up, not watched: a process that has just begun must not tell less than the one before.
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
    let told = |name: &str, what: &str| {
        eventually(&format!("{name}: {what}"), SOON, || {
            let ready = world.await_condition(name, "Ready", "False")?;
            ensure!(ready["message"].to_string().contains(what), "{ready}");
            Ok(Some(()))
        })
    };
    for name in &names {
        let what = if name == "waves" {
            "Deployment waves"
        } else {
            "ImagePullBackOff"
        };
        told(name, what)?;
    }
    // Of a change that never got ready, either.
    world.edit("w0", json!({"color": "red"}))?;
    told("w0", "ImagePullBackOff")?;
    world.await_quiet(&operator)?;
    let objects = || world.list(&format!("configmaps,deployments,{}", world.widgets()), "");
    let before = versions(&objects()?);
    ensure!(operator.terminate()?.success());

    let start = world.mark()?;
    let operator = world.start()?;
    operator.await_log("watching")?;
    // Longer than it takes until the pods of what has just begun are looked at.
    std::thread::sleep(Duration::from_secs(8));
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(!requests.clone().resource("pods").is_empty(), "{requests}");
    let writes = requests.writes();
    ensure!(writes.is_empty(), "{writes}");
    ensure!(versions(&objects()?) == before);
    Ok(())
}
