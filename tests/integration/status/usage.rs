//! Metering: what releases request, counted over time.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::ensure_contains;
use crate::world::operator::{Launch, METERED};
use crate::world::{SOON, World, WorldSetup, member_rule};

/// Three periods without a sample are a gap: long enough for a busy machine.
const PERIOD: u64 = 2;
const LAUNCH: Launch<'static> = Launch {
    arguments: &["--meter-usage=2s"],
    ..METERED
};

/// Of a release of the chart `metered`: cores and bytes.
const CORES: f64 = 0.6;
const MEMORY: u64 = 160 << 20;
const STORAGE: u64 = 3 << 30;

/// Gives the rights of `config/rbac` that metering needs, and no others.
fn grant(world: &World) -> Result<()> {
    let mut rules = world.project_rules("rbac/usage_role.yaml")?;
    rules.extend(world.project_rules("rbac/usage_counters_role.yaml")?);
    world.grant("usage", &rules)
}

/// What `chartwright usage` prints; what it says on standard error is left out.
fn usage(world: &World, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command
        .args([
            "usage",
            "--operator-name",
            &world.name,
            "--operator-namespace",
            &world.name,
        ])
        .args(arguments)
        .env("KUBECONFIG", world.control_plane.kubeconfig());
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{printed}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The line of a release, with the time that it is of.
fn line(world: &World, name: &str) -> Result<Value> {
    let printed: Value = serde_json::from_str(&usage(world, &["-o", "json"])?)?;
    ensure!(printed["periodSeconds"] == PERIOD, "{printed}");
    let mut items = printed["items"].as_array().into_iter().flatten();
    let found = items.find(|item| item["name"] == name).cloned();
    let mut found = found.with_context(|| format!("no {name} in {printed}"))?;
    found["since"] = printed["since"].clone();
    Ok(found)
}

fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or(f64::NAN)
}

/// Waits until something holds for the line of a release.
fn await_line(world: &World, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
    let waited = eventually(&format!("usage of {name}: {what}"), SOON, || {
        let line = line(world, name)?;
        ensure!(holds(&line), "{line}");
        Ok(Some(line))
    });
    waited.with_context(|| world.describe_failure(name))
}

fn counts_at_least(line: &Value, core_seconds: f64) -> bool {
    number(line, "cpuCoreSeconds") >= core_seconds
}

#[test]
fn requested_resources_are_metered_across_restarts() -> Result<()> {
    let world = World::with("usage-counted", WorldSetup::without(&["configmaps"]))?.use_chart("metered")?;
    let members = [("", "persistentvolumeclaims"), ("batch", "jobs")];
    world.grant("members", &members.map(|(group, kind)| member_rule(group, kind)))?;
    grant(&world)?;
    let operator = world.launch(&LAUNCH)?;
    world.apply_widget("a", json!({}))?;
    let all = json!({"cpuMillicores": 600, "memoryBytes": MEMORY, "storageBytes": STORAGE});
    let first = await_line(&world, "a", "all is requested, and the Job is over", |line| {
        line["requested"] == all
    })?;
    let begun = Instant::now();
    let goal = number(&first, "cpuCoreSeconds") + 3.0 * CORES * PERIOD as f64;
    let second = await_line(&world, "a", "it is counted", |line| counts_at_least(line, goal))?;
    let rise = |field| number(&second, field) - number(&first, field);
    // No more than the time that went by, and what had been seen but not counted before.
    let most = begun.elapsed().as_secs_f64() + 3.0 * PERIOD as f64;
    ensure!(rise("cpuCoreSeconds") <= CORES * most, "{first} {second} in {most} s");
    // Of the same time.
    let seconds = rise("cpuCoreSeconds") / CORES;
    for (field, bytes) in [("memoryByteSeconds", MEMORY), ("storageByteSeconds", STORAGE)] {
        let seen = rise(field) / bytes as f64;
        ensure!((seen - seconds).abs() < 0.05, "{field}: {seen} s, not {seconds}");
    }

    let start = world.mark()?;
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(4 * PERIOD));
    let requests = world.requests(&operator, start)?;
    let periods = usize::try_from(begun.elapsed().as_secs() / PERIOD + 2)?;
    ensure!(requests.len() <= 5 * periods, "{periods} periods\n{requests}");
    let written = requests.clone().verb("patch");
    ensure!((1..=periods).contains(&written.len()) && written.len() == written.resource("configmaps").len());
    ensure!(
        requests.clone().verb("patch").len() + requests.clone().verb("list").len() == requests.len(),
        "{requests}"
    );

    let before = line(&world, "a")?;
    ensure!(operator.terminate()?.success());
    let last = line(&world, "a")?;
    std::thread::sleep(Duration::from_secs(3 * PERIOD));
    let begun = Instant::now();
    let operator = world.launch(&LAUNCH)?;
    let counted = number(&last, "cpuCoreSeconds");
    let third = await_line(&world, "a", "it goes on", |line| counts_at_least(line, counted + CORES))?;
    let rise = number(&third, "cpuCoreSeconds") - counted;
    let most = CORES * begun.elapsed().as_secs_f64() + 0.01;
    ensure!(rise <= most, "an unseen request was counted: {rise} of at most {most}");
    ensure!(third["since"] == before["since"], "{before} {third}");
    let series = |what: &str| {
        format!(
            "chartwright_usage_{what}_total{{group=\"{}\",kind=\"Widget\"}}",
            world.group()
        )
    };
    let metric = operator.metric(&series("cpu_core_seconds"))?;
    ensure!(metric + 0.01 >= number(&third, "cpuCoreSeconds"), "{metric} {third}");
    ensure!(operator.metric(&series("storage_byte_seconds"))? > 0.0);
    ensure!(operator.metric("chartwright_usage_failures_total")? == 0.0);

    forms(&world)?;
    world.delete("a")?;
    await_line(&world, "a", "it is gone, and stands there", |line| {
        line["gone"].is_string() && line["requested"]["cpuMillicores"] == 0 && counts_at_least(line, counted)
    })?;
    Ok(())
}

