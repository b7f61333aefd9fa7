//! `chartwright dashboard` on a real API server.

#[allow(dead_code, reason = "the tests of the page use all of it")]
#[path = "../../dashboard/browser.rs"]
mod browser;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::browser::Browser;
use crate::support::until;
use crate::world::fields::ensure_contains;
use crate::world::{SOON, World, member_rule};

/// A running command. Killed when it is dropped.
struct Dashboard {
    child: Child,
    /// What the command prints.
    address: String,
    port: u16,
    token: String,
    user: String,
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Dashboard {
    /// Starts the command with a user of its own that may do everything.
    fn start(world: &World, arguments: &[&str]) -> Result<Self> {
        let user = format!("{}-dashboard", world.name);
        let kubeconfig = world.control_plane.kubeconfig_for(&user, &["system:masters"])?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
        command.arg("dashboard").args(arguments).env("KUBECONFIG", kubeconfig);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let address = lines.next().context("no address")??;
        let (start, token) = address
            .split_once("/dashboard#token=")
            .context("no token in the address")?;
        let port = start
            .strip_prefix("http://127.0.0.1:")
            .context("another host")?
            .parse()?;
        let token = token.to_owned();
        Ok(Dashboard {
            child,
            address,
            port,
            token,
            user,
        })
    }

    /// Status and JSON of the answer to a GET.
    fn get(&self, path: &str) -> Result<(u16, Value)> {
        let answer = self.send(&format!("GET /dashboard/api/{path}"), "127.0.0.1", Some(&self.token))?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok((status, serde_json::from_str(body).with_context(|| body.to_owned())?))
    }

    fn send(&self, request: &str, host: &str, token: Option<&str>) -> Result<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        write!(connection, "{request} HTTP/1.1\r\nHost: {host}\r\n{token}\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

#[test]
fn the_page_shows_releases_of_the_cluster_and_changes_nothing() -> Result<()> {
    let world = World::new("cli-dashboard")?.watch_key("valuesFrom: [{kind: Secret, name: creds}]");
    world.grant("sources", &[member_rule("", "secrets")])?;
    world.write_watches()?;
    world.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"}, "stringData": {"values.yaml": "password: very-hidden\n"},
    }))?;
    let operator = world.start()?;
    world.install("web", json!({"color": "blue"}))?;
    let watches = world.watches_file().display().to_string();
    let dashboard = Dashboard::start(&world, &["--watches-file", &watches])?;

    let (status, page) = dashboard.get("releases?q=web")?;
    ensure!(
        status == 200 && page["matched"] == 1 && page["loading"] == false,
        "{page}"
    );
    let row = &page["items"][0];
    ensure!(
        row["name"] == "web" && row["state"] == "ready" && row["revision"] == 1,
        "{row}"
    );
    let key = format!("kind=Widget.{}&namespace={}&name=web", world.group(), world.name);
    let (status, detail) = dashboard.get(&format!("release?{key}"))?;
    ensure!(status == 200 && detail["state"] == "ready", "{detail}");
    let members = detail["waves"][0]["members"].as_array().context("no members")?;
    ensure!(
        members
            .iter()
            .any(|member| member["kind"] == "ConfigMap" && member["health"] == "Current"),
        "{detail}"
    );
    ensure!(detail["history"][0]["status"] == "deployed", "{detail}");
    let (status, values) = dashboard.get(&format!("values?{key}"))?;
    ensure!(status == 200, "{values}");
    let of = |path: &str| {
        values
            .as_array()
            .and_then(|rows| rows.iter().find(|row| row["path"] == path))
            .cloned()
    };
    ensure!(
        of("color") == Some(json!({"path": "color", "value": "blue", "secret": false, "origin": "CR"})),
        "{values}"
    );
    ensure!(
        of("password").is_some_and(|row| row["secret"] == true && row["value"].is_null()),
        "{values}"
    );
    ensure!(!values.to_string().contains("very-hidden"), "{values}");

    // Other users of this machine, and names that resolve to it.
    ensure_contains(
        &dashboard.send("GET /dashboard/api/releases", "127.0.0.1", None)?,
        &["HTTP/1.1 401"],
    )?;
    let token = Some(dashboard.token.as_str());
    ensure_contains(
        &dashboard.send("GET /dashboard", "attacker.example", token)?,
        &["HTTP/1.1 421"],
    )?;
    ensure_contains(
        &dashboard.send("POST /dashboard/api/release", "127.0.0.1", token)?,
        &["HTTP/1.1 405"],
    )?;

    // A failure of the chart, and the end of the release.
    world.apply_widget("web", json!({"color": {"no": "text"}}))?;
    until("the page shows the failure", SOON, || {
        let (_, detail) = dashboard.get(&format!("release?{key}"))?;
        Ok(detail["causes"].as_array().is_some_and(|causes| !causes.is_empty()))
    })?;
    world.delete("web")?;
    until("the release is gone", SOON, || {
        Ok(dashboard.get(&format!("release?{key}"))?.0 == 404)
    })?;
    drop(operator);
    world
        .control_plane
        .audit()
        .requests()?
        .by_user(&dashboard.user)
        .writes()
        .none()
}

