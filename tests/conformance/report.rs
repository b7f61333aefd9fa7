//! What is printed, and what is kept to look at.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::answer::RenderAnswer;
use crate::cases::RenderCase;
use crate::compare::RenderVerdict;

/// A render of ours that takes longer is worth a word.
const SLOW: Duration = Duration::from_secs(20);

/// The interval of progress lines.
const PERIOD: Duration = Duration::from_secs(30);

/// Where the outputs that differ are written.
const OUT: &str = "target/conformance";

/// One render and its verdict.
pub struct ConformanceRow<'a> {
    pub case: &'a RenderCase,
    pub arguments: Vec<String>,
    pub verdict: RenderVerdict,
    pub helm: RenderAnswer,
    pub ours: RenderAnswer,
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

pub struct ConformanceReport {
    total: usize,
    /// By the first folder of the charts' paths.
    groups: BTreeMap<String, Count>,
    sum: Count,
    libraries: usize,
    slow: Vec<String>,
    reported: Instant,
}

impl ConformanceReport {
    /// A report on `total` renders.
    pub fn new(total: usize) -> ConformanceReport {
        ConformanceReport {
            total,
            groups: BTreeMap::new(),
            sum: Count::default(),
            libraries: 0,
            slow: Vec::new(),
            reported: Instant::now(),
        }
    }

    /// Takes one render in.
    pub fn add(&mut self, row: ConformanceRow<'_>) {
        let RenderCase { chart, name, .. } = row.case;
        let group = chart.split('/').next().unwrap_or_default().to_owned();
        for count in [self.groups.entry(group).or_default(), &mut self.sum] {
            count.renders += 1;
            count.errors += usize::from(row.helm.code != 0);
            count.varies += usize::from(row.verdict == RenderVerdict::Varies);
            count.different += usize::from(matches!(row.verdict, RenderVerdict::Different(_)));
        }
        if name == "defaults" && row.helm.error.starts_with("library charts are not installable") {
            self.libraries += 1;
        }
        if row.took > SLOW {
            self.slow.push(format!("{chart} ({name}): {:?}", row.took));
        }
        if let RenderVerdict::Different(lines) = &row.verdict {
            let folder = Path::new(OUT).join(file_name(chart)).join(file_name(name));
            if let Err(e) = keep(&folder, &row) {
                eprintln!("conformance: {}: {e}", folder.display());
            }
            println!("{chart} ({name})");
            lines.iter().for_each(|line| println!("    {line}"));
        }
        if self.reported.elapsed() > PERIOD {
            self.reported = Instant::now();
            let Count { renders, different, .. } = self.sum;
            eprintln!("conformance: {renders} of {} renders, {different} differ", self.total);
        }
    }

    /// Prints the table. Whether nothing differs.
    pub fn finish(self, charts: usize, took: Duration) -> bool {
        println!(
            "\n{:<42} {:>8} {:>10} {:>8} {:>7} {:>9}",
            "", "renders", "identical", "varies", "errors", "different"
        );
        let groups = self.groups.iter().map(|(name, count)| (name.as_str(), count));
        for (name, count) in groups.chain([("all", &self.sum)]) {
            let Count {
                renders,
                errors,
                varies,
                different,
            } = count;
            let identical = renders - varies - different;
            println!("{name:<42} {renders:>8} {identical:>10} {varies:>8} {errors:>7} {different:>9}");
        }
        println!("varies: equal but for what Helm itself varies; errors: Helm fails, ours is compared all the same");
        let (libraries, seconds) = (self.libraries, took.as_secs_f64());
        let rate = self.sum.renders as f64 / seconds * 60.0;
        println!("{charts} charts ({libraries} libraries), {seconds:.0} s, {rate:.0} renders a minute");
        for line in &self.slow {
            println!("slow: {line}");
        }
        if self.sum.different > 0 {
            println!("the outputs that differ are in {OUT}");
        }
        self.sum.different == 0
    }
}

/// A path as the name of one folder.
fn file_name(text: &str) -> String {
    text.replace(['/', ' ', ','], "_").chars().take(150).collect()
}

/// Writes both answers and how they came about.
fn keep(folder: &Path, row: &ConformanceRow<'_>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, answer) in [("helm", &row.helm), ("ours", &row.ours)] {
        fs::write(folder.join(format!("{name}.yaml")), &answer.stdout)?;
        fs::write(folder.join(format!("{name}.err")), format!("{}\n", answer.error))?;
    }
    fs::write(folder.join("args"), format!("{}\n", row.arguments.join(" ")))
}
