//! Changes of `watches.yaml` and charts while the operator runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::{eventually, until};
use crate::world::fields::{ensure_contains, text};
use crate::world::operator::{ELECTED, Launch, METERED, Operator};
use crate::world::{SOON, World};

/// The chart's ConfigMap with another text in it.
fn template(note: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {{{{ .Release.Name }}}}-main}}\ndata:\n  color: {{{{ .Values.color }}}}\n  note: {note}\n"
    )
}

fn await_note(world: &World, name: &str, note: &str) -> Result<()> {
    world.await_field("configmap", name, "/data/note", note).map(drop)
}

#[test]
fn watches_and_charts_take_effect_without_a_restart() -> Result<()> {
    let world = World::new("reload")?.with_gadgets()?;
    let gadgets = world.write_chart("gadgets", &[("a.yaml", &template("gadget"))])?;
    let write = |keys: &[&str]| {
        let values = ["values: {color: blue}"];
        world.write_watches_of(&[("Widget", &world.chart(), keys), ("Gadget", &gadgets, &values)])
    };
    write(&[])?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"color": "red"}))?;
    world.apply(&world.custom("Gadget", "g", json!({})))?;
    world.await_there("configmap", "g-main")?;
    world.await_quiet(&operator)?;

    let before = world.mark()?;
    world.write_template("configmap.yaml", &template("new"))?;
    await_note(&world, "a-main", "new")?;
    operator.await_log("the watch or its chart changed: it is restarted")?;
    world.await_ready("a")?;
    // Gadgets are not listed again.
    let requests = world.requests_until_quiet(&operator, before)?;
    ensure!(
        requests
            .clone()
            .filter(|request| request.verb == "list" && request.resource == "gadgets")
            .is_empty(),
        "{requests}"
    );

    // Values of the watch; the other watch keeps its place.
    write(&["overrideValues: {color: green}"])?;
    world.await_color("a-main", "green")?;
    // A watch that is gone and comes back.
    world.write_watches_of(&[("Gadget", &gadgets, &["values: {color: blue}"])])?;
    operator.await_log("the watch is gone")?;
    write(&[])?;
    world.await_color("a-main", "red")?;
    world.delete("a")?;
    ensure!(operator.metric("chartwright_reload_refused")? == 0.0);
    ensure!(operator.metric("chartwright_reloads_total{result=\"accepted\"}")? >= 4.0);
    Ok(())
}

fn await_refused(operator: &Operator, expected: f64) -> Result<()> {
    let what = format!("chartwright_reload_refused {expected}");
    until(&what, SOON, || {
        Ok(operator.metric("chartwright_reload_refused")? == expected)
    })
}

#[test]
fn what_is_broken_is_refused_as_a_whole() -> Result<()> {
    let world = World::new("reload-broken")?;
    world.write_watches()?;
    let operator = world.launch(&Launch { ..ELECTED }.metered())?;
    world.install("a", json!({"color": "red"}))?;
    // A good chart with a bad file.
    world.write_watches_of(&[("Widget", &world.chart(), &["reconcilPeriod: 1m"])])?;
    operator.await_log("did you mean `reconcilePeriod`?")?;
    await_refused(&operator, 1.0)?;
    world.update("a", json!({"color": "blue"}))?;
    world.await_color("a-main", "blue")?;
    let lease = "involvedObject.kind=Lease,involvedObject.name=widgets";
    let events = world.run([
        "get",
        "events",
        "--field-selector",
        lease,
        "-o",
        "jsonpath={.items[*].reason} {.items[*].message}",
    ])?;
    ensure_contains(&events, &["ReloadRefused", "watches.yaml:5:3", "reconcilPeriod"])?;
    // A good file with a bad chart.
    world.write_watches()?;
    await_refused(&operator, 0.0)?;
    world.write_template("configmap.yaml", "{{ if }}")?;
    operator.await_log("refused; the operator goes on with the former ones")?;
    await_refused(&operator, 1.0)?;
    world.update("a", json!({"color": "green"}))?;
    world.await_color("a-main", "green")?;
    world.write_template("configmap.yaml", &template("repaired"))?;
    await_note(&world, "a-main", "repaired")?;
    await_refused(&operator, 0.0)
}

