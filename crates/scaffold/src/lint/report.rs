//! Collects findings, each with its place.

use std::path::PathBuf;

use super::ignore;
use super::rules::LintRule;

/// So many of the objects that one finding is about are named.
const NAMED: usize = 3;

/// One remark about a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LintFinding {
    /// Relative to the folder that was looked at.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1; 0 where only the line is known.
    pub column: usize,
    pub rule: LintRule,
    /// What is wrong here.
    pub message: String,
}

/// A file, with line and column.
type SourcePlace = (String, (usize, usize));

/// Collects findings.
#[derive(Debug)]
pub(super) struct LintReport {
    pub(super) root: PathBuf,
    pub(super) findings: Vec<LintFinding>,
}

impl LintReport {
    /// `at`: line and column, each from 1; 0 where it isn't known.
    pub(super) fn add(
        &mut self,
        rule: LintRule,
        file: impl Into<String>,
        at: (usize, usize),
        message: impl Into<String>,
    ) {
        self.findings.push(LintFinding {
            file: file.into(),
            line: at.0.max(1),
            column: at.1,
            rule,
            message: message.into(),
        });
    }

    /// One finding about several objects, at the first of them in the order of files and lines, without those that a comment
    /// ignores. `message`: of their names and their number.
    pub(super) fn add_one_of(
        &mut self,
        rule: LintRule,
        mut objects: Vec<(SourcePlace, String)>,
        message: impl Fn(&str, usize) -> String,
    ) {
        objects.sort();
        objects.dedup();
        objects.retain(|((file, at), _)| !ignore::is_ignored(&self.root, rule, file, at.0.max(1)));
        let Some(((file, at), first)) = objects.first() else {
            return;
        };
        let others = objects.iter().skip(1).map(|(_, name)| name.as_str());
        let shown: Vec<&str> = [first.as_str()].into_iter().chain(others).take(NAMED).collect();
        let names = match objects.len() - shown.len() {
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        };
        let message = message(&names, objects.len());
        self.add(rule, file.clone(), *at, message);
    }
}

/// A file in a folder, both relative to the same; the folder may be empty.
pub(super) fn join(folder: &str, file: &str) -> String {
    match folder {
        "" => file.to_owned(),
        folder => format!("{}/{file}", folder.trim_end_matches('/')),
    }
}
