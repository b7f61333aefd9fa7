//! Runs the cases of `tests/fixtures/template` in this process and compares with what the real Helm printed.

use std::path::{Path, PathBuf};

use super::run_captured;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/template")
}

/// The lines of a report on a schema in order: Helm visits maps in random order. Other texts are one line here.
fn sorted(text: &str) -> Vec<&str> {
    if !text.starts_with("Error: values don't meet the specifications") {
        return vec![text];
    }
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// The differences of one case, or nothing.
fn compare(folder: &Path) -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let line = read("args");
    let words: Vec<&str> = line.split_whitespace().collect();
    let captured = run_captured(&words, b"", folder);
    let (stdout, error, code) = (
        String::from_utf8(captured.stdout).unwrap(),
        captured
            .error
            .map_or_else(String::new, |text| format!("Error: {text}\n")),
        captured.code,
    );
    let (log, error) = error.split_at(if error.starts_with("Error:") {
        0
    } else {
        error.find("\nError:").map_or(error.len(), |at| at + 1)
    });
    let mut log: Vec<&str> = log.split_inclusive('\n').collect();
    log.sort_unstable();
    for (name, got, want) in [
        ("expected.yaml", stdout, read("expected.yaml")),
        ("expected.err", error.to_owned(), read("expected.err")),
        ("expected.log", log.concat(), read("expected.log")),
        ("expected.code", format!("{code}\n"), read("expected.code")),
    ] {
        if got != want && sorted(&got) != sorted(&want) {
            let at = got.lines().zip(want.lines()).position(|(got, want)| got != want);
            let at = at.unwrap_or_else(|| got.lines().count().min(want.lines().count()));
            let show = |text: &str| text.lines().skip(at).take(3).collect::<Vec<_>>().join("\n      ");
            return Some(format!(
                "{name} line {}:\n  ours\n      {}\n  Helm's\n      {}",
                at + 1,
                show(&got),
                show(&want)
            ));
        }
    }
    None
}

#[test]
fn every_case_equals_helm() {
    let mut failures = Vec::new();
    let mut count = 0;
    let mut folders: Vec<_> = std::fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    for folder in folders
        .iter()
        .filter(|folder| folder.join("args").exists() && folder.join("expected.code").exists())
    {
        count += 1;
        if let Some(difference) = compare(folder) {
            failures.push(format!("{}: {difference}", folder.file_name().unwrap().display()));
        }
    }
    assert!(count > 10, "only {count} cases found");
    assert!(
        failures.is_empty(),
        "{} of {count} cases differ\n{}",
        failures.len(),
        failures.join("\n")
    );
}
