//! Previews as Markdown, for a comment on a pull request. Names and messages are not trusted: they stand in code spans and fences.

use std::fmt::Write as _;

use chartwright_core::diff::{DiffVerdict, ReleaseDiff};

use super::output::DiffResult;
use super::text::{chart, counts, objects, title};

pub(super) fn render(result: &DiffResult) -> String {
    let mut out = format!("**{}**\n", result.totals());
    let is_single = result.releases.len() == 1;
    for diff in &result.releases {
        if diff.verdict() != DiffVerdict::Unchanged || !diff.notes.is_empty() || !diff.held.is_empty() || is_single {
            release(diff, &mut out);
        }
    }
    for failed in &result.failed {
        let _ = write!(out, "\n### {}\n\nfailed: {}\n", code(&failed.name), code(&failed.error));
    }
    out
}

fn release(diff: &ReleaseDiff, out: &mut String) {
    let _ = write!(out, "\n### {}\n\n", code(&diff.title()));
    let chart = chart(diff);
    if chart.is_empty() {
        let _ = writeln!(out, "{}", counts(diff));
    } else {
        let _ = writeln!(out, "{}: {}", code(&chart), counts(diff));
    }
    let mut lines: Vec<String> = Vec::new();
    lines.extend(
        diff.summary
            .restarts
            .iter()
            .map(|object| format!("**pods restart**: {}", code(&object.to_string()))),
    );
    lines.extend(
        diff.hooks
            .iter()
            .map(|run| format!("{} hooks would run: {}", code(&run.name), code(&objects(run)))),
    );
    lines.extend(
        diff.plans
            .iter()
            .map(|run| format!("plan {} would run: {}", code(&run.name), code(&objects(run)))),
    );
    lines.extend(diff.held.iter().map(|held| format!("held: {}", code(held))));
    lines.extend(diff.refusals.iter().map(|refusal| {
        let object = refusal
            .object
            .as_ref()
            .map(|object| format!("{object}: "))
            .unwrap_or_default();
        format!(
            "**refused**: {}",
            code(&format!("{object}{}: {}", refusal.reason, refusal.message))
        )
    }));
    lines.extend(diff.notes.iter().map(|note| format!("note: {}", code(note))));
    if !lines.is_empty() {
        out.push('\n');
    }
    for line in lines {
        let _ = writeln!(out, "- {line}");
    }
    for change in &diff.changes {
        let title = html(&title(change));
        if change.diff.is_empty() {
            let _ = write!(out, "\n<p><code>{title}</code></p>\n");
            continue;
        }
        let fence = "`".repeat(longest_run(&change.diff).max(2) + 1);
        let end = if change.diff.ends_with('\n') { "" } else { "\n" };
        let _ = write!(
            out,
            "\n<details><summary><code>{title}</code></summary>\n\n{fence}diff\n{}{end}{fence}\n\n</details>\n",
            change.diff
        );
    }
}

/// A code span on one line, also of a text with backticks and line breaks.
fn code(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let fence = "`".repeat(longest_run(&line) + 1);
    let space = if line.starts_with('`') || line.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{line}{space}{fence}")
}

/// The longest run of backticks.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or_default()
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::output::tests::sample;
    use super::*;

    const MARKDOWN: &str = "\
**3 releases: 1 unchanged, 1 refused, 1 failed**

### `Web.example.com shop/a`

`chart web 1.0.0 -> 1.1.0`: 1 created, 2 changed, 1 pruned, 1 held, 1 refused, 1 hook would run, 1 plan would run

- **pods restart**: `Deployment.apps shop/web`
- `pre-upgrade` hooks would run: `Job.batch shop/migrate`
- plan `backup` would run: `Job.batch shop/backup`
- held: `PersistentVolumeClaim shop/data stays`
- **refused**: `` Ingress.networking.k8s.io shop/web: Invalid: spec.rules: <b>no</b> | `host` ``
- note: `AnnotationInvalid: x`

<details><summary><code>created ConfigMap shop/new (as rendered, without defaults of the API server)</code></summary>

````diff
@@ -0,0 +1 @@
+data: ```
````

</details>

<details><summary><code>changed Deployment.apps shop/web (pods restart)</code></summary>

```diff
@@ -1 +1 @@
-image: a
+image: b
```

</details>

<p><code>changed Secret shop/marks (only the operator's own labels and annotations)</code></p>

<details><summary><code>pruned Service shop/old</code></summary>

```diff
@@ -1 +0,0 @@
-a: \u{1b}[31m
```

</details>

### `Web.example.com shop/c`

failed: `no answer`
";

    #[test]
    fn a_comment_shows_the_summary_and_folds_the_objects() {
        assert_eq!(render(&sample()), MARKDOWN);
    }

    #[test]
    fn names_and_messages_cannot_leave_their_span() {
        assert_eq!(code("a `b` c"), "``a `b` c``");
        assert_eq!(code("`a`\n# b"), "`` `a` # b ``");
        assert_eq!(html("<script>&"), "&lt;script&gt;&amp;");
    }
}
