//! Random results stay the same for the life of a release, across changes of operator, chart and Secret.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::security::forged_status::{keys, sign};
use crate::world::fields::{label, text, uid};
use crate::world::operator::Operator;
use crate::world::{World, member_rule};

/// The rights on Secrets that a chart with random results needs.
fn world(name: &str) -> Result<World> {
    let world = World::new(name)?;
    world.add_template("random.yaml")?;
    world.grant("secrets", &[member_rule("", "secrets")])?;
    Ok(world)
}

fn data(world: &World) -> Result<Value> {
    Ok(world.expect("secret", "a-random")?["data"].clone())
}

/// The Secret that keeps the results of widget `a`.
fn kept(world: &World) -> Result<Option<Value>> {
    let widget = world.live("a")?;
    let secret = world.get("secret", &format!("chartwright-kept-{}", uid(&widget)))?;
    if let Some(secret) = &secret {
        ensure!(label(secret, "chartwright.dev/release-uid") == Some(uid(&widget).as_str()));
    }
    Ok(secret)
}

fn restart(world: &World, operator: Operator) -> Result<Operator> {
    operator.terminate()?;
    world.start_and_settle()
}

#[test]
fn random_results_survive_edits_restarts_and_a_deleted_member() -> Result<()> {
    let world = world("kept-stable")?;
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    world.install("a", json!({}))?;
    // Two members, the kept results, finalizer, status, Event.
    let writes = world.requests_until_quiet(&operator, start)?.writes();
    ensure!(writes.len() == 6, "{writes}");
    let made = data(&world)?;
    let stored = kept(&world)?.context("nothing is kept")?;
    ensure!(stored["type"] == "chartwright.dev/kept-results", "{}", stored["type"]);

    let start = world.mark()?;
    world.update("a", json!({"color": "red"}))?;
    let secrets = world.requests_until_quiet(&operator, start)?.resource("secrets");
    ensure!(secrets.iter().all(|request| request.verb == "get"), "{secrets}");
    ensure!(data(&world)? == made, "an edit rotated something");
    let operator = restart(&world, operator)?;
    world.update("a", json!({"color": "green"}))?;
    ensure!(data(&world)? == made, "a restart rotated something");
    world.kubectl.delete("secret", "a-random")?;
    world.await_field("secret", "a-random", "/data", made.clone())?;

    // The regenerate annotation changes them.
    world.annotate("a", json!({"chartwright.dev/regenerate": "2026-01-01"}))?;
    let secret = world.await_object("secret", "a-random", "is new", |secret| secret["data"] != made)?;
    for (key, value) in made.as_object().context("no data")? {
        ensure!(secret["data"][key] != *value, "{key} is as before");
    }
    world.await_field(&world.widgets(), "a", "/status/lastHandledRegenerateAt", "2026-01-01")?;
    world.update("a", json!({"color": "red"}))?;
    ensure!(data(&world)? == secret["data"], "it was drawn once more");

    // Nothing is kept of a deleted release.
    let kept = kept(&world)?.context("nothing is kept")?;
    world.delete("a")?;
    world.absent("secret", [text(&kept["metadata"]["name"]), "a-random"])?;
    drop(operator);
    Ok(())
}

#[test]
fn an_added_random_call_rotates_no_other_result() -> Result<()> {
    let world = world("kept-upgrade")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let made = data(&world)?;
    let template = fs::read_to_string(world.chart().join("templates/random.yaml"))?;
    let more = template.replace("  password:", "  admin: {{ randAlphaNum 24 | b64enc }}\n  password:");
    world.write_template("random.yaml", &more)?;
    let operator = restart(&world, operator)?;
    let has_admin = |secret: &Value| !secret["data"]["admin"].is_null();
    let secret = world.await_object("secret", "a-random", "has the new password", has_admin)?;
    let mut data = secret["data"].clone();
    let admin = data.as_object_mut().and_then(|data| data.remove("admin"));
    ensure!(data == made, "the new call took an old one's result: {data} {made}");
    ensure!(admin.as_ref() != Some(&made["password"]), "two passwords are one");
    // And back again: what is gone is forgotten, what stays is the same.
    world.add_template("random.yaml")?;
    let _operator = restart(&world, operator)?;
    world.await_field("secret", "a-random", "/data", made).map(drop)
}

#[test]
fn a_lost_results_secret_is_rebuilt_from_live_objects() -> Result<()> {
    let world = world("kept-lost")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let made = data(&world)?;
    for color in ["red", "green"] {
        let stored = kept(&world)?.context("nothing is kept")?;
        let name = text(&stored["metadata"]["name"]).to_owned();
        world.kubectl.delete("secret", &name)?;
        world.update("a", json!({"color": color}))?;
        let now = data(&world)?;
        ensure!(now == made, "something was rotated: {now} {made}");
        ensure!(kept(&world)?.is_some(), "nothing is kept");
    }
    // Once more, from what was made again.
    world.update("a", json!({"color": "black"}))?;
    ensure!(data(&world)? == made, "what was made again differs");
    Ok(())
}

#[test]
fn a_due_certificate_renewal_starts_a_render() -> Result<()> {
    let world = world("kept-renewal")?;
    let operator = world.start()?;
    let widget = world.install("a", json!({}))?;
    let renewal = text(&widget["status"]["release"]["renewal"]);
    // The certificate lives 90 days, its authority 365: two thirds of 90 come first.
    let due: jiff::Timestamp = renewal.parse().with_context(|| widget["status"].to_string())?;
    let days = (due - jiff::Timestamp::now()).total(jiff::Unit::Hour)? / 24.0;
    ensure!((59.0..=60.0).contains(&days), "{days}");
    operator.terminate()?;
    let mut status = world.live("a")?["status"].take();
    status["release"]["renewal"] = "2020-01-01T00:00:00Z".into();
    sign(&world, &keys(&world)?, &widget, &mut status);
    world.patch_status("a", &json!({"status": status}))?;
    let _operator = world.start()?;
    world
        .await_field(&world.widgets(), "a", "/status/release/renewal", renewal)
        .map(drop)
}
