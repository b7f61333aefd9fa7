//! What `make torture` shows: progress while it goes, and a line for the table at its end.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Instant;

use anyhow::{Result, ensure};

/// True under `make torture`: everything, not only what fits into `make test`.
pub fn everything() -> bool {
    std::env::var("TORTURE").is_ok_and(|value| value == "all")
}

pub struct Report {
    name: String,
    begun: Instant,
    cases: usize,
    ended: bool,
}

impl Report {
    pub fn new(name: &str) -> Self {
        eprintln!("{name}: begins");
        Report {
            name: name.to_owned(),
            begun: Instant::now(),
            cases: 0,
            ended: false,
        }
    }

    pub fn case(&mut self) {
        self.cases += 1;
        if self.cases.is_multiple_of(10) {
            eprintln!("{}: {} cases in {:?}", self.name, self.cases, self.begun.elapsed());
        }
    }

    /// All went well.
    pub fn end(mut self, note: &str) {
        self.ended = true;
        self.line("ok", note);
    }

    /// All went well, but for these failures.
    ///
    /// # Errors
    /// If there are any.
    pub fn end_but_for(self, failures: &[String], note: &str) -> Result<()> {
        let (count, all) = (failures.len(), failures.join("\n"));
        ensure!(failures.is_empty(), "{count} failed:\n{all}");
        self.end(note);
        Ok(())
    }

    fn line(&self, outcome: &str, note: &str) {
        let line = format!(
            "{}\t{outcome}\t{} cases\t{:.1} s\t{note}",
            self.name,
            self.cases,
            self.begun.elapsed().as_secs_f64()
        );
        eprintln!("{}", line.replace('\t', ", "));
        let Some(path) = std::env::var_os("TORTURE_TABLE") else {
            return;
        };
        let file = OpenOptions::new().create(true).append(true).open(path);
        if let Ok(mut file) = file {
            // Without the table the run is as good as with it.
            let _ = writeln!(file, "{line}");
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.ended {
            self.line("FAILED", "see above");
        }
    }
}
