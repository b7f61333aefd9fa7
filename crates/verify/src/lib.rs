//! Unit tests for charts, without a cluster: what a release is made of, and what an edit or another chart changes.
//!
//! A case is a custom resource and what there is beside it; it is reconciled step by step as `run` would, and held against what
//! is expected.

#![forbid(unsafe_code)]

mod bounds;
mod case;
mod cluster;
mod expect;
mod golden;
mod matching;
mod outcome;
pub mod output;
mod reader;
mod refer;
mod run;
mod subject;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::StreamExt as _;

use bounds::Bounds;
use case::{CaseFile, Check, VerifyCase};
pub use expect::Failure;
use outcome::DoneStep;
use run::StepChart;
use subject::{CaseCharts, CaseSurroundings, FoundFile, shown};

use chartwright_scaffold::progress::ProgressLine;
use chartwright_scaffold::tree;

/// How it is done.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Golden files are written, not compared.
    pub update: bool,
    /// Only cases whose names have this in them; `*` stands for anything.
    pub only: Option<String>,
    /// So many at a time; 0: as many as there are processors.
    pub at_once: usize,
}

/// What came of one case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The case file, from the working directory on.
    pub file: String,
    /// The case; empty if the file itself is wrong.
    pub name: String,
    pub line: usize,
    pub failures: Vec<Failure>,
    /// Golden files that were written.
    pub updated: Vec<String>,
    pub took: Duration,
}

/// What came of all of them.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// By file, in the order of the cases.
    pub reports: Vec<CaseReport>,
    /// What has no effect on the cases.
    pub warnings: Vec<String>,
}

/// One case, with all that it needs.
struct CaseWork {
    path: PathBuf,
    name: String,
    file: Arc<CaseFile>,
    number: usize,
    /// What it may read.
    bounds: Arc<Bounds>,
    /// Of each step; or why there is none, with a line.
    charts: Result<Vec<StepChart>, (usize, String)>,
}

/// Carries out the cases that these paths lead to.
///
/// # Errors
/// There are none.
pub fn verify(paths: &[PathBuf], options: &VerifyOptions) -> anyhow::Result<Verified> {
    let mut verified = Verified::default();
    let mut loader = CaseLoader::default();
    let mut work: Vec<CaseWork> = Vec::new();
    for found in subject::find(paths)? {
        match loader.read(&found, options) {
            Ok(cases) => work.extend(cases),
            Err(report) => verified.reports.push(*report),
        }
    }
    verified.warnings = loader.warnings();
    if let (Some(pattern), true, true) = (&options.only, work.is_empty(), verified.reports.is_empty()) {
        bail!("no case has {pattern:?} in its name");
    }
    let all = work.len();
    let at_once = match options.at_once {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        given => given,
    };
    let update = options.update;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let reports = runtime.block_on(async {
        let tasks = work.into_iter().map(|work| {
            let at = work.place();
            async move {
                let task = tokio::spawn(async move { work.carry_out(update).await });
                task.await
                    .unwrap_or_else(|_| at.fail("it stopped unexpectedly: this is a defect of chartwright"))
            }
        });
        let mut running = futures::stream::iter(tasks).buffered(at_once);
        let mut reports = Vec::with_capacity(all);
        let mut progress = ProgressLine::new();
        while let Some(report) = running.next().await {
            reports.push(report);
            progress.show(|| format!("{} of {all} cases", reports.len()));
        }
        reports
    });
    verified.reports.extend(reports);
    verified
        .reports
        .sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
    Ok(verified)
}

/// Reads files, charts and projects, each once.
#[derive(Default)]
struct CaseLoader {
    charts: CaseCharts,
    surroundings: BTreeMap<PathBuf, Result<Arc<CaseSurroundings>, String>>,
    packing: Vec<PathBuf>,
}

