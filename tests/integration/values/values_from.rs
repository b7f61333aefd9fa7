//! Values from Secrets and ConfigMaps: their precedence, waiting for a missing one, following a change immediately, and that
//! the content of a Secret is never shown.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::operator::METERED;
use crate::world::{World, config_map, member_rule};

/// The widgets' values come from a ConfigMap that bears their name, and from a Secret.
const SOURCES: &str = "valuesFrom: [{kind: ConfigMap, name: '{{ .metadata.name }}-values', optional: true}, \
                       {kind: Secret, name: creds, valuesKey: color, targetPath: color}]";

fn world(name: &str, keys: &[&str]) -> Result<World> {
    let world = keys.iter().fold(World::new(name)?, |world, key| world.watch_key(key));
    world.write_watches()?;
    world.grant("secrets", &[member_rule("", "secrets")])?;
    Ok(world)
}

fn values(name: &str, text: &str) -> Value {
    config_map(name, json!({"values.yaml": text}))
}

fn secret(color: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"}, "stringData": {"color": color}})
}

fn await_size(world: &World, size: &str) -> Result<Value> {
    world.await_field("configmap", "a-main", "/data/size", size)
}

#[test]
fn values_from_sources_are_read_and_followed() -> Result<()> {
    let world = world("sources", &["values: {color: white, size: 3}", SOURCES])?;
    let operator = world.launch(&METERED)?;
    world.apply_widget("a", json!({}))?;
    let missing = "valuesFrom[1]: Secret sources/creds is not there";
    world.await_stalled("a", "ValuesInvalid", &[missing])?;
    ensure!(world.get("configmap", "a-main")?.is_none());

    // It goes on as soon as it comes, and the last of those that say something wins.
    world.apply(&secret("0123456"))?;
    world.await_ready("a")?;
    world.await_color("a-main", "0123456")?;
    await_size(&world, "3")?;
    world.apply(&values("a-values", "{color: red, size: 2, extra: [more]}"))?;
    await_size(&world, "2")?;
    world.await_there("configmap", "a-more")?;
    world.await_color("a-main", "0123456")?;
    world.apply(&secret("from-a-secret"))?;
    world.await_color("a-main", "from-a-secret")?;
    world.update("a", json!({"color": "own"}))?;
    world.await_color("a-main", "own")?;

    // An unread source costs no requests, nor does a restart.
    world.apply(&values("b-values", "size: 4"))?;
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 2.0)?;
    operator.kill()?;
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    let requests = world.requests(&operator, start)?;
    ensure!(requests.clone().writes().is_empty(), "{requests}");

    // One that is optional may go.
    world.kubectl.delete("configmap", "a-values")?;
    await_size(&world, "3")?;
    world.kubectl.delete("secret", "creds")?;
    world.await_stalled("a", "ValuesInvalid", &[missing])?;
    await_size(&world, "3").map(drop)
}

#[test]
fn a_custom_resource_can_list_sources_where_the_watch_allows_it() -> Result<()> {
    let world = world("sources-own", &["valuesFromField: spec.more.from"])?;
    let _operator = world.start()?;
    world.apply(&values("one", "{size: 2, color: green}"))?;
    world.apply(&values("two", "color: red"))?;
    let from = json!([{"kind": "ConfigMap", "name": "one"}, {"kind": "ConfigMap", "name": "two"}]);
    world.install("a", json!({"more": {"from": from}}))?;
    world.await_color("a-main", "red")?;
    await_size(&world, "2")?;
    for (entry, reason, message) in [
        (
            json!({"kind": "Pod", "name": "x"}),
            "ValuesInvalid",
            "spec.more.from[0]: unknown variant `Pod`",
        ),
        (
            json!({"kind": "Secret", "name": ""}),
            "ValuesInvalid",
            "name and valuesKey must not be empty",
        ),
        (
            json!({"kind": "Secret", "name": "../kube-system/x"}),
            "ValuesInvalid",
            "spec.more.from[0]: name: \"../kube-system/x\" can't be the name of a Secret",
        ),
        // Its author has no templates.
        (
            json!({"kind": "ConfigMap", "name": "{{ \"one\" }}"}),
            "ValuesInvalid",
            "spec.more.from[0]: name: \"{{ \\\"one\\\" }}\" can't be the name of a ConfigMap",
        ),
        // What the operator signs, and with what, is read by no release.
        (
            json!({"kind": "Secret", "name": "chartwright-record-u"}),
            "Refused",
            "the operator keeps objects of this name for itself",
        ),
        (
            json!({"kind": "ConfigMap", "name": "one", "targetPath": "a[65536]"}),
            "ValuesInvalid",
            "targetPath: the index \"65536\" is no number up to 1000",
        ),
    ] {
        world.edit("a", json!({"more": {"from": [entry]}}))?;
        world.await_stalled("a", reason, &[message])?;
    }
    let many = vec![json!({"kind": "ConfigMap", "name": "one"}); 51];
    world.edit("a", json!({"more": {"from": many}}))?;
    world.await_stalled("a", "ValuesInvalid", &["spec.more.from has 51 entries: it may have 50"])?;
    world.await_color("a-main", "red").map(drop)
}

#[test]
fn the_size_of_sources_is_limited() -> Result<()> {
    let world = world("sources-large", &["valuesFromField: spec.from"])?;
    let _operator = world.start()?;
    let text = format!("list: [{}]", "[],".repeat(300_000));
    for number in 0..5 {
        world.apply(&values(&format!("large-{number}"), &text))?;
    }
    let from: Vec<Value> = (0..5)
        .map(|number| json!({"kind": "ConfigMap", "name": format!("large-{number}")}))
        .collect();
    world.apply_widget("a", json!({"from": from}))?;
    world.await_stalled(
        "a",
        "ValuesInvalid",
        &["the sources of this release hold more than 4 MiB of text together"],
    )?;
    world.install("b", json!({})).map(drop)
}

#[test]
fn values_from_a_secret_are_redacted() -> Result<()> {
    let world = world("sources-secret", &["valuesFromField: metadata.annotations.test/from"])?;
    let operator = world.launch(&METERED)?;
    let hidden = "Hidden-value-7c1d";
    let text = format!("fail: 'it has {hidden}'");
    let creds = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"}, "stringData": {"values.yaml": text},
    });
    world.apply(&creds)?;
    let mut widget = world.widget("a", json!({}));
    widget["metadata"]["annotations"] = json!({"test/from": "[{kind: Secret, name: creds}]"});
    world.apply(&widget)?;
    world.await_stalled("a", "RenderFailed", &["[redacted]"])?;
    for text in [
        world.expect(&world.widgets(), "a")?["status"].to_string(),
        format!("{:?}", world.events("a")?),
        operator.log(),
    ] {
        ensure!(!text.contains(hidden), "{text}");
    }
    Ok(())
}