/// A ConfigMap volume: the files are links into a folder that another link names, and which the kubelet replaces.
#[test]
fn the_swap_of_a_config_map_volume_and_a_signal_are_noticed() -> Result<()> {
    let world = World::new("reload-swap")?;
    world.write_watches()?;
    let folder = world.watches_file().with_file_name("volume");
    let first = fs::read_to_string(world.watches_file())?;
    let fill = |name: &str, text: &str| -> Result<()> {
        fs::create_dir_all(folder.join(name))?;
        fs::write(folder.join(name).join("watches.yaml"), text)?;
        let link = folder.join("..data_tmp");
        symlink(name, &link)?;
        fs::rename(link, folder.join("..data"))?;
        Ok(())
    };
    fill("..1", &first)?;
    symlink("..data/watches.yaml", folder.join("watches.yaml"))?;
    fs::remove_file(world.watches_file())?;
    symlink("volume/watches.yaml", world.watches_file())?;
    let operator = world.start()?;
    world.install("a", json!({"color": "red"}))?;
    fill("..2", &format!("{first}  overrideValues: {{color: blue}}\n"))?;
    world.await_color("a-main", "blue")?;
    fs::remove_dir_all(folder.join("..1"))?;
    fill("..3", &first)?;
    world.await_color("a-main", "red")?;
    operator.signal("HUP")?;
    operator.await_log("watches.yaml and the charts are unchanged")
}

/// Counts the releases with a state in their rollout.
fn standings(world: &World) -> Result<(usize, usize, usize)> {
    let widgets = world.list(&world.widgets(), "")?;
    let of = |state: &str| {
        let state = Value::from(state);
        widgets
            .iter()
            .filter(|widget| widget["status"]["release"]["rollout"]["state"] == state)
            .count()
    };
    Ok((of("Waiting"), of("InFlight"), of("Failed")))
}

#[test]
fn a_rollout_stops_when_too_many_releases_fail_and_goes_on_with_a_better_chart() -> Result<()> {
    let world = World::new("rollout")?.watch_key("rollout: {maxInFlight: 1, maxFailed: 2}");
    let names: Vec<String> = (0..6).map(|number| format!("w{number}")).collect();
    world.write_watches()?;
    let operator = world.launch(&METERED)?;
    world.install_all(&names, |_| json!({"color": "red"}))?;
    let status = |arguments: &[&str]| {
        let file = format!("--watches-file={}", world.watches_file().display());
        world.chartwright(&[&["rollout", "status", &file], arguments].concat())
    };
    let (exit, said) = status(&[])?;
    ensure!(exit.success() && said.contains("complete"), "{said}");

    world.write_template("configmap.yaml", &(template("bad") + "{{ fail \"not today\" }}"))?;
    operator.await_log("the rollout stops, because too many releases failed")?;
    until("the rollout's standings", SOON, || {
        let found = standings(&world)?;
        Ok(found == (4, 0, 2))
    })?;
    let series = |state: &str| {
        let group = world.group();
        format!("chartwright_rollout_releases{{group=\"{group}\",kind=\"Widget\",state=\"{state}\"}}")
    };
    ensure!(operator.metric(&series("failed"))? == 2.0 && operator.metric(&series("waiting"))? == 4.0);
    let (exit, said) = status(&[])?;
    ensure!(exit.code() == Some(1), "{said}");
    ensure_contains(&said, &["the rollout is stopped", "not today", "stopped"])?;
    // Those that wait are as they were, and healthy.
    let waiting = world.list(&world.widgets(), "")?;
    let ready = waiting
        .iter()
        .filter(|widget| crate::world::fields::is_ready(widget))
        .count();
    ensure!(ready == 4, "{ready}");

    // An edit does not wait, and its failure does not count.
    let waits = |widget: &&Value| widget["status"]["release"]["rollout"]["state"] == "Waiting";
    let edited = waiting
        .iter()
        .find(waits)
        .map(|widget| text(&widget["metadata"]["name"]).to_owned());
    let edited = edited.unwrap_or_default();
    world.edit(&edited, json!({"color": "blue"}))?;
    world.await_stalled(&edited, "RenderFailed", &["not today"])?;

    // Another process knows what failed.
    let operator = world.restart(operator)?;
    operator.await_log("watching")?;
    world.await_quiet(&operator)?;
    let found = standings(&world)?;
    ensure!(found == (3, 0, 3), "{found:?}");

    world.write_template("configmap.yaml", &template("good"))?;
    for name in &names {
        await_note(&world, &format!("{name}-main"), "good")?;
        world.await_ready(name)?;
    }
    operator.await_log("the rollout is complete")?;
    ensure!(standings(&world)? == (0, 0, 0));
    world.await_color(&format!("{edited}-main"), "blue").map(drop)
}

