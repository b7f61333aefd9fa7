//! `make conformance`: renders every chart below a folder with the real Helm and with ours, and lists what differs.
//!
//! Not a test: the charts are those of others, and stay outside this repository. CONTRIBUTING.md says how to use it.

mod answer;
mod cases;
mod compare;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use answer::{Answer, Helm, ours};
use cases::{Case, Flip};
use compare::{Rerun, Verdict};
use report::{Report, Row};

const HELP: &str = "\
Renders every chart below a folder with the real Helm and with chartwright, and compares standard output, the exit
code and the `Error:` line. Each chart is rendered with its default values, with each ci/*.yaml, values-*.yaml and
values.*.yaml that lies in it, and all that with --is-upgrade too.

usage: make conformance CHARTS=FOLDER [NAME=VALUE...]

  CHARTS=FOLDER  where the charts are: folders with a Chart.yaml, and .tgz files
  ONLY=TEXT      only charts whose path has this text in it; several are separated by commas
  FLIP=on        render once for each boolean of values.yaml that is false, set to true, instead of the cases above
  FLIP=all       the same, and those that are true set to false
  SAMPLE=N       every N-th of the renders only
  ARGS=\"...\"     more arguments for both, separated by blanks
  JSON=1         one JSON object a line for each render, instead of the table
  OUT=FOLDER     where the outputs that differ are written (default target/conformance)
  JOBS=N         renders at a time (default: the number of processors)
  ORACLE=FILE    the program with the real Helm (default: built by tests/oracle/build)

What Helm prints differently from one run to the next (map order, clock, chance) is found by rendering again, and
masked. The exit code is 0 if nothing else differs, 1 if something does, 2 for wrong use.";

/// What the environment asks for; make passes its variables on that way.
struct Options {
    charts: PathBuf,
    only: Vec<String>,
    flip: Option<Flip>,
    sample: usize,
    arguments: Vec<String>,
    json: bool,
    out: PathBuf,
    jobs: usize,
    oracle: PathBuf,
}

fn main() -> ExitCode {
    if std::env::args().len() > 1 {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::from_environment(|name| std::env::var(name).ok()) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("conformance: {problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("conformance: {problem}");
            ExitCode::from(2)
        }
    }
}

impl Options {
    /// Reads the options. `variable` answers what the environment has under a name.
    fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Options, String> {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        let number = |name: &str, default: usize| match text(name) {
            None => Ok(default),
            Some(value) => match value.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{name}={value}: a whole number above 0 is wanted")),
            },
        };
        let charts = PathBuf::from(text("CHARTS").ok_or("CHARTS is missing: the folder where the charts are")?);
        if !charts.is_dir() {
            return Err(format!("CHARTS={}: there is no such folder", charts.display()));
        }
        let flip = match text("FLIP").as_deref() {
            None | Some("off" | "0") => None,
            Some("on" | "1") => Some(Flip::On),
            Some("all") => Some(Flip::All),
            Some(other) => return Err(format!("FLIP={other}: it can be on or all")),
        };
        let oracle = PathBuf::from(text("ORACLE").ok_or("ORACLE is missing: what tests/oracle/build prints")?);
        if !oracle.is_file() {
            return Err(format!("ORACLE={}: there is no such file", oracle.display()));
        }
        let words = |name: &str, separator: char| -> Vec<String> {
            let value = text(name).unwrap_or_default();
            let words = value.split(separator).map(str::trim).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        Ok(Options {
            charts,
            only: words("ONLY", ','),
            flip,
            sample: number("SAMPLE", 1)?,
            arguments: words("ARGS", ' '),
            json: text("JSON").is_some_and(|value| value != "0"),
            out: text("OUT").map_or_else(|| PathBuf::from("target/conformance"), PathBuf::from),
            jobs: number("JOBS", std::thread::available_parallelism().map_or(2, usize::from))?,
            oracle,
        })
    }
}

/// Renders all cases. `Ok(true)`: nothing differs.
fn run(options: &Options) -> Result<bool, String> {
    let charts = cases::find(&options.charts, &options.only)
        .map_err(|e| format!("the charts below {}: {e}", options.charts.display()))?;
    if charts.is_empty() {
        return Err(format!(
            "no chart (a folder with a Chart.yaml, or a .tgz file) below {}",
            options.charts.display()
        ));
    }
    let all = charts
        .iter()
        .flat_map(|chart| cases::cases(&options.charts, chart, options.flip));
    let all: Vec<Case> = all.step_by(options.sample).collect();
    let jobs = options.jobs.min(all.len());
    let helms = (0..jobs)
        .map(|_| Helm::start(&options.oracle))
        .collect::<Result<Vec<_>, _>>()?;
    let report = Mutex::new(Report::new(options.out.clone(), options.json, all.len()));
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
fn render<'a>(case: &'a Case, helm: &mut Helm, more: &[String]) -> Row<'a> {
    let arguments = case.arguments(more);
    let first = helm.render(&arguments);
    let start = Instant::now();
    let mine = ours(&arguments);
    let took = start.elapsed();
    let mut others: Vec<Answer> = Vec::new();
    let verdict = loop {
        match compare::judge(&mine, &first, &others) {
            Ok(verdict) => break verdict,
            Err(Rerun::Now) => {}
            // Clocks are printed with seconds, so two renders within one look the same.
            Err(Rerun::Later) => std::thread::sleep(Duration::from_millis(1100)),
        }
        others.push(helm.render(&arguments));
    };
    Row {
        case,
        arguments,
        kept: matches!(verdict, Verdict::Different(_)).then(|| (first.clone(), mine.clone())),
        code: first.code,
        lines: first.stdout.lines().count(),
        error: first.error.lines().next().unwrap_or_default().to_owned(),
        verdict,
        took,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<Options, String> {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance");
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        Options::from_environment(|name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            match (pair, name) {
                (Some((_, value)), _) => Some((*value).to_owned()),
                (None, "CHARTS") => Some(here.to_owned()),
                (None, "ORACLE") => Some(file.to_owned()),
                _ => None,
            }
        })
    }

    #[test]
    fn options_are_read_and_wrong_ones_named() {
        let read = options(&[("ONLY", "redis, kafka"), ("FLIP", "on"), ("SAMPLE", "3"), ("JSON", "1")]).unwrap();
        assert_eq!(read.only, ["redis", "kafka"]);
        assert_eq!((read.flip, read.sample, read.json), (Some(Flip::On), 3, true));
        for (pair, problem) in [
            (("CHARTS", ""), "CHARTS is missing"),
            (
                ("CHARTS", "/no/such/folder"),
                "CHARTS=/no/such/folder: there is no such folder",
            ),
            (("ORACLE", "/no/oracle"), "ORACLE=/no/oracle: there is no such file"),
            (("FLIP", "maybe"), "FLIP=maybe: it can be on or all"),
            (("SAMPLE", "0"), "SAMPLE=0: a whole number above 0 is wanted"),
            (("JOBS", "two"), "JOBS=two: a whole number above 0 is wanted"),
        ] {
            let found = options(&[pair]).err().unwrap_or_default();
            assert!(found.starts_with(problem), "{pair:?}: {found}");
        }
    }
}
