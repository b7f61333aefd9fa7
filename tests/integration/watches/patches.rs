//! `patches`: what the operator applies, reports and refuses, and what the commands show.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::ensure_contains;
use crate::world::{CRASHES, World, widget_chart};

fn world(name: &str, patches: &str) -> Result<World> {
    let world = World::new(name)?.watch_key(patches);
    world.write_watches()?;
    Ok(world)
}

const PATCHES: &str = r#"patches:
- target: {kind: ConfigMap, name: "*-main"}
  patch:
  - {op: add, path: /data/patched, value: "first"}
  - {op: add, path: /metadata/annotations, value: {helm.sh/resource-policy: keep}}
- target: {name: "*-hook", hooks: true}
  patch: {data: {hook: "first"}}
- target: {name: "*-hook"}
  patch: {data: {hook: "never"}}"#;

#[test]
fn members_and_hooks_are_patched_and_another_patch_is_an_upgrade() -> Result<()> {
    let world = world("patches-applied", PATCHES)?;
    let operator = world.start()?;
    let widget = world.install("a", json!({"hook": true, "extra": ["one"]}))?;
    ensure!(widget["status"]["release"]["revision"] == 1, "{widget}");
    let main = world.expect("configmap", "a-main")?;
    ensure!(
        main["data"] == json!({"color": "blue", "size": "1", "patched": "first"}),
        "{main}"
    );
    ensure!(world.expect("configmap", "a-one")?["data"] == json!({"extra": "one"}));
    ensure!(world.expect("configmap", "a-hook")?["data"]["hook"] == "first");

    // Hooks are patched on request only, and what that leaves without effect is reported once.
    world.await_event("a", "PatchUnmatched", &["patches[2]", "selects no object"])?;
    let unmatched = world
        .events("a")?
        .into_iter()
        .filter(|(reason, _)| reason == "PatchUnmatched");
    ensure!(unmatched.count() == 1);
    world.await_quiet(&operator)?;

    let text = fs::read_to_string(world.watches_file())?;
    fs::write(world.watches_file(), text.replace("first", "second"))?;
    let operator = world.restart(operator)?;
    world.await_field("configmap", "a-main", "/data/patched", "second")?;
    world.await_object("configmap", "a-hook", "patched again", |hook| {
        hook["data"]["hook"] == "second"
    })?;
    world.await_object(&world.widgets(), "a", "at its second revision", |widget| {
        widget["status"]["release"]["revision"] == 2
    })?;
    // The annotation of the patch has its effect.
    world.delete("a")?;
    world.await_deleted("a")?;
    world.absent("configmap", ["a-one"])?;
    world.expect("configmap", "a-main")?;
    drop(operator);
    Ok(())
}

#[test]
fn a_patch_that_fails_stalls_the_release_until_an_edit() -> Result<()> {
    let patches = r#"patches:
- target: {name: "*-none"}
  patch: {data: {a: b}}
- target: {name: "*-main"}
  patch:
  - {op: add, path: /data/patched, value: "yes"}
  - {op: test, path: /data/color, value: blue}"#;
    let world = world("patches-failed", patches)?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let before = world.expect("configmap", "a-main")?;
    world.await_quiet(&operator)?;

    let start = world.mark()?;
    world.edit("a", json!({"color": "red", "extra": ["one"]}))?;
    let place = "templates/configmap.yaml: ConfigMap patches-failed/a-main: patches[1].patch[1] (test /data/color)";
    world.await_stalled("a", "PatchFailed", &[place, "another value"])?;
    std::thread::sleep(Duration::from_secs(2));
    let writes = world.requests(&operator, start)?.writes();
    let is_report = |resource: &str| ["widgets", "events"].contains(&resource);
    ensure!(writes.iter().all(|write| is_report(&write.resource)), "{writes}");
    ensure!(writes.len() == 2, "it is reported once and not tried again:\n{writes}");
    ensure!(world.expect("configmap", "a-main")? == before);

    world.update("a", json!({"color": "blue"}))?;
    ensure!(world.expect("configmap", "a-one")?["data"]["extra"] == "one");
    Ok(())
}

#[test]
fn values_gain_no_rights_through_a_patch() -> Result<()> {
    // The first patch makes a Role of a default object. The second does the same with an object of the author, the third adds a
    // rule to every Role.
    let patches = r#"patches:
- target: {kind: ConfigMap, name: "*-main"}
  patch: {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, data: null, rules: []}
- target: {kind: ConfigMap, name: "*-one"}
  patch: {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, data: null, rules: []}
- target: {kind: Role}
  patch: [{op: add, path: /rules/-, value: {apiGroups: [""], resources: [configmaps], verbs: [get]}}]"#;
    let world = world("patches-refused", patches)?.granted("rbac.authorization.k8s.io", "roles")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    ensure!(world.expect("role", "a-main")?["rules"] == rules);

    let role = |name: &str, rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules,
        })
    };
    for (name, spec, object) in [
        ("made", json!({"extra": ["one"]}), "made-one"),
        ("own", json!({"extraDeploy": [role("own-role", json!([]))]}), "own-role"),
    ] {
        world.apply_widget(name, spec)?;
        let why = "the chart does not create it by default";
        world.await_stalled(name, "Refused", &[object, why, "`allow.kinds`"])?;
        world.absent("role", [object, &format!("{name}-main")])?;
    }
    // Without the CR's values nothing is left to refuse.
    world.update("made", json!({"extra": []}))?;
    ensure!(world.expect("role", "made-main")?["rules"] == rules);
    Ok(())
}

