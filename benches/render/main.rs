//! What a render costs, beside Helm's own engine: `make bench-render`.
//!
//! Environment: `CHART` (folder or .tgz; without it charts of ours of three sizes), `VALUES` (a file), `RUNS` (default 21),
//! `JSON=1` (a line a chart instead of a table), `ORACLE` (the oracle's binary, for Helm's engine), `HELM` (Helm's binary, for the
//! comparison of processes). Times are medians in milliseconds; both engines take turns, so that other
//! load on the machine slows down both.
//!
//! A render of ours ends with sorted manifests whose YAML was read; Helm does that in a step after its engine, which is
//! `helm_sort_ms`. Ratios are those of the engine alone against all of ours, unless their name says `sort`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

mod counting;
mod platform;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use helm_template::chart::{self, Chart};
use helm_template::render::{Engine, Input, Kept, ReleaseObject};
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: counting::CountingAllocator = counting::CountingAllocator;

/// The program to compare with `helm template`; cargo builds it for benchmarks.
const CHARTWRIGHT: Option<&str> = option_env!("CARGO_BIN_EXE_chartwright");
const PROCESS_RUNS: usize = 11;
/// How often the engines take turns.
const ROUNDS: usize = 3;

/// Measured values by name.
type Samples = BTreeMap<String, Vec<f64>>;
type BenchFailure = Box<dyn std::error::Error + Send + Sync>;

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

fn run() -> Result<(), BenchFailure> {
    let runs = variable("RUNS").map_or(Ok(21), |text| text.parse::<usize>())?.max(1);
    let values_file = variable("VALUES");
    let read =
        |path| -> Result<_, BenchFailure> { Ok(chart::values::read(&std::fs::read(path)?, go_yaml::MAX_DEPTH)?) };
    let values = values_file.as_ref().map(read).transpose()?.unwrap_or_default();
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
        let line = measure(&chart, &values, values_file.as_deref(), runs.div_ceil(ROUNDS))?;
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

/// All that is measured of one chart, by name.
fn measure(
    chart: &Path,
    values: &Map<String, Value>,
    file: Option<&str>,
    runs: usize,
) -> Result<Map<String, Value>, BenchFailure> {
    let mut line = Map::new();
    let name = chart.file_name().unwrap_or_default().to_string_lossy();
    line.insert("chart".into(), json!(name));
    let (mut theirs, mut own) = (Samples::new(), Samples::new());
    for _ in 0..ROUNDS {
        helm(&mut theirs, chart, file, runs)?;
        ours(&mut own, chart, values, runs)?;
    }
    let fastest = own.get("render_ms").map(|times| least(times));
    line.insert("render_min_ms".into(), json!(fastest));
    for (name, times) in theirs.into_iter().chain(own) {
        let is_least = name.contains("min_");
        line.insert(name, json!(if is_least { least(&times) } else { median(times) }));
    }
    memory(&mut line, chart, values)?;
    processes(&mut line, chart, file)?;
    ratios(&mut line);
    Ok(line)
}

/// Helm's engine, in the oracle's process.
fn helm(samples: &mut Samples, chart: &Path, values: Option<&str>, runs: usize) -> Result<(), BenchFailure> {
    let Some(oracle) = variable("ORACLE") else {
        eprintln!("no oracle (ORACLE): Helm's engine is left out");
        return Ok(());
    };
    let mut request = json!({"op": "bench", "chart": chart, "runs": runs});
    if let Some(values) = values {
        request["values"] = json!(std::path::absolute(values)?);
    }
    let mut command = Command::new(oracle);
    command
        .args(["-timeout", "600s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn()?;
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

/// As the operator renders a release for the first time.
fn input(values: &Map<String, Value>) -> Input<'static> {
    static NOTHING: LazyLock<Kept> = LazyLock::new(|| Kept::new([0; 32]));
    Input {
        random: Some(Arc::new([0; 32])),
        kept: Some(&NOTHING),
        guards_secrets: true,
        read_objects: true,
        ..Input::new(
            ReleaseObject::install("bench", "default"),
            Value::Object(values.clone()),
        )
    }
}

fn ours(samples: &mut Samples, path: &Path, values: &Map<String, Value>, runs: usize) -> Result<(), BenchFailure> {
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
fn memory(line: &mut Map<String, Value>, path: &Path, values: &Map<String, Value>) -> Result<(), BenchFailure> {
    let input = input(values);
    let (kept, held) = counting::held(|| -> Result<Engine, BenchFailure> {
        let renderer = Engine::new(Chart::load(path)?)?;
        renderer.render_with(&input)?;
        Ok(renderer)
    });
    let files = size(kept?.chart());
    line.insert("files_kb".into(), json!(files as f64 / 1e3));
    line.insert("memory_kb".into(), json!(held as f64 / 1e3));
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
fn processes(line: &mut Map<String, Value>, chart: &Path, values: Option<&str>) -> Result<(), BenchFailure> {
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

const PARSED: &str = "parse_and_render_ms";

/// What is compared: the group of columns, the names of Helm's and our value, and of their ratio.
const COMPARED: [(&str, &str, &str, &str); 7] = [
    ("load ms", "helm_load_ms", "load_ms", "ratio_load"),
    ("render ms", "helm_render_ms", "render_ms", "ratio"),
    ("least ms", "helm_render_min_ms", "render_min_ms", "ratio_min"),
    ("with parsing", "helm_render_ms", PARSED, "ratio_with_parse"),
    (
        "and sort",
        "helm_render_and_sort_ms",
        PARSED,
        "ratio_with_parse_and_sort",
    ),
    ("process ms", "helm_process_ms", "process_ms", "ratio_process"),
    ("chart kB, held", "files_kb", "memory_kb", "memory_ratio"),
];

fn ratios(line: &mut Map<String, Value>) {
    let number = |line: &Map<String, Value>, name: &str| line.get(name).and_then(Value::as_f64);
    if let (Some(render), Some(sort)) = (number(line, "helm_render_ms"), number(line, "helm_sort_ms")) {
        line.insert("helm_render_and_sort_ms".into(), json!(render + sort));
    }
    for (_, helm, ours, ratio) in COMPARED {
        if let (Some(helm), Some(ours)) = (number(line, helm), number(line, ours)) {
            let is_memory = ratio == "memory_ratio";
            let times = if is_memory { ours / helm } else { helm / ours };
            line.insert(ratio.into(), json!(times));
        }
    }
}

fn table(lines: &[Map<String, Value>]) {
    let cell = |line: &Map<String, Value>, name: &str| {
        let number = line.get(name).and_then(Value::as_f64);
        number.map_or_else(|| "-".to_owned(), |number| format!("{number:.1}"))
    };
    print!("{:<24}", "");
    COMPARED.iter().for_each(|(group, ..)| print!("{group:>27}"));
    print!("\n{:<24}", "chart");
    println!(
        "{}",
        format!("{:>9}{:>9}{:>9}", "Helm", "ours", "x").repeat(COMPARED.len())
    );
    for line in lines {
        print!("{:<24}", line.get("chart").and_then(Value::as_str).unwrap_or_default());
        for (_, helm, ours, ratio) in COMPARED {
            print!("{:>9}{:>9}{:>9}", cell(line, helm), cell(line, ours), cell(line, ratio));
        }
        println!();
    }
}
