//! Lists in files that people edit, too, in which an entry is added or taken out: the resources of a kustomization, and
//! watches.yaml. Lines are edited, so that comments and the style of others stay; what comes of it is read again, and it is an
//! error if that isn't what was meant.

use std::ops::Range;

use anyhow::{Context as _, anyhow, bail};
use go_yaml::{Data, Node};
use serde_json::Value;

use super::printable::{to_yaml, yaml_scalar};

/// Where kubebuilder's tools add to a watches.yaml.
pub const MARKER: &str = "# +kubebuilder:scaffold:watch";
const RESOURCES: &str = "resources";
const OTHERWISE: &str = "the list is written in a way that can't be edited here without harm";

/// A list whose entries begin with dashes that stand one below the other.
struct Block {
    indent: usize,
    /// The lines of each, from 0.
    entries: Vec<Range<usize>>,
}

/// A kustomization that lists these resources, too.
///
/// # Errors
/// What is to be added by hand.
pub fn with_resources(path: &str, text: &str, new: &[String]) -> anyhow::Result<String> {
    let all = new
        .iter()
        .try_fold(text.to_owned(), |text, item| add_resource(&text, item));
    all.map_err(|error| {
        let new = entries(new);
        anyhow!("{path}: {error:#}; add this to `resources` by hand, and run it again:{new}")
    })
}

fn add_resource(text: &str, item: &str) -> anyhow::Result<String> {
    let (root, mut meant) = read(text)?;
    let mut lines = lines(text);
    match resources(&root)? {
        None => {
            lines.push(format!("{RESOURCES}:\n- {}\n", yaml_scalar(item)));
            meant[RESOURCES] = Value::Array(Vec::new());
        }
        Some((key, list)) => {
            let items = items(list);
            if items.iter().any(|known| is_item(known, item)) {
                return Ok(text.to_owned());
            }
            if items.is_empty() {
                // `[]`, or nothing at all.
                lines[key.line - 1] = with_value(&lines[key.line - 1], "");
                lines.insert(key.line, format!("- {}\n", yaml_scalar(item)));
                meant[RESOURCES] = Value::Array(Vec::new());
            } else if let Some(block) = Block::find(&lines, list) {
                let end = block.entries.last().map_or(key.line, |last| last.end);
                lines.insert(end, format!("{}- {}\n", " ".repeat(block.indent), yaml_scalar(item)));
            } else {
                let items = items.iter().filter_map(text_of).chain([item]);
                lines[key.line - 1] = with_value(&lines[key.line - 1], &flow(items));
            }
        }
    }
    if let Some(list) = meant[RESOURCES].as_array_mut() {
        list.push(item.into());
    }
    checked(text, &lines, meant)
}

/// A kustomization that doesn't list these resources.
///
/// # Errors
/// What is to be taken out by hand.
pub fn without_resources(path: &str, text: &str, gone: &[String]) -> anyhow::Result<String> {
    remove_resources(text, gone).map_err(|error| {
        let gone = entries(gone);
        anyhow!("{path}: {error:#}; take this out of `resources` by hand, and run it again:{gone}")
    })
}

fn remove_resources(text: &str, gone: &[String]) -> anyhow::Result<String> {
    let (root, mut meant) = read(text)?;
    let Some((key, list)) = resources(&root)? else {
        return Ok(text.to_owned());
    };
    let items = items(list);
    let is_gone = |item: &Node| gone.iter().any(|gone| is_item(item, gone));
    if !items.iter().any(is_gone) {
        return Ok(text.to_owned());
    }
    let mut lines = lines(text);
    let rest: Vec<&Node> = items.iter().filter(|item| !is_gone(item)).collect();
    match Block::find(&lines, list) {
        Some(block) => {
            for (entry, _) in block
                .entries
                .into_iter()
                .zip(items)
                .rev()
                .filter(|(_, item)| is_gone(item))
            {
                lines.drain(entry);
            }
            if rest.is_empty() {
                lines[key.line - 1] = with_value(&lines[key.line - 1], "[]");
            }
        }
        None => {
            let rest = rest.iter().filter_map(|item| text_of(item));
            lines[key.line - 1] = with_value(&lines[key.line - 1], &flow(rest));
        }
    }
    if let Some(list) = meant[RESOURCES].as_array_mut() {
        let mut items = items.iter();
        list.retain(|_| !items.next().is_some_and(is_gone));
    }
    checked(text, &lines, meant)
}

