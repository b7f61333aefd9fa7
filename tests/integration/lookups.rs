//! What templates look up is watched: a release follows it, and costs nothing while it stays.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::look::{condition, inventory, says, uid};
use crate::operator::{Launch, Operator};
use crate::support::eventually;
use crate::world::{SOON, World, member_rule};

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

const MANY: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-copy
data:
  found: '{{ range until (int .Values.many) }}{{ dig "metadata" "name" "" (lookup "v1" "ConfigMap" $.Release.Namespace (printf "x-%d" .)) }}{{ end }}'
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
    world.patch("configmap", "source", &json!({"data": {"text": "two"}}))?;
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
    world.patch("configmap", "source", &label)?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(requests.clone().writes().is_empty(), "{requests}");
    ensure!(renders()? > before, "a looked-up object changed, and nobody looked");
    let (start, before) = (world.mark()?, renders()?);
    world.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "else"}}))?;
    world.patch(&world.widgets(), "a", &label)?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(requests.is_empty() && renders()? == before, "{requests}");
    Ok(())
}

#[test]
fn a_name_that_needs_escaping_is_not_found_and_one_that_would_change_the_path_is_told() -> Result<()> {
    let odd = COPY.replace("\"source\"", ".Values.source");
    let world = world("lookup-odd", &odd)?;
    let operator = world.start()?;
    world.install("a", json!({"source": "{{ template \"fullname\" . }} ä?x=1#y"}))?;
    await_copy(&world, "nothing")?;
    world.await_quiet(&operator)?;
    for (name, source, wrong) in [
        (
            "slash",
            "../../secrets/x",
            "invalid resource name \"../../secrets/x\": [may not contain '/']",
        ),
        (
            "percent",
            "a%2Fb",
            "invalid resource name \"a%2Fb\": [may not contain '%']",
        ),
    ] {
        world.apply(&world.widget(name, json!({"source": source})))?;
        let message = world.await_stalled(name, "LookupFailed")?;
        ensure!(message.contains(wrong), "{message}");
    }
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
    world.patch("configmap", "source", &json!({"data": {"text": "two"}}))?;
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

/// `always` is rendered whatever is looked up, and the rest only while there is a source.
const OPTIONAL: &str = r#"
{{ if .Values.always }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-always
{{ end }}
---
{{ with lookup "v1" "ConfigMap" .Release.Namespace "source" }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-copy
data: {{ .data | toJson }}
{{ end }}
"#;

#[test]
fn what_only_an_answer_drops_waits_for_the_answer_to_hold_still() -> Result<()> {
    let world = World::new("lookup-flap")?;
    let chart = world.write_chart("optional", &[("all.yaml", OPTIONAL)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let operator = launch(&world)?;
    world.apply(&source("one"))?;
    world.install("a", json!({"always": true}))?;
    world.install("empty", json!({"always": false}))?;
    let before = uid(&world.expect("configmap", "a-copy")?);
    let revision = |name: &str| -> Result<Value> {
        Ok(world.expect(&world.widgets(), name)?["status"]["release"]["revision"].clone())
    };

    // A flap: it goes and comes back.
    world.kubectl.delete("configmap", "source")?;
    let held = world.await_condition("a", "PruneHeld", "True")?;
    let message = held["message"].as_str().unwrap_or_default();
    says(message, ["ConfigMap lookup-flap/a-copy", "30s"])?;
    ensure!(world.await_ready("a")?["status"]["release"]["revision"] == 2);
    world.await_condition("empty", "PruneHeld", "True")?;
    world.apply(&source("two"))?;
    world.await_object("configmap", "a-copy", "is of the new source", |copy| {
        copy["data"]["text"] == "two"
    })?;
    eventually("nothing is held", SOON, || {
        let widget = world.expect(&world.widgets(), "a")?;
        ensure!(condition(&widget, "PruneHeld").is_none(), "{widget}");
        Ok(Some(()))
    })?;
    ensure!(uid(&world.expect("configmap", "a-copy")?) == before, "made anew");
    ensure!(revision("a")? == 3);

    // It goes for good, and somebody edits something else meanwhile.
    world.kubectl.delete("configmap", "source")?;
    let begun = Instant::now();
    world.await_condition("a", "PruneHeld", "True")?;
    world.edit("a", json!({"always": true, "unrelated": 1}))?;
    eventually("it is pruned", Duration::from_secs(45), || {
        Ok(world.get("configmap", "a-copy")?.is_none().then_some(()))
    })
    .with_context(|| operator.log())?;
    let waited = begun.elapsed();
    ensure!(waited > Duration::from_secs(25), "after {waited:?} only");
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "PruneHeld").is_none(), "{widget}");
    ensure!(inventory(&widget) == ["ConfigMap a-always"], "{widget}");
    // A whole release doesn't go that way, however long it lasts.
    ensure!(world.get("configmap", "empty-copy")?.is_some());
    world.await_condition("empty", "PruneHeld", "True")?;
    world.edit("empty", json!({"always": true}))?;
    world.await_ready("empty")?;
    Ok(())
}

/// As bitnami's charts: an upgrade without the password is refused, unless the Secret that has it is found.
const PASSWORD: &str = r#"
{{- $found := lookup "v1" "Secret" .Release.Namespace (printf "%s-auth" .Release.Name) }}
{{- if and .Release.IsUpgrade (not .Values.password) }}{{ fail "PASSWORDS ERROR" }}{{ end }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-auth
stringData:
  password: {{ .Values.password | default (randAlphaNum 12) | quote }}
  found: {{ ne (len $found) 0 | quote }}
"#;

#[test]
fn what_a_release_made_itself_does_not_upgrade_it() -> Result<()> {
    let world = World::new("lookup-own")?;
    world.grant("secrets", &[crate::world::member_rule("", "secrets")])?;
    fs::write(world.chart().join("templates/password.yaml"), PASSWORD)?;
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
    // Whatever makes it look again.
    world.kubectl.delete("configmap", "a-one")?;
    world.await_object("configmap", "a-one", "is back", |_| true)?;
    world.run(["label", "secret", "a-auth", "team=x"])?;
    world.patch("secret", "a-auth", &json!({"data": {"found": "cGluaw=="}}))?;
    world.await_object("secret", "a-auth", "is put right", |secret| {
        secret["data"] == applied["data"]
    })?;
    world.await_quiet(&operator)?;
    is_as_applied()?;
    let renders = operator.metric("chartwright_render_duration_seconds_count")?;
    world.run(["annotate", &world.widgets(), "a", "someone=else"])?;
    world.await_quiet(&operator)?;
    ensure!(
        operator.metric("chartwright_render_duration_seconds_count")? == renders,
        "rendered at every look"
    );
    drop(operator);
    let operator = launch(&world)?;
    operator.await_log("\"reconciled\"")?;
    world.await_quiet(&operator)?;
    is_as_applied()?;

    // What somebody asks for is an upgrade, with all that there is.
    world.edit("a", json!({"color": "red"}))?;
    ensure!(world.await_stalled("a", "RenderFailed")?.contains("PASSWORDS ERROR"));
    let widget = world.update("a", json!({"password": "given"}))?;
    ensure!(widget["status"]["release"]["revision"] == 2, "{widget}");
    ensure!(world.expect("secret", "a-auth")?["data"]["found"] == "dHJ1ZQ==");
    Ok(())
}

const COUNTER: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-count
data:
  count: {{ add1 (dig "data" "count" "0" (lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-count" .Release.Name))) | quote }}
"#;

#[test]
fn a_chart_that_follows_its_own_objects_is_rendered_when_somebody_asks() -> Result<()> {
    let world = world("lookup-count", COUNTER)?;
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
        world.await_object("configmap", "a-one", "is back", |_| true)?;
    }
    ensure!(world.await_event("a", "KeptAsApplied")?.contains("a-count"));
    Ok(())
}

#[test]
fn lookups_beyond_the_limit_are_told_and_none_of_them_is_sent() -> Result<()> {
    let world = world("lookup-many", MANY)?;
    // The record of so many is too long for a status.
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let operator = world.start()?;
    let start = world.mark()?;
    world.apply(&world.widget("a", json!({"many": 2001})))?;
    let told = world.await_stalled("a", "RenderFailed")?;
    ensure!(told.contains("the chart looks up more than 2000 objects"), "{told}");
    let looked_up = world.requests(&operator, start)?.resource("configmaps").verb("get");
    ensure!(looked_up.is_empty(), "{looked_up}");
    world.install("b", json!({"many": 2000}))?;
    world.await_quiet(&operator)
}
