//! `releaseName`: what a release is called.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::world::World;
use crate::world::fields::label;

const TEMPLATE: &str = "releaseName: '{{ .metadata.labels.team }}-{{ .metadata.name }}'";

fn world(name: &str) -> Result<World> {
    let world = World::new(name)?.watch_key(TEMPLATE);
    world.write_watches()?;
    Ok(world)
}

/// A widget of a team.
fn apply(world: &World, name: &str, team: &str) -> Result<()> {
    let mut widget = world.widget(name, json!({}));
    widget["metadata"]["labels"] = json!({"team": team});
    world.apply(&widget)
}

#[test]
fn a_release_has_the_name_that_the_template_makes_and_keeps_it() -> Result<()> {
    let world = world("release-name")?;
    let operator = world.start()?;
    apply(&world, "a", "red")?;
    let widget = world.await_ready("a")?;
    ensure!(widget["status"]["release"]["name"] == "red-a", "{widget}");
    let main = world.expect("configmap", "red-a-main")?;
    ensure!(label(&main, "app.kubernetes.io/instance") == Some("red-a"), "{main}");

    // Another name is refused, also after a restart, and nothing is changed.
    apply(&world, "a", "blue")?;
    let texts = ["\"red-a\"", "\"blue-a\"", "keeps its name"];
    world.await_stalled("a", "ValuesInvalid", &texts)?;
    let operator = world.restart(operator)?;
    world.await_quiet(&operator)?;
    world.await_stalled("a", "ValuesInvalid", &texts)?;
    world.absent("configmap", ["blue-a-main"])?;
    world.expect("configmap", "red-a-main")?;
    // A later edit applies after the name is back.
    apply(&world, "a", "red")?;
    world.update("a", json!({"color": "green"}))?;
    world.await_color("red-a-main", "green")?;
    // A refused release can be deleted.
    apply(&world, "a", "blue")?;
    world.await_stalled("a", "ValuesInvalid", &texts)?;
    world.delete("a")?;
    world.await_gone("configmap", "red-a-main")
}

#[test]
fn a_long_name_is_cut_and_a_wrong_one_is_refused() -> Result<()> {
    let world = world("release-long")?;
    let _operator = world.start()?;
    let (one, other) = (format!("{}x", "a".repeat(60)), format!("{}y", "a".repeat(60)));
    for name in [&one, &other] {
        apply(&world, name, "red")?;
    }
    let names = [&one, &other].map(|name| -> Result<_> {
        let widget = world.await_ready(name)?;
        Ok(widget["status"]["release"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    });
    let [one, other] = names;
    let (one, other) = (one?, other?);
    ensure!(one.len() == 53 && other.len() == 53 && one != other, "{one} {other}");
    world.expect("configmap", &format!("{one}-main"))?;
    apply(&world, "wrong", "RED")?;
    world.await_stalled("wrong", "ValuesInvalid", &["releaseName", "no release name"])?;
    apply(&world, "wrong", "red")?;
    world.await_ready("wrong").map(drop)
}

#[test]
fn an_existing_release_does_not_get_another_name_from_its_watch() -> Result<()> {
    let world = World::new("release-rename")?;
    let operator = world.start()?;
    apply(&world, "a", "red")?;
    world.await_ready("a")?;
    drop(operator);
    world.write_watches_of(&[("Widget", &world.chart(), &[TEMPLATE])])?;
    let _operator = world.start()?;
    world.await_stalled("a", "ValuesInvalid", &["\"a\"", "\"red-a\""])?;
    apply(&world, "b", "red")?;
    world.await_ready("b")?;
    world.expect("configmap", "red-b-main")?;
    world.expect("configmap", "a-main").map(drop)
}
