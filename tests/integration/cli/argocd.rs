//! `generate argocd`, and the statuses of releases in GitOps tools: Argo CD's Lua engine and kstatus read real custom resources.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cli::scaffold::{refuse, run};
use crate::support::{eventually, until};
use crate::world::fields::{condition, ensure_contains, text};
use crate::world::{CRASHES, HANGS, SOON, World, WorldSetup, any_fields, member_rule};

/// A Secret with a random result, which the operator stores.
const RANDOM: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: \"{{ .Release.Name }}-random\"}\n\
                      stringData: {password: \"{{ randAlphaNum 20 }}\"}\n";

/// The program with the libraries of Argo CD and Flux.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane/build");
        let built = Command::new(script)
            .args(["--resolve", "gitops"])
            .stderr(Stdio::inherit())
            .output();
        let built = built.expect("the build script runs");
        assert!(built.status.success(), "the build script has said why it fails");
        PathBuf::from(String::from_utf8(built.stdout).expect("a path").trim())
    })
}

/// Sends a request to the program. Returns its answer.
fn ask(request: &Value) -> Result<Value> {
    let mut child = Command::new(program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("standard input")?
        .write_all(request.to_string().as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{request}");
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let error = &answer["error"];
    ensure!(error.is_null(), "{}", text(error));
    Ok(answer["ok"].clone())
}

/// The generated data of argocd-cm.
struct ArgoCd {
    config: Value,
}

impl ArgoCd {
    /// Runs `generate argocd` for the watches of a world.
    fn of(world: &World) -> Result<Self> {
        let watches = world.watches_file();
        let arguments = [
            "generate",
            "argocd",
            "--watches-file",
            watches.to_str().context("a path")?,
        ];
        let (succeeded, printed) = run(world.dir.path(), &arguments)?;
        ensure!(succeeded, "{printed}");
        let object: Value = serde_yaml::from_str(&printed)?;
        Ok(ArgoCd {
            config: object["data"].clone(),
        })
    }

    fn health(&self, object: &Value) -> Result<(String, String)> {
        let health = ask(&json!({"op": "health", "config": self.config, "object": object}))?;
        Ok((text(&health["status"]).to_owned(), text(&health["message"]).to_owned()))
    }

    /// The offered actions, and those that are disabled.
    fn actions(&self, object: &Value) -> Result<(Vec<String>, Vec<String>)> {
        let actions = ask(&json!({"op": "actions", "config": self.config, "object": object}))?;
        let all = actions.as_object().context("actions by name")?.iter();
        let (disabled, offered): (Vec<_>, Vec<_>) = all.partition(|(_, action)| action["disabled"] == true);
        let names = |list: Vec<(&String, &Value)>| list.into_iter().map(|(name, _)| name.clone()).collect();
        Ok((names(offered), names(disabled)))
    }

    /// Runs an action as Argo CD does. Returns the annotations that it sets.
    fn act(&self, world: &World, action: &str, params: Value) -> Result<Value> {
        let object = world.live("a")?;
        let request = json!({"op": "act", "config": self.config, "object": object, "action": action, "params": params});
        let patch = ask(&request).with_context(|| action.to_owned())?;
        let annotations = patch["metadata"]["annotations"].clone();
        let only = json!({"metadata": {"annotations": annotations}});
        ensure!(patch == only, "{action} changes nothing but annotations: {patch}");
        world.patch_widget("a", &patch)?;
        Ok(annotations)
    }

    /// The object without ignored fields.
    fn normalized(&self, object: &Value) -> Result<Value> {
        ask(&json!({"op": "normalize", "config": self.config, "object": object}))
    }
}

/// Checks the state of a widget in Argo CD and by kstatus.
fn ensure_state(world: &World, argocd: &ArgoCd, name: &str, expected: (&str, &str), message: &str) -> Result<()> {
    let widget = world.live(name)?;
    let (health, shown) = argocd.health(&widget)?;
    let computed = ask(&json!({"op": "kstatus", "object": widget}))?;
    let found = (health.as_str(), text(&computed["status"]));
    ensure!(found == expected, "{found:?}, expected {expected:?}: {shown}: {widget}");
    ensure_contains(&shown, &[message])
}

/// A world whose kind has the schema of the status that `generate crd` writes. Plan `backup` is in the values of the chart's ci/.
fn world(name: &str) -> Result<World> {
    let world = World::with(name, WorldSetup::NO_CRD)?;
    let chart = world.second_chart("staged")?;
    fs::create_dir_all(chart.join("ci"))?;
    fs::write(
        chart.join("ci/backup-values.yaml"),
        "hooks: [{name: dump, at: plan-backup}]\n",
    )?;
    fs::write(chart.join("templates/random.yaml"), RANDOM)?;
    let chart = chart.to_str().context("a path")?;
    let group = world.group();
    let arguments = [
        "generate",
        "crd",
        chart,
        "--group",
        &group,
        "--version",
        "v1",
        "--kind",
        "Widget",
    ];
    let (succeeded, printed) = run(world.dir.path(), &arguments)?;
    ensure!(succeeded, "{printed}");
    let mut definition: Value = serde_yaml::from_str(&printed)?;
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = any_fields();
    world.serve(&definition)?;
    let keys = ["onFailure: rollback", "retries: 0"];
    world.write_watches_of(&[("Widget", Path::new(chart), &keys)])?;
    let members = [("batch", "jobs"), ("", "secrets")].map(|(group, kind)| member_rule(group, kind));
    world.grant("staged", &members)?;
    Ok(world)
}

#[test]
fn argo_cd_and_kstatus_read_the_state_of_a_release() -> Result<()> {
    let world = world("argocd-states")?;
    let argocd = ArgoCd::of(&world)?;
    let progressing = ("Progressing", "InProgress");

    world.apply_widget("a", json!({"deployment": {HANGS: "true"}}))?;
    ensure_state(&world, &argocd, "a", progressing, "Waiting for the operator").context("not seen")?;
    let operator = world.start()?;
    world.await_unready("a", "Progressing", &["a-web"])?;
    ensure_state(&world, &argocd, "a", progressing, "Deployment a-web").context("installing")?;
    world.update("a", json!({"deployment": {HANGS: null, "app": "x"}}))?;
    ensure_state(&world, &argocd, "a", ("Healthy", "Current"), "members are ready").context("ready")?;

    world.apply_widget("b", json!({"hooks": 3}))?;
    let message = world.await_stalled("b", "RenderFailed", &[])?;
    ensure_state(&world, &argocd, "b", ("Degraded", "Failed"), &message).context("stalled")?;

    // The operator has no rights on claims.
    world.apply_widget("c", json!({"claim": "data"}))?;
    until("it is tried again", SOON, || {
        Ok(world.live("c")?["status"]["failures"].as_u64() > Some(1))
    })?;
    ensure!(condition(&world.live("c")?, "Reconciling")["reason"] == "ProgressingWithRetry");
    ensure_state(&world, &argocd, "c", progressing, "persistentvolumeclaims").context("failed and retried")?;

    world.suspend("a")?;
    ensure_state(&world, &argocd, "a", ("Suspended", "Current"), "suspended").context("suspended")?;
    world.annotate("a", json!({"chartwright.dev/suspend": null}))?;
    eventually("it goes on", SOON, || {
        Ok(condition(&world.live("a")?, "Suspended").is_null().then_some(()))
    })?;

    let failing = json!({"name": "migrate", "at": "pre-upgrade", "pod": {CRASHES: "true"}});
    world.edit("a", json!({"color": "red", "hooks": [failing]}))?;
    let message = world.await_stalled("a", "RolledBack", &["runs as revision"])?;
    ensure_state(&world, &argocd, "a", ("Degraded", "Failed"), &message).context("rolled back")?;

    world.hold("configmap", "a-main")?;
    world.annotate("a", json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}))?;
    world.begin_delete("a")?;
    world.await_unready("a", "Uninstalling", &["a-main"])?;
    let deleting = ("Progressing", "Terminating");
    ensure_state(&world, &argocd, "a", deleting, "a-main").context("deleting")?;
    world.remove_finalizers("configmap", "a-main")?;
    world.await_deleted("a")?;

    world.install("d", json!({}))?;
    operator.kill()?;
    world.edit("d", json!({"color": "red"}))?;
    ensure_state(&world, &argocd, "d", progressing, "Waiting for the operator").context("edited")
}

