//! Previews as text: for each release a summary, and then each object.

use std::fmt::Write as _;

use chartwright_core::diff::{ChangeOperation, DiffVerdict, HookRuns, ObjectChange, ReleaseDiff};

use super::output::DiffResult;

pub(super) fn render(result: &DiffResult) -> String {
    let mut out = String::new();
    // An unchanged release of many is part of the last line only.
    let is_single = result.releases.len() == 1;
    for diff in &result.releases {
        if diff.verdict() != DiffVerdict::Unchanged || !diff.notes.is_empty() || !diff.held.is_empty() || is_single {
            release(diff, &mut out);
        }
    }
    for failed in &result.failed {
        let _ = writeln!(out, "{}\n  failed: {}\n", failed.name, indented(&failed.error));
    }
    let _ = writeln!(out, "{}", result.totals());
    out
}

fn release(diff: &ReleaseDiff, out: &mut String) {
    let _ = writeln!(out, "{}", format!("{}  {}", diff.title(), chart(diff)).trim_end());
    let _ = writeln!(out, "  {}", counts(diff));
    for object in &diff.summary.restarts {
        let _ = writeln!(out, "  pods restart: {object}");
    }
    for run in &diff.hooks {
        let _ = writeln!(out, "  {} hooks would run: {}", run.name, objects(run));
    }
    for run in &diff.plans {
        let _ = writeln!(out, "  plan {} would run: {}", run.name, objects(run));
    }
    for held in &diff.held {
        let _ = writeln!(out, "  held: {}", indented(held));
    }
    for refusal in &diff.refusals {
        let object = refusal
            .object
            .as_ref()
            .map(|object| format!("{object}: "))
            .unwrap_or_default();
        let _ = writeln!(
            out,
            "  refused: {object}{}: {}",
            refusal.reason,
            indented(&refusal.message)
        );
    }
    for note in &diff.notes {
        let _ = writeln!(out, "  note: {}", indented(note));
    }
    for change in &diff.changes {
        let _ = write!(out, "\n{}\n{}", title(change), change.diff);
    }
    out.push('\n');
}

/// `chart web 1.0.0 -> 1.1.0`.
pub(super) fn chart(diff: &ReleaseDiff) -> String {
    let chart = &diff.chart;
    match chart.from.as_str() {
        _ if chart.name.is_empty() => String::new(),
        "" => format!("chart {} {}", chart.name, chart.to),
        from if from == chart.to => format!("chart {} {}", chart.name, chart.to),
        from => format!("chart {} {from} -> {}", chart.name, chart.to),
    }
}

/// `1 created, 2 changed`.
pub(super) fn counts(diff: &ReleaseDiff) -> String {
    let summary = &diff.summary;
    let operations = ChangeOperation::ALL.map(|operation| (operation.as_str(), summary.count(operation)));
    let others = [("held", summary.held), ("refused", summary.refused)];
    let parts = operations.into_iter().chain(others).filter(|(_, count)| *count > 0);
    let mut parts: Vec<String> = parts.map(|(word, count)| format!("{count} {word}")).collect();
    for (word, count) in [("hook", summary.hooks), ("plan", summary.plans)] {
        match count {
            0 => {}
            1 => parts.push(format!("1 {word} would run")),
            count => parts.push(format!("{count} {word}s would run")),
        }
    }
    if parts.is_empty() {
        "no changes".to_owned()
    } else {
        parts.join(", ")
    }
}

/// `changed Deployment.apps shop/web (pods restart)`.
pub(super) fn title(change: &ObjectChange) -> String {
    let mut remarks = Vec::new();
    if change.restarts {
        remarks.push("pods restart");
    }
    if change.is_rendered_only {
        remarks.push("as rendered, without defaults of the API server");
    }
    if change.diff.is_empty() && change.operation == ChangeOperation::Changed {
        remarks.push("only the operator's own labels and annotations");
    }
    let remarks = if remarks.is_empty() {
        String::new()
    } else {
        format!(" ({})", remarks.join("; "))
    };
    format!("{} {}{remarks}", change.operation.as_str(), change.object)
}

pub(super) fn objects(run: &HookRuns) -> String {
    let names: Vec<String> = run.objects.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// A message whose further lines belong to it.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}

/// Colors the lines of differences, and the titles of objects.
pub(super) fn colored(text: &str, is_colored: bool) -> String {
    if !is_colored {
        return text.to_owned();
    }
    let is_title = |line: &str| {
        ChangeOperation::ALL
            .iter()
            .any(|operation| line.starts_with(&format!("{} ", operation.as_str())))
    };
    let line = |line: &str| {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (line, ""),
        };
        let color = match line.as_bytes().first() {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "36",
            _ if line.starts_with("  refused: ") || line.starts_with("  failed: ") => "31",
            _ if is_title(line) => "1",
            _ => return line.to_owned(),
        };
        format!("\u{1b}[{color}m{body}\u{1b}[0m{end}")
    };
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::output::tests::sample;
    use super::*;

    const TEXT: &str = "\
Web.example.com shop/a  chart web 1.0.0 -> 1.1.0
  1 created, 2 changed, 1 pruned, 1 held, 1 refused, 1 hook would run, 1 plan would run
  pods restart: Deployment.apps shop/web
  pre-upgrade hooks would run: Job.batch shop/migrate
  plan backup would run: Job.batch shop/backup
  held: PersistentVolumeClaim shop/data stays
  refused: Ingress.networking.k8s.io shop/web: Invalid: spec.rules: <b>no</b> | `host`
  note: AnnotationInvalid: x

created ConfigMap shop/new (as rendered, without defaults of the API server)
@@ -0,0 +1 @@
+data: ```

changed Deployment.apps shop/web (pods restart)
@@ -1 +1 @@
-image: a
+image: b

changed Secret shop/marks (only the operator's own labels and annotations)

pruned Service shop/old
@@ -1 +0,0 @@
-a: \u{1b}[31m

Web.example.com shop/c
  failed: no answer

3 releases: 1 unchanged, 1 refused, 1 failed
";

    #[test]
    fn a_summary_comes_before_the_objects() {
        assert_eq!(render(&sample()), TEXT);
        let mut one = sample();
        one.releases[0].chart.name.clear();
        assert!(
            render(&one).starts_with("Web.example.com shop/a\n"),
            "no spaces in the place of a chart"
        );
        one.failed.clear();
        one.releases.remove(0);
        one.releases[0].chart.from.clear();
        assert_eq!(
            render(&one),
            "Web.example.com shop/b  chart web 1.1.0\n  no changes\n\n1 release: 1 unchanged\n"
        );
    }

    #[test]
    fn differences_have_colors_on_request() {
        let text = "changed a\n+b\n-c\n@@ d\n e\n";
        assert_eq!(colored(text, false), text);
        assert_eq!(
            colored(text, true),
            "\u{1b}[1mchanged a\u{1b}[0m\n\u{1b}[32m+b\u{1b}[0m\n\u{1b}[31m-c\u{1b}[0m\n\u{1b}[36m@@ d\u{1b}[0m\n e\n"
        );
    }
}
