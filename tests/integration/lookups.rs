//! What templates look up is watched: a release follows it, and costs nothing while it stays.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::operator::{Launch, Operator};
use crate::world::World;

const COPY: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-copy
data:
  of: {{ dig "data" "text" "nothing" (lookup "v1" "ConfigMap" .Release.Namespace "source") }}
  count: {{ len (lookup "v1" "ServiceAccount" .Release.Namespace "").items | quote }}
"#;
const REQUIRED: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-copy
data:
  of: {{ required "source is missing" (dig "data" "text" "" (lookup "v1" "ConfigMap" .Release.Namespace "source")) }}
"#;

fn world(name: &str, template: &str) -> Result<World> {
    let world = World::new(name)?;
    fs::write(world.chart().join("templates/copy.yaml"), template)?;
    Ok(world)
}

fn source(text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}, "data": {"text": text}})
}

fn await_copy(world: &World, text: &str) -> Result<Value> {
    world.await_object("configmap", "a-copy", &format!("says {text}"), |copy| {
        copy["data"]["of"] == text
    })
}

fn launch(world: &World) -> Result<Operator> {
    world.launch(&Launch {
        metrics: true,
        ..Launch::default()
    })
}

#[test]
fn a_release_follows_what_it_looked_up() -> Result<()> {
    let world = world("lookup-follow", COPY)?;
    let operator = launch(&world)?;
    world.install("a", json!({}))?;
    await_copy(&world, "nothing")?;
    world.apply(&source("one"))?;
    let first = await_copy(&world, "one")?;
    world
        .kubectl
        .patch("configmap", "source", &json!({"data": {"text": "two"}}))?;
    await_copy(&world, "two")?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "more"}});
    world.apply(&account)?;
    let count = |copy: &Value| {
        copy["data"]["count"]
            .as_str()
            .and_then(|count| count.parse::<u32>().ok())
    };
    let more = count(&first).map(|count| count + 1);
    world.await_object("configmap", "a-copy", "counts one more", |copy| count(copy) == more)?;
    world.await_quiet(&operator)?;

    // A change that leaves the render as it is costs a look and writes nothing; what nobody looked up costs nothing.
    let renders = || operator.metric("chartwright_render_duration_seconds_count");
    let (start, before) = (world.mark()?, renders()?);
    let label = json!({"metadata": {"labels": {"team": "x"}}});
    world.kubectl.patch("configmap", "source", &label)?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(requests.clone().writes().is_empty(), "{requests}");
    ensure!(renders()? > before, "a looked-up object changed, and nobody looked");
    let (start, before) = (world.mark()?, renders()?);
    world.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "else"}}))?;
    world.kubectl.patch(&world.widgets(), "a", &label)?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(requests.is_empty() && renders()? == before, "{requests}");
    Ok(())
}

#[test]
fn a_restart_does_not_look_again() -> Result<()> {
    let world = world("lookup-restart", COPY)?;
    world.apply(&source("one"))?;
    let operator = launch(&world)?;
    world.install("a", json!({}))?;
    await_copy(&world, "one")?;
    world.await_quiet(&operator)?;
    drop(operator);

    let operator = launch(&world)?;
    operator.await_log("\"reconciled\"")?;
    world.await_quiet(&operator)?;
    let renders = operator.metric("chartwright_render_duration_seconds_count")?;
    ensure!(
        renders == 0.0,
        "{renders} renders of a release that nothing happened to"
    );
    drop(operator);

    // What changed while nobody watched is found out.
    world
        .kubectl
        .patch("configmap", "source", &json!({"data": {"text": "two"}}))?;
    let _operator = launch(&world)?;
    await_copy(&world, "two")?;
    Ok(())
}

#[test]
fn a_release_that_stalls_for_what_is_missing_goes_on_when_it_comes() -> Result<()> {
    let world = world("lookup-required", REQUIRED)?;
    let _operator = world.start()?;
    world.apply(&world.widget("a", json!({})))?;
    let message = world.await_stalled("a", "RenderFailed")?;
    ensure!(message.contains("source is missing"), "{message}");
    world.apply(&source("here"))?;
    world.await_ready("a")?;
    await_copy(&world, "here")?;
    Ok(())
}
