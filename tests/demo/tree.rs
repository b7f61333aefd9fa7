//! The objects of a custom resource as a tree: its members from `status.inventory`, their pods from the pods' owners,
//! each with its health by the rules that the operator itself goes by.

use std::collections::BTreeSet;
use std::io;

use anyhow::Result;
use chartwright::plan::health::{self, Status};
use chartwright::plan::identity::GroupKind;
use jiff::Timestamp;
use serde_json::Value;

use crate::playground::condition;
use crate::support::Kubectl;
use crate::terminal::{Style, Terminal, columns, wrap};

/// One object, and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub kind: String,
    pub name: String,
    uid: String,
    mark: Mark,
    /// What there is to say about it, such as `3/3 ready`.
    note: String,
    pub children: Vec<Node>,
}

/// How an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Well,
    OnItsWay,
    Failed,
    /// It was there before.
    Gone,
}

/// A line of the tree before it is known how wide the terminal is: what leads to the object, and the object.
struct Line<'n> {
    first: String,
    next: String,
    node: &'n Node,
}

// === impl Mark ===

impl Mark {
    fn sign(self) -> (char, Style) {
        match self {
            Mark::Well => ('✔', Style::Good),
            Mark::OnItsWay => ('…', Style::Busy),
            Mark::Failed => ('✘', Style::Bad),
            Mark::Gone => ('✂', Style::Dim),
        }
    }
}

// === impl Node ===

