//! Edits of values, charts and watches.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Differ, difference, ensure_announced};
use crate::world::World;
use crate::world::fields::ensure_contains;

#[test]
fn an_unchanged_release_has_no_difference() -> Result<()> {
    let world = World::new("diff-unchanged")?.granted("", "secrets")?;
    let _operator = world.start()?;
    world.install(
        "a",
        json!({"deployment": {"enabled": true}, "extra": ["one"], "secret": {"enabled": true, "password": "hidden-1"}}),
    )?;
    let differ = Differ::new(&world)?;
    let printed = differ.run(&[&world.resource("widget"), "a"])?.expect(0)?;
    ensure_contains(&printed.out, &["no changes", "1 release: 1 unchanged"])?;
    let release = differ.release("a", &[], 0)?;
    ensure_announced(&release, &[])?;
    // The same file as the live custom resource.
    let file = world.dir.path().join("cr.json");
    fs::write(&file, world.live("a")?.to_string())?;
    differ.run(&["-f", &file.display().to_string()])?.expect(0)?;
    Ok(())
}

#[test]
fn a_changed_value_is_shown_without_defaults_and_fields_of_others() -> Result<()> {
    let world = World::new("diff-value")?;
    let _operator = world.start()?;
    world.install("a", json!({"deployment": {"enabled": true, "replicas": 1}}))?;
    // A field of another manager, which the edit does not concern.
    world.patch("configmap", "a-main", &json!({"data": {"theirs": "foreign-value"}}))?;
    world.patch(
        "deployment",
        "a",
        &json!({"metadata": {"annotations": {"theirs": "foreign-value"}}}),
    )?;
    let differ = Differ::new(&world)?;
    let release = differ.release("a", &["--set", "color=red", "--set", "deployment.replicas=3"], 1)?;
    ensure_announced(&release, &["changed ConfigMap a-main", "changed Deployment a"])?;
    let map = difference(&release, "a-main")?;
    ensure!(
        map.contains("-  color: blue\n+  color: red\n") && !map.contains("foreign-value"),
        "{map}"
    );
    let deployment = difference(&release, "a")?;
    ensure!(deployment.contains("-  replicas: 1\n+  replicas: 3\n"), "{deployment}");
    for hidden in [
        "foreign-value",
        "revisionHistoryLimit",
        "managedFields",
        "resourceVersion",
        "generation",
        "status",
    ] {
        ensure!(!deployment.contains(hidden), "{hidden}: {deployment}");
    }
    ensure!(release["summary"]["restarts"] == json!([]), "{release:#}");
    // The custom resource is as it was.
    ensure!(world.live("a")?["spec"]["deployment"]["replicas"] == 1);
    Ok(())
}

#[test]
fn each_changed_member_is_one_dry_run() -> Result<()> {
    let world = World::new("diff-cost")?.granted("", "secrets")?;
    let _operator = world.start()?;
    let spec =
        json!({"deployment": {"enabled": true}, "extra": ["one", "two"], "secret": {"enabled": true, "password": "a"}});
    world.install("a", spec)?;
    let kind = world.resource("widget");
    let differ = Differ::new(&world)?;
    let unchanged = differ.run(&[&kind, "a"])?.expect(0)?;
    ensure!(unchanged.dry_runs.is_empty(), "{:?}", unchanged.dry_runs);
    let mut changed = differ
        .run(&[&kind, "a", "--set", "color=red", "--set", "extra={one}"])?
        .expect(1)?;
    changed.dry_runs.sort();
    ensure!(
        changed.dry_runs == ["delete configmaps a-two", "patch configmaps a-main", "patch widgets a"],
        "{:?}",
        changed.dry_runs
    );
    Ok(())
}