/// The text of a watches.yaml with one watch more, which becomes the last.
///
/// # Errors
/// What is to be added by hand.
pub fn with_watch(path: &str, text: &str, entry: Value) -> anyhow::Result<String> {
    let new = to_yaml(&[&entry])?;
    add_watch(text, entry, &new).map_err(|error| {
        let new = new.trim_end();
        anyhow!("{path}: {error:#}; add this watch by hand, and run it again:\n{new}")
    })
}

fn add_watch(text: &str, entry: Value, new: &str) -> anyhow::Result<String> {
    let (root, mut meant) = read(text)?;
    let mut lines = lines(text);
    let (mut start, mut indent) = (0, 0);
    match &root.data {
        Data::List(items) if items.is_empty() => {
            lines.retain(|line| line.trim() != "[]");
        }
        Data::List(_) => {
            let block = Block::find(&lines, &root).context(OTHERWISE)?;
            indent = block.indent;
            start = block.entries.last().map_or(0, |last| last.end);
        }
        _ => {}
    }
    let has_entries = start > 0;
    let marker = lines[start..]
        .iter()
        .position(|line| line.trim_start().starts_with(MARKER));
    let place = match marker {
        Some(marker) => start + marker,
        None if has_entries => start,
        None => lines.len(),
    };
    let new = new.lines().map(|line| format!("{}{line}\n", " ".repeat(indent)));
    lines.splice(place..place, new);
    match meant.as_array_mut() {
        Some(list) => list.push(entry),
        None => meant = Value::Array(vec![entry]),
    }
    checked(text, &lines, meant)
}

/// A watches.yaml without the entry at a place, from 0.
///
/// # Errors
/// It can't be taken out without harm to others.
pub fn without_watch(path: &str, text: &str, at: usize) -> anyhow::Result<String> {
    remove_watch(text, at).map_err(|error| {
        anyhow!("{path}: {error:#}; bring each watch into lines of its own that begin with `- `, and run it again")
    })
}

fn remove_watch(text: &str, at: usize) -> anyhow::Result<String> {
    let (root, mut meant) = read(text)?;
    let mut lines = lines(text);
    let block = Block::find(&lines, &root).context(OTHERWISE)?;
    let entry = block.entries.get(at).cloned().context(OTHERWISE)?;
    lines.drain(entry);
    if let Some(list) = meant.as_array_mut() {
        list.remove(at);
    }
    checked(text, &lines, meant)
}

impl Block {
    /// `None`: the list is written otherwise. What stands deeper than a dash belongs to its entry; comments that don't are
    /// about what follows.
    fn find(lines: &[String], list: &Node) -> Option<Self> {
        let indent = list.column - 1;
        let mut entries: Vec<Range<usize>> = Vec::new();
        for (at, line) in lines.iter().enumerate().skip(list.line - 1) {
            let text = line.trim_start_matches(' ');
            let depth = line.len() - text.len();
            let text = text.trim_end();
            if depth == indent && (text == "-" || text.starts_with("- ") || text.starts_with("-\t")) {
                entries.push(at..at + 1);
                continue;
            }
            let last = entries.last_mut()?;
            let is_comment = text.starts_with('#');
            if depth > indent && !text.is_empty() && (!is_comment || last.end == at) {
                last.end = at + 1;
            } else if !text.is_empty() && !is_comment {
                break;
            }
        }
        (entries.len() == items(list).len()).then_some(Block { indent, entries })
    }
}

