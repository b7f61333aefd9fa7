//! Finds problems in a project or a chart, without a cluster. Each finding has its place, why it matters and how to fix it.

mod chart;
mod ignore;
pub mod output;
pub(crate) mod project;
mod report;
pub mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod yaml;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};

pub use project::crd;
pub use report::LintFinding;
pub use rules::{LintRule, Severity};

use project::{privileges, watches};
use report::LintReport;

/// What was looked at.
#[derive(Debug)]
pub struct Linted {
    /// The folder that the files of findings are relative to.
    pub root: PathBuf,
    /// In the order of files and lines, without those that comments ignore.
    pub findings: Vec<LintFinding>,
}

/// What is looked at.
enum LintTarget {
    /// A folder, and the watches file in it.
    Project(PathBuf, String),
    /// A chart alone.
    Chart(PathBuf),
}

/// Looks at a project (a folder with a watches.yaml, or that file) or at a chart (a folder with a Chart.yaml).
///
/// # Errors
/// There is neither.
pub fn lint(path: &Path) -> anyhow::Result<Linted> {
    let target = LintTarget::of(path)?;
    let (LintTarget::Project(root, _) | LintTarget::Chart(root)) = &target;
    let mut report = LintReport {
        root: root.clone(),
        findings: Vec::new(),
    };
    match &target {
        LintTarget::Project(_, file) => watches::check(file, &mut report),
        LintTarget::Chart(_) => {
            if let Some(examined) = chart::check("", Vec::new(), Arc::default(), &mut report) {
                privileges::check(&examined, None, &mut report);
            }
        }
    }
    let mut findings = ignore::without_ignored(&report.root, report.findings);
    findings.sort();
    findings.dedup();
    Ok(Linted {
        root: report.root,
        findings,
    })
}

impl LintTarget {
    fn of(path: &Path) -> anyhow::Result<Self> {
        let metadata = std::fs::metadata(path).with_context(|| path.display().to_string())?;
        if !metadata.is_dir() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.ends_with(".yaml") && !name.ends_with(".yml") {
                bail!(
                    "{}: name a folder with a watches.yaml or a Chart.yaml, or a watches file",
                    path.display()
                );
            }
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let root = folder.unwrap_or(Path::new(".")).to_owned();
            return Ok(match name.as_str() {
                "Chart.yaml" => LintTarget::Chart(root),
                _ => LintTarget::Project(root, name),
            });
        }
        match (path.join("watches.yaml").is_file(), path.join("Chart.yaml").is_file()) {
            (true, _) => Ok(LintTarget::Project(path.to_owned(), "watches.yaml".to_owned())),
            (false, true) => Ok(LintTarget::Chart(path.to_owned())),
            (false, false) => bail!(
                "{}: there is neither a watches.yaml nor a Chart.yaml in this folder",
                path.display()
            ),
        }
    }
}
