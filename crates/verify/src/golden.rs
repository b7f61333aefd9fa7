//! All objects of a step, for the golden file beside its case.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::outcome::{DoneStep, Performed};
use chartwright_core::identity::applyset;
use chartwright_core::members::desired::Member;
use chartwright_core::values::recovery::random_leaves;

/// Beside the case files.
const FOLDER: &str = "golden";
/// Stands for what no two runs have in common.
const RANDOM: &str = "<random>";

/// The golden file of a step: `golden/<file>/<case>.yaml`, with the number of the step from the second on.
pub fn path(file: &Path, case: &str, step: usize) -> PathBuf {
    let mut name = String::new();
    for c in case.chars() {
        match c.is_alphanumeric() {
            true => name.extend(c.to_lowercase()),
            false if name.ends_with('-') || name.is_empty() => {}
            false => name.push('-'),
        }
    }
    let name = name.trim_end_matches('-');
    let number = if step == 0 {
        String::new()
    } else {
        format!("-{}", step + 1)
    };
    let stem = file.file_stem().unwrap_or_default();
    let folder = file.parent().unwrap_or(Path::new("")).join(FOLDER).join(stem);
    folder.join(format!("{name}{number}.yaml"))
}

/// The text of a golden file. `again`: what the same step came to in another run, if it has random results.
///
/// # Errors
/// Something nests too deep.
pub fn text(done: &DoneStep, again: Option<&DoneStep>) -> Result<String, go_yaml::Error> {
    let performed = match done {
        Ok(performed) => performed,
        Err(stopped) => return Ok(format!("# {}\n{}\n", stopped.reason, commented(&stopped.message))),
    };
    let again = again.and_then(|again| again.as_ref().ok());
    let mut text = String::new();
    for (member, other) in pairs(performed, again) {
        text += &member.document(&shown(member, other), events(performed, member))?;
    }
    if let Some(notes) = &performed.prepared.notes {
        let other = again.and_then(|again| again.prepared.notes.as_deref());
        let _ = writeln!(text, "---\n# Notes\n{}", commented(&masked(notes, other)));
    }
    Ok(text)
}

/// Members and hooks, each with the same of another run.
fn pairs<'p>(one: &'p Performed, again: Option<&'p Performed>) -> Vec<(&'p Member, Option<&'p Member>)> {
    let all = |performed: &'p Performed| {
        let desired = &performed.prepared.desired;
        let hooks = desired.hooks.iter().map(|hook| &hook.member);
        desired.members.iter().chain(hooks)
    };
    let other = |member: &Member| {
        let mut others = all(again?);
        others.find(|other| other.id == member.id && other.source == member.source)
    };
    all(one).map(|member| (member, other(member))).collect()
}

fn events<'p>(performed: &'p Performed, member: &Member) -> &'p [String] {
    let mut hooks = performed.prepared.desired.hooks.iter();
    let hook = hooks.find(|hook| hook.member.id == member.id && hook.member.source == member.source);
    hook.map_or(&[], |hook| &hook.events)
}

/// The object as the chart makes it, without our marks, and without what is otherwise in another run.
fn shown(member: &Member, other: Option<&Member>) -> Value {
    let mut object = member.object.clone();
    if let Some(other) = other {
        for leaf in random_leaves(std::slice::from_ref(member), std::slice::from_ref(other)) {
            if let Some(value) = object.pointer_mut(&leaf.pointer) {
                *value = RANDOM.into();
            }
        }
    }
    applyset::unmark(&mut object);
    object
}

fn masked(text: &str, other: Option<&str>) -> String {
    let Some(other) = other else {
        return text.to_owned();
    };
    let known: BTreeSet<&str> = other.lines().collect();
    let lines = text
        .lines()
        .map(|line| if known.contains(line) { line } else { RANDOM });
    lines.collect::<Vec<_>>().join("\n")
}

fn commented(text: &str) -> String {
    let lines = text
        .trim_end()
        .lines()
        .map(|line| format!("# {line}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_files_are_called_after_their_cases() {
        let file = Path::new("charts/web/verify/web.yaml");
        for (case, step, expected) in [
            ("Three servers, then five", 0, "three-servers-then-five.yaml"),
            ("  -- a.b --", 1, "a-b-2.yaml"),
        ] {
            let expected = Path::new("charts/web/verify/golden/web").join(expected);
            assert_eq!(path(file, case, step), expected);
        }
    }
}
