//! A report as text. Each text of the cluster stays on its line, and its control characters are escaped.

use clap::builder::styling::{AnsiColor, Effects, Style};

use chartwright_core::hooks::RunPhase;
use chartwright_core::identity::ObjectId;
use chartwright_core::report::{Cause, HookNode, NextStep, NodeHealth, ObjectNode, ReleaseReport};
use chartwright_core::status::conditions::Condition;
use chartwright_scaffold::printable::one_line;
use chartwright_watches::text::cut;

/// Bytes of a message in the tree.
const MESSAGE_BYTES: usize = 160;
/// Bytes of a message by which it is recognized.
const COMPARED: usize = 1000;

/// Colours text if standard output is a terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Painter {
    pub(super) is_coloured: bool,
}

impl Painter {
    fn paint(self, style: Style, text: &str) -> String {
        if self.is_coloured {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    fn bold(self, text: &str) -> String {
        self.paint(Style::new().effects(Effects::BOLD), text)
    }

    fn health(self, health: NodeHealth, text: &str) -> String {
        let colour = match health {
            NodeHealth::Failed | NodeHealth::Missing => AnsiColor::Red,
            NodeHealth::InProgress | NodeHealth::Terminating | NodeHealth::Degraded => AnsiColor::Yellow,
            NodeHealth::Unknown => AnsiColor::Cyan,
            NodeHealth::Current => AnsiColor::Green,
        };
        self.paint(Style::new().fg_color(Some(colour.into())), text)
    }
}

/// The causes, the state, the conditions and the tree. The first cause has at most three lines. For a release that is ready, the state
/// comes first, and the causes are hints.
pub(super) fn explanation(report: &ReleaseReport, painter: Painter) -> String {
    let is_ready = report.summary.is_ready() && !report.summary.suspended;
    let mut text = if is_ready {
        headline(report, painter) + &hints(report)
    } else {
        causes(report, painter) + &headline(report, painter)
    };
    if is_ready || report.causes.is_empty() {
        text += &format!("  next: {}\n", next_line(&report.next));
    }
    for condition in &report.conditions {
        text += &format!("  {}\n", condition_line(condition, &report.causes));
    }
    if let Some(rollout) = &report.rollout {
        text += &format!("  rollout: {:?} since {}\n", rollout.state, rollout.since);
    }
    text + &branches(report, painter)
}

/// The causes of a release that is not ready, with an empty line at the end.
fn causes(report: &ReleaseReport, painter: Painter) -> String {
    let mut text = String::new();
    for (at, cause) in report.causes.iter().enumerate() {
        text += &painter.bold(&cause_line(cause, report));
        text += "\n";
        if at == 0 {
            text += &format!("  next: {}\n", next_line(&report.next));
        }
        text += &try_line(cause, "  ");
    }
    if !text.is_empty() {
        text += "\n";
    }
    text
}

/// What is wrong with a release that is ready.
fn hints(report: &ReleaseReport) -> String {
    let hint = |cause| format!("  hint: {}\n{}", cause_line(cause, report), try_line(cause, "    "));
    report.causes.iter().map(hint).collect()
}

fn try_line(cause: &Cause, indent: &str) -> String {
    if cause.commands.is_empty() {
        return String::new();
    }
    format!("{indent}try: {}\n", line(&cause.commands.join("; ")))
}

/// A condition and its time, with its message if no cause has it.
fn condition_line(condition: &Condition, causes: &[Cause]) -> String {
    // Both are cut, at other places.
    let start = &condition.message[..condition.message.floor_char_boundary(COMPARED)];
    let is_shown = causes.iter().any(|cause| cause.message.contains(start));
    let message = if is_shown {
        String::new()
    } else {
        format!(": {}", condition.message)
    };
    line(&format!(
        "{} since {}{message}",
        condition.kind, condition.last_transition_time
    ))
}

/// The state and the tree.
pub(super) fn tree(report: &ReleaseReport, painter: Painter) -> String {
    headline(report, painter) + &branches(report, painter)
}

/// A text of the cluster on one line.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    one_line(&words.join(" ")).into_owned()
}

/// Kind and name of an object, with its namespace if that is not the one of the release.
fn name(id: &ObjectId, report: &ReleaseReport) -> String {
    let kind = &id.group_kind.kind;
    if id.namespace.is_empty() || id.namespace == report.summary.namespace {
        format!("{kind} {}", id.name)
    } else {
        format!("{kind} {}/{}", id.namespace, id.name)
    }
}

/// The member, what it owns, and its words.
fn cause_line(cause: &Cause, report: &ReleaseReport) -> String {
    let about = [&cause.member, &cause.object].into_iter().flatten();
    let about: Vec<String> = about.map(|id| name(id, report)).collect();
    let about = match about.join(", ") {
        about if about.is_empty() => about,
        about => about + ": ",
    };
    let mut details = Vec::new();
    details.extend(cause.since.as_ref().map(|since| format!("since {since}")));
    let origin = cause
        .origin
        .as_ref()
        .filter(|origin| !cause.message.contains(origin.as_str()));
    details.extend(origin.map(|origin| format!("from {origin}")));
    let details = match details.join(", ") {
        details if details.is_empty() => details,
        details => format!(" ({details})"),
    };
    line(&format!("{about}{}{details}", cause.message))
}

fn next_line(next: &NextStep) -> String {
    let at = next
        .at
        .as_ref()
        .map(|at| format!("; next attempt at {at}"))
        .unwrap_or_default();
    line(&format!("{}{at}", next.message))
}

/// What it is, how it is, and since when.
fn headline(report: &ReleaseReport, painter: Painter) -> String {
    let summary = &report.summary;
    let place = match summary.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    let (health, state) = match summary.ready.as_str() {
        "True" => (NodeHealth::Current, "ready".to_owned()),
        "False" => (NodeHealth::Failed, format!("not ready ({})", summary.reason)),
        _ => (NodeHealth::Unknown, format!("unknown ({})", summary.reason)),
    };
    let since = report
        .since
        .as_ref()
        .map(|since| format!(" since {since}"))
        .unwrap_or_default();
    let chart = match summary.chart.as_str() {
        "" => String::new(),
        chart => format!("; chart {chart} {}, revision {}", summary.version, summary.revision),
    };
    let about = line(&format!("{} {}{place}:", report.kind, summary.name));
    let rest = line(&format!("{since}{chart}"));
    let space = if since.is_empty() { "" } else { " " };
    format!("{about} {}{space}{rest}\n", painter.health(health, &line(&state)))
}

/// Waves, members, what they own, and hooks; then what could not be read.
fn branches(report: &ReleaseReport, painter: Painter) -> String {
    let mut text = String::new();
    let are_many = report.waves.len() > 1;
    for wave in &report.waves {
        if are_many {
            text += &format!("wave {}\n", wave.wave);
        }
        for member in &wave.members {
            add_node(member, 1, (report, painter), &mut text);
        }
    }
    if !report.hooks.is_empty() {
        text += "hooks\n";
    }
    for hook in &report.hooks {
        add_hook(hook, (report, painter), &mut text);
    }
    for unread in &report.unread {
        let place = match unread.namespace.as_str() {
            "" => String::new(),
            namespace => format!(" in {namespace}"),
        };
        text += &format!(
            "not read: {}\n",
            line(&format!("{}{place}: {}", unread.kind, unread.message))
        );
    }
    text
}

fn add_hook(hook: &HookNode, (report, painter): (&ReleaseReport, Painter), text: &mut String) {
    let health = match hook.run.phase {
        RunPhase::Running => NodeHealth::InProgress,
        RunPhase::Succeeded => NodeHealth::Current,
        RunPhase::Failed | RunPhase::GivenUp => NodeHealth::Failed,
    };
    let phase = hook.run.phase.as_str();
    let message = match cut(&hook.run.message, MESSAGE_BYTES) {
        message if message.is_empty() => message,
        message => format!(": {message}"),
    };
    let shown = line(&format!(
        "{} {} {phase}{message}",
        hook.run.event,
        name(&hook.run.object, report)
    ));
    *text += &format!("  {} {shown}\n", painter.health(health, mark(health)));
    for child in &hook.children {
        add_node(child, 2, (report, painter), text);
    }
}

fn add_node(node: &ObjectNode, depth: usize, (report, painter): (&ReleaseReport, Painter), text: &mut String) {
    let message = match cut(&node.message, MESSAGE_BYTES) {
        message if message.is_empty() => message,
        message => format!(": {}: {message}", node.health.as_str()),
    };
    let indent = "  ".repeat(depth);
    let shown = line(&format!("{}{message}", name(&node.id, report)));
    *text += &format!("{indent}{} {shown}\n", painter.health(node.health, mark(node.health)));
    for child in &node.children {
        add_node(child, depth + 1, (report, painter), text);
    }
    if node.more > 0 {
        *text += &format!("{indent}  and {} more\n", node.more);
    }
}

/// A mark of ASCII characters, for terminals and logs.
fn mark(health: NodeHealth) -> &'static str {
    match health {
        NodeHealth::Current => "ok",
        NodeHealth::InProgress | NodeHealth::Terminating => "..",
        NodeHealth::Degraded => "!!",
        NodeHealth::Failed | NodeHealth::Missing => "xx",
        NodeHealth::Unknown => "??",
    }
}

