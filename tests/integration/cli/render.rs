//! `render -f` shows what `run` applies, and `template --dry-run=server` what Helm shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::{annotation, ensure_contains, text};
use crate::world::{World, config_map, member_rule, objects};

fn add_source(world: &World) -> Result<()> {
    world.apply(&config_map("source", json!({"word": "live"})))
}

fn world(name: &str) -> Result<World> {
    let world = World::new(name)?.watch_key("overrideValues: {fixed: $FIXED_BY_WATCH}");
    world.add_template("facts.yaml")?;
    world.grant("secrets", &[member_rule("", "secrets")])?;
    world.write_watches()?;
    let watches = fs::read_to_string(world.watches_file())?.replace("$FIXED_BY_WATCH", "from the watch");
    fs::write(world.watches_file(), watches)?;
    add_source(&world)?;
    Ok(world)
}

fn spec(world: &World) -> Value {
    json!({
        "group": world.group(), "number": 3_000_000, "float": 1.5, "fixed": "from the CR",
        "extra": ["x"], "secret": {"enabled": true, "password": "p"},
    })
}

fn render(world: &World, object: &Value, arguments: &[&str]) -> Result<String> {
    let file = world.dir.path().join("widget.json");
    fs::write(&file, object.to_string())?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command
        .args(["render", "--operator-name", &world.name, "-f"])
        .arg(&file);
    command.arg("--watches-file").arg(world.watches_file()).args(arguments);
    command
        .env("KUBECONFIG", world.control_plane.kubeconfig())
        .stderr(Stdio::inherit());
    let output = command.output()?;
    ensure!(output.status.success(), "render failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Fails if applying this would change anything: kubectl diff then exits with 1.
fn ensure_live(world: &World, objects: &str) -> Result<()> {
    let diff = ["diff", "--server-side", "--field-manager=chartwright", "-f", "-"];
    let shown = world.kubectl.run_with_input(diff, objects);
    shown.map(drop).context("what is live differs")
}

#[test]
fn render_shows_what_run_applies() -> Result<()> {
    let world = world("render-run")?;
    let _operator = world.start()?;
    world.install("a", spec(&world))?;
    let server = ["--server", "--operator-namespace", &world.name];
    // Of a release at its second revision, an upgrade, with results that it keeps.
    for color in ["blue", "red"] {
        world.update("a", json!({"color": color}))?;
        let facts = world.expect("configmap", "a-facts")?["data"].clone();
        ensure!(facts["number"] == "int64 3000000", "{facts}");
        ensure!(facts["float"] == "float64 1.5", "{facts}");
        ensure!(facts["fixed"] == "from the watch", "{facts}");
        ensure!(facts["served"] == "true", "{facts}");
        ensure!(facts["found"] == "live", "{facts}");
        let live = world.live("a")?;
        let text = render(&world, &live, &server)?;
        ensure!(text.matches("# Source: ").count() == 5, "{text}");
        ensure_live(&world, &text)?;
        // The same from the file of its author, which knows nothing of the live object.
        let mut file = world.widget("a", live["spec"].clone());
        ensure_live(&world, &render(&world, &file, &server)?)?;
        file["spec"]["size"] = 2.into();
        let text = render(&world, &file, &server)?;
        let refused = ensure_live(&world, &text);
        ensure!(refused.is_err(), "another spec has no other result: {text}");
        let password = world.expect("secret", "a-facts")?["data"]["password"].clone();
        ensure!(text.contains(password.as_str().context("no password")?), "{text}");
    }
    Ok(())
}

#[test]
fn render_without_a_server_asks_none() -> Result<()> {
    let world = world("render-alone")?;
    let _operator = world.start()?;
    world.install("a", spec(&world))?;
    let mut live = world.live("a")?;
    ensure!(annotation(&live, "chartwright.dev/kept-results").is_some(), "{live}");
    // As `kubectl get -o yaml | chartwright render -f -` writes it, with all fields that the cluster adds.
    let text = render(&world, &live, &["--kubeconfig", "/nowhere"])?;
    ensure_contains(&text, &["number: int64 3000000", "fixed: from the watch"])?;
    ensure_contains(&text, &["found: nothing", "served: \"false\"", "revision: 1 false"])?;
    live["spec"]["number"] = json!(1e21);
    ensure!(render(&world, &live, &[])?.contains("number: float64 1e+21"));
    Ok(())
}

/// The real Helm's binary, if it was built.
fn helm() -> Option<PathBuf> {
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane/build");
    let printed = Command::new(build).args(["--print-dir", "helm"]).output().ok()?;
    let folder = String::from_utf8(printed.stdout).ok()?;
    let helm = Path::new(folder.trim()).join("helm");
    helm.is_file().then_some(helm)
}

#[test]
fn a_server_dry_run_equals_helms() -> Result<()> {
    let world = World::new("render-template")?;
    add_source(&world)?;
    let [good, bad, old] = ["asks", "unserved", "old"].map(|chart| world.second_chart(chart));
    let (good, bad, old) = (good?, bad?, old?);
    let run = |program: &Path, chart: &Path, mode: &str, kubeconfig: &Path| -> Result<Output> {
        let mut command = Command::new(program);
        command.args(["template", "rel", "-n", &world.name]).arg(chart);
        command.args(mode.split(' ')).arg("--kubeconfig").arg(kubeconfig);
        Ok(command.output()?)
    };
    let ours = Path::new(env!("CARGO_BIN_EXE_chartwright"));
    let kubeconfig = world.control_plane.kubeconfig();
    let shown = String::from_utf8(run(ours, &good, "--dry-run=server", kubeconfig)?.stdout)?;
    ensure_contains(&shown, &[r#"  has: "true""#, r#"  found: "{\"word\":\"live\"}""#])?;
    ensure_contains(&shown, &["  listed: ConfigMap/kube-root-ca.crt ConfigMap/source"])?;
    ensure_contains(&shown, &[r#"  missing: "{}""#, "  namespace: render-template"])?;
    let Some(helm) = helm() else {
        eprintln!("not compared with Helm: tests/control-plane/build helm makes it");
        return Ok(());
    };
    // Standard output, the error without what stands before it, and the exit code.
    let visible = |output: Output| {
        let [shown, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let error = errors.lines().skip_while(|line| !line.starts_with("Error: "));
        let error: Vec<String> = error.map(str::to_owned).collect();
        (shown, error, output.status.code())
    };
    let compare = |chart: &Path, mode: &str, what: &str| -> Result<()> {
        let theirs = visible(run(&helm, chart, mode, kubeconfig)?);
        let ours = visible(run(ours, chart, mode, kubeconfig)?);
        ensure!(theirs == ours, "{what}: helm {theirs:?} ours {ours:?}");
        Ok(())
    };
    for chart in [&good, &bad, &old] {
        for mode in ["--dry-run=server", "--validate", "--dry-run=client"] {
            compare(chart, mode, &format!("{} {mode}", chart.display()))?;
        }
    }

    for (name, by, namespace) in [("mine", "Helm", world.name.as_str()), ("half", "Other", "elsewhere")] {
        let release = json!({"meta.helm.sh/release-name": "rel", "meta.helm.sh/release-namespace": namespace});
        let labels = json!({"app.kubernetes.io/managed-by": by});
        let metadata = json!({"name": name, "labels": labels, "annotations": release});
        world.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))?;
    }
    for case in objects("dry-run")? {
        let (objects, flags) = (text(&case["objects"]), text(&case["flags"]));
        let chart = world.write_chart("objects", &[("a.yaml", objects)])?;
        let flags = flags.replace("OUT", &world.dir.path().join("out").to_string_lossy());
        let mode = format!("--dry-run=server {flags}");
        if case["malformed"].is_null() {
            compare(&chart, mode.trim(), &case.to_string())?;
            continue;
        }
        for program in [helm.as_path(), ours] {
            let output = run(program, &chart, mode.trim(), kubeconfig)?;
            let failed = output.status.code() == Some(1) && output.stdout.is_empty();
            ensure!(failed, "{objects}: {output:?}");
        }
    }
    Ok(())
}
