//! `get`, `values`, `suspend`, `resume`, `reconcile` and `force` on a real API server.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{fail, succeed};
use crate::world::fields::{annotation, ensure_contains};
use crate::world::{World, config_map, member_rule};

#[test]
fn get_lists_the_releases_with_and_without_a_watches_file() -> Result<()> {
    let world = World::new("cli-get")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    world.apply_widget("b", json!({"color": {"no": "text"}}))?;
    world.run(["label", &world.widgets(), "a", "team=one"])?;
    let (kind, watches) = (world.resource("widget"), world.watches_file().display().to_string());
    for arguments in [
        vec!["get", "-n", &world.name],
        vec!["get", "-n", &world.name, "--watches-file", &watches],
        vec!["get", &kind, "-n", &world.name],
    ] {
        let output = succeed(&world, &arguments)?;
        let mut lines = output.lines();
        let header = lines.next().context("no header")?;
        ensure_contains(
            header,
            &["NAMESPACE", "KIND", "READY", "REASON", "CHART", "REVISION", "AGE"],
        )?;
        let first: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        ensure!(
            first.get(..4) == Some(&[world.name.as_str(), "Widget", "a", "True"][..]),
            "{output}"
        );
        ensure!(lines.next().is_some_and(|line| line.contains(" b ")), "{output}");
        ensure!(!output.contains('\u{1b}'), "colours without a terminal: {output}");
    }
    let shown = succeed(&world, &["get", &kind, "-A", "-l", "team=one", "-o", "name"])?;
    ensure!(shown == format!("{}/a\n", world.widgets()), "{shown}");
    let shown = succeed(&world, &["get", &kind, "a", "-n", &world.name, "-o", "json"])?;
    let listed: Value = serde_json::from_str(&shown)?;
    ensure!(
        listed["items"][0]["revision"] == 1 && listed["items"][0]["ready"] == "True",
        "{listed}"
    );
    let shown = succeed(&world, &["get", &kind, "-n", &world.name, "--not-ready", "-o", "name"])?;
    ensure!(!shown.contains("/a\n"), "{shown}");
    Ok(())
}

#[test]
fn get_prints_the_rows_that_change() -> Result<()> {
    let world = World::new("cli-get-watch")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command.args([
        "get",
        &world.resource("widget"),
        "-n",
        &world.name,
        "--watch",
        "-o",
        "name",
    ]);
    command
        .env("KUBECONFIG", world.control_plane.kubeconfig())
        .stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let name = |name: &str| format!("{}/{name}", world.widgets());
    let first = lines.next().context("no row")??;
    world.install("b", json!({}))?;
    let second = lines.next().context("no changed row")??;
    child.kill()?;
    child.wait()?;
    ensure!((first, second) == (name("a"), name("b")));
    Ok(())
}

#[test]
fn values_name_their_sources_and_mask_secrets() -> Result<()> {
    let sources = "valuesFrom: [{kind: Secret, name: creds}, {kind: ConfigMap, name: shared}]";
    let world = World::new("cli-values")?
        .watch_key(sources)
        .watch_key("values: {size: 3}")
        .watch_key("overrideValues: {fixed: literal}");
    world.grant("sources", &[member_rule("", "secrets"), member_rule("", "configmaps")])?;
    world.write_watches()?;
    world.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"},
        "stringData": {"values.yaml": "password: very-hidden\nglobal: {token: also-hidden}\n"},
    }))?;
    world.apply(&config_map("shared", json!({"values.yaml": "region: north\n"})))?;
    world.apply_widget("a", json!({"color": "red"}))?;
    let (kind, watches) = (world.resource("widget"), world.watches_file().display().to_string());
    let base = [
        "values",
        &kind,
        "a",
        "-n",
        &world.name,
        "--watches-file",
        &watches,
        "-o",
    ];
    for format in ["table", "json", "yaml"] {
        let shown = succeed(&world, &[&base[..], &[format]].concat())?;
        ensure!(!shown.contains("hidden"), "{shown}");
        ensure_contains(
            &shown,
            &["password", "global.token", "Secret cli-values/creds", "watch values"],
        )?;
    }
    let listed: Value = serde_json::from_str(&succeed(&world, &[&base[..], &["json"]].concat())?)?;
    let items = listed["values"].as_array().context("no list")?;
    let at = |path: &str| {
        items
            .iter()
            .find(|item| item["path"] == path)
            .cloned()
            .unwrap_or_default()
    };
    for (path, value, origin) in [
        ("color", json!("red"), "CR"),
        ("size", json!(3), "watch values"),
        ("region", json!("north"), "valuesFrom[1]: ConfigMap cli-values/shared"),
        ("fixed", json!("literal"), "overrideValues"),
        ("password", Value::Null, "valuesFrom[0]: Secret cli-values/creds"),
    ] {
        let item = at(path);
        ensure!(item["value"] == value && item["origin"] == origin, "{path}: {item}");
    }
    ensure!(items.iter().any(|item| item["origin"] == "chart default"), "{listed}");
    // An error does not quote the Secret.
    let wrong = json!({"stringData": {"values.yaml": "- very-hidden"}});
    world.patch("secret", "creds", &wrong)?;
    let shown = fail(&world, &[&base[..], &["table"]].concat())?;
    ensure!(
        shown.contains("values.yaml can't be read") && !shown.contains("hidden"),
        "{shown}"
    );
    Ok(())
}

