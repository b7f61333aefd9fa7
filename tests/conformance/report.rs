//! What is printed, and what is kept to look at.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::cases::Case;
use crate::compare::Verdict;

/// A render of ours that takes longer is worth a word.
const SLOW: Duration = Duration::from_secs(20);

/// How often it is told how far it is.
const PERIOD: Duration = Duration::from_secs(30);

/// One render and its verdict.
pub struct Row<'a> {
    pub case: &'a Case,
    pub arguments: Vec<String>,
    pub verdict: Verdict,
    /// Helm's and our answer, where they differ.
    pub kept: Option<(Answer, Answer)>,
    /// Helm's exit code.
    pub code: i32,
    /// How many lines Helm printed.
    pub lines: usize,
    /// The first line of Helm's error.
    pub error: String,
    /// How long ours took.
    pub took: Duration,
}

/// Counts of one chart, or of all.
#[derive(Default, Clone, Copy)]
struct Count {
    renders: usize,
    /// Renders that are errors in Helm.
    errors: usize,
    varies: usize,
    different: usize,
}

pub struct Report {
    out: PathBuf,
    json: bool,
    total: usize,
    /// By the first folder of the charts' paths.
    groups: BTreeMap<String, Count>,
    sum: Count,
    libraries: usize,
    /// Cases that differ, by chart and name.
    different: BTreeMap<(String, String), Vec<String>>,
    slow: Vec<String>,
    told: Instant,
}

impl Report {
    /// A report on `total` renders that keeps what differs in the folder `out`.
    pub fn new(out: PathBuf, json: bool, total: usize) -> Report {
        Report {
            out,
            json,
            total,
            groups: BTreeMap::new(),
            sum: Count::default(),
            libraries: 0,
            different: BTreeMap::new(),
            slow: Vec::new(),
            told: Instant::now(),
        }
    }

    /// Takes one render in.
    pub fn add(&mut self, row: Row<'_>) {
        let group = row.case.chart.split('/').next().unwrap_or_default().to_owned();
        for count in [self.groups.entry(group).or_default(), &mut self.sum] {
            count.renders += 1;
            count.errors += usize::from(row.code != 0);
            count.varies += usize::from(row.verdict == Verdict::Varies);
            count.different += usize::from(matches!(row.verdict, Verdict::Different(_)));
        }
        if row.case.name == "defaults" && row.error == "library charts are not installable" {
            self.libraries += 1;
        }
        if row.took > SLOW {
            self.slow
                .push(format!("{} ({}): {:?}", row.case.chart, row.case.name, row.took));
        }
        if self.json {
            println!("{}", json_line(&row));
        }
        if let (Verdict::Different(lines), Some((helm, ours))) = (row.verdict, &row.kept) {
            let folder = self
                .out
                .join(file_name(&row.case.chart))
                .join(file_name(&row.case.name));
            if let Err(e) = keep(&folder, helm, ours, &row.arguments) {
                eprintln!("conformance: {}: {e}", folder.display());
            }
            if !self.json {
                println!("{} ({})", row.case.chart, row.case.name);
                lines.iter().for_each(|line| println!("    {line}"));
            }
            self.different
                .insert((row.case.chart.clone(), row.case.name.clone()), lines);
        }
        if self.told.elapsed() > PERIOD {
            self.told = Instant::now();
            let Count { renders, different, .. } = self.sum;
            eprintln!("conformance: {renders} of {} renders, {different} differ", self.total);
        }
    }

    /// Prints the table. Whether nothing differs.
    pub fn finish(self, charts: usize, took: Duration) -> bool {
        if !self.json {
            println!(
                "\n{:<42} {:>8} {:>10} {:>8} {:>7} {:>9}",
                "", "renders", "identical", "varies", "errors", "different"
            );
            let groups = self.groups.iter().map(|(name, count)| (name.as_str(), count));
            for (name, count) in groups.chain([("all", &self.sum)]) {
                let identical = count.renders - count.varies - count.different;
                println!(
                    "{name:<42} {:>8} {identical:>10} {:>8} {:>7} {:>9}",
                    count.renders, count.varies, count.errors, count.different
                );
            }
            println!(
                "varies: equal but for what Helm itself varies; errors: Helm fails, ours is compared all the same"
            );
            println!(
                "{charts} charts ({} libraries), {:.0} s, {:.0} renders a minute",
                self.libraries,
                took.as_secs_f64(),
                self.sum.renders as f64 / took.as_secs_f64() * 60.0
            );
            for line in &self.slow {
                println!("slow: {line}");
            }
            if !self.different.is_empty() {
                println!("the outputs that differ are in {}", self.out.display());
            }
        }
        self.different.is_empty()
    }
}

fn json_line(row: &Row<'_>) -> serde_json::Value {
    let (result, lines) = match &row.verdict {
        Verdict::Identical => ("identical", &[][..]),
        Verdict::Varies => ("varies", &[][..]),
        Verdict::Different(lines) => ("different", lines.as_slice()),
    };
    serde_json::json!({
        "chart": row.case.chart, "case": row.case.name, "result": result, "helm_exit": row.code, "lines": row.lines,
        "error": row.error, "ours_ms": row.took.as_secs_f64() * 1e3, "differences": lines,
    })
}

/// A path as the name of one folder.
fn file_name(text: &str) -> String {
    text.replace(['/', ' ', ','], "_").chars().take(150).collect()
}

/// Writes both answers and how they came about.
fn keep(folder: &std::path::Path, helm: &Answer, ours: &Answer, arguments: &[String]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, answer) in [("helm", helm), ("ours", ours)] {
        fs::write(folder.join(format!("{name}.yaml")), &answer.stdout)?;
        fs::write(folder.join(format!("{name}.err")), format!("{}\n", answer.error))?;
    }
    let mut file = fs::File::create(folder.join("args"))?;
    writeln!(file, "{}", arguments.join(" "))
}
