//! CustomResourceDefinitions: those of a chart's `crds/` belong to the watch, those of its templates are members and
//! come before what needs them.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::grant;
use crate::world::operator::{IMPATIENT, METERED};
use crate::world::{World, crd};

#[test]
fn crds_of_the_crds_folder_belong_to_the_watch() -> Result<()> {
    let world = World::new("crds-folder")?;
    let folder = world.chart().join("crds");
    fs::create_dir(&folder)?;
    fs::write(folder.join("part.yaml"), crd(&world.group(), "Part").to_string())?;
    // Trap 3: what is no CRD.
    let other = "# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: stray}\n---\nno: kind\n";
    fs::write(folder.join("other.yaml"), other)?;
    let operator = world.launch(&IMPATIENT)?;
    operator.await_log("crds/: crds/part.yaml: CustomResourceDefinition")?;
    operator.await_log("ConfigMap is no CustomResourceDefinition")?;
    let widget = world.install("a", json!({}))?;
    ensure!(!widget.to_string().contains("CustomResourceDefinition"), "{widget}");
    let name = world.resource("Part");
    world.absent("crd", [&name])?;
    world.absent("configmap", ["stray"])?;
    grant(&world)?;
    let made = world.await_there("crd", &name)?;
    ensure!(made["metadata"]["labels"].is_null(), "it is no member: {made}");
    ensure!(operator.terminate()?.success());

    // A restart sends none that is there.
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    let requests = world
        .all_requests(&operator, start)?
        .resource("customresourcedefinitions");
    requests
        .filter(|request| !["list", "watch"].contains(&request.verb.as_str()))
        .none()?;
    // The next start recreates a deleted one, not before.
    ensure!(operator.terminate()?.success());
    world.kubectl.delete("crd", &name)?;
    let _operator = world.start()?;
    world.await_there("crd", &name)?;
    world.delete("a")?;
    world.expect("crd", &name)?;
    Ok(())
}

#[test]
fn a_crd_among_the_templates_comes_before_its_objects() -> Result<()> {
    let world =
        World::new("crds-templates")?.watch_key("allow: {kinds: [CustomResourceDefinition.apiextensions.k8s.io]}");
    grant(&world)?;
    let spec = json!({"extraDeploy": [
        {"apiVersion": format!("{}/v1", world.group()), "kind": "Part", "metadata": {"name": "one"}, "spec": {}},
        crd(&world.group(), "Part"),
    ]});
    let _operator = world.start()?;
    world.install("a", spec)?;
    world.expect(&world.resource("Part"), "one")?;
    // The kind goes with the release; that it is gone must not keep the release from going.
    world.delete("a")?;
    world.await_gone("crd", &world.resource("Part"))?;
    Ok(())
}

#[test]
fn many_new_crds_cause_few_renders() -> Result<()> {
    let world = World::new("crds-wave")?;
    world.add_template("served.yaml")?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"group": world.group()}))?;
    world.await_quiet(&operator)?;
    let (start, began) = (operator.renders()?, Instant::now());
    let kinds: Vec<String> = (0..10).map(|number| format!("Wave{number}")).collect();
    for kind in &kinds {
        world.apply(&crd(&world.group(), kind))?;
        // Each is served before the next one comes.
        std::thread::sleep(Duration::from_millis(400));
    }
    world.await_field("configmap", "a-served", "/data/marks", "x".repeat(10))?;
    let (renders, elapsed) = (operator.renders()? - start, began.elapsed());
    // Changes are gathered for a second and a half.
    let most = elapsed.as_secs_f64() / 1.5 + 1.0;
    ensure!(renders <= most, "{renders} renders for ten kinds in {elapsed:?}");
    for kind in &kinds {
        // A busy API server takes more than a minute for some of them.
        world.kubectl.begin_delete("crd", &world.resource(kind))?;
    }
    Ok(())
}