#[test]
fn a_rollback_restores_what_the_former_patch_made() -> Result<()> {
    let patches = r#"patches:
- target: {name: a-main}
  patch: {data: {patched: first}}
- target: {name: a-migrate, hooks: true}
  patch: {spec: {template: {metadata: {labels: {patched: "true"}}}}}"#;
    let world = World::staged("patches-rollback", &["onFailure: rollback", patches], &[])?;
    let operator = world.start()?;
    world.install("a", json!({"hooks": [{"name": "migrate", "at": "pre-upgrade"}]}))?;
    ensure!(world.expect("configmap", "a-main")?["data"]["patched"] == "first");

    // A patch that breaks the hook of its own upgrade.
    let text = fs::read_to_string(world.watches_file())?;
    let broken = text
        .replace("first", "second")
        .replace("patched: \"true\"", &format!("{CRASHES}: \"true\""));
    fs::write(world.watches_file(), broken)?;
    let operator = world.restart(operator)?;
    world.await_stalled(
        "a",
        "RolledBack",
        &["pre-upgrade hook Job a-migrate failed", "runs as revision 3"],
    )?;
    ensure!(world.expect("configmap", "a-main")?["data"]["patched"] == "first");

    fs::write(world.watches_file(), text.replace("first", "third"))?;
    let _operator = world.restart(operator)?;
    world.await_field("configmap", "a-main", "/data/patched", "third")?;
    world.await_ready("a").map(drop)
}

/// Writes a project with the chart of the tests and these patches.
fn project(patches: &str) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let chart = widget_chart();
    let watch = format!(
        "- group: a.test\n  version: v1\n  kind: Widget\n  chart: {}\n  {}\n",
        chart.display(),
        patches.replace('\n', "\n  ")
    );
    fs::write(folder.path().join("watches.yaml"), watch)?;
    let widget =
        json!({"apiVersion": "a.test/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"hook": true}});
    fs::write(folder.path().join("widget.json"), widget.to_string())?;
    Ok(folder)
}

fn chartwright(folder: &Path, arguments: &[&str]) -> Result<(Output, String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_chartwright"))
        .args(arguments)
        .current_dir(folder)
        .env("KUBECONFIG", "/nowhere")
        .output()
        .context("chartwright")?;
    let [shown, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ok((output, shown, errors))
}

#[test]
fn render_shows_patched_objects_and_template_what_helm_shows() -> Result<()> {
    let folder = project(PATCHES)?;
    let (output, shown, errors) = chartwright(folder.path(), &["render", "-f", "widget.json"])?;
    ensure!(output.status.success(), "{errors}");
    ensure_contains(
        &shown,
        &["patched: first", "helm.sh/resource-policy: keep", "hook: first"],
    )?;
    ensure_contains(&errors, &["warning: patches[2] of the watch has no effect"])?;
    let chart = widget_chart().display().to_string();
    let (output, shown, errors) = chartwright(folder.path(), &["template", "a", &chart])?;
    ensure!(output.status.success() && !shown.contains("patched"), "{shown}{errors}");

    let folder = project("patches: [{target: {name: a-main}, patch: [{op: remove, path: /data/none}]}]")?;
    let (output, shown, errors) = chartwright(folder.path(), &["render", "-f", "widget.json"])?;
    ensure!(output.status.code() == Some(1) && shown.is_empty(), "{shown}{errors}");
    let place = "ConfigMap default/a-main: patches[0].patch[0] (remove /data/none): the object has nothing there";
    ensure_contains(&errors, &["PatchFailed: ", "templates/configmap.yaml", place])
}

#[test]
fn lint_and_generate_rbac_see_patched_objects() -> Result<()> {
    let patches = r#"patches:
- target: {kind: ConfigMap, name: only-there, namespace: production}
  patch: {apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute}
- target: {kind: StatefulSet}
  patch: {spec: {replicas: 2}}
- target: {kind: Deployment}
  patch: [{op: remove, path: /spec/none}]"#;
    let folder = project(patches)?;
    let (output, shown, errors) = chartwright(folder.path(), &["generate", "rbac"])?;
    ensure!(output.status.success(), "{errors}");
    ensure_contains(&shown, &["gateway.networking.k8s.io", "httproutes", "configmaps"])?;
    let (output, shown, errors) = chartwright(folder.path(), &["lint", "--rule", "patch-fails,patch-unmatched"])?;
    ensure!(output.status.code() == Some(1), "{errors}");
    let fails = "(remove /spec/none): the object has nothing there";
    ensure_contains(
        &shown,
        &[
            "watches.yaml:8",
            "patches[1] selects no object",
            "watches.yaml:10",
            fails,
        ],
    )
}
