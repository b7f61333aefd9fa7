//! What is printed: a line for each chart while it works, and a table at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::charts::ChartCase;
use crate::judge::TrialOutcome;

/// Where the logs are kept of charts that aren't Ready, or with which something is wrong.
const OUT: &str = "target/conformance-operator";

/// What is done with each chart, in this order.
pub const STEPS: [&str; 6] = ["installed", "left alone", "restarted", "edited", "upgraded", "deleted"];

/// The longest message in the table, in characters.
const MESSAGE: usize = 400;

/// What came of one chart.
pub struct TrialRow {
    shown: String,
    version: String,
    /// The file that the values come from.
    pub values: Option<String>,
    steps: Vec<(String, TrialOutcome)>,
}

impl TrialRow {
    pub fn new(case: &ChartCase) -> TrialRow {
        TrialRow {
            shown: case.shown.clone(),
            version: case.version.clone(),
            values: None,
            steps: Vec::new(),
        }
    }

    pub fn add(&mut self, step: &str, outcome: TrialOutcome) {
        self.steps.push((step.to_owned(), outcome));
    }

    /// Something that should work did not.
    pub fn failed(&mut self, step: &str, error: &anyhow::Error) {
        self.add(step, TrialOutcome::Wrong(format!("{error:#}")));
    }

    fn is_wrong(&self) -> bool {
        self.steps
            .iter()
            .any(|(_, outcome)| matches!(outcome, TrialOutcome::Wrong(_)))
    }

    /// Why the release was not Ready after it was installed.
    fn reason(&self) -> Option<&str> {
        match self.steps.first()? {
            (_, TrialOutcome::NotReady(reason, _)) => Some(reason),
            _ => None,
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.steps.first(), Some((_, TrialOutcome::Good(_))))
    }

    fn cell(&self, step: &str) -> &str {
        let outcomes = self.steps.iter().filter(|(of, _)| of == step);
        let mut outcomes = outcomes.map(|(_, outcome)| match outcome {
            TrialOutcome::Good(words) => words.as_str(),
            TrialOutcome::NotReady(reason, _) => reason,
            TrialOutcome::Wrong(_) => "WRONG",
            TrialOutcome::Skipped => "-",
        });
        let first = outcomes.next().unwrap_or_default();
        outcomes.find(|cell| *cell == "WRONG").unwrap_or(first)
    }

    /// The folder for what is kept of it, where something is worth a look.
    pub fn keep(&self) -> Option<PathBuf> {
        let is_well = |(_, outcome): &(String, TrialOutcome)| match outcome {
            TrialOutcome::Good(words) => !words.ends_with("writes"),
            TrialOutcome::Skipped => true,
            TrialOutcome::NotReady(..) | TrialOutcome::Wrong(_) => false,
        };
        let name = self.shown.replace(['/', ' '], "_");
        (!self.steps.iter().all(is_well)).then(|| Path::new(OUT).join(name))
    }
}

pub struct TrialReport {
    total: usize,
    rows: Vec<TrialRow>,
}

impl TrialReport {
    /// A report on `total` charts.
    pub fn new(total: usize) -> TrialReport {
        TrialReport {
            total,
            rows: Vec::new(),
        }
    }

    pub fn add(&mut self, row: TrialRow) {
        let cells: Vec<String> = row
            .steps
            .iter()
            .map(|(step, _)| format!("{step} {}", row.cell(step)))
            .collect();
        let (number, total, shown) = (self.rows.len() + 1, self.total, &row.shown);
        eprintln!(
            "conformance-operator: {number} of {total}: {shown}: {}",
            cells.join(", ")
        );
        self.rows.push(row);
    }

    /// Prints the table. Whether nothing is wrong.
    pub fn finish(mut self, took: Duration) -> bool {
        self.rows
            .sort_by(|a, b| (&a.shown, &a.version).cmp(&(&b.shown, &b.version)));
        let name = |row: &TrialRow| format!("{} {}", row.shown, row.version);
        let width = self
            .rows
            .iter()
            .map(|row| name(row).chars().count())
            .max()
            .unwrap_or_default();
        let print = |name: &str, cells: [&str; 6]| {
            let cells: String = cells.iter().map(|cell| format!("  {cell:<15}")).collect();
            println!("{}", format!("{name:<width$}{cells}").trim_end());
        };
        print("", STEPS);
        for row in &self.rows {
            print(&name(row), STEPS.map(|step| row.cell(step)));
            if let Some(file) = &row.values {
                println!("    with {file}: its default values don't render");
            }
            for (step, outcome) in &row.steps {
                match outcome {
                    TrialOutcome::NotReady(reason, message) => println!("    {step}: {reason}: {}", short(message)),
                    TrialOutcome::Wrong(message) => println!("    WRONG {step}: {}", short(message)),
                    TrialOutcome::Good(_) | TrialOutcome::Skipped => {}
                }
            }
        }
        self.sum(took)
    }

    fn sum(&self, took: Duration) -> bool {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.rows.iter().filter_map(TrialRow::reason) {
            *reasons.entry(reason).or_default() += 1;
        }
        let count = |is_so: fn(&TrialRow) -> bool| self.rows.iter().filter(|row| is_so(row)).count();
        let (ready, wrong) = (count(TrialRow::is_ready), count(TrialRow::is_wrong));
        let reasons: Vec<String> = reasons
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        println!(
            "\n{} charts in {} s: {ready} Ready, {wrong} wrong",
            self.rows.len(),
            took.as_secs()
        );
        if !reasons.is_empty() {
            println!("not Ready for reasons of their own: {}", reasons.join(", "));
        }
        println!("logs of those that aren't Ready or are wrong: {OUT}");
        wrong == 0
    }
}

/// A message on one line, cut.
fn short(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Copies the files of a folder.
pub fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
