//! Public charts, by hand: `CHARTS=folder cargo test --test integration public_charts_have -- --ignored --nocapture`. Each folder in it is
//! a chart with its dependencies.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::Differ;
use crate::world::World;

/// How long a chart may take to settle.
const SETTLED: Duration = Duration::from_secs(120);

#[test]
#[ignore = "needs a folder with public charts"]
fn public_charts_have_no_difference_after_their_installation() -> Result<()> {
    let folder = PathBuf::from(std::env::var_os("CHARTS").context("CHARTS names the folder with charts")?);
    let mut charts: Vec<PathBuf> = std::fs::read_dir(&folder)?
        .map(|entry| anyhow::Ok(entry?.path()))
        .collect::<Result<_>>()?;
    charts.retain(|chart| chart.join("Chart.yaml").exists());
    charts.sort();
    let mut wrong = Vec::new();
    for (number, chart) in charts.iter().enumerate() {
        let name = chart.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match examine(number, chart) {
            Ok(line) => println!("{name}: {line}"),
            Err(error) => {
                println!("{name}: WRONG: {error:#}");
                wrong.push(name);
            }
        }
    }
    println!("{} charts, {} wrong: {wrong:?}", charts.len(), wrong.len());
    ensure!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}

/// Installs a chart with its defaults, and previews it before and afterwards.
fn examine(number: usize, chart: &std::path::Path) -> Result<String> {
    let world = World::new(&format!("diff-public-{number}"))?;
    let all = "{kinds: ['*'], namespaces: ['*']}";
    world.write_watches_of(&[("Widget", chart, &[&format!("allow: {all}"), &format!("lookups: {all}")])])?;
    world.grant(
        "all",
        &[json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})],
    )?;
    let file = world.dir.path().join("cr.json");
    std::fs::write(&file, world.widget("rel", json!({})).to_string())?;
    let operator = world.start()?;
    world.await_quiet(&operator)?;
    let differ = Differ::new(&world)?;
    let new = differ.run(&["-f", &file.display().to_string(), "-o", "json"])?;
    let found: serde_json::Value = serde_json::from_str(&new.out).unwrap_or_default();
    let summary = &found["releases"][0]["summary"];
    let announced = summary["created"].as_u64().unwrap_or_default();
    let notes = &found["releases"][0]["notes"];
    world.apply_widget("rel", json!({}))?;
    let deadline = Instant::now() + SETTLED;
    let widget = loop {
        world.await_quiet(&operator)?;
        let widget = world.live("rel")?;
        let is_ready = widget["status"]["conditions"]
            .to_string()
            .contains(r#""status":"True","type":"Ready""#);
        if is_ready || Instant::now() > deadline {
            break widget;
        }
        std::thread::sleep(Duration::from_secs(2));
    };
    let ready = widget["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready")
        .cloned();
    let ready = ready.unwrap_or_default();
    let created = widget["status"]["inventory"].as_array().map_or(0, Vec::len);
    let begun = Instant::now();
    let printed = differ.run(&[&world.resource("widget"), "rel"])?;
    let elapsed = begun.elapsed();
    let revision = widget["status"]["release"]["revision"].as_i64().unwrap_or_default();
    let state = format!(
        "new: exit {} with {announced} created {notes}, inventory {created}; then exit {} in {elapsed:.1?} with {} dry runs; Ready={} {}",
        new.code,
        printed.code,
        printed.dry_runs.len(),
        ready["status"],
        ready["reason"],
    );
    let is_settled = revision > 0 && ready["status"] == "True";
    ensure!(
        !is_settled || printed.code == 0 && printed.dry_runs.is_empty(),
        "{state}:\n{}{}",
        printed.out,
        printed.err
    );
    if !is_settled {
        let words: String = ready["message"]
            .as_str()
            .unwrap_or_default()
            .chars()
            .take(150)
            .collect();
        let first: String = printed.out.lines().take(4).collect::<Vec<_>>().join(" / ");
        operator.kill()?;
        return Ok(format!("NOT READY {state}: {words} | {first}"));
    }
    operator.kill()?;
    Ok(state)
}