impl Node {
    /// The tree of a custom resource as it is now.
    ///
    /// # Errors
    /// kubectl fails.
    pub fn load(kubectl: &Kubectl, resource: &Value) -> Result<Self> {
        let rows = resource["status"]["inventory"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut kinds: BTreeSet<String> = rows.iter().map(resource_name).collect();
        kinds.insert("pods".to_owned());
        let kinds: Vec<String> = kinds.into_iter().collect();
        let objects = kubectl.list(&kinds.join(","), "")?;
        let now = Timestamp::now();
        let members = rows.iter().map(|row| {
            let live = objects.iter().find(|object| object["metadata"]["uid"] == row["uid"]);
            match live {
                Some(object) => Node::of(object, &objects, now),
                None => Node {
                    kind: string(&row["kind"]),
                    name: string(&row["name"]),
                    uid: string(&row["uid"]),
                    mark: Mark::Gone,
                    note: "is not there".to_owned(),
                    children: Vec::new(),
                },
            }
        });
        let ready = condition(resource, "Ready");
        Ok(Node {
            children: members.collect(),
            mark: if ready.is_some_and(|ready| ready["status"] == "True") {
                Mark::Well
            } else {
                Mark::OnItsWay
            },
            note: ready.map(|ready| string(&ready["message"])).unwrap_or_default(),
            kind: string(&resource["kind"]),
            name: string(&resource["metadata"]["name"]),
            uid: string(&resource["metadata"]["uid"]),
        })
    }

    fn of(object: &Value, all: &[Value], now: Timestamp) -> Self {
        let metadata = &object["metadata"];
        let kind = GroupKind::of(object).map_or_else(|| GroupKind::new("", ""), |(kind, _)| kind);
        let health = health::health(&kind, object, now);
        let owned = all.iter().filter(|other| {
            let mut owners = other["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.any(|owner| owner["uid"] == metadata["uid"])
        });
        let mark = match health.status {
            Status::Current => Mark::Well,
            Status::InProgress | Status::Terminating => Mark::OnItsWay,
            Status::Failed => Mark::Failed,
        };
        let note = match health.status {
            Status::Current => note(object),
            _ => health.message,
        };
        Node {
            kind: string(&object["kind"]),
            name: string(&metadata["name"]),
            uid: string(&metadata["uid"]),
            mark,
            note,
            children: owned.map(|object| Node::of(object, all, now)).collect(),
        }
    }

    /// This tree with what differs from an earlier one: what is gone stands in it once more, what has changed says what
    /// it was.
    #[must_use]
    pub fn since(&self, before: &Node) -> Node {
        let mut merged = Node {
            children: Vec::new(),
            ..self.clone()
        };
        if self.note != before.note {
            merged.note = format!("{}, was: {}", self.note, before.note);
        }
        for old in &before.children {
            merged
                .children
                .push(match self.children.iter().find(|new| new.uid == old.uid) {
                    Some(new) => new.since(old),
                    None => Node {
                        mark: Mark::Gone,
                        note: "gone".to_owned(),
                        children: Vec::new(),
                        ..old.clone()
                    },
                });
        }
        let is_new = |new: &&Node| !before.children.iter().any(|old| old.uid == new.uid);
        merged.children.extend(self.children.iter().filter(is_new).cloned());
        merged
    }

    /// How many objects there are, itself included, that are there.
    pub fn count(&self) -> usize {
        usize::from(self.mark != Mark::Gone) + self.children.iter().map(Node::count).sum::<usize>()
    }

    /// Draws it. The notes stand below each other, or wherever a narrow terminal has room.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn draw(&self, terminal: &Terminal) -> io::Result<()> {
        let mut lines = Vec::new();
        self.lines("  ", "  ", &mut lines);
        let head = |line: &Line<'_>| columns(&format!("{}✔ {} {}", line.first, line.node.kind, line.node.name));
        let widest = lines.iter().map(head).max().unwrap_or_default();
        let width = terminal.width();
        let aligned = widest + 24 <= width;
        for line in &lines {
            let Node {
                kind, name, mark, note, ..
            } = line.node;
            let (sign, style) = mark.sign();
            let (kind, name) = match mark {
                Mark::Gone => (terminal.paint(Style::Dim, kind), terminal.paint(Style::Dim, name)),
                _ => (kind.clone(), terminal.paint(Style::Bold, name)),
            };
            let branch = terminal.paint(Style::Dim, &line.first);
            let object = format!("{branch}{} {kind} {name}", terminal.paint(style, sign));
            let room = width.saturating_sub(columns(&object) + 2);
            if note.is_empty() {
                terminal.line(object)?;
            } else if aligned || columns(note) <= room {
                let padding = if aligned { widest - columns(&object) } else { 0 };
                let first = format!("{object}{}", " ".repeat(padding + 2));
                let next = format!("{:<1$}", line.next, widest + 2);
                wrap(note, &first, &next, width)
                    .iter()
                    .try_for_each(|text| terminal.line(text))?;
            } else {
                terminal.line(object)?;
                let next = format!("{}    ", line.next);
                wrap(note, &next, &next, width)
                    .iter()
                    .try_for_each(|text| terminal.line(text))?;
            }
        }
        Ok(())
    }

    fn lines<'n>(&'n self, first: &str, next: &str, out: &mut Vec<Line<'n>>) {
        let stem = if self.children.is_empty() { "  " } else { "│ " };
        out.push(Line {
            first: first.to_owned(),
            next: format!("{next}{stem}"),
            node: self,
        });
        let last = self.children.len().saturating_sub(1);
        for (number, child) in self.children.iter().enumerate() {
            let (branch, below) = if number == last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            child.lines(&format!("{next}{branch}"), &format!("{next}{below}"), out);
        }
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A kind as kubectl takes it beyond doubt: `StatefulSet.v1.apps`, `Service.v1.`.
fn resource_name(row: &Value) -> String {
    format!(
        "{}.{}.{}",
        string(&row["kind"]),
        string(&row["version"]),
        string(&row["group"])
    )
}

/// What is worth knowing about an object that is well.
fn note(object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    match object["kind"].as_str().unwrap_or_default() {
        "StatefulSet" | "Deployment" => {
            format!(
                "{}/{} ready",
                status["readyReplicas"].as_i64().unwrap_or(0),
                spec["replicas"].as_i64().unwrap_or(0)
            )
        }
        "Pod" => format!("{} on {}", string(&status["phase"]), string(&spec["nodeName"])),
        "Service" => {
            let ports = spec["ports"].as_array().into_iter().flatten();
            let ports: Vec<String> = ports
                .map(|port| format!("{}/{}", port["port"], string(&port["protocol"])))
                .collect();
            let headless = if spec["clusterIP"] == "None" { "headless, " } else { "" };
            format!("{headless}{}", ports.join(", "))
        }
        "PodDisruptionBudget" => {
            format!(
                "disruptions allowed: {}",
                status["disruptionsAllowed"].as_i64().unwrap_or(0)
            )
        }
        "ConfigMap" => {
            let data = object["data"].as_object().into_iter().flatten();
            let lines: usize = data
                .filter_map(|(_, value)| Some(value.as_str()?.lines().count()))
                .sum();
            format!("{lines} {} of data", if lines == 1 { "line" } else { "lines" })
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, note: &str, children: Vec<Node>) -> Node {
        Node {
            kind: "Kind".into(),
            name: name.into(),
            uid: name.into(),
            mark: Mark::Well,
            note: note.into(),
            children,
        }
    }

    #[test]
    fn what_is_gone_stays_in_the_tree_of_changes() {
        let before = node("a", "3/3", vec![node("b", "", vec![]), node("c", "", vec![])]);
        let after = node("a", "2/2", vec![node("c", "", vec![]), node("d", "", vec![])]);
        let merged = after.since(&before);
        assert_eq!(merged.note, "2/2, was: 3/3");
        let names: Vec<_> = merged
            .children
            .iter()
            .map(|child| (child.name.as_str(), child.mark))
            .collect();
        assert_eq!(names, [("b", Mark::Gone), ("c", Mark::Well), ("d", Mark::Well)]);
        assert_eq!((merged.count(), after.count()), (3, 3));
    }

    #[test]
    fn branches_end_where_the_last_child_is() {
        let tree = node(
            "a",
            "",
            vec![node("b", "", vec![node("c", "", vec![])]), node("d", "", vec![])],
        );
        let mut lines = Vec::new();
        tree.lines("", "", &mut lines);
        let drawn: Vec<_> = lines
            .iter()
            .map(|line| format!("{}{}", line.first, line.node.name))
            .collect();
        assert_eq!(drawn, ["a", "├─ b", "│  └─ c", "└─ d"]);
    }
}
