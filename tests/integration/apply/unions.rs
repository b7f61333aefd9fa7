//! Fields of which an object may have one: neither a default nor a field of another manager keeps a rendered one from being applied.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::{condition, text, uid};
use crate::world::operator::Operator;
use crate::world::{SOON, World, member_rule, objects};

fn world(name: &str) -> Result<(World, Operator)> {
    let world = World::new(name)?;
    let kinds = [("apps", "deployments"), ("apps", "statefulsets"), ("", "services")];
    world.grant("workloads", &kinds.map(|(group, kind)| member_rule(group, kind)))?;
    let operator = world.start()?;
    Ok((world, operator))
}

/// The object of a case in one of its states.
fn object(case: &Value, state: &Value) -> Result<Value> {
    let mut object = case["object"].clone();
    let (parent, field) = text(&case["at"]).rsplit_once('/').context("a pointer")?;
    let parent = object.pointer_mut(parent).context("a place")?;
    match (field.parse::<usize>(), &state["put"]) {
        (Ok(index), put) => parent[index] = put.clone(),
        (Err(_), Value::Null) => {}
        (Err(_), put) => parent[field] = put.clone(),
    }
    Ok(object)
}

/// Renders one state after the other in the place of the first, and shows what became of it: it stays the same object,
/// nothing counts as drift, and afterwards nothing is written any more.
fn follow(world: &World, operator: &Operator, case: &Value) -> Result<()> {
    let kind = text(&case["object"]["kind"]).to_lowercase();
    let mut first = None;
    for (index, state) in case["states"].as_array().into_iter().flatten().enumerate() {
        let object = object(case, state)?;
        world.apply_widget("a", json!({"extraDeploy": [object], "step": index}))?;
        let path = state["path"].as_str().unwrap_or(text(&case["at"]));
        eventually(&format!("{kind}: {state}"), SOON, || {
            let widget = world.live("a")?;
            let stalled = condition(&widget, "Stalled");
            ensure!(stalled.is_null(), "{stalled}");
            let live = world.expect(&kind, "web")?;
            let found = live.pointer(path).cloned().unwrap_or_default();
            ensure!(found == state["is"], "{found}");
            Ok(Some(()))
        })?;
        let now = uid(&world.expect(&kind, "web")?);
        ensure!(*first.get_or_insert(now.clone()) == now, "{kind}: {state}: recreated");
    }
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "Drifted").is_null(), "{widget}");
    world.await_quiet(operator)?;
    world.ensure_no_requests(operator, 1.5)?;
    ensure!(!operator.log().contains("DriftCorrected"), "{}", operator.log());
    // Nothing is left that the chart could not take back.
    let live = world.expect(&kind, "web")?;
    let managers = live["metadata"]["managedFields"].as_array().context("no managers")?;
    let is_update = |entry: &Value| entry["manager"] == "chartwright" && entry["operation"] != "Apply";
    ensure!(!managers.iter().any(is_update), "{managers:?}");
    world.delete("a")
}

#[test]
fn one_union_field_can_replace_another() -> Result<()> {
    let (world, operator) = world("union")?;
    objects("unions")?
        .iter()
        .try_for_each(|case| follow(&world, &operator, case))
}

#[test]
fn a_union_field_of_another_manager_stays_until_it_excludes_a_rendered_one() -> Result<()> {
    let (world, operator) = world("union-others")?;
    let case = &objects("unions")?[0];
    world.install("a", json!({"extraDeploy": [object(case, &Value::Null)?]}))?;
    let theirs = r#"{"spec": {"paused": true, "strategy": {"rollingUpdate": {"maxSurge": 3}}}}"#;
    let patch = ["patch", "deployment", "web", "--type=merge", "--field-manager=other"];
    world.kubectl.run(patch.into_iter().chain(["-p", theirs]))?;
    world.await_quiet(&operator)?;
    ensure!(world.expect("deployment", "web")?["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 3);
    world.edit("a", json!({"extraDeploy": [object(case, &case["states"][1])?]}))?;
    let live = world.await_field("deployment", "web", "/spec/strategy/type", "Recreate")?;
    ensure!(live["spec"]["strategy"].get("rollingUpdate").is_none(), "{live}");
    ensure!(
        live["spec"]["paused"] == true,
        "a field that excludes nothing is lost: {live}"
    );
    Ok(())
}
