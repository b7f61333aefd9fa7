//! Reports for people, programs, and what collects JUnit's.

use std::fmt::Write as _;
use std::time::Duration;

use handlebars::Handlebars;
use serde_json::{Value, json};

use super::{CaseReport, Failure, Verified};
use chartwright_scaffold::printable::{one_line, printable as terminal};

const JUNIT: &str = include_str!("junit.xml.hbs");

/// What a case is called where its file can't be read.
const FILE: &str = "(the file)";

/// A line for each file, what failed below it, and how many there are.
pub fn text(verified: &Verified) -> String {
    let mut out = String::new();
    for reports in by_file(verified) {
        let failed = reports.iter().filter(|report| !report.has_passed()).count();
        let file = reports.first().map_or("", |report| report.file.as_str());
        let count = counted(reports.len(), "case");
        let file = one_line(file);
        let _ = match failed {
            0 => writeln!(out, "ok    {file}: {count}"),
            failed => writeln!(out, "FAIL  {file}: {count}, {failed} failed"),
        };
        for report in reports.iter().filter(|report| !report.has_passed()) {
            let _ = match report.name.as_str() {
                "" => Ok(()),
                name => writeln!(out, "  {}", one_line(name)),
            };
            for failure in &report.failures {
                let (place, message) = (place(report, failure), indented(&failure.message));
                let _ = writeln!(out, "    {}: {}", one_line(&place), terminal(&message));
            }
        }
    }
    for report in &verified.reports {
        for path in &report.updated {
            let _ = writeln!(out, "wrote {}", one_line(path));
        }
    }
    let (passed, failed) = verified.counts();
    let all = counted(passed + failed, "case");
    let _ = match failed {
        0 => writeln!(out, "{all}: all passed"),
        failed => writeln!(out, "{all}: {passed} passed, {failed} failed"),
    };
    out
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn by_file(verified: &Verified) -> impl Iterator<Item = &[CaseReport]> {
    verified.reports.chunk_by(|one, next| one.file == next.file)
}

fn place(report: &CaseReport, failure: &Failure) -> String {
    match failure.line {
        0 => report.file.clone(),
        line => format!("{}:{line}", report.file),
    }
}

/// All but the first line further in.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n      ")
}

/// An object with the cases, and how many passed and failed.
pub fn json(verified: &Verified) -> Value {
    let (passed, failed) = verified.counts();
    let cases = verified.reports.iter().map(|report| {
        let failures = report.failures.iter();
        let failures = failures.map(|failure| json!({"line": failure.line, "message": failure.message}));
        json!({
            "file": report.file, "line": report.line, "name": report.name, "passed": report.has_passed(),
            "milliseconds": u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
            "failures": failures.collect::<Vec<Value>>(), "updated": report.updated,
        })
    });
    json!({"passed": passed, "failed": failed, "cases": cases.collect::<Vec<Value>>()})
}

/// What JUnit writes, as far as all agree on it: a suite for each file.
///
/// # Errors
/// None that can be met.
pub fn junit(verified: &Verified) -> anyhow::Result<String> {
    let seconds = |took: Duration| format!("{:.3}", took.as_secs_f64());
    let suites = by_file(verified).map(|reports| {
        let cases = reports.iter().map(|report| {
            let failures = report.failures.iter().map(|failure| {
                let first = failure.message.lines().next().unwrap_or_default();
                let text = format!("{}: {}", place(report, failure), failure.message);
                json!({"message": printable(first), "text": printable(&text)})
            });
            let name = if report.name.is_empty() { FILE } else { &report.name };
            json!({
                "name": printable(name), "line": report.line, "time": seconds(report.took),
                "failures": failures.collect::<Vec<Value>>(),
            })
        });
        let failed = reports.iter().filter(|report| !report.has_passed()).count();
        json!({
            "name": reports.first().map(|report| &report.file), "tests": reports.len(), "failures": failed,
            "time": seconds(reports.iter().map(|report| report.took).sum()), "cases": cases.collect::<Vec<Value>>(),
        })
    });
    let (passed, failed) = verified.counts();
    let data = json!({
        "tests": passed + failed, "failures": failed, "suites": suites.collect::<Vec<Value>>(),
        "time": seconds(verified.reports.iter().map(|report| report.took).sum()),
    });
    // It escapes what XML does.
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    Ok(engine.render_template(JUNIT, &data)?)
}

/// XML has no other control characters than these.
fn printable(text: &str) -> String {
    let is_plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(is_plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified() -> Verified {
        let report = |file: &str, line: usize, name: &str, failures: &[&str]| CaseReport {
            file: file.to_owned(),
            name: name.to_owned(),
            line,
            failures: failures
                .iter()
                .map(|message| Failure {
                    line: line + usize::from(line > 0),
                    message: (*message).to_owned(),
                })
                .collect(),
            updated: Vec::new(),
            took: Duration::from_millis(1500),
        };
        Verified {
            reports: vec![
                report(
                    "a.yaml",
                    2,
                    "first <&\">",
                    &["x is 1\u{7}, expected \"2\"\nand so on", "another"],
                ),
                report("a.yaml", 9, "second", &[]),
                report("b.yaml", 0, "", &["it holds no cases"]),
                report("c.yaml", 1, "third", &[]),
            ],
            warnings: Vec::new(),
        }
    }

    #[test]
    fn people_see_what_failed_and_where() {
        let expected = "FAIL  a.yaml: 2 cases, 1 failed\n  first <&\">\n    a.yaml:3: x is 1\\u{7}, expected \"2\"\n      and so on\n    \
            a.yaml:3: another\nFAIL  b.yaml: 1 case, 1 failed\n    b.yaml: it holds no cases\nok    c.yaml: 1 case\n4 cases: 2 passed, 2 failed\n";
        assert_eq!(text(&verified()), expected);
    }

    #[test]
    fn programs_get_all_of_it() {
        let found = json(&verified());
        assert_eq!((&found["passed"], &found["failed"]), (&json!(2), &json!(2)));
        assert_eq!(
            found["cases"][0]["failures"][1],
            json!({"line": 3, "message": "another"})
        );
    }

    #[test]
    fn junit_is_well_formed_xml() {
        let found = junit(&verified()).unwrap();
        for part in [
            "<testsuites name=\"chartwright verify\" tests=\"4\" failures=\"2\" time=\"6.000\">",
            "<testsuite name=\"a.yaml\" tests=\"2\" failures=\"1\" time=\"3.000\">",
            "<testcase name=\"first &lt;&amp;&quot;&gt;\" classname=\"a.yaml\" file=\"a.yaml\" line=\"2\" time=\"1.500\">",
            "<failure message=\"x is 1, expected &quot;2&quot;\">a.yaml:3: x is 1, expected &quot;2&quot;\nand so on</failure>",
            "<testcase name=\"(the file)\"",
        ] {
            assert!(found.contains(part), "{part}\n{found}");
        }
        let count = |part: &str| found.matches(part).count();
        for (open, close, expected) in [("<testsuite ", "</testsuite>", 3), ("<testcase ", "</testcase>", 4)] {
            assert_eq!((count(open), count(close)), (expected, expected));
        }
    }
}
