//! Keys that YAML 1.1, which Helm and Kubernetes read, takes for `true` or `false`.

use std::sync::LazyLock;

use go_yaml::{Data, Node};
use regex::Regex;

use super::examine::Examined;
use crate::lint::report::{LintReport, join};
use crate::lint::{rules, yaml};
use chartwright_watches::STATUS_TEMPLATE;

/// Keys of the chart's values, and of the status template, which is no YAML before it is rendered.
pub(in crate::lint) fn check(examined: &Examined, report: &mut LintReport) {
    let file = join(&examined.folder, "values.yaml");
    let text = std::fs::read_to_string(report.root.join(&file)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for document in yaml::read(&report.root, &file) {
        let mut found = Vec::new();
        visit(&document.root, &lines, &mut found);
        for (word, value, at) in found {
            report.add(rules::BOOLEAN_KEY, file.as_str(), at, message(&word, value));
        }
    }
    let Some(template) = examined.chart.files.iter().find(|file| file.name == STATUS_TEMPLATE) else {
        return;
    };
    let file = join(&examined.folder, STATUS_TEMPLATE);
    let text = String::from_utf8_lossy(template.data.as_bytes()).into_owned();
    for (number, line) in text.lines().enumerate() {
        if let Some((word, value, column)) = key_of_line(line) {
            report.add(
                rules::BOOLEAN_KEY,
                file.as_str(),
                (number + 1, column),
                message(word, value),
            );
        }
    }
}

fn message(word: &str, value: bool) -> String {
    format!("the key `{word}` is `{value}` to YAML 1.1")
}

fn visit(node: &Node, lines: &[&str], found: &mut Vec<(String, bool, (usize, usize))>) {
    match &node.data {
        Data::List(items) => items.iter().for_each(|item| visit(item, lines, found)),
        Data::Map(entries) => {
            for (key, value) in entries {
                if let Data::Bool(is) = key.data {
                    let line = key.line.checked_sub(1).and_then(|line| lines.get(line));
                    let rest = line.and_then(|line| line.get(key.column.saturating_sub(1)..));
                    let is_word = |c: char| c.is_ascii_alphabetic();
                    let word: String = rest.unwrap_or_default().chars().take_while(|c| is_word(*c)).collect();
                    // Every version of YAML reads these as booleans.
                    if !word.eq_ignore_ascii_case("true") && !word.eq_ignore_ascii_case("false") {
                        found.push((word, is, yaml::place(key)));
                    }
                }
                visit(value, lines, found);
            }
        }
        _ => {}
    }
}

/// The key of a line that is such a word: what it is, and its column.
fn key_of_line(line: &str) -> Option<(&str, bool, usize)> {
    static KEY: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let words = "[yY]|yes|Yes|YES|on|On|ON|[nN]|no|No|NO|off|Off|OFF";
        Regex::new(&format!(r"^\s*(?:- +)*({words})\s*:(?:\s|$)")).ok()
    });
    let word = KEY.as_ref()?.captures(line)?.get(1)?;
    let is = matches!(word.as_str().to_ascii_lowercase().as_str(), "y" | "yes" | "on");
    Some((word.as_str(), is, word.start() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_lines() {
        for (line, want) in [
            ("n: 1", Some(("n", false, 1))),
            ("  - on: {{ .x }}", Some(("on", true, 5))),
            ("Yes:", Some(("Yes", true, 1))),
            ("\"n\": 1", None),
            ("no-one: 1", None),
            ("node: 1", None),
            ("a: no", None),
            ("{{ if .no }}", None),
            ("true: 1", None),
        ] {
            assert_eq!(key_of_line(line), want, "{line}");
        }
    }
}
