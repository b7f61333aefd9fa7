//! Prints previews: as text, JSON or Markdown.

use std::io::Write as _;

use chartwright_core::diff::{DiffVerdict, ObjectChange, ReleaseDiff, summarize};
use serde::Serialize;
use serde_json::json;

use super::{ColorChoice, DiffArgs, DiffFormat, markdown, text};
use crate::cli::stdout::{has_colors, stdout};
use chartwright_scaffold::printable::printable;

/// A release without a preview.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FailedRelease {
    pub name: String,
    pub error: String,
}

/// The previews of all selected releases.
#[derive(Clone, Debug, Default)]
pub(super) struct DiffResult {
    pub releases: Vec<ReleaseDiff>,
    pub failed: Vec<FailedRelease>,
}

impl DiffResult {
    pub(super) fn verdict(&self) -> DiffVerdict {
        if !self.failed.is_empty() {
            return DiffVerdict::Refused;
        }
        self.releases.iter().map(ReleaseDiff::verdict).max().unwrap_or_default()
    }

    /// Leaves each CustomResourceDefinition of a chart to the first release that needs it: it is written once for all of them.
    pub(super) fn merge_definitions(&mut self) {
        let mut seen: Vec<ObjectChange> = Vec::new();
        for diff in &mut self.releases {
            diff.changes.retain(|change| {
                let is_definition = change.object.group_kind.kind == "CustomResourceDefinition";
                if is_definition && seen.contains(change) {
                    return false;
                }
                seen.extend(is_definition.then(|| change.clone()));
                true
            });
            diff.summary = summarize(diff);
        }
    }

    pub(super) fn count(&self, verdict: DiffVerdict) -> usize {
        self.releases.iter().filter(|diff| diff.verdict() == verdict).count()
    }

    /// `3 releases: 1 unchanged, 2 changed`.
    pub(super) fn totals(&self) -> String {
        let count = self.releases.len() + self.failed.len();
        let noun = if count == 1 { "release" } else { "releases" };
        let parts = [
            ("unchanged", self.count(DiffVerdict::Unchanged)),
            ("changed", self.count(DiffVerdict::Changed)),
            ("refused", self.count(DiffVerdict::Refused)),
            ("failed", self.failed.len()),
        ];
        let parts = parts.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<String> = parts.map(|(word, count)| format!("{count} {word}")).collect();
        if parts.is_empty() {
            "no release is selected".to_owned()
        } else {
            format!("{count} {noun}: {}", parts.join(", "))
        }
    }
}

pub(super) fn print(args: &DiffArgs, result: &DiffResult) -> anyhow::Result<()> {
    let mut out = stdout();
    match args.output {
        DiffFormat::Json => writeln!(out, "{}", to_json(result)?)?,
        DiffFormat::Markdown => write!(out, "{}", printable(&markdown::render(result)))?,
        DiffFormat::Text => {
            let is_colored = match args.color {
                ColorChoice::Always => true,
                ColorChoice::Never => false,
                ColorChoice::Auto => has_colors(&std::io::stdout()),
            };
            // Escapes in names and messages are shown before ours are added.
            write!(out, "{}", text::colored(&printable(&text::render(result)), is_colored))?;
        }
    }
    out.flush()?;
    Ok(())
}

fn to_json(result: &DiffResult) -> anyhow::Result<String> {
    let summary = json!({
        "releases": result.releases.len() + result.failed.len(),
        "unchanged": result.count(DiffVerdict::Unchanged),
        "changed": result.count(DiffVerdict::Changed),
        "refused": result.count(DiffVerdict::Refused),
        "failed": result.failed.len(),
    });
    let all = json!({"summary": summary, "releases": result.releases, "failed": result.failed});
    Ok(serde_json::to_string_pretty(&all)?)
}

#[cfg(test)]
pub(super) mod tests {
    use chartwright_core::diff::{ChangeOperation, ChartChange, HookRuns, Refusal};
    use chartwright_core::identity::{GroupKind, ObjectId};

    use super::*;

    pub(in crate::cli::release::diff) fn id(kind: &str, name: &str) -> ObjectId {
        ObjectId::new(GroupKind::parse(kind), "shop", name)
    }

