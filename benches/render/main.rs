//! What a render costs, beside Helm's own engine: `make bench-render`.
//!
//! Environment: `CHART` (folder or .tgz; without it charts of ours of three sizes), `VALUES` (a file), `RUNS` (default 21),
//! `JSON=1` (a line a chart instead of a table), `ORACLE` (the oracle's binary, for Helm's engine), `HELM` (Helm's binary, for the
//! comparison of processes). Times are medians in milliseconds; both engines take turns, so that a machine that does other
//! things meanwhile slows down both.
//!
//! A render of ours ends with sorted manifests whose YAML was read; Helm does that in a step after its engine, which is
//! `helm_sort_ms`. Ratios are those of the engine alone against all of ours, unless their name says `sort`.

mod counting;
mod platform;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helm_template::chart::{self, Chart};
use helm_template::render::{Engine, Input, Release};
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The program to compare with `helm template`; cargo builds it for benchmarks.
const CHARTWRIGHT: Option<&str> = option_env!("CARGO_BIN_EXE_chartwright");
const PROCESS_RUNS: usize = 11;
/// How often the engines take turns.
const ROUNDS: usize = 3;

/// Measured values by name.
type Samples = BTreeMap<String, Vec<f64>>;
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
            let large = folder.path().join("platform");
            platform::write(&large, &root.join("benches/charts"))?;
            vec![
                root.join("charts/memcached"),
                root.join("benches/charts/webstack"),
                large,
            ]
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
        let mut theirs = Samples::new();
        let mut own = Samples::new();
        for _ in 0..ROUNDS {
            helm(&mut theirs, &chart, values_file.as_deref(), runs.div_ceil(ROUNDS))?;
            ours(&mut own, &chart, &values, runs.div_ceil(ROUNDS))?;
        }
        line.insert(
            "render_min_ms".into(),
            json!(own.get("render_ms").map(|times| least(times))),
        );
        for (name, times) in theirs.into_iter().chain(own) {
            let value = if name.contains("min_") {
                least(&times)
            } else {
                median(times)
            };
            line.insert(name, json!(value));
        }
        memory(&mut line, &chart, &values)?;
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
fn helm(samples: &mut Samples, chart: &Path, values: Option<&str>, runs: usize) -> Result<(), Failure> {
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
        if let Some(value) = value.as_f64() {
            samples.entry(format!("helm_{name}")).or_default().push(value);
        }
    }
    Ok(())
}

fn input(values: &Map<String, Value>) -> Input<'static> {
    Input {
        random: Some(Arc::new([0; 32])),
        // As the operator renders.
        read_objects: true,
        ..Input::new(Release::install("bench", "default"), Value::Object(values.clone()))
    }
}

fn ours(samples: &mut Samples, path: &Path, values: &Map<String, Value>, runs: usize) -> Result<(), Failure> {
    let input = input(values);
    for run in 0..=runs {
        let start = Instant::now();
        let chart = Arc::new(Chart::load(path)?);
        let loaded = start.elapsed();
        let start = Instant::now();
        let renderer = Engine::new(chart)?;
        renderer.render_with(&input)?;
        let first = start.elapsed();
        // Templates are parsed by the first render and kept: what the second takes is rendering alone.
        let start = Instant::now();
        let rendered = renderer.render_with(&input)?;
        let second = start.elapsed();
        drop(rendered);
        if run > 0 {
            for (name, time) in [
                ("load_ms", loaded),
                ("parse_ms", first.saturating_sub(second)),
                ("render_ms", second),
                ("parse_and_render_ms", first),
            ] {
                samples.entry(name.into()).or_default().push(milliseconds(time));
            }
        }
    }
    Ok(())
}