/// Waits until the operator has carried out a request.
fn await_handled(world: &World, field: &str, request: &Value) -> Result<()> {
    ensure!(request.is_string(), "{field}: {request}");
    let pointer = format!("/status/{field}");
    world
        .await_field(&world.widgets(), "a", &pointer, request.clone())
        .map(drop)
}

#[test]
fn actions_of_argo_cd_control_a_release() -> Result<()> {
    let world = world("argocd-actions")?;
    let argocd = ArgoCd::of(&world)?;
    let _operator = world.start()?;
    let plans = json!([
        {"name": "dump", "at": "plan-backup"},
        {"name": "mark", "at": "plan-extra", "kind": "ConfigMap"},
    ]);
    world.install("a", json!({"hooks": plans}))?;
    let (offered, disabled) = argocd.actions(&world.live("a")?)?;
    ensure!(
        offered == ["force", "reconcile", "run-plan", "run-plan-backup", "suspend"],
        "{offered:?}"
    );
    ensure!(disabled == ["resume", "rollback"], "{disabled:?}");

    let set = argocd.act(&world, "reconcile", json!({}))?;
    await_handled(&world, "lastHandledReconcileAt", &set["chartwright.dev/requested-at"])?;
    let set = argocd.act(&world, "force", json!({}))?;
    await_handled(&world, "lastHandledForceAt", &set["chartwright.dev/force-at"])?;

    // A plan of the chart has an action of its own; for other plans the user enters the name.
    world.annotate("a", json!({"chartwright.dev/plan-params": "{\"label\": \"old\"}"}))?;
    let set = argocd.act(&world, "run-plan", json!({"plan": "extra"}))?;
    await_handled(&world, "lastHandledRunPlan", &set["chartwright.dev/run-plan"])?;
    let mark = world.await_there("configmap", "a-mark")?;
    ensure!(
        mark["data"]["label"] == "none",
        "parameters of an earlier request: {mark}"
    );
    let set = argocd.act(&world, "run-plan-backup", json!({}))?;
    await_handled(&world, "lastHandledRunPlan", &set["chartwright.dev/run-plan"])?;
    world.await_event("a", "PlanSucceeded", &["plan backup succeeded"])?;
    let missing = argocd.act(&world, "run-plan", json!({})).unwrap_err();
    ensure_contains(&format!("{missing:#}"), &["the parameter plan is missing"])?;

    argocd.act(&world, "suspend", json!({}))?;
    world.await_condition("a", "Suspended", "True")?;
    let (offered, _) = argocd.actions(&world.live("a")?)?;
    ensure!(offered == ["resume"], "{offered:?}");
    argocd.act(&world, "resume", json!({}))?;
    eventually("it goes on", SOON, || {
        Ok(condition(&world.live("a")?, "Suspended").is_null().then_some(()))
    })?;

    world.update("a", json!({"color": "red"}))?;
    let (offered, _) = argocd.actions(&world.live("a")?)?;
    ensure!(offered.contains(&"rollback".to_owned()), "{offered:?}");
    let set = argocd.act(&world, "rollback", json!({}))?;
    ensure_contains(text(&set["chartwright.dev/rollback-to"]), &["1@"])?;
    world.await_stalled("a", "RolledBack", &["revision 1"])?;
    world.await_color("a-main", "blue")?;
    let (_, disabled) = argocd.actions(&world.live("a")?)?;
    ensure!(
        disabled == ["resume", "rollback"],
        "nothing is before revision 1: {disabled:?}"
    );
    let refused = argocd.act(&world, "rollback", json!({})).unwrap_err();
    ensure_contains(&format!("{refused:#}"), &["is not offered"])
}

