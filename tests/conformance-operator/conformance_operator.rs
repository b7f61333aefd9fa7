//! `make conformance-operator`: installs, edits, upgrades and deletes every chart below a folder as a custom resource, with
//! the operator on local control planes, and lists what came of it.
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

mod charts;
#[path = "../conformance/find.rs"]
mod find;
mod judge;
mod lane;
mod objects;
mod operator;
mod report;
#[path = "../support/mod.rs"]
mod support;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use charts::ChartCase;
use lane::TrialLane;
use report::{TrialReport, TrialRow};

const HELP: &str = "\
Runs the operator with every chart below a folder, on a control plane of this machine whose pods become ready and whose
Jobs complete. A custom resource of each chart is created, left alone (also while the operator restarts), edited without
effect, upgraded where the chart is there in another version, and deleted.

usage: make conformance-operator CHARTS=FOLDER [NAME=VALUE...]

  CHARTS=FOLDER  where the charts are: folders with a Chart.yaml, and .tgz files; library charts are left out
  ONLY=TEXT      only charts whose path has this text in it; several are separated by commas
  SAMPLE=N       every N-th of the charts only
  JOBS=N         how many charts at a time, each on a control plane of its own (default: 4)
  TIMEOUT=N      seconds until a release has to be Ready or to say why not (default: 120)

The spec is empty, or the first ci/*-values.yaml that renders where the default values don't. A chart is upgraded to the
next version of the same name that lies in a folder beside it, or whose path differs in one folder.

  installed   Ready, or the reason of Ready=False. It is the chart's own if `chartwright template` fails as well, if the API
              server refuses the same manifests from kubectl as well, or if a member really isn't well.
  left alone  the operator makes no request for 5 seconds
  restarted   another process of the operator writes nothing
  edited      an unknown value in the spec changes no member, unless the chart renders something else
  upgraded    as installed, with the other version
  deleted     the custom resource goes, and of everything that was there before nothing is missing and nothing is new, but
              what is annotated `helm.sh/resource-policy: keep`, the chart's crds/, and the claims of StatefulSets

What is not as it should be is marked WRONG; its logs and answers are in target/conformance-operator, also those of charts
that aren't Ready. The exit code is 0 if nothing is wrong, 1 if something is, 2 for wrong use.";

/// The settings of the environment; make passes its variables on that way.
struct TrialOptions {
    charts: PathBuf,
    only: Vec<String>,
    sample: usize,
    jobs: usize,
    limit: Duration,
}

fn main() -> ExitCode {
    if std::env::args().len() > 1 {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let options = match TrialOptions::from_environment() {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("conformance-operator: {problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("conformance-operator: {problem}");
            ExitCode::from(2)
        }
    }
}

impl TrialOptions {
    fn from_environment() -> Result<TrialOptions, String> {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let charts = PathBuf::from(text("CHARTS").ok_or("CHARTS is missing: the folder where the charts are")?);
        let charts = std::fs::canonicalize(&charts).map_err(|e| format!("CHARTS={}: {e}", charts.display()))?;
        let number = |name: &str, default: usize| {
            let number = text(name).map_or(Ok(default), |value| value.parse());
            let number = number.ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("{name}: a whole number above 0 is wanted"))
        };
        let only = text("ONLY").unwrap_or_default();
        let only = only.split(',').map(str::trim).filter(|word| !word.is_empty());
        Ok(TrialOptions {
            charts,
            only: only.map(str::to_owned).collect(),
            sample: number("SAMPLE", 1)?,
            jobs: number("JOBS", 4)?,
            limit: Duration::from_secs(number("TIMEOUT", 120)? as u64),
        })
    }
}

/// Tries all charts. `Ok(true)`: nothing is wrong.
fn run(options: &TrialOptions) -> Result<bool, String> {
    let found = charts::cases(&options.charts, &options.only)
        .map_err(|e| format!("the charts below {}: {e}", options.charts.display()))?;
    let cases: Vec<ChartCase> = found.into_iter().step_by(options.sample).collect();
    if cases.is_empty() {
        return Err(format!("no chart to install below {}", options.charts.display()));
    }
    let report = Mutex::new(TrialReport::new(cases.len()));
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    let jobs = options.jobs.min(cases.len());
    eprintln!(
        "conformance-operator: {} charts, {jobs} control planes start",
        cases.len()
    );
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (cases, next, report) = (&cases, &next, &report);
            scope.spawn(move || {
                let mut lane: Option<TrialLane> = None;
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = try_chart(&mut lane, case, options.limit);
                    report.lock().expect("no thread panics with it").add(row);
                }
            });
        }
    });
    let report = report.into_inner().expect("no thread panics with it");
    Ok(report.finish(start.elapsed()))
}

/// Tries one chart, on a new control plane where there is none that is as it was at first.
fn try_chart(lane: &mut Option<TrialLane>, case: &ChartCase, limit: Duration) -> TrialRow {
    let mut row = TrialRow::new(case);
    let current = match lane.take().map_or_else(TrialLane::start, Ok) {
        Ok(current) => current,
        Err(error) => {
            row.failed("control plane", &error);
            return row;
        }
    };
    let mut current = current;
    trial::run(&mut current, case, limit, &mut row);
    // Otherwise what is left would be in the way of the next chart.
    *lane = current.clean().is_ok().then_some(current);
    row
}