    /// A release with everything that can be announced.
    pub(in crate::cli::release::diff) fn sample() -> DiffResult {
        let change = |kind: &str, name: &str, operation, diff: &str, restarts| ObjectChange {
            object: id(kind, name),
            operation,
            diff: diff.to_owned(),
            restarts,
            is_rendered_only: operation == ChangeOperation::Created,
        };
        let mut changed = ReleaseDiff {
            group_kind: GroupKind::parse("Web.example.com"),
            namespace: "shop".into(),
            name: "a".into(),
            chart: ChartChange {
                name: "web".into(),
                from: "1.0.0".into(),
                to: "1.1.0".into(),
            },
            summary: Default::default(),
            changes: vec![
                change(
                    "ConfigMap",
                    "new",
                    ChangeOperation::Created,
                    "@@ -0,0 +1 @@\n+data: ```\n",
                    false,
                ),
                change(
                    "Deployment.apps",
                    "web",
                    ChangeOperation::Changed,
                    "@@ -1 +1 @@\n-image: a\n+image: b\n",
                    true,
                ),
                change("Secret", "marks", ChangeOperation::Changed, "", false),
                change(
                    "Service",
                    "old",
                    ChangeOperation::Pruned,
                    "@@ -1 +0,0 @@\n-a: \u{1b}[31m\n",
                    false,
                ),
            ],
            hooks: vec![HookRuns {
                name: "pre-upgrade".into(),
                objects: vec![id("Job.batch", "migrate")],
            }],
            plans: vec![HookRuns {
                name: "backup".into(),
                objects: vec![id("Job.batch", "backup")],
            }],
            held: vec!["PersistentVolumeClaim shop/data stays".into()],
            refusals: vec![Refusal {
                object: Some(id("Ingress.networking.k8s.io", "web")),
                reason: "Invalid".into(),
                message: "spec.rules: <b>no</b> | `host`".into(),
            }],
            stalled: None,
            notes: vec!["AnnotationInvalid: x".into()],
        };
        changed.summary = summarize(&changed);
        let mut unchanged = ReleaseDiff {
            name: "b".into(),
            changes: Vec::new(),
            hooks: Vec::new(),
            plans: Vec::new(),
            held: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
            ..changed.clone()
        };
        unchanged.summary = summarize(&unchanged);
        DiffResult {
            releases: vec![changed, unchanged],
            failed: vec![FailedRelease {
                name: "Web.example.com shop/c".into(),
                error: "no answer".into(),
            }],
        }
    }

    #[test]
    fn the_worst_release_decides_the_exit_code() {
        let mut result = sample();
        assert_eq!(result.verdict(), DiffVerdict::Refused);
        result.failed.clear();
        result.releases[0].refusals.clear();
        assert_eq!(result.verdict(), DiffVerdict::Changed);
        assert_eq!(result.totals(), "2 releases: 1 unchanged, 1 changed");
        result.releases.remove(0);
        assert_eq!(result.verdict(), DiffVerdict::Unchanged);
        assert_eq!(result.totals(), "1 release: 1 unchanged");
        assert_eq!(DiffResult::default().verdict(), DiffVerdict::Unchanged);
        assert_eq!(DiffResult::default().totals(), "no release is selected");
    }

    #[test]
    fn a_definition_of_the_chart_is_announced_once() {
        let mut result = sample();
        let definition = ObjectChange {
            object: id("CustomResourceDefinition.apiextensions.k8s.io", "parts"),
            ..result.releases[0].changes[0].clone()
        };
        for diff in &mut result.releases {
            diff.changes.push(definition.clone());
        }
        result.merge_definitions();
        assert_eq!(result.releases[0].summary.created, 2);
        assert_eq!(result.releases[1].summary.created, 0);
        assert_eq!(result.releases[1].verdict(), DiffVerdict::Unchanged);
    }

    #[test]
    fn json_has_every_fact() {
        let text = to_json(&sample()).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["summary"]["refused"], 1);
        let release = &found["releases"][0];
        assert_eq!(release["kind"], "Web");
        assert_eq!(release["summary"]["restarts"][0]["name"], "web");
        assert_eq!(release["changes"][1]["operation"], "changed");
        assert_eq!(release["changes"][0]["isRenderedOnly"], true);
        assert_eq!(release["hooks"][0]["objects"][0]["name"], "migrate");
        assert_eq!(release["refusals"][0]["object"]["kind"], "Ingress");
        assert_eq!(found["failed"][0]["error"], "no answer");
    }
}
