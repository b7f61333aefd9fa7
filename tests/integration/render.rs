//! `render -f` shows what `run` applies, and `template --dry-run=server` what Helm shows.

use std::fs;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::{World, member_rule};

/// What an operator knows and a command line doesn't: kinds of numbers, the watch's values, the cluster, earlier results.
const FACTS: &str = r#"
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-facts
data:
  password: {{ randAlphaNum 24 | b64enc }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-facts
data:
  number: {{ printf "%T %v" .Values.number .Values.number | quote }}
  float: {{ printf "%T %v" .Values.float .Values.float | quote }}
  fixed: {{ .Values.fixed | quote }}
  served: {{ .Capabilities.APIVersions.Has (printf "%s/v1/Widget" .Values.group) | quote }}
  version: {{ .Capabilities.KubeVersion.Version }}
  found: {{ dig "data" "word" "nothing" (lookup "v1" "ConfigMap" .Release.Namespace "source") | quote }}
  revision: {{ printf "%v %v" .Release.Revision .Release.IsUpgrade | quote }}
"#;

fn world(name: &str) -> Result<World> {
    let world = World::new(name)?.watch_key("overrideValues: {fixed: $FIXED_BY_WATCH}");
    fs::write(world.chart().join("templates/facts.yaml"), FACTS)?;
    world.grant("secrets", &[member_rule("", "secrets")])?;
    world.write_watches()?;
    let watches = fs::read_to_string(world.watches_file())?.replace("$FIXED_BY_WATCH", "from the watch");
    fs::write(world.watches_file(), watches)?;
    let source =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}, "data": {"word": "live"}});
    world.apply(&source)?;
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
    let output = Command::new(env!("CARGO_BIN_EXE_chartwright"))
        .args(["render", "--operator-name", &world.name, "-f"])
        .arg(&file)
        .arg("--watches-file")
        .arg(world.watches_file())
        .args(arguments)
        .env("KUBECONFIG", world.control_plane.kubeconfig())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "render failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Fails if applying this would change anything: kubectl diff then exits with 1.
fn ensure_live(world: &World, objects: &str) -> Result<()> {
    let diff = ["diff", "--server-side", "--field-manager=chartwright", "-f", "-"];
    world
        .kubectl
        .run_with_input(diff, objects)
        .context("what is live differs")?;
    Ok(())
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
        ensure!(facts["number"] == "int64 3000000");
        ensure!(facts["float"] == "float64 1.5");
        ensure!(facts["fixed"] == "from the watch");
        ensure!(facts["served"] == "true");
        ensure!(facts["found"] == "live");
        let live = world.expect(&world.widgets(), "a")?;
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
        ensure!(
            text.contains(password.as_str().context("no password")?),
            "another password: {text}"
        );
    }
    Ok(())
}

#[test]
fn render_without_a_server_asks_none() -> Result<()> {
    let world = world("render-alone")?;
    let _operator = world.start()?;
    world.install("a", spec(&world))?;
    let mut live = world.expect(&world.widgets(), "a")?;
    ensure!(
        !live["metadata"]["annotations"]["chartwright.dev/kept-results"].is_null(),
        "{live}"
    );
    // As `kubectl get -o yaml | chartwright render -f -` has it, with all that tells of the cluster.
    let text = render(&world, &live, &["--kubeconfig", "/nowhere"])?;
    for line in [
        "number: int64 3000000",
        "fixed: from the watch",
        "found: nothing",
        "served: \"false\"",
        "revision: 1 false",
    ] {
        ensure!(text.contains(line), "{line} is missing: {text}");
    }
    live["spec"]["number"] = json!(1e21);
    ensure!(render(&world, &live, &[])?.contains("number: float64 1e+21"));
    Ok(())
}

const ASKS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-asks
data:
  version: {{ .Capabilities.KubeVersion | quote }}
  has: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}
  found: {{ (lookup "v1" "ConfigMap" .Release.Namespace "source").data | toJson | quote }}
  missing: {{ lookup "v1" "ConfigMap" .Release.Namespace "none" | toJson | quote }}
  listed: {{ range (lookup "v1" "ConfigMap" .Release.Namespace "").items }}{{ .kind }}/{{ .metadata.name }} {{ end }}
  namespace: {{ (lookup "v1" "Namespace" "" .Release.Namespace).metadata.name }}
"#;

/// The real Helm's binary, if it was built.
fn helm() -> Option<std::path::PathBuf> {
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane/build");
    let printed = Command::new(build).args(["--print-dir", "helm"]).output().ok()?;
    let folder = String::from_utf8(printed.stdout).ok()?;
    let helm = std::path::Path::new(folder.trim()).join("helm");
    helm.is_file().then_some(helm)
}

