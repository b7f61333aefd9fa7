//! Findings for people, programs, code scanning (SARIF 2.1.0) and GitHub's workflow commands.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use super::Linted;
use super::report::LintFinding;
use super::rules::{ALL, Severity};
use crate::printable::one_line;

/// What schemas of SARIF call this version.
const SARIF: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The file of a finding from the working directory on.
fn file(root: &Path, finding: &LintFinding) -> String {
    let path: PathBuf = root
        .join(&finding.file)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    path.display().to_string()
}

/// `FILE:LINE:COLUMN: severity: message [rule]`, and how many there are. Below the first of each rule, the reason and the
/// remedy.
pub fn text(linted: &Linted) -> String {
    let mut out = String::new();
    let mut explained = BTreeSet::new();
    for finding in &linted.findings {
        let column = match finding.column {
            0 => String::new(),
            column => format!(":{column}"),
        };
        let rule = finding.rule;
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "{}:{}{column}: {}: {} [{}]",
            one_line(&file(&linted.root, finding)),
            finding.line,
            rule.severity.name(),
            one_line(&finding.message),
            rule.name,
        );
        if explained.insert(rule.name) {
            let _ = writeln!(out, "    why: {}\n    fix: {}", rule.why, rule.fix);
        }
    }
    let of = |severity| {
        let findings = linted.findings.iter();
        findings.filter(|finding| finding.rule.severity == severity).count()
    };
    let _ = if linted.findings.is_empty() {
        writeln!(out, "nothing found")
    } else {
        writeln!(
            out,
            "errors: {}, warnings: {}",
            of(Severity::Error),
            of(Severity::Warning)
        )
    };
    out
}

/// A list of objects.
pub fn json(linted: &Linted) -> Value {
    let findings = linted.findings.iter().map(|finding| {
        json!({
            "rule": finding.rule.name, "severity": finding.rule.severity.name(),
            "file": file(&linted.root, finding), "line": finding.line, "column": finding.column,
            "message": finding.message, "why": finding.rule.why, "fix": finding.rule.fix,
        })
    });
    findings.collect::<Vec<Value>>().into()
}

/// A log as GitHub's code scanning takes it.
pub fn sarif(linted: &Linted) -> Value {
    let rules = ALL.iter().map(|rule| {
        json!({
            "id": rule.name,
            "shortDescription": {"text": rule.name},
            "fullDescription": {"text": rule.why},
            "help": {"text": rule.fix},
            "defaultConfiguration": {"level": rule.severity.name()},
        })
    });
    let results = linted.findings.iter().map(|finding| {
        let mut region = json!({"startLine": finding.line});
        if finding.column > 0 {
            region["startColumn"] = finding.column.into();
        }
        json!({
            "ruleId": finding.rule.name,
            "ruleIndex": ALL.iter().position(|rule| rule.name == finding.rule.name),
            "level": finding.rule.severity.name(),
            "message": {"text": format!("{}. {} {}", finding.message, finding.rule.why, finding.rule.fix)},
            "locations": [{"physicalLocation": {
                "artifactLocation": {"uri": file(&linted.root, finding)},
                "region": region,
            }}],
        })
    });
    json!({
        "$schema": SARIF, "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "chartwright", "version": chartwright_operator::telemetry::VERSION,
                "rules": rules.collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

/// Commands that make annotations of a workflow's log.
pub fn github(linted: &Linted) -> String {
    let mut out = String::new();
    for finding in &linted.findings {
        let column = match finding.column {
            0 => String::new(),
            column => format!(",col={column}"),
        };
        let message = format!(
            "{}\nwhy: {}\nfix: {}",
            finding.message, finding.rule.why, finding.rule.fix
        );
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "::{} file={},line={}{column},title={}::{}",
            finding.rule.severity.name(),
            property(&file(&linted.root, finding)),
            finding.line,
            property(finding.rule.name),
            data(&message),
        );
    }
    out
}

/// Text after the second `::`.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property's value.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
