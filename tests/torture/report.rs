//! What `make torture` shows: progress while it goes, and a line for the table at its end. A case that fails doesn't keep
//! the others from being tried.

use std::fmt::Debug;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Instant;

use anyhow::{Result, ensure};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FailurePersistence, RngSeed, TestCaseError, TestRunner};

use crate::histories::history::in_virtual_time;

/// True under `make torture`: everything, not only what fits into `make test`.
pub fn everything() -> bool {
    std::env::var("TORTURE").is_ok_and(|value| value == "all")
}

/// The seed of this run: `SEED`, or 1, so that a change fails by its own doing.
pub fn seed() -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    seed.unwrap_or(1)
}

/// A source of what `seed` chooses, the same on every machine.
pub fn runner(config: Config) -> TestRunner {
    TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(seed()),
        ..config
    })
}

pub struct TortureReport {
    name: String,
    begun: Instant,
    cases: usize,
    failures: Vec<String>,
    ended: bool,
}

impl TortureReport {
    pub fn new(name: &str) -> Self {
        eprintln!("{name}: begins");
        TortureReport {
            name: name.to_owned(),
            begun: Instant::now(),
            cases: 0,
            failures: Vec::new(),
            ended: false,
        }
    }

    /// Takes in how a case ended; `None` if it failed.
    pub fn case<T>(&mut self, what: impl Debug, outcome: Result<T>) -> Option<T> {
        self.cases += 1;
        if self.cases.is_multiple_of(10) {
            eprintln!("{}: {} cases in {:?}", self.name, self.cases, self.begun.elapsed());
        }
        outcome.map_err(|error| self.fail(format!("{what:?}: {error:#}"))).ok()
    }

    pub fn fail(&mut self, failure: String) {
        eprintln!("{}: {failure}", self.name);
        self.failures.push(failure);
    }

    /// # Errors
    /// If so many cases failed: what fails each time is reported once.
    pub fn go_on_below(&self, failures: usize) -> Result<()> {
        let count = self.failures.len();
        ensure!(count < failures, "{count} failed:\n{}", self.failures.join("\n"));
        Ok(())
    }

    /// # Errors
    /// If a case failed.
    pub fn end(mut self, note: &str) -> Result<()> {
        self.go_on_below(1)?;
        self.ended = true;
        self.line("ok", note);
        Ok(())
    }

    fn line(&self, outcome: &str, note: &str) {
        let (name, cases, seconds) = (&self.name, self.cases, self.begun.elapsed().as_secs_f64());
        let line = format!("{name}\t{outcome}\t{cases} cases\t{seconds:.1} s\t{note}");
        eprintln!("{}", line.replace('\t', ", "));
        let Some(path) = std::env::var_os("TORTURE_TABLE") else {
            return;
        };
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
            // Without the table the run is as good as with it.
            let _ = writeln!(file, "{line}");
        }
    }
}

impl Drop for TortureReport {
    fn drop(&mut self) {
        if !self.ended {
            self.line("FAILED", "see above");
        }
    }
}

/// Runs cases that are drawn, each in a time of its own; one that fails is shrunk.
pub fn drawn<S: Strategy>(
    name: &str,
    cases: u32,
    persistence: Option<Box<dyn FailurePersistence>>,
    strategy: &S,
    run: impl AsyncFn(&S::Value) -> Result<()>,
) -> Result<()> {
    let report = std::cell::RefCell::new(TortureReport::new(name));
    let mut runner = runner(Config {
        cases,
        max_shrink_iters: 400,
        failure_persistence: persistence,
        ..Config::default()
    });
    let outcome = runner.run(strategy, |case| {
        report.borrow_mut().case("", Ok(()));
        in_virtual_time(run(&case)).map_err(|error| TestCaseError::fail(format!("{error:#}")))
    });
    let mut report = report.into_inner();
    if let Err(error) = outcome {
        report.fail(error.to_string());
    }
    report.end(&format!("seed {}", seed()))
}
