//! CustomResourceDefinitions: those of a chart's `crds/` belong to the watch, those of its templates are members and
//! come before what needs them.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::operator::{IMPATIENT, Launch};
use crate::world::{World, member_rule, served_changed};

/// A CRD of the world's group, as text that a template can hold.
fn crd(world: &World, kind: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let group = world.group();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
    .to_string()
}

/// The rights to make CRDs, and objects of the kind `Part`.
fn grant(world: &World) -> Result<()> {
    let crds = member_rule("apiextensions.k8s.io", "customresourcedefinitions");
    world.grant("crds", &[crds, member_rule(&world.group(), "parts")])
}

#[test]
fn crds_of_the_folder_belong_to_the_watch() -> Result<()> {
    let world = World::new("crds-folder")?;
    fs::create_dir(world.chart().join("crds"))?;
    fs::write(world.chart().join("crds/part.yaml"), crd(&world, "Part"))?;
    let operator = world.launch(&IMPATIENT)?;
    operator.await_log("crds/: crds/part.yaml: CustomResourceDefinition")?;
    let widget = world.install("a", json!({}))?;
    served_changed();
    ensure!(!widget.to_string().contains("CustomResourceDefinition"), "{widget}");
    let name = format!("parts.{}", world.group());
    ensure!(world.get("crd", &name)?.is_none());
    grant(&world)?;
    let made = world.await_object("crd", &name, "is made when it may be", |_| true)?;
    ensure!(
        made["metadata"]["labels"].is_null(),
        "it is nobody's member: {}",
        made["metadata"]
    );
    world.kubectl.delete(&world.widgets(), "a")?;
    ensure!(world.get("crd", &name)?.is_some(), "it stays when the release goes");
    Ok(())
}

#[test]
fn a_crd_among_the_templates_comes_before_its_objects() -> Result<()> {
    let world =
        World::new("crds-templates")?.watch_key("allow: {kinds: [CustomResourceDefinition.apiextensions.k8s.io]}");
    grant(&world)?;
    let spec = json!({"extraDeploy": [
        {"apiVersion": format!("{}/v1", world.group()), "kind": "Part", "metadata": {"name": "one"}, "spec": {}},
        serde_json::from_str::<serde_json::Value>(&crd(&world, "Part"))?,
    ]});
    let _operator = world.start()?;
    world.apply(&world.widget("a", spec))?;
    world.await_ready("a")?;
    served_changed();
    let part = world.get(&format!("parts.{}", world.group()), "one")?;
    ensure!(part.is_some(), "the object of the new kind is there");
    // The kind goes with the release; that it is gone must not keep the release from going.
    world.kubectl.delete(&world.widgets(), "a")?;
    world.await_gone("crd", &format!("parts.{}", world.group()))?;
    served_changed();
    Ok(())
}

#[test]
fn a_restart_sends_no_crd_that_is_there() -> Result<()> {
    let world = World::new("crds-restart")?;
    fs::create_dir(world.chart().join("crds"))?;
    fs::write(world.chart().join("crds/part.yaml"), crd(&world, "Part"))?;
    grant(&world)?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    served_changed();
    let name = format!("parts.{}", world.group());
    world.await_object("crd", &name, "is made", |_| true)?;
    ensure!(operator.terminate()?.success());

    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    let requests = world
        .all_requests(&operator, start)?
        .resource("customresourcedefinitions");
    let others = requests.filter(|request| !["list", "watch"].contains(&request.verb.as_str()));
    ensure!(others.is_empty(), "{others}");
    // One that somebody deletes is made by the next start, not before.
    ensure!(operator.terminate()?.success());
    world.kubectl.delete("crd", &name)?;
    served_changed();
    world.await_gone("crd", &name)?;
    let _operator = world.start()?;
    world.await_object("crd", &name, "is made again", |_| true)?;
    served_changed();
    Ok(())
}

/// A mark for each kind of the wave that is served.
const SERVED: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-served
data:
  marks: "{{ range until 10 }}{{ if $.Capabilities.APIVersions.Has (printf "%s/v1/Wave%d" $.Values.group .) }}x{{ end }}{{ end }}"
"#;

#[test]
fn a_wave_of_crds_renders_anew_a_few_times_not_once_for_each() -> Result<()> {
    let world = World::new("crds-wave")?;
    fs::write(world.chart().join("templates/served.yaml"), SERVED)?;
    let operator = world.launch(&Launch {
        metrics: true,
        ..Launch::default()
    })?;
    world.install("a", json!({"group": world.group()}))?;
    world.await_quiet(&operator)?;
    let renders = || operator.metric("chartwright_render_duration_seconds_count");
    let (start, began) = (renders()?, Instant::now());
    let kinds: Vec<String> = (0..10).map(|number| format!("Wave{number}")).collect();
    for kind in &kinds {
        world.kubectl.apply(&crd(&world, kind))?;
        // Each is served before the next one comes.
        std::thread::sleep(Duration::from_millis(400));
    }
    world.await_object("configmap", "a-served", "has a mark for each", |map| {
        map["data"]["marks"] == "x".repeat(10)
    })?;
    let (renders, elapsed) = (renders()? - start, began.elapsed());
    // Changes are gathered for a second and a half.
    let most = elapsed.as_secs_f64() / 1.5 + 1.0;
    ensure!(
        renders <= most,
        "{renders} renders for ten kinds that came in {elapsed:?}"
    );
    for kind in &kinds {
        world
            .kubectl
            .delete("crd", &format!("{}s.{}", kind.to_lowercase(), world.group()))?;
    }
    served_changed();
    Ok(())
}