/// What differs between Git and the cluster, apart from what the API server and kubectl add.
fn compared(mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    let kubectl = "kubectl.kubernetes.io/last-applied-configuration";
    let map = |field: &Value| field.as_object().cloned().unwrap_or_default();
    let mut annotations = map(&metadata["annotations"]);
    annotations.remove(kubectl);
    let finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    let labels = map(&metadata["labels"]);
    json!({
        "spec": object["spec"], "status": object["status"],
        "labels": labels, "annotations": annotations, "finalizers": finalizers,
    })
}

#[test]
fn metadata_of_the_operator_is_no_difference_to_argo_cd() -> Result<()> {
    let world = world("argocd-synced")?;
    let argocd = ArgoCd::of(&world)?;
    let _operator = world.start()?;
    let mut committed = world.widget("a", json!({"color": "blue"}));
    committed["metadata"]["labels"] = json!({"team": "shop"});
    committed["metadata"]["annotations"] = json!({"example.com/note": "x"});
    committed["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.apply(&committed)?;
    let live = world.await_ready("a")?;
    let marks = compared(live.clone());
    ensure!(
        marks["annotations"]["chartwright.dev/kept-results"].is_string(),
        "each mark is there to be ignored: {marks}"
    );
    ensure!(marks != compared(committed.clone()), "{marks}");
    let (live, committed) = (argocd.normalized(&live)?, argocd.normalized(&committed)?);
    ensure!(compared(live.clone()) == compared(committed), "{live}");
    world.remove_finalizers(&world.widgets(), "a")?;
    world.delete("a")
}

#[test]
fn marks_on_a_decorated_object_are_no_difference_to_argo_cd() -> Result<()> {
    let world = World::new("argocd-decorated")?;
    let rule = json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "list", "watch", "patch"]});
    world.grant("decorated", &[rule, member_rule("", "secrets")])?;
    let chart = world.write_chart("guard", &[("random.yaml", RANDOM)])?;
    let watch = json!([{
        "group": "", "version": "v1", "kind": "ServiceAccount", "chart": chart, "decorate": true,
        "selector": {"matchLabels": {"team": "shop"}}, "deletionPolicy": "WaitForTermination",
    }]);
    fs::write(world.watches_file(), watch.to_string())?;
    let argocd = ArgoCd::of(&world)?;
    let keys: Vec<&String> = argocd.config.as_object().context("entries")?.keys().collect();
    ensure!(
        keys == ["resource.customizations.ignoreDifferences.ServiceAccount"],
        "health and actions of Argo CD stay: {keys:?}"
    );
    let _operator = world.start()?;
    let metadata = json!({"name": "a", "namespace": world.name, "labels": {"team": "shop"}});
    let committed = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    world.apply(&committed)?;
    world.await_there("secret", "a-random")?;
    let live = world.await_object("serviceaccount", "a", "has its finalizer", |object| {
        object["metadata"]["finalizers"][0] == "chartwright.dev/decorator-guard"
    })?;
    let marks = compared(live.clone());
    ensure!(
        marks["annotations"].as_object().map(serde_json::Map::len) > Some(1),
        "{marks}"
    );
    let live = argocd.normalized(&live)?;
    ensure!(compared(live.clone()) == compared(committed), "{live}");
    world.kubectl.delete("serviceaccount", "a")
}