#[test]
fn a_new_custom_resource_is_created_with_all_its_members() -> Result<()> {
    let world = World::new("diff-new")?;
    let _operator = world.start()?;
    world.await_quiet(&_operator)?;
    let file = world.dir.path().join("cr.yaml");
    let widget = world.widget("a", json!({"deployment": {"enabled": true}}));
    fs::write(&file, serde_yaml::to_string(&widget)?)?;
    let differ = Differ::new(&world)?;
    let release = differ.json(&["-f", &file.display().to_string(), "-o", "json"], 1)?;
    ensure_announced(&release, &["created ConfigMap a-main", "created Deployment a"])?;
    let deployment = difference(&release, "a")?;
    ensure_contains(&deployment, &["+kind: Deployment", "+      - image: example/app:7"])?;
    ensure!(
        !deployment.contains("revisionHistoryLimit") && !deployment.contains("terminationMessagePath"),
        "{deployment}"
    );
    // From standard input, with a value of the command line.
    let printed = differ
        .run_with(&["-f", "-", "--set", "extra={one}"], &widget.to_string())?
        .expect(1)?;
    ensure_contains(&printed.out, &["3 created", "created ConfigMap diff-new/a-one"])?;
    world.absent(&world.widgets(), ["a"])?;
    world.absent("configmap", ["a-main", "a-one"])
}

/// A copy of the world's chart, in another version.
fn newer_chart(world: &World) -> Result<String> {
    let folder = world.dir.path().join("newer");
    fs::create_dir_all(folder.join("templates"))?;
    for file in ["values.yaml", "Chart.yaml"] {
        let text = fs::read_to_string(world.chart().join(file))?;
        let text = text
            .replace("color: blue", "color: green")
            .replace("version: 1.2.3", "version: 1.3.0");
        fs::write(
            folder.join(file),
            text.replace("appVersion: \"7\"", "appVersion: \"8\""),
        )?;
    }
    for entry in fs::read_dir(world.chart().join("templates"))? {
        let path = entry?.path();
        fs::copy(
            &path,
            folder.join("templates").join(path.file_name().unwrap_or_default()),
        )?;
    }
    let added = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-added'}\n";
    fs::write(folder.join("templates/added.yaml"), added)?;
    Ok(folder.display().to_string())
}

#[test]
fn a_newer_chart_names_the_workloads_whose_pods_restart() -> Result<()> {
    let world = World::new("diff-chart")?;
    let _operator = world.start()?;
    world.install("a", json!({"deployment": {"enabled": true}}))?;
    world.install("b", json!({"color": "red"}))?;
    let chart = newer_chart(&world)?;
    let differ = Differ::new(&world)?;
    let release = differ.release("a", &["--chart", &chart], 1)?;
    ensure_announced(
        &release,
        &[
            "changed ConfigMap a-main",
            "changed Deployment a",
            "created ConfigMap a-added",
        ],
    )?;
    let restarts = &release["summary"]["restarts"];
    ensure!(
        restarts[0]["kind"] == "Deployment" && restarts[0]["name"] == "a" && restarts[1].is_null(),
        "{release:#}"
    );
    ensure!(
        release["chart"]["from"] == "1.2.3" && release["chart"]["to"] == "1.3.0",
        "{release:#}"
    );
    let printed = differ.run(&["--all", "--chart", &chart])?.expect(1)?;
    ensure_contains(
        &printed.out,
        &[
            "chart widget 1.2.3 -> 1.3.0",
            "pods restart: Deployment.apps diff-chart/a",
            "created ConfigMap diff-chart/b-added",
            "2 releases: 2 changed",
        ],
    )
}

#[test]
fn a_new_watches_file_is_shown_for_all_releases() -> Result<()> {
    let world = World::new("diff-watches")?;
    let _operator = world.start()?;
    world.install_all(&["a", "b"], |name| {
        if name == "a" {
            json!({})
        } else {
            json!({"color": "red"})
        }
    })?;
    let now = fs::read_to_string(world.watches_file())?;
    let new = world.dir.path().join("new.yaml");
    fs::write(&new, format!("{now}  values: {{color: green}}\n"))?;
    let differ = Differ::new(&world)?;
    differ.run(&["--all"])?.expect(0)?;
    let new = new.display().to_string();
    let printed = differ.run(&["--all", "--watches-file", &new])?.expect(1)?;
    ensure_contains(
        &printed.out,
        &[
            "changed ConfigMap diff-watches/a-main",
            "+  color: green",
            "1 unchanged, 1 changed",
        ],
    )?;
    ensure!(!printed.out.contains("b-main"), "{}", printed.out);
    Ok(())
}