impl CaseLoader {
    /// The cases of a file that are to be carried out.
    ///
    /// # Errors
    /// What is wrong with the file or with its chart, as a report.
    fn read(&mut self, found: &FoundFile, options: &VerifyOptions) -> Result<Vec<CaseWork>, Box<CaseReport>> {
        let shown = shown(&found.file);
        let wrong = |line: usize, message: String| {
            let report = CaseReport::of(&shown, "", line);
            Box::new(report.fail(&message))
        };
        let bounds = Arc::new(Bounds::of(&found.file, found.chart.as_deref()));
        bounds.check(&found.file).map_err(|error| wrong(0, error))?;
        let text = std::fs::read(&found.file).map_err(|error| wrong(0, format!("can't be read: {error}")))?;
        let folder = found.file.parent().unwrap_or(Path::new(""));
        let file = CaseFile::parse(&shown, folder, &bounds, &text).map_err(|errors| {
            let failures = errors.0.into_iter().map(|error| Failure {
                line: error.line,
                message: error.message,
            });
            Box::new(CaseReport {
                failures: failures.collect(),
                ..CaseReport::of(&shown, "", 0)
            })
        })?;
        let chart = file.chart.clone().or_else(|| found.chart.clone()).ok_or_else(|| {
            let message = "`chart` is missing: a file that lies neither in the folder `verify` of a chart nor in `<chart>.verify` \
                           beside it has to say where the chart is";
            wrong(0, message.to_owned())
        })?;
        let file = Arc::new(file);
        let mut work = Vec::new();
        let mut within: BTreeMap<PathBuf, Result<(), String>> = BTreeMap::new();
        for (number, case) in file.cases.iter().enumerate() {
            if options
                .only
                .as_deref()
                .is_some_and(|pattern| !is_like(&case.name, pattern))
            {
                continue;
            }
            let mut path = chart.clone();
            let charts = case.steps.iter().map(|step| {
                path = step.chart.clone().unwrap_or_else(|| path.clone());
                // The watch is that of the chart that the case is about.
                let is_within = within.entry(path.clone()).or_insert_with(|| bounds.check_chart(&path));
                let loaded = is_within.clone().and_then(|()| self.chart(&path, &chart));
                loaded.map_err(|error| (step.line, error))
            });
            work.push(CaseWork {
                charts: charts.collect(),
                path: found.file.clone(),
                name: shown.clone(),
                file: file.clone(),
                number,
                bounds: bounds.clone(),
            });
        }
        Ok(work)
    }

    /// A chart, with what surrounds another one.
    fn chart(&mut self, path: &Path, around: &Path) -> Result<StepChart, String> {
        let loaded = self.charts.load(path)?;
        if loaded.packs_cases && !self.packing.iter().any(|known| known == path) {
            self.packing.push(path.to_owned());
        }
        let surroundings = self.surroundings.entry(around.to_owned()).or_insert_with(|| {
            let found = CaseSurroundings::of(around).map(Arc::new);
            found.map_err(|error| format!("{error:#}"))
        });
        Ok(StepChart {
            path: path.to_owned(),
            loaded,
            surroundings: surroundings.clone()?,
        })
    }

    fn warnings(&self) -> Vec<String> {
        let warning = |chart: &PathBuf| {
            let chart = shown(chart);
            format!(
                "{chart}/.helmignore doesn't list verify/: the case files are packaged with the chart, and an edit of one \
                 has every release rendered again"
            )
        };
        self.packing.iter().map(warning).collect()
    }
}

impl CaseWork {
    fn case(&self) -> Option<&VerifyCase> {
        self.file.cases.get(self.number)
    }

    fn place(&self) -> CaseReport {
        let (name, line) = self.case().map_or(("", 0), |case| (case.name.as_str(), case.line));
        CaseReport::of(&self.name, name, line)
    }

    async fn carry_out(&self, update: bool) -> CaseReport {
        let started = Instant::now();
        let mut report = self.place();
        if let Some(case) = self.case()
            && let Err(error) = self.run(case, update, &mut report).await
        {
            report = report.fail(&format!("{error:#}"));
        }
        report.took = started.elapsed();
        report
    }