#[cfg(test)]
mod tests {
    use chartwright_core::identity::GroupKind;
    use chartwright_core::report::ReportFacts;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    const SINCE: &str = "2026-01-01T00:00:00Z";

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE})
    }

    /// What is shown of a release with these conditions and two members, one in another namespace.
    fn shown(conditions: &Value, objects: Vec<Value>) -> String {
        let member = |kind: &str, namespace: &str, name: &str| json!({"version": "v1", "kind": kind, "namespace": namespace, "name": name});
        let inventory = [
            member("Service", "kube-system", "dns"),
            member("ConfigMap", "shop", "settings"),
        ];
        let metadata = json!({"name": "web", "namespace": "shop"});
        let resource = json!({"metadata": metadata, "status": {"inventory": inventory, "conditions": conditions}});
        let facts = ReportFacts {
            objects,
            ..ReportFacts::new(GroupKind::new("example.com", "Web"), resource)
        };
        let report = ReleaseReport::of(&facts, Timestamp::UNIX_EPOCH);
        explanation(&report, Painter { is_coloured: false })
    }

    #[test]
    fn a_message_is_printed_once_and_other_namespaces_are_named() {
        for message in ["no template".to_owned(), "x".repeat(5000)] {
            let conditions = json!([
                condition("Ready", "False", "RenderFailed", &message),
                condition("Stalled", "True", "RenderFailed", &message),
                condition("Suspended", "True", "Other", "another message"),
            ]);
            let text = shown(&conditions, Vec::new());
            let lines = text.lines().filter(|line| line.contains(&message[..9]));
            assert_eq!(lines.count(), 1, "{text}");
            assert!(text.contains(&format!("  Stalled since {SINCE}\n")), "{text}");
            assert!(
                text.contains(&format!("  Suspended since {SINCE}: another message\n")),
                "{text}"
            );
        }
        let text = shown(&json!([condition("Ready", "False", "Progressing", "")]), Vec::new());
        for line in [
            "Service kube-system/dns: the API server does not have it\n",
            "  xx Service kube-system/dns: missing: ",
            "ConfigMap settings: the API server does not have it\n",
            "  xx ConfigMap settings: missing: ",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_ready_release_says_so_first() {
        let text = shown(&json!([condition("Ready", "True", "Healthy", "")]), Vec::new());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("Web.example.com web in shop: ready since {SINCE}"));
        assert!(lines[1].starts_with("  hint: Service kube-system/dns: "), "{text}");
        assert_eq!(lines[2], "    try: kubectl describe service dns -n kube-system");
        assert!(lines[5].starts_with("  next: the operator watches"), "{text}");
    }
}