/// The same in every form.
fn forms(world: &World) -> Result<()> {
    let kind = format!("Widget.{}", world.group());
    let table = usage(world, &[])?;
    ensure_contains(&table, &["NAMESPACE", "CORE-HOURS", &kind, "600m", "160Mi", "3Gi"])?;
    let csv = usage(world, &["-o", "csv", "--by", "namespace"])?;
    ensure_contains(&csv, &[&format!("\n,{},,600,{MEMORY},{STORAGE},", world.name)])?;
    let json: Value = serde_json::from_str(&usage(world, &["-o", "json", "--by", "kind", "--kind", "widget"])?)?;
    ensure!(
        json["items"].as_array().map(Vec::len) == Some(1) && json["items"][0]["kind"] == *kind,
        "{json}"
    );
    let nothing = usage(world, &["-o", "csv", "-n", "elsewhere"])?;
    ensure!(nothing.lines().count() == 1, "{nothing}");
    Ok(())
}

#[test]
fn without_metering_rights_a_warning_is_logged_and_reconciles_continue() -> Result<()> {
    let world = World::new("usage-rights")?;
    let operator = world.launch(&LAUNCH)?;
    operator.await_log("usage is not metered")?;
    world.install("a", json!({"extra": ["one"]}))?;
    std::thread::sleep(Duration::from_secs(2 * PERIOD));
    let log = operator.log();
    ensure_contains(
        &log,
        &["cannot list resource \\\"persistentvolumeclaims\\\"", "usage_role.yaml"],
    )?;
    ensure!(log.matches("usage is not metered").count() == 1, "{log}");
    ensure!(operator.metric("chartwright_usage_failures_total")? >= 2.0);
    world.edit("a", json!({"extra": ["two"]}))?;
    world.await_there("configmap", "a-two")?;
    let error = usage(&world, &[]).map_err(|error| error.to_string());
    let error = error.err().context("there is no error")?;
    ensure_contains(
        &error,
        &[
            "there is no",
            "ConfigMap usage-rights/usage-rights-usage",
            "--meter-usage=1m",
        ],
    )?;
    grant(&world)?;
    operator.await_log("usage is metered again")?;
    let nothing = usage(&world, &["-o", "csv"])?;
    ensure!(nothing.lines().count() == 1, "{nothing}");

    // What isn't understood is left alone.
    let foreign = json!({"data": {"usage.json": "{\"version\": 9}"}});
    ensure!(operator.terminate()?.success());
    world.patch("configmap", "usage-rights-usage", &foreign)?;
    let operator = world.launch(&LAUNCH)?;
    operator.await_log("of a later version")?;
    std::thread::sleep(Duration::from_secs(2 * PERIOD));
    let left = world.expect("configmap", "usage-rights-usage")?;
    ensure!(left["data"] == foreign["data"], "{left}");
    Ok(())
}
