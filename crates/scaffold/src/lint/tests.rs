use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::*;

const SET_TO_WRITE: &str = "LINT_WRITE";

fn fixtures() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/lint")
}

/// Compares with a file. If the variable is set, writes the file instead, so that `git diff` shows the difference.
fn compare(path: &Path, found: &str, wrong: &mut String) {
    if std::env::var_os(SET_TO_WRITE).is_some() {
        std::fs::write(path, found).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected != found {
        let _ = writeln!(wrong, "{}: expected\n{expected}\nfound\n{found}", path.display());
    }
}

fn shown(linted: &Linted) -> String {
    let lines = linted.findings.iter().map(|finding| {
        let LintFinding {
            file,
            line,
            column,
            rule,
            message,
        } = finding;
        format!(
            "{file}:{line}:{column}: {}: {message} [{}]\n",
            rule.severity.name(),
            rule.name
        )
    });
    lines.collect()
}

#[test]
fn each_fixture_has_the_findings_that_are_written_beside_it() {
    let mut wrong = String::new();
    let mut all = String::new();
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("in").is_dir() {
            continue;
        }
        let found = shown(&lint(&folder.join("in")).unwrap());
        compare(&folder.join("expected.txt"), &found, &mut wrong);
        all.push_str(&found);
    }
    for rule in rules::ALL {
        if !all.contains(&format!("[{}]\n", rule.name)) {
            let _ = writeln!(wrong, "no fixture shows the rule {}", rule.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_format_is_as_it_was() {
    let mut linted = lint(&fixtures().join("values/in")).unwrap();
    linted.root = PathBuf::from("./shop");
    let version = format!("\"version\": \"{}\"", chartwright_operator::telemetry::VERSION);
    let sarif = format!("{:#}\n", output::sarif(&linted)).replace(&version, "\"version\": \"VERSION\"");
    let mut wrong = String::new();
    for (name, found) in [
        ("text.txt", output::text(&linted)),
        ("json.json", format!("{:#}\n", output::json(&linted))),
        ("sarif.json", sarif),
        ("github.txt", output::github(&linted)),
    ] {
        compare(&fixtures().join("formats").join(name), &found, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn this_repository_is_clean() {
    let linted = lint(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).unwrap();
    assert_eq!(shown(&linted), "");
}

#[test]
fn a_fresh_chart_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let chart = crate::chart::ChartFiles::fresh("web").unwrap();
    chart.write_into(folder.path()).unwrap();
    assert_eq!(shown(&lint(folder.path()).unwrap()), "");
}

#[test]
fn a_folder_without_either_file_is_wrong_use() {
    assert!(lint(&fixtures()).is_err() && lint(Path::new("/nowhere")).is_err());
}

#[test]
fn every_rule_is_documented() {
    let table = include_str!("../../../../docs/reference/lint.md");
    for rule in rules::ALL {
        let row = format!(
            "| `{}` | {} | {} | {} |",
            rule.name,
            rule.severity.name(),
            rule.why,
            rule.fix
        );
        assert!(table.contains(&row), "docs/reference/lint.md lacks: {row}");
    }
}
