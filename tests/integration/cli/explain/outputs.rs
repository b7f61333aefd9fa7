//! The outputs as a user sees them.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::{Value, json};

use super::{explain, succeed};
use crate::support::eventually;
use crate::world::fields::{ensure_contains, text};
use crate::world::{SOON, World, member_rule};

/// Replaces what differs from run to run: times and the random parts of names.
fn stable(text: &str, world: &World) -> Result<String> {
    let text = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")?.replace_all(text, "TIME");
    let text =
        Regex::new(r"\b(ReplicaSet|replicaset\.apps|Pod|pod) ([a-z]+)(-[a-z0-9]+)+")?.replace_all(&text, "$1 $2-HASH");
    Ok(text.replace(&world.name, "NAMESPACE"))
}

/// Compares with a file of tests/fixtures/integration/explain/outputs, or writes it if `UPDATE` is set.
fn ensure_output(world: &World, file: &str, shown: &str) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/integration/explain/outputs");
    let (path, shown) = (folder.join(file), stable(shown, world)?);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&path, &shown)?;
    }
    let expected = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    ensure!(shown == expected, "{file}: expected\n{expected}\nis\n{shown}");
    Ok(())
}

#[test]
fn a_release_is_shown_with_what_it_owns() -> Result<()> {
    let world = World::new("explain-outputs")?;
    world.grant("more", &[member_rule("", "secrets"), member_rule("", "services")])?;
    let _operator = world.start()?;
    let late = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "annotations": {"chartwright.dev/wave": "1"}}});
    let labels = json!({"app.kubernetes.io/instance": "good"});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}, "spec": {"selector": labels, "ports": [{"port": 80}]}});
    let spec = json!({"deployment": {"enabled": true, "replicas": 2}, "hook": true, "secret": {"enabled": true}, "extraDeploy": [late, service]});
    world.install("good", spec)?;
    ensure_output(&world, "ready.txt", &explain(&world, "good", &[])?)?;
    ensure_output(&world, "tree.txt", &succeed(&world, "tree", "good", &[])?)?;

    world.apply_widget(
        "bad",
        json!({"deployment": {"enabled": true, "replicas": 1, "failing": true}}),
    )?;
    let shown = eventually("the pod is shown", SOON, || {
        let shown = explain(&world, "bad", &[])?;
        let is_settled = shown.contains("ImagePullBackOff") && shown.matches("0 of 1 available").count() == 2;
        Ok(is_settled.then_some(shown))
    })?;
    ensure_output(&world, "image-pull.txt", &shown)?;
    ensure!(!shown.contains('\u{1b}'), "colours without a terminal: {shown:?}");

    let watches = world.watches_file().display().to_string();
    let shown = explain(&world, "bad", &["--watches-file", &watches])?;
    let first = shown.lines().next().unwrap_or_default();
    ensure_contains(first, &["from widget/templates/deployment.yaml"])?;

    let report: Value = serde_json::from_str(&explain(&world, "bad", &["-o", "json"])?)?;
    let cause = &report["causes"][0];
    ensure!(
        cause["member"]["kind"] == "Deployment" && cause["object"]["kind"] == "Pod",
        "{report}"
    );
    ensure!(
        report["group"] == world.group() && report["kind"] == "Widget",
        "{report}"
    );
    for field in [
        "name",
        "namespace",
        "ready",
        "reason",
        "since",
        "next",
        "waves",
        "hooks",
        "conditions",
    ] {
        ensure!(!report[field].is_null(), "no {field} in {report}");
    }
    let yaml: Value = serde_yaml::from_str(&succeed(&world, "tree", "bad", &["-o", "yaml"])?)?;
    ensure!(yaml["waves"] == report["waves"], "{yaml}");
    Ok(())
}

#[test]
fn hostile_texts_stay_on_their_line() -> Result<()> {
    let world = World::new("explain-hostile")?;
    let _operator = world.start()?;
    world.apply_widget(
        "a",
        json!({"deployment": {"enabled": true, "replicas": 1, "failing": true}}),
    )?;
    let pods = eventually("the pod has a status", SOON, || {
        let pods = world.list("pods", "app.kubernetes.io/instance=a")?;
        let is_there = pods
            .first()
            .is_some_and(|pod| pod["status"]["containerStatuses"].is_array());
        Ok(is_there.then_some(pods))
    })?;
    let message = "\u{1b}[2Jgone\nnext: all is well\n  try: rm -rf /".to_owned() + &"x".repeat(5000);
    let waiting = json!([{"name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "\u{1b}[31mErrImagePull", "message": message}}}]);
    let status = json!({"status": {"containerStatuses": waiting}});
    world
        .kubectl
        .patch_status("pod", text(&pods[0]["metadata"]["name"]), &status)?;
    let shown = eventually("the message is shown", SOON, || {
        let shown = explain(&world, "a", &[])?;
        Ok(shown.contains("ErrImagePull").then_some(shown))
    })?;
    ensure!(
        !shown.contains('\u{1b}') && shown.contains("\\u{1b}[31mErrImagePull"),
        "{shown:?}"
    );
    ensure!(!shown.lines().any(|line| line.contains("try: rm")), "{shown}");
    Ok(())
}

#[test]
fn watch_prints_again_at_each_change() -> Result<()> {
    let world = World::new("explain-watch")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command.args(["explain", &world.widgets(), "a", "-n", &world.name, "--watch"]);
    command
        .env("KUBECONFIG", world.control_plane.kubeconfig())
        .stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut next_with = |part: &str| -> Result<String> {
        loop {
            let line = lines.next().context("the output ended")??;
            if line.contains(part) {
                return Ok(line);
            }
        }
    };
    next_with("ready since")?;
    world.suspend("a")?;
    next_with("it is suspended")?;
    world.annotate("a", json!({"chartwright.dev/suspend": null}))?;
    next_with("ready since")?;
    child.kill()?;
    child.wait()?;
    Ok(())
}

#[test]
fn kubectl_runs_it_as_a_plugin() -> Result<()> {
    let world = World::new("explain-plugin")?;
    let _operator = world.start()?;
    world.install("web", json!({}))?;
    let folder = tempfile::tempdir()?;
    for name in ["kubectl-chartwright", "kubectl_complete-chartwright"] {
        symlink(env!("CARGO_BIN_EXE_chartwright"), folder.path().join(name))?;
    }
    let kubectl = world.kubectl.command().get_program().to_owned();
    let run = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new(&kubectl);
        command
            .args(arguments)
            .env("PATH", folder.path())
            .env("KUBECONFIG", world.control_plane.kubeconfig());
        let output = command.output()?;
        Ok(String::from_utf8([output.stdout, output.stderr].concat())?)
    };
    let shown = run(&["chartwright", "tree", &world.widgets(), "web", "-n", &world.name])?;
    ensure_contains(&shown, &["Widget", "ok ConfigMap web-main"])?;
    let shown = run(&["chartwright", "tree", "--help"])?;
    ensure_contains(&shown, &["Usage: kubectl chartwright tree"])?;
    let shown = run(&["__complete", "chartwright", "expl"])?;
    ensure!(shown.starts_with("explain\n:4\n"), "{shown}");
    let shown = run(&[
        "__complete",
        "chartwright",
        "tree",
        "-n",
        &world.name,
        &world.widgets(),
        "w",
    ])?;
    ensure!(shown.starts_with("web\n:4\n"), "{shown}");
    Ok(())
}
