//! What a render costs, beside Helm's own engine: `make bench-render`.
//!
//! Environment: `CHART` (folder or .tgz; without it charts of ours of three sizes), `VALUES` (a file), `RUNS` (default 21),
//! `JSON=1` (a line a chart instead of a table), `ORACLE` (the oracle's binary, for Helm's engine), `HELM` (Helm's binary, for the
//! comparison of processes). Times are medians in milliseconds.

mod counting;
mod platform;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chartwright::chart::{self, Chart};
use chartwright::render::{Capabilities, Input, Lookups, Release, Renderer, on_large_stack};
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The program to compare with `helm template`; cargo builds it for benchmarks.
const CHARTWRIGHT: Option<&str> = option_env!("CARGO_BIN_EXE_chartwright");
const PROCESS_RUNS: usize = 11;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-render: {error}");
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn run() -> Result<(), Failure> {
    let runs = variable("RUNS").map_or(Ok(21), |text| text.parse::<usize>())?.max(1);
    let values_file = variable("VALUES");
    let values = match &values_file {
        Some(path) => chart::values::read(&std::fs::read(path)?)?,
        None => Map::new(),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir()?;
    let charts: Vec<PathBuf> = match variable("CHART") {
        Some(chart) => vec![std::path::absolute(chart)?],
        None => {
            let stack = root.join("benches/charts/webstack");
            let large = folder.path().join("platform");
            platform::write(&large, &stack)?;
            vec![root.join("charts/memcached"), stack, large]
        }
    };
    let as_json = variable("JSON").is_some_and(|value| value != "0");
    let mut lines = Vec::new();
    for chart in charts {
        eprintln!("measuring {} ...", chart.display());
        let mut line = Map::new();
        line.insert(
            "chart".into(),
            json!(chart.file_name().unwrap_or_default().to_string_lossy()),
        );
        helm(&mut line, &chart, values_file.as_deref(), runs)?;
        on_large_stack(|| ours(&mut line, &chart, &values, runs))??;
        processes(&mut line, &chart, values_file.as_deref())?;
        ratios(&mut line);
        if as_json {
            println!("{}", Value::Object(line.clone()));
        }
        lines.push(line);
    }
    if !as_json {
        table(&lines);
    }
    Ok(())
}

/// Helm's engine, in the oracle's process.
fn helm(line: &mut Map<String, Value>, chart: &Path, values: Option<&str>, runs: usize) -> Result<(), Failure> {
    let Some(oracle) = variable("ORACLE") else {
        eprintln!("no oracle (ORACLE): Helm's engine is left out");
        return Ok(());
    };
    let mut request = json!({"op": "bench", "chart": chart, "runs": runs});
    if let Some(values) = values {
        request["values"] = json!(std::path::absolute(values)?);
    }
    let mut child = Command::new(oracle)
        .args(["-timeout", "600s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{request}")?;
    }
    let output = child.wait_with_output()?;
    let answer: Map<String, Value> = serde_json::from_slice(&output.stdout)?;
    if !answer.contains_key("render_ms") {
        return Err(format!("Helm can't render {}: {}", chart.display(), Value::Object(answer)).into());
    }
    for (name, value) in answer {
        line.insert(format!("helm_{name}"), value);
    }
    Ok(())
}

fn input<'a>(values: &Map<String, Value>, capabilities: &'a Capabilities, lookups: &'a Lookups) -> Input<'a> {
    Input {
        values: Value::Object(values.clone()),
        seed: Some([0; 32]),
        ..Input::new(Release::install("bench", "default"), capabilities, lookups)
    }
}

fn ours(line: &mut Map<String, Value>, path: &Path, values: &Map<String, Value>, runs: usize) -> Result<(), Failure> {
    let (capabilities, lookups) = (Capabilities::default(), Lookups::none());
    let input = input(values, &capabilities, &lookups);
    let (mut load, mut parse, mut render, mut both) = (vec![], vec![], vec![], vec![]);
    for run in 0..=runs {
        let start = Instant::now();
        let chart = Arc::new(chart::load(path)?);
        let loaded = start.elapsed();
        let start = Instant::now();
        let renderer = Renderer::new(chart)?;
        renderer.render(&input)?;
        let first = start.elapsed();
        // Templates are parsed by the first render and kept: what the second takes is rendering alone.
        let start = Instant::now();
        let rendered = renderer.render(&input)?;
        let second = start.elapsed();
        drop(rendered);
        if run > 0 {
            load.push(loaded);
            parse.push(first.saturating_sub(second));
            render.push(second);
            both.push(first);
        }
    }
    line.insert("render_min_ms".into(), json!(render.iter().min().map(milliseconds)));
    for (name, times) in [
        ("load_ms", load),
        ("parse_ms", parse),
        ("render_ms", render),
        ("parse_and_render_ms", both),
    ] {
        line.insert(name.into(), json!(median(times)));
    }
    let (kept, held) = counting::held(|| -> Result<Renderer, Failure> {
        let renderer = Renderer::new(Arc::new(chart::load(path)?))?;
        renderer.render(&input)?;
        Ok(renderer)
    });
    let files = size(kept?.chart());
    line.insert("files_bytes".into(), json!(files));
    line.insert("memory_bytes".into(), json!(held));
    line.insert("memory_ratio".into(), json!(held as f64 / files.max(1) as f64));
    Ok(())
}

/// The bytes of a chart's files, of its charts too. `values.yaml` counts as the JSON of its values: less than the file has.
fn size(chart: &Chart) -> usize {
    let files = chart.templates.iter().chain(&chart.files);
    files.map(|file| file.data.len()).sum::<usize>()
        + chart.schema.as_ref().map_or(0, |schema| schema.text().len())
        + json!(chart.values).to_string().len()
        + chart.dependencies.iter().map(size).sum::<usize>()
}

/// `helm template` and `chartwright template` from start to end.
fn processes(line: &mut Map<String, Value>, chart: &Path, values: Option<&str>) -> Result<(), Failure> {
    for (name, binary) in [
        ("helm_process_ms", variable("HELM")),
        ("process_ms", variable("CHARTWRIGHT").or(CHARTWRIGHT.map(str::to_owned))),
    ] {
        let Some(binary) = binary else {
            eprintln!("no binary for {name}: left out");
            continue;
        };
        let mut times = Vec::new();
        for run in 0..=PROCESS_RUNS {
            let mut command = Command::new(&binary);
            command.args(["template", "bench"]).arg(chart).stdin(Stdio::null());
            if let Some(values) = values {
                command.args(["-f", values]);
            }
            let start = Instant::now();
            let output = command.env("KUBECONFIG", "/dev/null").output()?;
            let time = start.elapsed();
            if !output.status.success() {
                return Err(format!("{binary} template: {}", String::from_utf8_lossy(&output.stderr)).into());
            }
            if run > 0 {
                times.push(time);
            }
        }
        line.insert(name.into(), json!(median(times)));
    }
    Ok(())
}

fn milliseconds(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let at = |index: usize| times.get(index).map_or(0.0, milliseconds);
    let middle = times.len() / 2;
    if times.len() % 2 == 1 {
        at(middle)
    } else {
        f64::midpoint(at(middle.saturating_sub(1)), at(middle))
    }
}

fn ratios(line: &mut Map<String, Value>) {
    for (name, helm, ours) in [
        ("ratio", "helm_render_ms", "render_ms"),
        ("ratio_with_parse", "helm_render_ms", "parse_and_render_ms"),
        ("ratio_load", "helm_load_ms", "load_ms"),
        ("ratio_process", "helm_process_ms", "process_ms"),
    ] {
        let number = |name: &str| line.get(name).and_then(Value::as_f64);
        if let (Some(helm), Some(ours)) = (number(helm), number(ours))
            && ours > 0.0
        {
            line.insert(name.into(), json!(helm / ours));
        }
    }
}

fn table(lines: &[Map<String, Value>]) {
    println!(
        "{:<24} {:>21} {:>30} {:>21} {:>27} {:>20}",
        "", "load ms", "render ms", "with parsing ms", "process ms", "parsed chart kB"
    );
    println!(
        "{:<24} {:>7} {:>6} {:>6} {:>9} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6} {:>9} {:>8} {:>8} {:>7} {:>6} {:>5}",
        "chart",
        "Helm",
        "ours",
        "x",
        "Helm",
        "(min)",
        "ours",
        "x",
        "parse",
        "both",
        "x",
        "Helm",
        "ours",
        "x",
        "files",
        "held",
        "x"
    );
    for line in lines {
        let number = |name: &str, digits: usize, scale: f64| {
            line.get(name)
                .and_then(Value::as_f64)
                .map_or_else(|| "-".to_owned(), |value| format!("{:.digits$}", value / scale))
        };
        let ms = |name: &str| number(name, 2, 1.0);
        let times = |name: &str| number(name, 1, 1.0);
        println!(
            "{:<24} {:>7} {:>6} {:>6} {:>9} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6} {:>9} {:>8} {:>8} {:>7} {:>6} {:>5}",
            line.get("chart").and_then(Value::as_str).unwrap_or_default(),
            ms("helm_load_ms"),
            ms("load_ms"),
            times("ratio_load"),
            ms("helm_render_ms"),
            ms("helm_render_min_ms"),
            ms("render_ms"),
            times("ratio"),
            ms("parse_ms"),
            ms("parse_and_render_ms"),
            times("ratio_with_parse"),
            times("helm_process_ms"),
            times("process_ms"),
            times("ratio_process"),
            number("files_bytes", 0, 1e3),
            number("memory_bytes", 0, 1e3),
            times("memory_ratio"),
        );
    }
}
