//! `make conformance`: renders every chart below a folder with the real Helm and with ours, and lists what differs.
//!
//! Not a test: the charts are those of others, and stay outside this repository. tests/README.md says how to use it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

mod answer;
mod cases;
mod compare;
mod find;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use answer::{Helm, RenderAnswer, ours};
use cases::RenderCase;
use compare::Rerun;
use report::{ConformanceReport, ConformanceRow};

const HELP: &str = "\
Renders every chart below a folder with the real Helm and with chartwright, and compares standard output, the exit
code and the `Error:` line. Each chart is rendered with its default values, with each ci/*.yaml, values-*.yaml and
values.*.yaml that lies in it, and all that with --is-upgrade too.

usage: make conformance CHARTS=FOLDER [NAME=VALUE...]

  CHARTS=FOLDER  where the charts are: folders with a Chart.yaml, and .tgz files
  ONLY=TEXT      only charts whose path has this text in it; several are separated by commas
  FLIP=on        render once for each boolean of values.yaml that is false, set to true, instead of the cases above
  SAMPLE=N       every N-th of the renders only
  ARGS=\"...\"     more arguments for both, separated by blanks
  ORACLE=FILE    the program with the real Helm (default: built by tests/oracle/build)

The outputs that differ are written to target/conformance. What Helm prints differently from one run to the next (map
order, clock, chance) is found by rendering again, and masked. The exit code is 0 if nothing else differs, 1 if something
does, 2 for wrong use.";

/// The settings of the environment; make passes its variables on that way.
struct ConformanceOptions {
    charts: PathBuf,
    only: Vec<String>,
    flip: bool,
    sample: usize,
    arguments: Vec<String>,
    oracle: PathBuf,
}

fn main() -> ExitCode {
    if std::env::args().len() > 1 {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match ConformanceOptions::from_environment().and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("conformance: {problem}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

impl ConformanceOptions {
    fn from_environment() -> Result<ConformanceOptions, String> {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let charts = PathBuf::from(text("CHARTS").ok_or("CHARTS is missing: the folder where the charts are")?);
        if !charts.is_dir() {
            return Err(format!("CHARTS={}: there is no such folder", charts.display()));
        }
        let flip = match text("FLIP").as_deref() {
            None => false,
            Some("on") => true,
            Some(other) => return Err(format!("FLIP={other}: it can be on")),
        };
        let sample = text("SAMPLE").map_or(Ok(1), |value| value.parse());
        let words = |name: &str, separator: char| -> Vec<String> {
            let value = text(name).unwrap_or_default();
            let words = value.split(separator).map(str::trim).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        Ok(ConformanceOptions {
            charts,
            only: words("ONLY", ','),
            flip,
            sample: sample
                .ok()
                .filter(|n| *n > 0)
                .ok_or("SAMPLE: a whole number above 0 is wanted")?,
            arguments: words("ARGS", ' '),
            oracle: PathBuf::from(text("ORACLE").ok_or("ORACLE is missing: what tests/oracle/build prints")?),
        })
    }
}

/// Renders all cases. `Ok(true)`: nothing differs.
fn run(options: &ConformanceOptions) -> Result<bool, String> {
    let charts = find::find(&options.charts, &options.only)
        .map_err(|e| format!("the charts below {}: {e}", options.charts.display()))?;
    if charts.is_empty() {
        let folder = options.charts.display();
        return Err(format!(
            "no chart (a folder with a Chart.yaml, or a .tgz file) below {folder}"
        ));
    }
    let of_chart = |chart| cases::cases(&options.charts, chart, options.flip);
    let all = charts.iter().flat_map(|chart| of_chart(chart));
    let all: Vec<RenderCase> = all.step_by(options.sample).collect();
    let jobs = std::thread::available_parallelism().map_or(2, usize::from);
    let helms = (0..jobs.min(all.len())).map(|_| Helm::start(&options.oracle));
    let helms = helms.collect::<Result<Vec<_>, _>>()?;
    let report = Mutex::new(ConformanceReport::new(all.len()));
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for mut helm in helms {
            let (all, next, report) = (&all, &next, &report);
            scope.spawn(move || {
                while let Some(case) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = render(case, &mut helm, &options.arguments);
                    report.lock().expect("no thread panics with it").add(row);
                }
            });
        }
    });
    let report = report.into_inner().expect("no thread panics with it");
    Ok(report.finish(charts.len(), start.elapsed()))
}

/// Renders one case with both, with Helm as often as it takes to know what varies.
fn render<'a>(case: &'a RenderCase, helm: &mut Helm, more: &[String]) -> ConformanceRow<'a> {
    let arguments = case.arguments(more);
    let first = helm.render(&arguments);
    let start = Instant::now();
    let mine = ours(&arguments);
    let took = start.elapsed();
    let mut others: Vec<RenderAnswer> = Vec::new();
    let verdict = loop {
        match compare::judge(&mine, &first, &others) {
            Ok(verdict) => break verdict,
            Err(Rerun::Now) => {}
            // Clocks are printed with seconds, so two renders within one look the same.
            Err(Rerun::Later) => std::thread::sleep(Duration::from_millis(1100)),
        }
        others.push(helm.render(&arguments));
    };
    ConformanceRow {
        case,
        arguments,
        helm: first,
        ours: mine,
        verdict,
        took,
    }
}
