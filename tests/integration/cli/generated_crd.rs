//! CustomResourceDefinitions that are generated from charts, on the real API server: it accepts them, keeps all values, refuses
//! what the chart's schema forbids, and explains them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chartwright_scaffold::crd::{self, ChartValues, Names, Overlay, Surroundings};
use serde_json::{Value, json};

use crate::support::{Client, ControlPlane, Kubectl, eventually};

/// How long the API server may take to serve a kind.
const SERVED: Duration = Duration::from_secs(90);

/// A chart's kind on the API server.
struct GeneratedKind {
    chart: String,
    definition: Value,
    /// All default values, and those of its own `values.yaml` alone.
    spec: Value,
    own: Value,
}

impl GeneratedKind {
    fn of(chart: &Path, group: &str, overlay: &Overlay) -> Result<Self> {
        let source = ChartValues::load(chart)?;
        let names = Names {
            group: group.into(),
            version: "v1".into(),
            kind: "Thing".into(),
            ..Names::default()
        };
        let generated = crd::generate(&source, names, overlay, Surroundings::default())?;
        Ok(GeneratedKind {
            chart: chart.display().to_string(),
            definition: generated.definition(),
            spec: crd::as_spec(&source)?,
            own: crd::own_as_spec(&source)?,
        })
    }

    fn name(&self) -> &str {
        self.definition["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn path(&self, name: &str) -> String {
        let group = self.definition["spec"]["group"].as_str().unwrap_or_default();
        let plural = self.definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
        format!("/apis/{group}/v1/namespaces/default/{plural}/{name}")
    }

    fn schema(&self) -> &Value {
        &self.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    }

    fn thing(&self, spec: &Value) -> Value {
        let group = self.definition["spec"]["group"].as_str().unwrap_or_default();
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
    }

    /// Applies a custom resource with this spec; gives the spec that is stored.
    fn store(&self, client: &Client, spec: &Value) -> Result<Value> {
        self.send(client, "", spec)
    }

    /// What would be stored.
    fn try_out(&self, client: &Client, spec: &Value) -> Result<Value> {
        self.send(client, "&dryRun=All", spec)
    }

    fn send(&self, client: &Client, query: &str, spec: &Value) -> Result<Value> {
        let path = format!("{}?fieldValidation=Strict{query}", self.path("").trim_end_matches('/'));
        let mut thing = self.thing(spec);
        if !query.is_empty() {
            thing["metadata"]["name"] = "tried".into();
        }
        Ok(client.request("POST", &path, Some(("application/json", &thing)))?["spec"].clone())
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn define(client: &Client, kind: &GeneratedKind) -> Result<()> {
    client
        .request("POST", DEFINITIONS, Some(("application/json", &kind.definition)))
        .map(drop)
}

fn undefine(client: &Client, kind: &GeneratedKind) -> Result<()> {
    client
        .request("DELETE", &format!("{DEFINITIONS}/{}", kind.name()), None)
        .map(drop)
}

fn await_served(client: &Client, kind: &GeneratedKind) -> Result<()> {
    eventually(&format!("{} is served", kind.name()), SERVED, || {
        Ok(client.find(&kind.path("none")).is_ok().then_some(()))
    })
}

fn client(control_plane: &ControlPlane) -> Result<Client> {
    Client::new(control_plane.kubeconfig())
}

/// Whether two values are the same; the API server makes whole numbers of those that are.
fn same(sent: &Value, stored: &Value) -> bool {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            sent.len() == stored.len()
                && sent
                    .iter()
                    .all(|(key, value)| stored.get(key).is_some_and(|stored| same(value, stored)))
        }
        (Value::Array(sent), Value::Array(stored)) => {
            sent.len() == stored.len() && sent.iter().zip(stored).all(|(sent, stored)| same(sent, stored))
        }
        (Value::Number(sent), Value::Number(stored)) => sent.as_f64() == stored.as_f64(),
        (sent, stored) => sent == stored,
    }
}

/// Specs that a schema forbids: one value each, of a type that it can't have.
fn forbidden(schema: &Value, most: usize) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    let step = found.len().div_ceil(most).max(1);
    found.into_iter().step_by(step).collect()
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(String, Value)>) {
    let wrong = match schema["type"].as_str() {
        Some("boolean" | "integer" | "number" | "object" | "array") => json!("wrong"),
        Some("string") => json!(["wrong"]),
        _ if schema["x-kubernetes-int-or-string"] == true => json!(["wrong"]),
        _ => return,
    };
    if let Some(key) = path.last() {
        let key = key.clone();
        let spec = path.iter().rev().fold(wrong, |inner, key| json!({key: inner}));
        found.push((key, spec));
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        path.push(key.clone());
        collect(schema, path, found);
        path.pop();
    }
}