/// The lines of a text with their ends.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push('\n');
    }
    lines
}

/// The first document, with the places of all in it, and its value.
fn read(text: &str) -> anyhow::Result<(Node, Value)> {
    Ok((go_yaml::parse(text.as_bytes())?, go_yaml::to_json(text.as_bytes())?))
}

/// The values of all documents that say something.
fn values(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = go_yaml::documents(text)?.into_iter();
    let values = documents.map(|document| Ok(go_yaml::to_json(document.as_bytes())?));
    let is_something = |value: &anyhow::Result<Value>| !value.as_ref().is_ok_and(is_nothing);
    values.filter(is_something).collect()
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// The edited text, if its first document says what was meant, and the others say what they said.
fn checked(before: &str, lines: &[String], meant: Value) -> anyhow::Result<String> {
    let text = lines.concat();
    let first = Some(meant).filter(|meant| !is_nothing(meant));
    let is_first = !is_nothing(&go_yaml::to_json(before.as_bytes())?);
    let rest = values(before)?.into_iter().skip(usize::from(is_first));
    if !values(&text).is_ok_and(|values| values.into_iter().eq(first.into_iter().chain(rest))) {
        bail!(OTHERWISE);
    }
    Ok(text)
}

/// The key and the list in a kustomization.
fn resources(root: &Node) -> anyhow::Result<Option<(&Node, &Node)>> {
    let entries = match &root.data {
        Data::Map(entries) => entries.as_slice(),
        Data::Null => &[],
        _ => bail!("it is no map"),
    };
    match entries.iter().find(|(key, _)| text_of(key) == Some(RESOURCES)) {
        Some((_, list)) if !matches!(list.data, Data::List(_) | Data::Null) => bail!("`{RESOURCES}` is no list"),
        found => Ok(found.map(|(key, list)| (key, list))),
    }
}

fn items(list: &Node) -> &[Node] {
    match &list.data {
        Data::List(items) => items,
        _ => &[],
    }
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.data {
        Data::String(text) => Some(text),
        _ => None,
    }
}

/// Items as lines of a list.
fn entries(items: &[String]) -> String {
    items.iter().map(|item| format!("\n- {item}")).collect()
}

fn is_item(node: &Node, item: &str) -> bool {
    text_of(node).is_some_and(|text| text.strip_prefix("./").unwrap_or(text) == item)
}

/// A line `key: value # comment` with another value.
fn with_value(line: &str, value: &str) -> String {
    let (key, rest) = line.split_once(':').unwrap_or((line, ""));
    let comment = rest.find(" #").map_or("", |at| rest[at..].trim_end());
    match value {
        "" => format!("{key}:{comment}\n"),
        value => format!("{key}: {value}{comment}\n"),
    }
}

/// A list on one line.
fn flow<'t>(items: impl Iterator<Item = &'t str>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let items = items.map(|item| {
        if item.chars().all(is_plain) {
            item.to_owned()
        } else {
            Value::from(item).to_string()
        }
    });
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn watch(kind: &str) -> Value {
        json!({"kind": kind, "chart": "c"})
    }

    #[test]
    fn resources_are_added_as_the_list_is_written() {
        let new = ["b".to_owned()];
        for (text, expected) in [
            ("kind: Kustomization\n", "kind: Kustomization\nresources:\n- b\n"),
            ("resources: []\nkind: K\n", "resources:\n- b\nkind: K\n"),
            (
                "resources: # none\n# m\nkind: K",
                "resources: # none\n- b\n# m\nkind: K\n",
            ),
            (
                "resources:\n- a # 1\n#+m\nkind: K\n",
                "resources:\n- a # 1\n- b\n#+m\nkind: K\n",
            ),
            ("resources:\r\n  - a\r\n", "resources:\r\n  - a\r\n  - b\n"),
            (
                "resources: [mine, 'a, b'] # x\n",
                "resources: [mine, \"a, b\", b] # x\n",
            ),
            ("resources:\n- ./b\n", "resources:\n- ./b\n"),
        ] {
            assert_eq!(with_resources("k", text, &new).unwrap(), expected);
        }
        for text in [
            "resources: [a,\n  c]\n",
            "{resources: [a]}\n",
            "resources: 5\n",
            "- a\n",
        ] {
            let error = with_resources("k.yaml", text, &new).unwrap_err().to_string();
            assert!(error.starts_with("k.yaml: ") && error.ends_with("\n- b"), "{error}");
        }
    }

    #[test]
    fn resources_are_taken_out_and_others_stay() {
        let gone = ["b".to_owned(), "c".to_owned()];
        for (text, expected) in [
            (
                "resources:\n- a\n# about b\n- b\n- c # c\nx: 1\n",
                "resources:\n- a\n# about b\nx: 1\n",
            ),
            (
                "resources:\n  - b\n# about x\nx: 1\n",
                "resources: []\n# about x\nx: 1\n",
            ),
            ("resources: [a, b] # x\n", "resources: [a] # x\n"),
            ("resources: [b]\n", "resources: []\n"),
            ("resources: [bb]\n", "resources: [bb]\n"),
            ("# nothing\n", "# nothing\n"),
        ] {
            assert_eq!(without_resources("k", text, &gone).unwrap(), expected);
        }
        let error = without_resources("k", "resources: [a,\n  b]\n", &gone).unwrap_err();
        assert!(error.to_string().contains("take this out"), "{error}");
    }

    #[test]
    fn watches_are_added_as_the_list_is_written() {
        let marked = format!("# about\n{MARKER}\n");
        for (text, expected) in [
            (marked.as_str(), format!("# about\n- chart: c\n  kind: New\n{MARKER}\n")),
            ("[]\n", "- chart: c\n  kind: New\n".to_owned()),
            ("", "- chart: c\n  kind: New\n".to_owned()),
            (
                "---\n  - kind: A\n\n    # in A\n  # the end\n",
                "---\n  - kind: A\n  - chart: c\n    kind: New\n\n    # in A\n  # the end\n".to_owned(),
            ),
            (
                &format!("- kind: A\n{MARKER}\n# more\n"),
                format!("- kind: A\n- chart: c\n  kind: New\n{MARKER}\n# more\n"),
            ),
        ] {
            assert_eq!(with_watch("w", text, watch("New")).unwrap(), expected);
        }
        let error = with_watch("w.yaml", "[{kind: A}]\n", watch("New"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("w.yaml: the list is written"), "{error}");
        assert!(error.ends_with("run it again:\n- chart: c\n  kind: New"), "{error}");
    }

    #[test]
    fn a_watch_is_taken_out_and_others_stay() {
        let text = "# head\n  - kind: A\n    # in A\n    values:\n\n      x: |\n        - y\n  # about B\n  - kind: B\n# in B, too\n    chart: b\n\n  # the end\n";
        let without = |at| without_watch("w", text, at).unwrap();
        assert_eq!(
            without(0),
            "# head\n  # about B\n  - kind: B\n# in B, too\n    chart: b\n\n  # the end\n"
        );
        assert_eq!(
            without(1),
            "# head\n  - kind: A\n    # in A\n    values:\n\n      x: |\n        - y\n  # about B\n\n  # the end\n"
        );
        let last = format!("- kind: A\n{MARKER}\n");
        assert_eq!(without_watch("w", &last, 0).unwrap(), format!("{MARKER}\n"));
        for text in ["[{kind: A}, {kind: B}]\n", "- &a\n  kind: A\n- *a\n"] {
            let error = without_watch("w.yaml", text, 0).unwrap_err().to_string();
            assert!(
                error.starts_with("w.yaml: ") && error.contains("bring each watch"),
                "{error}"
            );
        }
    }
}