#[test]
fn wrong_input_of_generate_argocd_is_reported() -> Result<()> {
    let folder = tempfile::tempdir()?;
    refuse(folder.path(), "generate argocd", &["watches.yaml"])?;
    fs::write(folder.path().join("watches.yaml"), "[]\n")?;
    refuse(folder.path(), "generate argocd", &["there is no watch"])?;
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/memcached");
    let watches = format!("- {{group: example.com, version: v1, kind: App, chart: {chart}}}\n");
    fs::write(folder.path().join("watches.yaml"), watches)?;
    fs::write(folder.path().join("file"), "")?;
    refuse(folder.path(), "generate argocd -o file", &["file"])?;
    refuse(folder.path(), "generate argocd -o file --check", &["file"])
}

#[test]
fn health_is_computed_for_any_status() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/memcached");
    let watches = format!("- group: example.com\n  version: v1\n  kind: App\n  chart: {chart}\n");
    fs::write(folder.path().join("watches.yaml"), watches)?;
    let (succeeded, printed) = run(folder.path(), &["generate", "argocd"])?;
    ensure!(succeeded, "{printed}");
    let object: Value = serde_yaml::from_str(&printed)?;
    let argocd = ArgoCd {
        config: object["data"].clone(),
    };
    let condition = |kind: &str, status: &str, generation: i64| json!({"type": kind, "status": status, "observedGeneration": generation, "message": kind, "reason": "R"});
    let cases = [
        (Value::Null, "Progressing", "Waiting for the operator"),
        (json!({}), "Progressing", "Waiting for the operator"),
        (json!("text"), "Progressing", "Waiting for the operator"),
        (json!({"conditions": {}}), "Progressing", ""),
        (json!({"conditions": "text"}), "Progressing", ""),
        (
            json!({"conditions": ["text", 1, [], {"status": "True"}]}),
            "Progressing",
            "",
        ),
        (
            json!({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}),
            "Healthy",
            "",
        ),
        (
            json!({"conditions": [condition("Ready", "True", 1)]}),
            "Progressing",
            "Waiting for the operator",
        ),
        (
            json!({"conditions": [condition("Ready", "Unknown", 2)]}),
            "Progressing",
            "Ready",
        ),
        (
            json!({"conditions": [condition("Ready", "True", 2), condition("Stalled", "False", 2)]}),
            "Healthy",
            "Ready",
        ),
        (
            json!({"conditions": [condition("Ready", "False", 2), condition("Stalled", "True", 2)]}),
            "Degraded",
            "Stalled",
        ),
        (
            json!({"conditions": [condition("Stalled", "True", 2), condition("Suspended", "True", 2)]}),
            "Suspended",
            "Suspended",
        ),
    ];
    for (status, expected, message) in cases {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "App", "metadata": {"name": "a", "generation": 2}, "status": status,
        });
        let (health, shown) = argocd.health(&object).with_context(|| object.to_string())?;
        ensure!(
            health == expected && shown.contains(message),
            "{object}: {health}: {shown}"
        );
        let (offered, disabled) = argocd.actions(&object).with_context(|| object.to_string())?;
        ensure!(offered.len() == 3 && disabled == ["resume"], "{offered:?} {disabled:?}");
    }
    Ok(())
}

