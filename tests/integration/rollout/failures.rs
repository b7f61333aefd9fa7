//! What goes wrong stays where it is: nothing is changed by halves, and the status says what to do.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::World;
use crate::world::fields::{condition, ensure_contains, versions};

#[test]
fn a_template_error_after_a_good_release_changes_nothing_until_the_next_edit() -> Result<()> {
    let world = World::new("fail-template")?;
    let operator = world.start()?;
    let good = world.install("a", json!({"extra": ["one", "two"]}))?;
    let before = versions(&world.labelled("configmaps")?);
    ensure!(before.len() == 3);
    world.await_quiet(&operator)?;

    let start = world.mark()?;
    world.edit("a", json!({"extra": [], "color": "red", "fail": "no more widgets"}))?;
    world.await_stalled("a", "RenderFailed", &["templates/fail.yaml:2", "no more widgets"])?;
    let widget = world.live("a")?;
    ensure!(widget["status"]["observedGeneration"] == widget["metadata"]["generation"]);
    ensure!(condition(&widget, "Ready")["status"] == "False", "{widget}");
    let failed = condition(&widget, "ReleaseFailed");
    ensure!(failed["reason"] == "UpgradeError", "{failed}");
    ensure!(widget["status"]["inventory"] == good["status"]["inventory"], "{widget}");
    std::thread::sleep(Duration::from_secs(2));
    ensure!(versions(&world.labelled("configmaps")?) == before);
    let writes = world.requests(&operator, start)?.writes();
    let only_tells = |resource: &str| ["widgets", "events"].contains(&resource);
    ensure!(writes.iter().all(|write| only_tells(&write.resource)), "{writes}");
    ensure!(
        writes.len() == 2,
        "Stalled is reported once, not tried again:\n{writes}"
    );
    world.await_event("a", "RenderFailed", &["no more widgets"])?;

    let widget = world.update("a", json!({"fail": ""}))?;
    for kind in ["Stalled", "ReleaseFailed"] {
        ensure!(condition(&widget, kind).is_null(), "{widget}");
    }
    let left = world.labelled("configmaps")?;
    ensure!(left.len() == 1 && left[0]["data"]["color"] == "red", "{left:?}");
    Ok(())
}

#[test]
fn values_that_the_schema_rejects_are_reported_and_nothing_is_applied() -> Result<()> {
    let world = World::new("fail-schema")?;
    let _operator = world.start()?;
    world.apply_widget("a", json!({"size": 9, "color": 7}))?;
    world.await_stalled("a", "ValuesInvalid", &["size", "color"])?;
    ensure!(world.labelled("configmaps")?.is_empty());
    world.update("a", json!({"size": 5, "color": "red"}))?;
    // What operator-sdk's users rely on: whole numbers of a spec stay whole.
    ensure!(world.expect("configmap", "a-main")?["data"]["size"] == "5");
    Ok(())
}

#[test]
fn a_broken_chart_stalls_only_its_releases_and_they_can_be_deleted() -> Result<()> {
    let world = World::new("fail-chart")?;
    world.install_crd("Gadget")?;
    let gadget = world.second_chart("gadget")?;
    world.write_watches_of(&[("Widget", &world.chart(), &[]), ("Gadget", &gadget, &[])])?;
    let operator = world.start()?;
    world.apply(&world.custom("Gadget", "a", json!({"color": "blue"})))?;
    for (name, extra) in [("a", "one"), ("b", "two"), ("c", "three")] {
        world.install(name, json!({"extra": [extra]}))?;
    }
    world.await_condition_of(&world.resource("Gadget"), "a", "Ready", "True")?;
    let before = versions(&world.labelled("configmaps")?);
    ensure!(operator.terminate()?.success());

    world.write_template("broken.yaml", "a: 1\nb: {{ if }}\n")?;
    let operator = world.start()?;
    world.await_stalled("a", "RenderFailed", &["broken.yaml:2"])?;
    ensure!(versions(&world.labelled("configmaps")?) == before);
    world.patch(&world.resource("Gadget"), "a", &json!({"spec": {"color": "red"}}))?;
    world.await_color("a-gadget", "red")?;
    world.delete("a")?;
    world.absent("configmap", ["a-main", "a-one"])?;
    world.expect("configmap", "a-gadget")?;
    world.expect("configmap", "b-main")?;
    ensure!(operator.terminate()?.success());

    // No chart any more: not one file of it can be read, and then there is none.
    fs::write(world.chart().join("Chart.yaml"), "apiVersion: [\n")?;
    fs::remove_dir_all(world.chart().join("templates"))?;
    let operator = world.start()?;
    world.await_stalled("b", "ChartInvalid", &[])?;
    world.delete("b")?;
    ensure!(operator.terminate()?.success());
    fs::remove_dir_all(world.chart())?;
    let operator = world.start()?;
    operator.await_log("there is no chart")?;
    world.await_stalled("c", "ChartInvalid", &["chart"])?;
    world.delete("c")?;
    let left = world.labelled("configmaps")?;
    ensure!(left.len() == 1, "{left:?}");
    world.patch(&world.resource("Gadget"), "a", &json!({"spec": {"color": "green"}}))?;
    world.await_color("a-gadget", "green").map(drop)
}

#[test]
fn invalid_manifests_are_reported_before_the_first_write() -> Result<()> {
    let world = World::new("fail-manifest")?;
    let _operator = world.start()?;
    let map = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let twice = map(json!({"name": "{{ .Release.Name }}-main"}));
    let generated = map(json!({"generateName": "x-"}));
    let nameless = map(json!({"labels": {}}));
    let objects = json!([twice, generated, nameless]);
    world.apply_widget("a", json!({"extra": ["one"], "extraDeploy": objects}))?;
    let message = world.await_stalled("a", "ManifestInvalid", &["rendered twice", "generateName"])?;
    ensure_contains(&message, &["templates/configmap.yaml", "no metadata.name"])?;
    ensure!(world.labelled("configmaps")?.is_empty(), "something was applied");
    let widget = world.live("a")?;
    ensure!(widget["metadata"]["finalizers"].is_null(), "the first write: {widget}");
    Ok(())
}
