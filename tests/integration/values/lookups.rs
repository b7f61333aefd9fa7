//! What templates look up is watched: a release follows it, and costs nothing while it stays.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::{ensure_contains, inventory, text, uid};
use crate::world::operator::{METERED, Operator};
use crate::world::{World, config_map, member_rule};

fn world(name: &str, template: &str) -> Result<World> {
    let world = World::new(name)?;
    world.add_template(template)?;
    Ok(world)
}

fn source(text: &str) -> Value {
    config_map("source", json!({"text": text}))
}

fn await_copy(world: &World, text: &str) -> Result<Value> {
    world.await_field("configmap", "a-copy", "/data/of", text)
}

fn launch(world: &World) -> Result<Operator> {
    world.launch(&METERED)
}

#[test]
fn a_release_follows_what_it_looked_up() -> Result<()> {
    let world = world("lookup-follow", "copy.yaml")?;
    let operator = launch(&world)?;
    world.install("a", json!({}))?;
    await_copy(&world, "nothing")?;
    world.apply(&source("one"))?;
    let first = await_copy(&world, "one")?;
    world.patch("configmap", "source", &json!({"data": {"text": "two"}}))?;
    await_copy(&world, "two")?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "more"}});
    world.apply(&account)?;
    let more: u32 = text(&first["data"]["count"]).parse()?;
    world.await_field("configmap", "a-copy", "/data/count", (more + 1).to_string())?;
    world.await_quiet(&operator)?;

    // A change without effect on the render costs one read and writes nothing; an object that was not looked up costs nothing.
    let renders = || operator.renders();
    let (start, before) = (world.mark()?, renders()?);
    let label = json!({"metadata": {"labels": {"team": "x"}}});
    world.patch("configmap", "source", &label)?;
    let requests = world.requests_until_quiet(&operator, start)?;
    ensure!(requests.clone().writes().is_empty(), "{requests}");
    ensure!(renders()? > before, "a looked-up object changed, and was not read");
    let (start, before) = (world.mark()?, renders()?);
    world.apply(&config_map("else", json!({})))?;
    world.patch_widget("a", &label)?;
    let requests = world.requests_until_quiet(&operator, start)?;
    ensure!(requests.is_empty() && renders()? == before, "{requests}");
    Ok(())
}

#[test]
fn lookup_names_are_escaped_and_path_changing_names_are_refused() -> Result<()> {
    let world = world("lookup-odd", "copy.yaml")?;
    let template = fs::read_to_string(world.chart().join("templates/copy.yaml"))?;
    world.write_template("copy.yaml", &template.replace("\"source\"", ".Values.source"))?;
    let operator = world.start()?;
    world.install("a", json!({"source": "{{ template \"fullname\" . }} ä?x=1#y"}))?;
    await_copy(&world, "nothing")?;
    world.await_quiet(&operator)?;
    for (name, source, wrong) in [("slash", "../../secrets/x", '/'), ("percent", "a%2Fb", '%')] {
        world.apply_widget(name, json!({"source": source}))?;
        let message = format!("invalid resource name {source:?}: [may not contain '{wrong}']");
        world.await_stalled(name, "LookupFailed", &[&message])?;
    }
    Ok(())
}

#[test]
fn a_restart_repeats_no_lookups() -> Result<()> {
    let world = world("lookup-restart", "copy.yaml")?;
    world.apply(&source("one"))?;
    let operator = launch(&world)?;
    world.install("a", json!({}))?;
    await_copy(&world, "one")?;
    world.await_quiet(&operator)?;
    drop(operator);

    let operator = launch(&world)?;
    operator.await_log("\"reconciled\"")?;
    world.await_quiet(&operator)?;
    ensure!(operator.renders()? == 0.0, "nothing had happened to it");
    drop(operator);

    // Changes made while no operator ran are found.
    world.patch("configmap", "source", &json!({"data": {"text": "two"}}))?;
    let _operator = launch(&world)?;
    await_copy(&world, "two")?;
    Ok(())
}

#[test]
fn a_release_stalled_by_a_missing_object_continues_when_it_appears() -> Result<()> {
    let world = world("lookup-required", "copy-required.yaml")?;
    let _operator = world.start()?;
    world.apply_widget("a", json!({}))?;
    world.await_stalled("a", "RenderFailed", &["source is missing"])?;
    world.apply(&source("here"))?;
    world.await_ready("a")?;
    await_copy(&world, "here")?;
    Ok(())
}

