//! A report as text. Each text of the cluster stays on its line, and its control characters are escaped.

use clap::builder::styling::{AnsiColor, Effects, Style};

use chartwright_core::hooks::RunPhase;
use chartwright_core::identity::ObjectId;
use chartwright_core::report::{Cause, HookNode, NextStep, Node, NodeHealth, ReleaseReport};
use chartwright_scaffold::printable::one_line;
use chartwright_watches::text::cut;

/// Bytes of a message in the tree.
const MESSAGE_BYTES: usize = 160;

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

/// The causes, the state, the conditions and the tree. The first cause has at most three lines.
pub(super) fn explanation(report: &ReleaseReport, painter: Painter) -> String {
    let mut text = String::new();
    for (at, cause) in report.causes.iter().enumerate() {
        text += &painter.bold(&cause_line(cause));
        text += "\n";
        if at == 0 {
            text += &format!("  next: {}\n", next_line(&report.next));
        }
        if !cause.commands.is_empty() {
            text += &format!("  try: {}\n", line(&cause.commands.join("; ")));
        }
    }
    if !text.is_empty() {
        text += "\n";
    }
    text += &headline(report, painter);
    if report.causes.is_empty() {
        text += &format!("  next: {}\n", next_line(&report.next));
    }
    for condition in &report.conditions {
        let shown = format!(
            "{} since {}: {}",
            condition.kind, condition.last_transition_time, condition.message
        );
        text += &format!("  {}\n", line(&shown));
    }
    if let Some(rollout) = &report.rollout {
        text += &format!("  rollout: {:?} since {}\n", rollout.state, rollout.since);
    }
    text + &branches(report, painter)
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

fn name(id: &ObjectId) -> String {
    format!("{} {}", id.group_kind.kind, id.name)
}

/// The member, what it owns, and its words.
fn cause_line(cause: &Cause) -> String {
    let about: Vec<String> = [&cause.member, &cause.object].into_iter().flatten().map(name).collect();
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
            add_node(member, 1, painter, &mut text);
        }
    }
    if !report.hooks.is_empty() {
        text += "hooks\n";
    }
    for hook in &report.hooks {
        add_hook(hook, painter, &mut text);
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

fn add_hook(hook: &HookNode, painter: Painter, text: &mut String) {
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
        name(&hook.run.object)
    ));
    *text += &format!("  {} {shown}\n", painter.health(health, mark(health)));
    for child in &hook.children {
        add_node(child, 2, painter, text);
    }
}

fn add_node(node: &Node, depth: usize, painter: Painter, text: &mut String) {
    let message = match cut(&node.message, MESSAGE_BYTES) {
        message if message.is_empty() => message,
        message => format!(": {}: {message}", node.health.as_str()),
    };
    let indent = "  ".repeat(depth);
    let shown = line(&format!("{}{message}", name(&node.id)));
    *text += &format!("{indent}{} {shown}\n", painter.health(node.health, mark(node.health)));
    for child in &node.children {
        add_node(child, depth + 1, painter, text);
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