fn fixture(case: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/crd")).join(case)
}

/// A fixture's kind, served.
fn served(client: &Client, case: &str) -> Result<GeneratedKind> {
    let text = fs::read_to_string(fixture(case).join("overlay.yaml")).unwrap_or_default();
    let overlay = Overlay::read("overlay.yaml", &text).map_err(anyhow::Error::msg)?;
    let mut kind = GeneratedKind::of(&fixture(case).join("chart"), &format!("{case}.crd.test"), &overlay)?;
    // What these fixtures require and have no default for.
    match case {
        "combinators" => kind.spec["token"] = "abc".into(),
        "overlay" => kind.spec["owner"] = json!({"name": "a"}),
        _ => {}
    }
    define(client, &kind)?;
    await_served(client, &kind)?;
    Ok(kind)
}

/// Lays the values over those of a fixture, and says what the API server makes of it.
fn with(kind: &GeneratedKind, values: &Value) -> Value {
    let mut spec = kind.spec.clone();
    for (key, value) in values.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

#[test]
fn fixtures_are_accepted_and_refused_as_their_schema_says() -> Result<()> {
    let control_plane = ControlPlane::shared();
    let client = client(control_plane)?;
    for case in ["comments", "combinators", "draft4", "subcharts", "overlay"] {
        let cases: Value = serde_yaml::from_str(&fs::read_to_string(fixture(case).join("cases.yaml"))?)?;
        let cases = |outcome: &str| cases[outcome].as_array().cloned().unwrap_or_default();
        let kind = served(&client, case)?;
        let stored = kind.store(&client, &kind.spec).with_context(|| case.to_owned())?;
        ensure!(same(&kind.spec, &stored), "{case}: {stored}");
        for values in &cases("taken") {
            let spec = with(&kind, values);
            let stored = kind
                .try_out(&client, &spec)
                .with_context(|| format!("{case}: {values}"))?;
            ensure!(same(&spec, &stored), "{case}: {values}: {stored}");
        }
        for values in &cases("refused") {
            refuses(&client, &kind, &with(&kind, values)).with_context(|| format!("{case}: {values}"))?;
        }
        for (key, spec) in forbidden(kind.schema(), 100) {
            refuses(&client, &kind, &with(&kind, &spec)).with_context(|| format!("{case}: {key}: {spec}"))?;
        }
        if case == "overlay" {
            changes_are_refused(&client, &kind)?;
            scales_and_lists(control_plane.kubectl(), &kind)?;
        }
        if case == "comments" {
            let text = explain(control_plane.kubectl(), &kind, "things.spec.replicaCount")?;
            ensure!(
                text.contains("Number of servers. Clients spread their keys over them."),
                "{text}"
            );
            let text = explain(control_plane.kubectl(), &kind, "things.spec")?;
            ensure!(
                text.contains("Where images come from") || text.contains("image\t<Object>"),
                "{text}"
            );
        }
        undefine(&client, &kind)?;
    }
    Ok(())
}

/// Checks that the schema rejects a spec, in kubectl or in the API server.
fn refuses(client: &Client, kind: &GeneratedKind, spec: &Value) -> Result<()> {
    let result = kind.try_out(client, spec).map_err(|error| format!("{error:#}"));
    let is_schema_error = |error: &String| error.contains("is invalid") || error.contains("strict decoding error");
    ensure!(result.as_ref().is_err_and(is_schema_error), "{result:?}");
    Ok(())
}

/// What can't be changed once it is set, or isn't.
fn changes_are_refused(client: &Client, kind: &GeneratedKind) -> Result<()> {
    let patch = |spec: Value| {
        let content = json!({"spec": spec});
        let path = format!("{}?dryRun=All", kind.path("a"));
        client.request("PATCH", &path, Some(("application/merge-patch+json", &content)))
    };
    patch(json!({"size": 2, "storage": {"other": "x"}}))?;
    for spec in [
        json!({"storage": {"class": "b"}}),
        json!({"storage": {"zone": "b"}}),
        json!({"storage": null}),
    ] {
        let outcome = patch(spec.clone());
        let result = outcome.as_ref().map_err(|error| format!("{error:#}"));
        ensure!(
            result.is_err_and(|error| error.contains("can't be changed")),
            "{spec}: {outcome:?}"
        );
    }
    Ok(())
}

fn scales_and_lists(kubectl: &Kubectl, kind: &GeneratedKind) -> Result<()> {
    let resource = format!(
        "overlaid.{}/a",
        kind.definition["spec"]["group"].as_str().unwrap_or_default()
    );
    kubectl.run(["scale", &resource, "--replicas=3"])?;
    let table = kubectl.run(["get", &resource])?;
    let header: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    ensure!(
        header == ["NAME", "SIZE", "READY", "REASON", "VERSION", "AGE"],
        "{table}"
    );
    ensure!(table.contains(" 3 "), "{table}");
    let status = kubectl.run(["get", &resource, "-o", "jsonpath={.status}"])?;
    ensure!(status == "{\"observedGeneration\":-1}", "{status}");
    let short = kubectl.run(["get", "ov"])?;
    ensure!(short.starts_with("NAME"), "{short}");
    Ok(())
}

/// The program in a folder: its exit code and all that it says.
fn program(control_plane: &ControlPlane, folder: &Path, arguments: &[&str]) -> Result<(i32, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command.args(["generate", "crd"]).args(arguments).current_dir(folder);
    let output = command.env("KUBECONFIG", control_plane.kubeconfig()).output()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Ok((output.status.code().unwrap_or(-1), text))
}

#[test]
fn a_crd_is_compared_with_the_one_in_the_cluster() -> Result<()> {
    let control_plane = ControlPlane::shared();
    let client = client(control_plane)?;
    let folder = tempfile::tempdir()?;
    let chart = folder.path().join("web");
    fs::create_dir_all(&chart)?;
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n")?;
    fs::write(chart.join("values.yaml"), "size: 1\nmode: a\n")?;
    let names = [
        "web",
        "--group",
        "against.crd.test",
        "--version",
        "v1",
        "--kind",
        "Thing",
    ];
    let against = [names.as_slice(), &["--against", "cluster"]].concat();
    let (code, said) = program(control_plane, folder.path(), &against)?;
    ensure!(code == 0 && said.contains("does not have it yet"), "{code}: {said}");

    let kind = GeneratedKind::of(&chart, "against.crd.test", &Overlay::default())?;
    define(&client, &kind)?;
    await_served(&client, &kind)?;
    kind.store(&client, &json!({"size": 9, "mode": "b"}))?;
    let (code, said) = program(control_plane, folder.path(), &against)?;
    ensure!(code == 0 && said == "things.against.crd.test: safe\n", "{code}: {said}");

    fs::write(
        folder.path().join("web.crd.yaml"),
        "fields:\n  size: {maximum: 5}\n  mode: {enum: [a, b]}\n",
    )?;
    let (code, said) = program(control_plane, folder.path(), &against)?;
    let parts = [
        "unsafe: v1.spec.size: maximum was none, is 5",
        "Thing default/a in v1: .spec.size must be at most 5",
        "not safe",
    ];
    ensure!(
        code == 1 && parts.iter().all(|part| said.contains(part)),
        "{code}: {said}"
    );
    ensure!(!said.contains(".spec.mode: must"), "{said}");

    fs::write(folder.path().join("web.crd.yaml"), "fields:\n  sise: {maximum: 5}\n")?;
    let (code, said) = program(control_plane, folder.path(), &names)?;
    ensure!(
        code == 1 && said.contains("web.crd.yaml:2: fields.sise: ") && said.contains("did you mean size?"),
        "{code}: {said}"
    );
    ensure!(program(control_plane, folder.path(), &["web"])?.0 == 2);
    undefine(&client, &kind)
}

#[test]
fn the_definitions_of_a_project_follow_its_watches() -> Result<()> {
    let control_plane = ControlPlane::shared();
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("charts/web"))?;
    fs::write(
        path("charts/web/Chart.yaml"),
        "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    )?;
    fs::write(path("charts/web/values.yaml"), "size: 1\n")?;
    let watch = "group: a.test\n  kind: Web\n  chart: charts/web\n  version: ";
    fs::write(path("watches.yaml"), format!("- {watch}v1\n"))?;
    let file = path("config/crd/bases/a.test_webs.yaml");
    let run = |arguments: &[&str]| program(control_plane, folder.path(), arguments);

    let (code, said) = run(&["--check"])?;
    ensure!(
        code == 1 && said.contains("new: config/crd/bases/a.test_webs.yaml") && !file.exists(),
        "{code}: {said}"
    );
    ensure!(run(&[])?.0 == 0 && file.exists());
    ensure!(run(&["--check"])? == (0, String::new()));

    fs::write(path("charts/web/values.yaml"), "# How many.\nsize: 1\n")?;
    let (code, said) = run(&["--check"])?;
    ensure!(
        code == 1 && said.contains("+                description: 'How many."),
        "{code}: {said}"
    );
    let selector = |name: &str| format!("\n  selector: {{matchLabels: {{v: {name}}}}}\n");
    let watches = format!("- {watch}v1{}- {watch}v2{}", selector("one"), selector("two"));
    fs::write(path("watches.yaml"), watches)?;
    ensure!(run(&[])?.0 == 0);
    let made: Value = serde_yaml::from_str(&fs::read_to_string(&file)?)?;
    let versions = made["spec"]["versions"].as_array().context("versions")?;
    let found: Vec<_> = versions
        .iter()
        .map(|version| (version["name"].as_str(), version["storage"].as_bool()))
        .collect();
    ensure!(
        found == [(Some("v2"), Some(false)), (Some("v1"), Some(true))],
        "{found:?}"
    );
    ensure!(run(&["--check"])? == (0, String::new()));

    two_charts_of_one_version(control_plane, folder.path())
}

/// What either chart takes is taken.
fn two_charts_of_one_version(control_plane: &ControlPlane, folder: &Path) -> Result<()> {
    let path = |name: &str| folder.join(name);
    let run = |arguments: &[&str]| program(control_plane, folder, arguments);
    fs::create_dir_all(path("charts/other"))?;
    fs::write(
        path("charts/other/Chart.yaml"),
        "apiVersion: v2\nname: other\nversion: 2.0.0\n",
    )?;
    fs::write(path("charts/other/values.yaml"), "size: {a: 1}\nmore: 1\n")?;
    let watch = |chart: &str| {
        format!(
            "- {{group: a.test, version: v1, kind: Web, chart: charts/{chart}, selector: {{matchLabels: {{v: {chart}}}}}}}\n"
        )
    };
    fs::write(path("watches.yaml"), watch("web") + &watch("other"))?;
    ensure!(run(&[])?.0 == 0);
    let made: Value = serde_yaml::from_str(&fs::read_to_string(path("config/crd/bases/a.test_webs.yaml"))?)?;
    let schema = &made["spec"]["versions"][1]["schema"]["openAPIV3Schema"];
    ensure!(
        schema["description"] == "Web is a release of the chart web 1.0.0 or other 2.0.0.",
        "{schema}"
    );
    let size = &schema["properties"]["spec"]["properties"]["size"];
    ensure!(
        size["type"].is_null() && size["x-kubernetes-int-or-string"].is_null(),
        "{size}"
    );
    ensure!(run(&["--check"])? == (0, String::new()));
    Ok(())
}

/// The folders of charts below a folder, not those of subcharts.
fn charts_below(folder: &Path, into: &mut Vec<PathBuf>) {
    if folder.join("Chart.yaml").is_file() {
        into.push(folder.to_owned());
        return;
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !path.is_symlink())
        .collect();
    folders.sort();
    folders.iter().for_each(|folder| charts_below(folder, into));
}

/// The values that a chart's authors test it with.
fn examples(chart: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(chart.join("ci")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml" || end == "yml"));
    files.sort();
    files
}

/// How often something was found; what is written in capitals should not be.
type Tally = BTreeMap<&'static str, usize>;

/// Charts of one round: the API server takes longer the more kinds there are.
const ROUND: usize = 20;

/// `CHARTS=FOLDER cargo test --test integration generated_crd::public -- --ignored --nocapture`
#[test]
#[ignore = "minutes: CHARTS=FOLDER with public charts"]
fn public_charts_are_accepted_kept_and_explained() -> Result<()> {
    let folder = PathBuf::from(std::env::var_os("CHARTS").context("CHARTS names the folder with charts")?);
    let (mut charts, mut tally) = (Vec::new(), Tally::new());
    charts_below(&folder, &mut charts);
    let control_plane = ControlPlane::shared();
    let client = client(control_plane)?;
    for (round, charts) in charts.chunks(ROUND).enumerate() {
        let kinds = charts.iter().enumerate().filter_map(|(number, chart)| {
            let group = format!("r{round}n{number}.public.test");
            let made = GeneratedKind::of(chart, &group, &Overlay::default());
            made.map_err(|error| {
                count(
                    &mut tally,
                    "no chart",
                    &chart.display().to_string(),
                    &format!("{error:#}"),
                )
            })
            .ok()
        });
        let kinds: Vec<GeneratedKind> = kinds.collect();
        let mut accepted = Vec::new();
        for kind in kinds {
            match define(&client, &kind) {
                Ok(()) => accepted.push(kind),
                Err(error) => count(&mut tally, "DEFINITION REFUSED", &kind.chart, &format!("{error:#}")),
            }
        }
        for kind in &accepted {
            await_served(&client, kind)?;
            examine(&client, control_plane.kubectl(), kind, &mut tally);
        }
        for kind in &accepted {
            undefine(&client, kind)?;
        }
        eprintln!(
            "{} of {} charts: {tally:?}",
            (round + 1) * ROUND,
            tally.values().sum::<usize>()
        );
    }
    let bad: usize = tally
        .iter()
        .filter(|(what, _)| what.chars().all(|c| !c.is_lowercase()))
        .map(|(_, count)| count)
        .sum();
    ensure!(bad == 0, "{tally:?}");
    Ok(())
}

fn count(tally: &mut Tally, what: &'static str, chart: &str, why: &str) {
    *tally.entry(what).or_default() += 1;
    if !why.is_empty() {
        eprintln!("{what}: {chart}: {}", why.chars().take(1500).collect::<String>());
    }
}

fn examine(client: &Client, kubectl: &Kubectl, kind: &GeneratedKind, tally: &mut Tally) {
    match kind.store(client, &kind.spec) {
        Ok(stored) if same(&kind.spec, &stored) => count(tally, "stored unchanged", &kind.chart, ""),
        Ok(stored) => count(
            tally,
            "CHANGED",
            &kind.chart,
            &format!("sent {}\nstored {stored}", kind.spec),
        ),
        // The chart's schema has no place for some defaults of its subcharts.
        Err(error) if format!("{error:#}").contains("unknown field") => match kind.try_out(client, &kind.own) {
            Ok(stored) if same(&kind.own, &stored) => count(tally, "own values stored unchanged", &kind.chart, ""),
            outcome => count(tally, "OWN VALUES REFUSED", &kind.chart, &format!("{outcome:?}")),
        },
        Err(error) => count(tally, "VALUES REFUSED", &kind.chart, &format!("{error:#}")),
    }
    // What the chart's authors test it with.
    for file in examples(Path::new(&kind.chart)) {
        let text = fs::read(&file).unwrap_or_default();
        let Ok(spec @ Value::Object(_)) = go_yaml::to_json(&text) else {
            continue;
        };
        match kind.try_out(client, &spec) {
            Ok(stored) if same(&spec, &stored) => count(tally, "example stored unchanged", &kind.chart, ""),
            Ok(stored) => count(
                tally,
                "EXAMPLE CHANGED",
                &kind.chart,
                &format!("sent {spec}\nstored {stored}"),
            ),
            Err(error) => count(
                tally,
                "EXAMPLE REFUSED",
                &file.display().to_string(),
                &format!("{error:#}"),
            ),
        }
    }
    for (key, spec) in forbidden(kind.schema(), 4) {
        match kind.try_out(client, &spec) {
            Err(error) if format!("{error:#}").contains("must be of type") => {
                count(tally, "forbidden refused", &kind.chart, "")
            }
            outcome => count(
                tally,
                "FORBIDDEN TAKEN",
                &kind.chart,
                &format!("{key}: {spec}: {outcome:?}"),
            ),
        }
    }
    match explain(kubectl, kind, "things.spec") {
        Ok(text) if text.contains("Values for the chart") => count(tally, "explained", &kind.chart, ""),
        outcome => count(tally, "NOT EXPLAINED", &kind.chart, &format!("{outcome:?}")),
    }
}

/// What kubectl explains about a field, once the API server serves the kind.
fn explain(kubectl: &Kubectl, kind: &GeneratedKind, field: &str) -> Result<String> {
    let version = format!(
        "--api-version={}",
        kind.thing(&Value::Null)["apiVersion"].as_str().unwrap_or_default()
    );
    eventually("kubectl explains", SERVED, || {
        Ok(Some(kubectl.run(["explain", field, &version])?))
    })
}