#[test]
fn members_dropped_by_a_lookup_are_pruned_after_a_quiet_period() -> Result<()> {
    let world = World::of_chart("lookup-flap", "optional")?;
    let _operator = launch(&world)?;
    world.apply(&source("one"))?;
    world.install("a", json!({"always": true}))?;
    world.install("empty", json!({"always": false}))?;
    let before = uid(&world.expect("configmap", "a-copy")?);

    // A flap: it goes and comes back.
    world.kubectl.delete("configmap", "source")?;
    let held = world.await_condition("a", "PruneHeld", "True")?;
    ensure_contains(text(&held["message"]), &["ConfigMap lookup-flap/a-copy", "30s"])?;
    ensure!(world.await_ready("a")?["status"]["release"]["revision"] == 2);
    world.await_condition("empty", "PruneHeld", "True")?;
    world.apply(&source("two"))?;
    world.await_field("configmap", "a-copy", "/data/text", "two")?;
    world.await_released("a")?;
    ensure!(uid(&world.expect("configmap", "a-copy")?) == before, "recreated");
    ensure!(world.live("a")?["status"]["release"]["revision"] == 3);

    // It is removed permanently, and the user edits something else.
    world.kubectl.delete("configmap", "source")?;
    let begun = Instant::now();
    world.await_condition("a", "PruneHeld", "True")?;
    world.edit("a", json!({"always": true, "unrelated": 1}))?;
    world.await_gone_within(Duration::from_secs(45), "configmap", "a-copy")?;
    let waited = begun.elapsed();
    ensure!(waited > Duration::from_secs(25), "after {waited:?} only");
    // The status follows.
    world.await_released("a")?;
    let widget = world.await_ready("a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-always"], "{widget}");
    // A whole release doesn't go that way, however long it lasts.
    world.expect("configmap", "empty-copy")?;
    world.await_condition("empty", "PruneHeld", "True")?;
    world.edit("empty", json!({"always": true}))?;
    world.await_ready("empty").map(drop)
}

#[test]
fn own_members_in_a_lookup_cause_no_upgrade() -> Result<()> {
    let world = World::new("lookup-own")?.granted("", "secrets")?;
    world.add_template("password.yaml")?;
    let operator = launch(&world)?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.await_quiet(&operator)?;
    let applied = world.expect("secret", "a-auth")?;
    let is_as_applied = || -> Result<()> {
        let widget = world.await_ready("a")?;
        ensure!(widget["status"]["release"]["revision"] == 1, "{widget}");
        let now = world.expect("secret", "a-auth")?;
        ensure!(now["data"] == applied["data"], "{now}");
        Ok(())
    };
    is_as_applied()?;
    // Any new reconcile.
    world.kubectl.delete("configmap", "a-one")?;
    world.await_there("configmap", "a-one")?;
    world.run(["label", "secret", "a-auth", "team=x"])?;
    world.patch("secret", "a-auth", &json!({"data": {"found": "cGluaw=="}}))?;
    world.await_field("secret", "a-auth", "/data", applied["data"].clone())?;
    world.await_quiet(&operator)?;
    is_as_applied()?;
    let renders = operator.renders()?;
    world.run(["annotate", &world.widgets(), "a", "someone=else"])?;
    world.await_quiet(&operator)?;
    ensure!(operator.renders()? == renders);
    drop(operator);
    let operator = launch(&world)?;
    operator.await_log("\"reconciled\"")?;
    world.await_quiet(&operator)?;
    is_as_applied()?;

    // A requested change is an upgrade, with all its effects.
    world.edit("a", json!({"color": "red"}))?;
    world.await_stalled("a", "RenderFailed", &["PASSWORDS ERROR"])?;
    let widget = world.update("a", json!({"password": "given"}))?;
    ensure!(widget["status"]["release"]["revision"] == 2, "{widget}");
    ensure!(world.expect("secret", "a-auth")?["data"]["found"] == "dHJ1ZQ==");
    Ok(())
}

#[test]
fn a_lookup_of_own_members_is_rendered_again_on_request() -> Result<()> {
    let world = world("lookup-count", "copy-counter.yaml")?;
    let operator = launch(&world)?;
    world.install("a", json!({"extra": ["one"], "color": "blue"}))?;
    for (count, color) in [(1, "blue"), (2, "red"), (3, "green")] {
        let widget = world.update("a", json!({"color": color}))?;
        world.await_quiet(&operator)?;
        let counted = world.expect("configmap", "a-count")?["data"]["count"].take();
        let expected = Value::from(count.to_string());
        ensure!(counted == expected, "{counted} instead of {expected}");
        ensure!(widget["status"]["release"]["revision"] == count, "{widget}");
        world.kubectl.delete("configmap", "a-one")?;
        world.await_there("configmap", "a-one")?;
    }
    world.await_event("a", "KeptAsApplied", &["a-count"]).map(drop)
}

#[test]
fn lookups_over_the_limit_are_reported_and_not_sent() -> Result<()> {
    let world = world("lookup-many", "copy-many.yaml")?;
    // The record of so many is too long for a status.
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let operator = world.start()?;
    let start = world.mark()?;
    world.apply_widget("a", json!({"many": 2001}))?;
    world.await_stalled("a", "RenderFailed", &["the chart looks up more than 2000 objects"])?;
    world
        .requests(&operator, start)?
        .resource("configmaps")
        .verb("get")
        .none()?;
    world.install("b", json!({"many": 2000}))?;
    world.await_quiet(&operator)?;
    // Many of one namespace are one list.
    let requests = world.requests(&operator, start)?.resource("configmaps");
    let read = requests.filter(|request| !request.is_write());
    ensure!(read.len() < 20, "{read}");
    Ok(())
}