/// Objects that can't be installed, and some that can, with a flag that makes a difference.
const OBJECTS: &[(&str, &str)] = &[
    ("{apiVersion: v1, kind: ConfigMap, metadata: {name: new}, bogus: 1}", ""),
    ("{apiVersion: v1, kind: ConfigMap, metadata: {name: source}}", ""),
    (
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: source}}",
        "--is-upgrade",
    ),
    (
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: source}}",
        "--take-ownership",
    ),
    (
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: source}}",
        "--output-dir=OUT",
    ),
    (
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: source, annotations: {helm.sh/hook: pre-install}}}",
        "",
    ),
    ("{apiVersion: v1, kind: ConfigMap, metadata: {name: half}}", ""),
    ("{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}", ""),
    (
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: half}}",
        "",
    ),
    ("{apiVersion: v1, kind: ConfigMap, metadata: {generateName: x-}}", ""),
    ("{apiVersion: v1, kind: Namespace, metadata: {name: default}}", ""),
    ("{apiVersion: a.b/v1, kind: Foo, metadata: {name: a}}", ""),
    ("{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: a}}", ""),
    (
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: source}}]}",
        "",
    ),
];

/// No objects at all. What is said of them is ours.
const MALFORMED: [&str; 3] = ["a: b", "kind: X", "{apiVersion: v1, kind: ConfigMap}"];

#[test]
fn a_dry_run_on_the_server_equals_helms() -> Result<()> {
    let world = World::new("render-template")?;
    let source =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}, "data": {"word": "live"}});
    world.apply(&source)?;
    let good = world.write_chart("asks", &[("asks.yaml", ASKS)])?;
    let bad = world.write_chart(
        "unserved",
        &[("a.yaml", "a: {{ lookup \"none.example/v1\" \"Thing\" \"\" \"\" }}")],
    )?;
    let old = world.write_chart("old", &[("a.yaml", "")])?;
    fs::write(
        old.join("Chart.yaml"),
        "apiVersion: v2\nname: old\nversion: 0.1.0\nkubeVersion: <1.2.3\n",
    )?;
    let run = |program: &std::path::Path,
               chart: &std::path::Path,
               mode: &str,
               kubeconfig: &std::path::Path|
     -> Result<Output> {
        let mut command = Command::new(program);
        command
            .args(["template", "rel"])
            .arg(chart)
            .args(["-n", &world.name])
            .args(mode.split(' '))
            .arg("--kubeconfig")
            .arg(kubeconfig);
        Ok(command.output()?)
    };
    let ours = std::path::Path::new(env!("CARGO_BIN_EXE_chartwright"));
    let kubeconfig = world.control_plane.kubeconfig();
    let text = String::from_utf8(run(ours, &good, "--dry-run=server", kubeconfig)?.stdout)?;
    for line in [
        r#"  has: "true""#,
        r#"  found: "{\"word\":\"live\"}""#,
        r#"  missing: "{}""#,
        "  listed: ConfigMap/kube-root-ca.crt ConfigMap/source",
        "  namespace: render-template",
    ] {
        ensure!(text.contains(line), "{line} is missing: {text}");
    }
    let Some(helm) = helm() else {
        eprintln!("not compared with Helm: tests/control-plane/build helm makes it");
        return Ok(());
    };
    let error = |output: &Output| -> Vec<String> {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines()
            .skip_while(|line| !line.starts_with("Error: "))
            .map(str::to_owned)
            .collect()
    };
    let compare = |chart: &std::path::Path, mode: &str, what: &str| -> Result<()> {
        let (theirs, ours) = (
            run(&helm, chart, mode, kubeconfig)?,
            run(ours, chart, mode, kubeconfig)?,
        );
        let texts = [&theirs, &ours].map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        ensure!(texts[0] == texts[1], "{what}: helm {} ours {}", texts[0], texts[1]);
        ensure!(
            theirs.status.code() == ours.status.code(),
            "{what}: {theirs:?} {ours:?}"
        );
        ensure!(error(&theirs) == error(&ours), "{what}: {theirs:?} {ours:?}");
        Ok(())
    };
    for chart in [&good, &bad, &old] {
        for mode in ["--dry-run=server", "--validate", "--dry-run=client"] {
            compare(chart, mode, &format!("{} {mode}", chart.display()))?;
        }
    }
    let marks = |labels: Value, annotations: Value| json!({"labels": labels, "annotations": annotations});
    let managed = |by: &str| json!({"app.kubernetes.io/managed-by": by});
    let release =
        |namespace: &str| json!({"meta.helm.sh/release-name": "rel", "meta.helm.sh/release-namespace": namespace});
    for (name, mut metadata) in [
        ("mine", marks(managed("Helm"), release(&world.name))),
        ("half", marks(managed("Other"), release("elsewhere"))),
    ] {
        metadata["name"] = json!(name);
        world.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))?;
    }
    for (objects, flags) in OBJECTS {
        let chart = world.write_chart("objects", &[("a.yaml", objects)])?;
        let flags = flags.replace("OUT", &world.dir.path().join("out").to_string_lossy());
        compare(
            &chart,
            format!("--dry-run=server {flags}").trim(),
            &format!("{objects} {flags}"),
        )?;
    }
    for objects in MALFORMED {
        let chart = world.write_chart("objects", &[("a.yaml", objects)])?;
        for program in [helm.as_path(), ours] {
            let output = run(program, &chart, "--dry-run=server", kubeconfig)?;
            ensure!(
                output.status.code() == Some(1) && output.stdout.is_empty(),
                "{objects}: {output:?}"
            );
        }
    }
    Ok(())
}
