//! What is printed: a line for each chart while it works, and a table at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::charts::Case;
use crate::judge::Outcome;

/// Where the logs are kept of charts that aren't Ready, or with which something is wrong.
const OUT: &str = "target/conformance-operator";

/// What is done with each chart, in this order.
pub const STEPS: [&str; 6] = ["installed", "left alone", "restarted", "edited", "upgraded", "deleted"];

/// The longest message in the table, in characters.
const MESSAGE: usize = 400;

/// What came of one chart.
pub struct Row {
    shown: String,
    version: String,
    /// The file that the values come from.
    pub values: Option<String>,
    steps: Vec<(String, Outcome)>,
}

impl Row {
    pub fn new(case: &Case) -> Row {
        Row {
            shown: case.shown.clone(),
            version: case.version.clone(),
            values: None,
            steps: Vec::new(),
        }
    }

    pub fn add(&mut self, step: &str, outcome: Outcome) {
        self.steps.push((step.to_owned(), outcome));
    }

    /// Something that should work did not.
    pub fn failed(&mut self, step: &str, error: &anyhow::Error) {
        self.add(step, Outcome::Wrong(format!("{error:#}")));
    }

    fn is_wrong(&self) -> bool {
        self.steps
            .iter()
            .any(|(_, outcome)| matches!(outcome, Outcome::Wrong(_)))
    }

    /// Why the release was not Ready after it was installed.
    fn reason(&self) -> Option<&str> {
        match self.steps.first()? {
            (_, Outcome::NotReady(reason, _)) => Some(reason),
            _ => None,
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.steps.first(), Some((_, Outcome::Good(_))))
    }

    fn cell(&self, step: &str) -> &str {
        let outcomes = self.steps.iter().filter(|(of, _)| of == step);
        let mut outcomes = outcomes.map(|(_, outcome)| match outcome {
            Outcome::Good(words) => words.as_str(),
            Outcome::NotReady(reason, _) => reason,
            Outcome::Wrong(_) => "WRONG",
            Outcome::Skipped => "-",
        });
        let first = outcomes.next().unwrap_or_default();
        outcomes.find(|cell| *cell == "WRONG").unwrap_or(first)
    }

    /// The folder for what is kept of it, where something is worth a look.
    pub fn keep(&self) -> Option<PathBuf> {
        let is_well = |(_, outcome): &(String, Outcome)| match outcome {
            Outcome::Good(words) => !words.ends_with("writes"),
            Outcome::Skipped => true,
            Outcome::NotReady(..) | Outcome::Wrong(_) => false,
        };
        let name = self.shown.replace(['/', ' '], "_");
        (!self.steps.iter().all(is_well)).then(|| Path::new(OUT).join(name))
    }
}

pub struct Report {
    total: usize,
    rows: Vec<Row>,
}

impl Report {
    /// A report on `total` charts.
    pub fn new(total: usize) -> Report {
        Report {
            total,
            rows: Vec::new(),
        }
    }

    pub fn add(&mut self, row: Row) {
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
        let name = |row: &Row| format!("{} {}", row.shown, row.version);
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
                    Outcome::NotReady(reason, message) => println!("    {step}: {reason}: {}", short(message)),
                    Outcome::Wrong(message) => println!("    WRONG {step}: {}", short(message)),
                    Outcome::Good(_) | Outcome::Skipped => {}
                }
            }
        }
        self.sum(took)
    }

    fn sum(&self, took: Duration) -> bool {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.rows.iter().filter_map(Row::reason) {
            *reasons.entry(reason).or_default() += 1;
        }
        let count = |is_so: fn(&Row) -> bool| self.rows.iter().filter(|row| is_so(row)).count();
        let (ready, wrong) = (count(Row::is_ready), count(Row::is_wrong));
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
