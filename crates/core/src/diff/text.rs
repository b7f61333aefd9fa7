//! The unified difference of two objects, as YAML.

use serde_json::Value;
use similar::TextDiff;

use crate::redact::Secrets;

/// Lines around a change.
const CONTEXT: usize = 3;
/// Nesting of an object.
const DEPTH: usize = 1000;
/// Lines of both texts that are compared line by line. Longer ones are shown as replaced between their common beginning and end.
pub const MAX_LINES: usize = 10_000;

/// The hunks, without the two lines of a file head. Empty: nothing changes.
pub(super) fn unified(before: Option<&Value>, after: Option<&Value>, secrets: &Secrets) -> String {
    let (before, after) = (yaml(before), yaml(after));
    if before == after {
        return String::new();
    }
    let text = if before.lines().count() + after.lines().count() > MAX_LINES {
        replaced(&before, &after)
    } else {
        let diff = TextDiff::from_lines(&before, &after);
        diff.unified_diff().context_radius(CONTEXT).to_string()
    };
    // Keys can hold a value as well.
    secrets.redact(&text).into_owned()
}

fn yaml(object: Option<&Value>) -> String {
    let text = object.map(|object| go_yaml::to_string(object, DEPTH));
    text.map(Result::unwrap_or_default).unwrap_or_default()
}

/// The lines between the common beginning and the common end.
fn replaced(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let shortest = old.len().min(new.len());
    let head = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let tail = old.iter().rev().zip(new.iter().rev());
    let tail = tail
        .take(shortest - head)
        .take_while(|(one, other)| one == other)
        .count();
    let (gone, come) = (
        old.get(head..old.len() - tail).unwrap_or_default(),
        new.get(head..new.len() - tail).unwrap_or_default(),
    );
    let mut text = format!("@@ -{},{} +{},{} @@\n", head + 1, gone.len(), head + 1, come.len());
    for (sign, lines) in [('-', gone), ('+', come)] {
        for line in lines {
            text.push(sign);
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
