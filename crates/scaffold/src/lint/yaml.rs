//! Files of a project with the places of all that is in them.

use std::path::Path;

use go_yaml::{Data, Node};
use serde_json::Value;

/// One document of a file.
pub(super) struct Document {
    /// As findings name it.
    pub(super) file: String,
    /// With lines of the file.
    pub(super) root: Node,
    pub(super) value: Value,
}

/// The documents of a file that say something; none if it can't be read.
pub(super) fn read(root: &Path, file: &str) -> Vec<Document> {
    let Ok(text) = std::fs::read_to_string(root.join(file)) else {
        return Vec::new();
    };
    let Ok(documents) = go_yaml::documents(&text) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for document in documents {
        let before = (document.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let lines = text.get(..before).unwrap_or_default().matches('\n').count();
        let (Ok(mut root), Ok(value)) = (
            go_yaml::parse(document.as_bytes()),
            go_yaml::to_json(document.as_bytes()),
        ) else {
            continue;
        };
        if !value.is_null() {
            shift(&mut root, lines);
            found.push(Document {
                file: file.to_owned(),
                root,
                value,
            });
        }
    }
    found
}

/// The documents of all YAML files directly in a folder, in the order of their names.
pub(super) fn read_folder(root: &Path, folder: &str) -> Vec<Document> {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".yaml") || name.ends_with(".yml"))
        .collect();
    names.sort();
    let files = names.iter().map(|name| super::report::join(folder, name));
    files.flat_map(|file| read(root, &file)).collect()
}

fn shift(node: &mut Node, lines: usize) {
    node.line += lines;
    match &mut node.data {
        Data::List(items) => items.iter_mut().for_each(|item| shift(item, lines)),
        Data::Map(entries) => entries.iter_mut().for_each(|(key, value)| {
            shift(key, lines);
            shift(value, lines);
        }),
        _ => {}
    }
}

/// The entries of a mapping whose keys are strings.
pub(super) fn entries(node: &Node) -> impl Iterator<Item = (&str, &Node, &Node)> {
    let entries = match &node.data {
        Data::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().filter_map(|(key, value)| match &key.data {
        Data::String(name) => Some((name.as_str(), key, value)),
        _ => None,
    })
}

/// What lies at a path of keys.
pub(super) fn at<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Node> {
    let Some((first, rest)) = path.split_first() else {
        return Some(node);
    };
    let (_, _, value) = entries(node).find(|(name, ..)| name == first)?;
    at(value, rest)
}

/// The items of a list.
pub(super) fn items(node: Option<&Node>) -> &[Node] {
    match node.map(|node| &node.data) {
        Some(Data::List(items)) => items,
        _ => &[],
    }
}

/// A string's text.
pub(super) fn text(node: &Node) -> Option<&str> {
    match &node.data {
        Data::String(text) => Some(text),
        _ => None,
    }
}

/// Line and column.
pub(super) fn place(node: &Node) -> (usize, usize) {
    (node.line, node.column)
}
