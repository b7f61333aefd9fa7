//! `# chartwright-lint: ignore=rule,rule`: on the line, alone on the line before, or at the top of the file for all of it. In templates
//! `{{/* chartwright-lint: ignore=rule */}}`, in JSON nothing.

use std::collections::BTreeMap;
use std::path::Path;

use super::report::LintFinding;
use super::rules::LintRule;

const MARK: &str = "chartwright-lint: ignore=";

/// What the comments of one file ignore.
#[derive(Debug, Default)]
struct Ignored {
    everywhere: Vec<String>,
    /// By the line of the comment, counted from 1, and whether there is nothing else on it.
    lines: BTreeMap<usize, (Vec<String>, bool)>,
}

/// The findings that no comment ignores.
pub(super) fn without_ignored(root: &Path, findings: Vec<LintFinding>) -> Vec<LintFinding> {
    let mut files: BTreeMap<String, Ignored> = BTreeMap::new();
    let mut is_reported = |finding: &LintFinding| {
        let ignored = files
            .entry(finding.file.clone())
            .or_insert_with(|| Ignored::read(root, &finding.file));
        !ignored.covers(finding.rule, finding.line)
    };
    findings.into_iter().filter(|finding| is_reported(finding)).collect()
}

/// Whether a comment ignores a rule on a line of a file.
pub(super) fn is_ignored(root: &Path, rule: LintRule, file: &str, line: usize) -> bool {
    Ignored::read(root, file).covers(rule, line)
}

impl Ignored {
    fn read(root: &Path, file: &str) -> Self {
        Ignored::of(&std::fs::read_to_string(root.join(file)).unwrap_or_default())
    }

    fn of(text: &str) -> Self {
        let mut ignored = Ignored::default();
        let mut is_top = true;
        for (at, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            let is_comment = ["#", "{{/*", "{{- /*"].iter().any(|start| trimmed.starts_with(start));
            is_top &= trimmed.is_empty() || trimmed == "---" || is_comment;
            let Some((_, list)) = line.split_once(MARK) else {
                continue;
            };
            let list = list.split_whitespace().next().unwrap_or_default();
            let names = list.split(',').map(str::to_owned).filter(|name| !name.is_empty());
            if is_top {
                ignored.everywhere.extend(names)
            } else {
                drop(ignored.lines.insert(at + 1, (names.collect(), is_comment)))
            }
        }
        ignored
    }

    fn covers(&self, rule: LintRule, line: usize) -> bool {
        let is_meant = |names: &Vec<String>| names.iter().any(|name| name == rule.name);
        let on = self.lines.get(&line).map(|(names, _)| names);
        let before = self.lines.get(&line.saturating_sub(1));
        let before = before.filter(|(_, is_alone)| *is_alone).map(|(names, _)| names);
        is_meant(&self.everywhere) || on.into_iter().chain(before).any(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::rules;

    #[test]
    fn comments_reach_their_line_the_next_and_from_the_top_all() {
        let text = "# Values.\n# chartwright-lint: ignore=long-name\n\na: 1 # chartwright-lint: ignore=unread-value,image-tag\nb: 2\nc: 3\n\
            {{/* chartwright-lint: ignore=image-tag */}}\nd: 4\n";
        let ignored = Ignored::of(text);
        let covers = |rule, line| ignored.covers(rule, line);
        assert!(covers(rules::LONG_NAME, 1) && covers(rules::LONG_NAME, 8));
        assert!(covers(rules::UNREAD_VALUE, 4) && covers(rules::IMAGE_TAG, 4) && covers(rules::IMAGE_TAG, 8));
        assert!(!covers(rules::UNREAD_VALUE, 5) && !covers(rules::UNREAD_VALUE, 8) && !covers(rules::WATCHES, 4));
    }
}