#[test]
fn a_release_that_is_not_ready_in_time_has_failed() -> Result<()> {
    let world = World::new("rollout-late")?
        .granted("apps", "deployments")?
        .watch_key("rollout: {maxInFlight: 2, maxFailed: 1}")
        .watch_key("timeout: 3s");
    let names = ["w0", "w1", "w2", "w3"];
    world.write_watches()?;
    let operator = world.start()?;
    world.install_all(&names, |_| json!({"color": "red"}))?;
    // Its pod is never ready.
    let values = "deployment: {enabled: true, replicas: 1, failing: true}";
    world.write_watches_of(&[(
        "Widget",
        &world.chart(),
        &[
            "rollout: {maxInFlight: 2, maxFailed: 1}",
            "timeout: 3s",
            "values:",
            &format!("  {values}"),
        ],
    )])?;
    operator.await_log("a rollout begins")?;
    eventually("both releases in flight fail", SOON, || {
        let found = standings(&world)?;
        ensure!(found == (2, 0, 2), "{found:?} {}", operator.log());
        Ok(Some(()))
    })?;
    operator.await_log("the rollout stops")?;
    // Suspended releases do not count.
    for widget in world.list(&world.widgets(), "")? {
        if widget["status"]["release"]["rollout"]["state"] == "Failed" {
            world.suspend(text(&widget["metadata"]["name"]))?;
        }
    }
    until("the next two fail", SOON, || Ok(standings(&world)?.0 == 0))?;
    world.write_watches()?;
    until("those that work are ready", SOON, || {
        let widgets = world.list(&world.widgets(), "")?;
        let ready = widgets.iter().filter(|widget| crate::world::fields::is_ready(widget));
        Ok(ready
            .filter(|widget| widget["status"]["release"]["rollout"].is_null())
            .count()
            == 2)
    })
}

/// A replica that waits has seen the broken file when it becomes the leader.
#[test]
fn a_new_leader_works_with_the_former_watches_while_the_file_is_broken() -> Result<()> {
    let world = World::new("reload-leader")?;
    world.write_watches()?;
    let replica = |replica: usize| world.launch(&Launch { replica, ..ELECTED });
    let first = replica(1)?;
    world.install("a", json!({"color": "red"}))?;
    let second = replica(2)?;
    second.await_log("lease")?;
    world.write_watches_of(&[("Widget", &world.chart(), &["reconcilPeriod: 1m"])])?;
    second.await_log("did you mean `reconcilePeriod`?")?;
    ensure!(first.terminate()?.success());
    world.edit("a", json!({"color": "blue"}))?;
    let is_blue = || Ok(world.expect("configmap", "a-main")?["data"]["color"] == "blue");
    until("the other replica works", Duration::from_secs(45), is_blue)
}