#[test]
fn the_configuration_is_added_to_that_of_argo_cd() -> Result<()> {
    let world = World::new("argocd-config")?;
    world.write_watches()?;
    let watches = world.watches_file();
    let watches = watches.to_str().context("a path")?;
    let generate = |more: &[&str]| {
        let arguments = [&["generate", "argocd", "--watches-file", watches], more].concat();
        run(world.dir.path(), &arguments)
    };
    let key = format!("resource.customizations.health.{}_Widget", world.group());

    // Server-side apply by a field manager of its own leaves the other entries.
    let present = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": {"url": "https://example.com"},
    });
    world.apply(&present)?;
    let (succeeded, printed) = generate(&[])?;
    ensure!(succeeded, "{printed}");
    world.kubectl.run_with_input(
        [
            "apply",
            "--server-side",
            "--field-manager=chartwright-argocd",
            "-f",
            "-",
        ],
        &printed,
    )?;
    let stored = world.expect("configmap", "argocd-cm")?;
    ensure!(stored["data"]["url"] == "https://example.com", "{stored}");
    ensure!(stored["data"][&key].is_string(), "{stored}");

    // So does the component, in any namespace.
    let base = world.dir.path().join("base");
    fs::create_dir_all(&base)?;
    let kustomization = json!({
        "namespace": "argocd", "resources": ["cm.yaml"], "components": ["../argocd"],
    });
    fs::write(base.join("kustomization.yaml"), kustomization.to_string())?;
    fs::write(base.join("cm.yaml"), present.to_string())?;
    let (succeeded, printed) = generate(&["-o", "argocd", "--check"])?;
    ensure!(!succeeded && !world.dir.path().join("argocd").exists(), "{printed}");
    let (succeeded, printed) = generate(&["-o", "argocd"])?;
    ensure!(succeeded && printed.contains("argocd: written"), "{printed}");
    let built = world.run(["kustomize", base.to_str().context("a path")?])?;
    let built: Value = serde_yaml::from_str(&built)?;
    ensure!(built["data"]["url"] == "https://example.com", "{built}");
    ensure!(
        built["metadata"]["namespace"] == "argocd" && built["data"] == stored["data"],
        "{built}"
    );

    let (succeeded, printed) = generate(&["-o", "argocd", "--check"])?;
    ensure!(succeeded && printed.contains("unchanged"), "{printed}");
    let file = world.dir.path().join("argocd/argocd-cm.yaml");
    fs::write(&file, fs::read_to_string(&file)?.replace("Degraded", "Healthy"))?;
    let (succeeded, printed) = generate(&["-o", "argocd", "--check"])?;
    ensure!(!succeeded && printed.contains("outdated"), "{printed}");
    ensure_contains(&generate(&["--check"])?.1, &["--output"])
}