#[test]
fn requests_are_carried_out_and_waited_for() -> Result<()> {
    let world = World::new("cli-requests")?;
    let _operator = world.start()?;
    world.install_all(&["a", "b"], |_| json!({}))?;
    let (kind, name) = (world.resource("widget"), world.name.clone());
    let one = |verb: &'static str, more: &[&'static str]| {
        let arguments = [&[verb, &kind, "a", "-n", &name], more].concat();
        succeed(&world, &arguments)
    };
    let before = world.live("a")?;
    ensure_contains(&one("suspend", &["--dry-run"])?, &["suspended (dry run)"])?;
    ensure!(world.live("a")?["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]);
    ensure_contains(&one("suspend", &["--wait"])?, &["suspended", "is suspended"])?;
    world.await_condition("a", "Suspended", "True")?;
    ensure_contains(&one("suspend", &[])?, &["is already suspended"])?;
    let refused = fail(&world, &["reconcile", &kind, "a", "-n", &name, "--wait"])?;
    ensure_contains(&refused, &["is suspended", "chartwright resume"])?;
    ensure_contains(&one("resume", &["--wait"])?, &["resumed", "is ready"])?;
    ensure!(annotation(&world.live("a")?, "chartwright.dev/suspend").is_none());
    for (verb, annotated, handled) in [
        ("reconcile", "chartwright.dev/requested-at", "lastHandledReconcileAt"),
        ("force", "chartwright.dev/force-at", "lastHandledForceAt"),
    ] {
        ensure_contains(&one(verb, &["--wait"])?, &["requested", "is ready"])?;
        let live = world.live("a")?;
        let token = annotation(&live, annotated).context("no token")?;
        ensure!(live["status"][handled] == token, "{live}");
    }
    world.run(["label", &world.widgets(), "b", "team=one"])?;
    let shown = succeed(
        &world,
        &["suspend", &kind, "--all", "-n", &name, "-l", "team=one", "--wait"],
    )?;
    ensure!(shown.contains("/b suspended") && !shown.contains("/a "), "{shown}");
    let shown = succeed(&world, &["resume", &kind, "--all", "-n", &name, "--wait"])?;
    ensure_contains(&shown, &["/a is not suspended", "/b resumed", "/b is ready"])?;
    Ok(())
}

#[test]
fn wrong_input_is_refused_with_what_to_do() -> Result<()> {
    let world = World::new("cli-wrong")?;
    world.write_watches()?;
    world.apply_widget("shop", json!({}))?;
    let (kind, name) = (world.resource("widget"), world.name.clone());
    let watches = world.watches_file().display().to_string();
    let typo = format!("widgtes.{}", world.group());
    let powerless = world
        .control_plane
        .kubeconfig_for("powerless", &[])?
        .display()
        .to_string();
    for verb in ["get", "values", "suspend", "resume", "reconcile", "force"] {
        let with = |kind: &str, object: &str, more: &[&str]| -> Result<String> {
            let mut arguments = vec![verb, kind, object, "-n", &name];
            if verb == "values" {
                arguments.extend(["--watches-file", &watches]);
            }
            arguments.extend(more);
            fail(&world, &arguments)
        };
        let shown = with(&typo, "shop", &[])?;
        ensure_contains(
            &shown,
            &["the API server serves no kind", &format!("did you mean {kind}?")],
        )?;
        ensure_contains(&with(&kind, "shp", &[])?, &["there is no Widget", "did you mean shop?"])?;
        let shown = with(&kind, "shop", &["--kubeconfig", &powerless])?;
        ensure_contains(&shown, &["forbidden", "powerless"])?;
        let shown = with(&kind, "shop", &["--kubeconfig", "/nowhere/kubeconfig"])?;
        ensure_contains(&shown, &["/nowhere/kubeconfig"])?;
    }
    let shown = fail(&world, &["leftovers", "-n", &name, "--kubeconfig", &powerless])?;
    let lines: Vec<&str> = shown.lines().collect();
    ensure!(lines.len() == 3 && lines[0].starts_with("not listed: "), "{shown}");
    ensure_contains(lines[0], &[" more: forbidden: ", "powerless"])?;
    ensure_contains(
        lines[1],
        &["The other kinds have no object without its custom resource."],
    )?;
    let shown = fail(&world, &["suspend", "deployment", "--all", "-n", &name])?;
    ensure_contains(&shown, &["is a kind of Kubernetes"])?;
    let shown = fail(&world, &["suspend", &kind, "--all", "-n", &name])?;
    ensure_contains(&shown, &["no operator has handled", "is there a watch for this kind?"])?;
    let shown = fail(
        &world,
        &["reconcile", &kind, "shop", "-n", &name, "--wait", "--timeout", "1s"],
    )?;
    ensure_contains(&shown, &["did not complete within 1s"])?;
    Ok(())
}

#[test]
fn commands_that_read_write_nothing() -> Result<()> {
    let world = World::new("cli-read-only")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.await_quiet(&operator)?;
    let user = "reader-of-cli-read-only";
    let reader = world.control_plane.kubeconfig_for(user, &["system:masters"])?;
    let (kind, watches) = (world.resource("widget"), world.watches_file().display().to_string());
    let reader = reader.display().to_string();
    let mark = world.control_plane.audit().mark()?;
    for arguments in [
        vec!["get", "-A"],
        vec!["get", &kind, "a", "-n", &world.name],
        vec!["values", &kind, "a", "-n", &world.name, "--watches-file", &watches],
    ] {
        succeed(&world, &[&arguments[..], &["--kubeconfig", &reader]].concat())?;
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let requests = world.control_plane.audit().since(mark)?.by_user(user);
    ensure!(!requests.is_empty(), "no request is in the audit log");
    requests.writes().none()
}

#[test]
fn get_of_a_closed_reader_is_no_failure() -> Result<()> {
    let world = World::new("cli-get-closed")?;
    world.apply_widget("a", json!({}))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command.args(["get", &world.resource("widget"), "-n", &world.name, "-o", "json"]);
    command
        .env("KUBECONFIG", world.control_plane.kubeconfig())
        .stdin(File::open("/dev/null")?);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    drop(child.stdout.take());
    ensure!(child.wait()?.success());
    Ok(())
}

/// Completes a command line in bash, with the script of the program.
fn complete(words: &str, kubeconfig: &str) -> Result<String> {
    let program = env!("CARGO_BIN_EXE_chartwright");
    let script = format!(
        "source <({program} completion bash); COMP_WORDS=({program} {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _chartwright_with_cluster chartwright '' ''; echo \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("KUBECONFIG", kubeconfig)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success() && errors.is_empty(), "{errors}");
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn kinds_and_names_of_the_cluster_are_completed() -> Result<()> {
    let world = World::new("cli-complete")?;
    let _operator = world.start()?;
    world.install_all(&["one", "other", "third"], |_| json!({}))?;
    let kubeconfig = world.control_plane.kubeconfig().display().to_string();
    let shown = complete(&format!("get widgets.{}", &world.group()[..8]), &kubeconfig)?;
    ensure_contains(&shown, &[&world.widgets()])?;
    let shown = complete(&format!("suspend -n {} {} o", world.name, world.widgets()), &kubeconfig)?;
    ensure!(shown.trim() == "one other", "{shown}");
    for words in [
        "get -n cli-comple",
        "get --namespace = cli-comple",
        "diff --operator-namespace cli-comple",
    ] {
        let shown = complete(words, &kubeconfig)?;
        ensure!(shown.trim() == world.name, "{words}: {shown}");
    }
    Ok(())
}

#[test]
fn completion_without_a_cluster_is_silent_and_quick() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // An address that never answers.
    let unreachable = folder.path().join("kubeconfig");
    std::fs::write(
        &unreachable,
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
         users: [{name: a, user: {}}], clusters: [{name: a, cluster: {server: 'http://192.0.2.1:1'}}]}",
    )?;
    for kubeconfig in [unreachable.display().to_string(), "/nowhere".to_owned()] {
        let began = std::time::Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_chartwright"))
            .args(["__complete", "--", "get", ""])
            .env("KUBECONFIG", kubeconfig)
            .output()?;
        ensure!(
            output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
            "{output:?}"
        );
        ensure!(
            began.elapsed() < std::time::Duration::from_secs(4),
            "{:?}",
            began.elapsed()
        );
    }
    Ok(())
}