    async fn run(&self, case: &VerifyCase, update: bool, report: &mut CaseReport) -> anyhow::Result<()> {
        let charts = match &self.charts {
            Ok(charts) => charts,
            Err((line, message)) => {
                let (line, message) = (*line, message.clone());
                report.failures.push(Failure { line, message });
                return Ok(());
            }
        };
        let run = async || run::run(&self.file, case, charts).await;
        let done = match run().await {
            Ok(done) => done,
            Err((line, error)) => {
                let message = format!("{error:#}");
                report.failures.push(Failure { line, message });
                return Ok(());
            }
        };
        let has_snapshots = snapshots(case).next().is_some();
        let is_random = |done: &DoneStep| done.as_ref().is_ok_and(|performed| performed.prepared.is_random());
        let again = if has_snapshots && done.iter().any(is_random) {
            run().await.unwrap_or_default()
        } else {
            Vec::new()
        };
        for (number, (step, done)) in case.steps.iter().zip(&done).enumerate() {
            let mut failures = expect::failures(step, done);
            if let Some(line) = snapshots(case).find(|(at, _)| *at == number).map(|(_, line)| line) {
                let path = golden::path(&self.path, &case.name, number);
                match self.bounds.check(&path) {
                    Ok(()) => {
                        let text = golden::text(done, again.get(number))?;
                        failures.extend(compare(&path, &text, line, update, &mut report.updated)?);
                    }
                    Err(message) => failures.push(Failure { line, message }),
                }
            }
            failures.sort_by_key(|failure| failure.line);
            report.failures.extend(failures);
        }
        Ok(())
    }
}

/// The steps with golden files, and the lines that say so.
fn snapshots(case: &VerifyCase) -> impl Iterator<Item = (usize, usize)> {
    let steps = case.steps.iter().enumerate();
    steps.filter_map(|(number, step)| {
        let mut expectations = step.expect.iter();
        let snapshot = expectations.find(|expectation| matches!(expectation.check, Check::Snapshot))?;
        Some((number, snapshot.line))
    })
}

/// Compares with a golden file, or writes it.
fn compare(
    path: &Path,
    text: &str,
    line: usize,
    update: bool,
    updated: &mut Vec<String>,
) -> anyhow::Result<Option<Failure>> {
    let shown = shown(path);
    let before = match std::fs::read(path) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).context(shown),
    };
    if before.as_deref() == Some(text.as_bytes()) {
        return Ok(None);
    }
    if update {
        let folder = path.parent().unwrap_or(Path::new(""));
        std::fs::create_dir_all(folder).with_context(|| shown.clone())?;
        std::fs::write(path, text).with_context(|| shown.clone())?;
        updated.push(shown);
        return Ok(None);
    }
    let message = match before {
        None => format!("there is no {shown}: `chartwright verify --update` writes it; check its content"),
        Some(before) => format!(
            "it isn't as in {shown}; if that is meant, `chartwright verify --update` rewrites it:\n{}",
            tree::difference(&before, text.as_bytes())
        ),
    };
    Ok(Some(Failure { line, message }))
}

/// Whether a name has the pattern in it, of which `*` stands for anything.
fn is_like(name: &str, pattern: &str) -> bool {
    let name = name.to_lowercase();
    let mut rest = name.as_str();
    pattern.to_lowercase().split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = rest.get(at + part.len()..).unwrap_or_default();
            true
        }
        None => false,
    })
}

impl CaseReport {
    fn of(file: &str, name: &str, line: usize) -> Self {
        CaseReport {
            file: file.to_owned(),
            name: name.to_owned(),
            line,
            failures: Vec::new(),
            updated: Vec::new(),
            took: Duration::ZERO,
        }
    }

    fn fail(mut self, message: &str) -> Self {
        self.failures.push(Failure {
            line: self.line,
            message: message.to_owned(),
        });
        self
    }

    pub fn has_passed(&self) -> bool {
        self.failures.is_empty()
    }
}

impl Verified {
    /// How many passed, and how many failed.
    pub fn counts(&self) -> (usize, usize) {
        let passed = self.reports.iter().filter(|report| report.has_passed()).count();
        (passed, self.reports.len() - passed)
    }
}