#[test]
fn the_page_previews_a_change_that_no_operator_has_handled() -> Result<()> {
    let world = World::new("cli-dashboard-changes")?;
    let operator = world.start()?;
    world.install("web", json!({"color": "blue"}))?;
    let watches = world.watches_file().display().to_string();
    let dashboard = Dashboard::start(&world, &["--watches-file", &watches, "--operator-name", &world.name])?;
    let key = format!("kind=Widget.{}&namespace={}&name=web", world.group(), world.name);
    let changes = || -> Result<Value> {
        let (status, found) = dashboard.get(&format!("changes?{key}"))?;
        ensure!(status == 200, "{found}");
        Ok(found)
    };
    let found = changes()?;
    ensure!(
        found["changes"] == json!([]) && found["refusals"] == json!([]),
        "{found}"
    );
    drop(operator);
    world.apply_widget("web", json!({"color": "green"}))?;
    until("the page announces the change", SOON, || {
        Ok(changes()?["summary"]["changed"].as_u64().is_some_and(|count| count > 0))
    })?;
    ensure!(changes()?.to_string().contains("green"), "the difference is missing");
    let requests = world
        .control_plane
        .audit()
        .requests()?
        .by_user(&dashboard.user)
        .writes();
    requests.filter(|request| !request.uri.contains("dryRun=All")).none()
}

#[test]
fn the_page_is_wrong_usage_without_a_cluster_or_with_a_port_in_use() -> Result<()> {
    let world = World::new("cli-dashboard-usage")?;
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let port = taken.local_addr()?.port().to_string();
    let (status, output) = world.chartwright(&["dashboard", "--port", &port])?;
    ensure!(status.code() == Some(1), "{output}");
    ensure_contains(
        &output,
        &[&format!(
            "can't use port {port}: it is in use; choose another with --port"
        )],
    )?;
    let (status, output) = world.chartwright(&["dashboard", "--kubeconfig", "/nonexistent"])?;
    ensure!(status.code() == Some(1) && output.contains("/nonexistent"), "{output}");
    let (status, output) = world.chartwright(&["dashboard", "--watches-file", "/nonexistent.yaml"])?;
    ensure!(
        status.code() == Some(1) && output.contains("/nonexistent.yaml"),
        "{output}"
    );
    Ok(())
}

/// From the custom resource through the operator to the browser, without a reload.
#[test]
fn a_browser_follows_the_releases_of_an_operator() -> Result<()> {
    if browser::is_left_out() {
        return Ok(());
    }
    let world = World::new("cli-dashboard-live")?;
    let _operator = world.start()?;
    world.install("first", json!({}))?;
    let kind = world.group();
    let dashboard = Dashboard::start(&world, &["-n", &world.name])?;
    let mut browser = Browser::start()?;
    browser.open(&dashboard.address)?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 1")?;
    browser.run("window.isSame = true")?;
    world.install("second", json!({}))?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 2 && !document.querySelector('.list [data-mark=unknown]')")?;
    let hash = format!("#/release?kind=Widget.{kind}&namespace={}&name=second", world.name);
    browser.run(&format!("location.hash = {hash:?}"))?;
    browser.until("document.querySelector('.title')?.innerText.includes('ready')")?;
    browser.until("document.querySelector('.tree').innerText.includes('ConfigMap')")?;
    world.suspend("second")?;
    browser.until("document.querySelector('.title').innerText.includes('suspended')")?;
    browser.until("document.querySelector('.causes').innerText.includes('chartwright resume')")?;
    world.delete("first")?;
    browser.run("document.querySelector('.brand').click()")?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 1")?;
    ensure!(browser.run("window.isSame")? == true);
    let problems = browser.take_problems(&format!("http://127.0.0.1:{}/", dashboard.port))?;
    ensure!(problems.is_empty(), "{problems:#?}");
    Ok(())
}

/// Prints what 10,000 releases cost: `cargo test --test integration ten_thousand_releases -- --ignored --nocapture`.
#[test]
#[ignore = "it takes minutes to create the custom resources; make torture runs it"]
fn ten_thousand_releases_are_listed_searched_and_followed() -> Result<()> {
    const COUNT: usize = 10_000;
    let world = World::new("cli-dashboard-many")?;
    for start in (0..COUNT).step_by(1000) {
        let items: Vec<Value> = (start..start + 1000)
            .map(|number| world.widget(&format!("w-{number:05}"), json!({})))
            .collect();
        world.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
    }
    world.write_watches()?;
    let watches = world.watches_file().display().to_string();
    let dashboard = Dashboard::start(&world, &["-n", &world.name, "--watches-file", &watches])?;
    let memory = || -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", dashboard.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .context("no VmHWM")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
    };
    println!("before the first request: {} MiB", memory()?);
    let begun = Instant::now();
    until("all are listed", Duration::from_secs(120), || {
        let (_, page) = dashboard.get("releases?limit=1")?;
        Ok(page["total"] == COUNT && page["loading"] == false)
    })?;
    println!("listed after {:.1?}, at most {} MiB", begun.elapsed(), memory()?);
    for (query, matched) in [
        ("", COUNT),
        ("&offset=9950", COUNT),
        ("&q=w-0123", 10),
        ("&state=ready", 0),
    ] {
        let begun = Instant::now();
        let (_, page) = dashboard.get(&format!("releases?limit=50{query}"))?;
        println!("{query:>14}: {:.1?}, {} bytes", begun.elapsed(), page.to_string().len());
        ensure!(page["matched"] == matched, "{query}: {}", page["matched"]);
    }
    if browser::is_left_out() {
        return Ok(());
    }
    let mut browser = Browser::start()?;
    browser.open(&dashboard.address)?;
    browser.until("document.getElementById('range')?.textContent === '1-50 of 10000'")?;
    let begun = Instant::now();
    browser.run("location.hash = '#/?q=w-09999'")?;
    browser.until("document.querySelectorAll('.list tbody tr').length === 1")?;
    println!("a search in the browser: {:.1?}", begun.elapsed());
    let begun = Instant::now();
    world.annotate("w-09999", json!({"chartwright.dev/suspend": "true"}))?;
    browser.until("document.querySelector('.list tbody tr').innerText.includes('suspended')")?;
    println!(
        "a change until it is shown, with kubectl: {:.1?}; at most {} MiB",
        begun.elapsed(),
        memory()?
    );
    Ok(())
}