/// What a parsed chart takes.
fn memory(line: &mut Map<String, Value>, path: &Path, values: &Map<String, Value>) -> Result<(), Failure> {
    let input = input(values);
    let (kept, held) = counting::held(|| -> Result<Engine, Failure> {
        let renderer = Engine::new(Chart::load(path)?)?;
        renderer.render_with(&input)?;
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
        + json!(chart.values.to_json()).to_string().len()
        + chart.dependencies.iter().map(size).sum::<usize>()
}

/// `helm template` and `chartwright template` from start to end.
fn processes(line: &mut Map<String, Value>, chart: &Path, values: Option<&str>) -> Result<(), Failure> {
    let binaries = [
        ("helm_process_ms", variable("HELM")),
        ("process_ms", variable("CHARTWRIGHT").or(CHARTWRIGHT.map(str::to_owned))),
    ];
    let mut samples = Samples::new();
    for run in 0..=PROCESS_RUNS {
        for (name, binary) in &binaries {
            let Some(binary) = binary else { continue };
            let mut command = Command::new(binary);
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
                samples.entry((*name).to_owned()).or_default().push(milliseconds(time));
            }
        }
    }
    for (name, times) in samples {
        line.insert(name, json!(median(times)));
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn least(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

fn ratios(line: &mut Map<String, Value>) {
    let number = |line: &Map<String, Value>, name: &str| line.get(name).and_then(Value::as_f64);
    if let (Some(render), Some(sort)) = (number(line, "helm_render_ms"), number(line, "helm_sort_ms")) {
        line.insert("helm_render_and_sort_ms".into(), json!(render + sort));
    }
    for (name, helm, ours) in [
        ("ratio", "helm_render_ms", "render_ms"),
        ("ratio_min", "helm_render_min_ms", "render_min_ms"),
        ("ratio_with_parse", "helm_render_ms", "parse_and_render_ms"),
        (
            "ratio_with_parse_and_sort",
            "helm_render_and_sort_ms",
            "parse_and_render_ms",
        ),
        ("ratio_load", "helm_load_ms", "load_ms"),
        ("ratio_process", "helm_process_ms", "process_ms"),
    ] {
        if let (Some(helm), Some(ours)) = (number(line, helm), number(line, ours))
            && ours > 0.0
        {
            line.insert(name.into(), json!(helm / ours));
        }
    }
}

fn table(lines: &[Map<String, Value>]) {
    /// Group, column, name, digits, divisor.
    const COLUMNS: [(&str, &str, &str, usize, f64); 20] = [
        ("load ms", "Helm", "helm_load_ms", 2, 1.0),
        ("", "ours", "load_ms", 2, 1.0),
        ("", "x", "ratio_load", 1, 1.0),
        ("render ms", "Helm", "helm_render_ms", 2, 1.0),
        ("", "ours", "render_ms", 2, 1.0),
        ("", "x", "ratio", 1, 1.0),
        ("least ms", "Helm", "helm_render_min_ms", 2, 1.0),
        ("", "ours", "render_min_ms", 2, 1.0),
        ("", "x", "ratio_min", 1, 1.0),
        ("parsing", "parse", "parse_ms", 2, 1.0),
        ("", "both", "parse_and_render_ms", 2, 1.0),
        ("", "x", "ratio_with_parse", 1, 1.0),
        ("and sort", "Helm", "helm_sort_ms", 2, 1.0),
        ("", "x", "ratio_with_parse_and_sort", 1, 1.0),
        ("process", "Helm", "helm_process_ms", 1, 1.0),
        ("", "ours", "process_ms", 1, 1.0),
        ("", "x", "ratio_process", 1, 1.0),
        ("chart kB", "files", "files_bytes", 0, 1e3),
        ("", "held", "memory_bytes", 0, 1e3),
        ("", "x", "memory_ratio", 1, 1.0),
    ];
    let row = |name: &str, cells: &dyn Fn(usize) -> String| {
        let cells: String = (0..COLUMNS.len()).map(|at| format!(" {:>8}", cells(at))).collect();
        println!("{name:<24}{cells}");
    };
    row("", &|at| COLUMNS[at].0.to_owned());
    row("chart", &|at| COLUMNS[at].1.to_owned());
    for line in lines {
        let name = line.get("chart").and_then(Value::as_str).unwrap_or_default();
        row(name, &|at| {
            let (_, _, name, digits, scale) = COLUMNS[at];
            line.get(name)
                .and_then(Value::as_f64)
                .map_or_else(|| "-".to_owned(), |value| format!("{:.digits$}", value / scale))
        });
    }
}
