//! Which operator and which releases a preview is for.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;

use super::Differ;
use crate::world::World;
use crate::world::fields::ensure_contains;

#[test]
fn the_operator_is_found_by_its_key() -> Result<()> {
    let world = World::new("diff-operator")?;
    let _operator = world.start()?;
    world.install("web", json!({}))?;
    let (kind, name) = (world.resource("widget"), world.name.as_str());
    let run = |operator: Option<&str>| -> Result<(Option<i32>, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
        command.args(["diff", &kind, "web", "-n", name, "--operator-namespace", name]);
        command.arg("--watches-file").arg(world.watches_file());
        command
            .env("KUBECONFIG", world.control_plane.kubeconfig())
            .env_remove("OPERATOR_NAME");
        if let Some(operator) = operator {
            command.env("OPERATOR_NAME", operator);
        }
        let output = command.output()?;
        Ok((
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    };
    let (code, errors) = run(None)?;
    ensure!(code == Some(0), "{errors}");
    ensure!(
        errors == format!("note: the operator is {name} in namespace {name}\n"),
        "{errors}"
    );
    let (code, errors) = run(Some(name))?;
    ensure!(code == Some(0) && errors.is_empty(), "{errors}");
    // A name that is given is never replaced.
    let (code, errors) = run(Some("other"))?;
    ensure!(code == Some(2), "{errors}");
    ensure_contains(
        &errors,
        &[
            "other-hmac-key, does not exist",
            &format!("found {name} in {name}: --operator-name {name}"),
        ],
    )
}

#[test]
fn a_chart_is_previewed_for_releases_of_its_name() -> Result<()> {
    let world = World::new("diff-other-chart")?;
    let _operator = world.start()?;
    world.install("web", json!({}))?;
    let folder = world.dir.path().join("redis");
    fs::create_dir_all(folder.join("templates"))?;
    fs::write(
        folder.join("Chart.yaml"),
        "apiVersion: v2\nname: redis\nversion: 1.0.0\n",
    )?;
    let chart = folder.display().to_string();
    let differ = Differ::new(&world)?;
    let printed = differ.run(&["--all", "--chart", &chart])?.expect(0)?;
    ensure_contains(
        &printed.err,
        &["--chart is redis: left out 1 release of Widget (chart widget)"],
    )?;
    ensure!(printed.out == "no release is selected\n", "{}", printed.out);
    let printed = differ.run(&[&world.resource("widget"), "web", "--chart", &chart])?;
    ensure_contains(
        &printed.err,
        &["warning: --chart is redis, and the watch of Widget has the chart widget"],
    )
}
