//! A render's files, and the documents that Helm finds in them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::memo::FileOutput;
use crate::handlebars::without_suffix;
use go_template::meter::Meter;

/// Rendered files by their templates' names.
pub(super) struct Outputs {
    pub files: BTreeMap<String, Vec<u8>>,
    /// Those of them that earlier renders printed as well, or later ones may.
    pub known: HashMap<String, Arc<FileOutput>>,
    /// The name of the chart's own notes.
    own_notes: String,
    pub notes: Option<String>,
    /// The first template that has too many documents.
    pub over: Option<String>,
}

/// The memory of a document besides its text, in bytes. A text may have only three bytes.
const DOCUMENT: u64 = 640;

impl Outputs {
    /// For the render of the chart with that name.
    pub fn new(chart: &str) -> Self {
        Outputs {
            files: BTreeMap::new(),
            known: HashMap::new(),
            own_notes: format!("{chart}/templates/NOTES.txt"),
            notes: None,
            over: None,
        }
    }

    /// Adds the output of a template that a memo holds.
    pub fn add_known(&mut self, meter: &Meter, template: String, output: Arc<FileOutput>) {
        let text = output.text.clone();
        self.known.insert(template.clone(), output);
        self.add(meter, template, text);
    }

    /// Adds the output of a template.
    pub fn add(&mut self, meter: &Meter, template: String, mut bytes: Vec<u8>) {
        let name = without_suffix(&template);
        if name.ends_with("NOTES.txt") {
            if name == self.own_notes {
                self.notes = Some(String::from_utf8_lossy(&bytes).into_owned());
            }
            return;
        }
        let documents = 1 + memchr::memmem::find_iter(&bytes, "\n---").count() as u64;
        if meter.spend(DOCUMENT * documents).is_err() {
            bytes = Vec::new();
            self.over.get_or_insert_with(|| template.clone());
        }
        self.files.insert(template, bytes);
    }
}

/// The documents of a rendered file with the lines where they start. Helm splits at `---` at the start of a line, with
/// any text after it; the rest of that line belongs to the next document.
pub fn split(content: &str) -> Vec<(&str, usize)> {
    let mut documents = Vec::new();
    let body = content.trim_start();
    let offset = content.len() - body.len();
    // Lines are counted from the document before on.
    let (mut line, mut counted) = (1, 0);
    let mut keep = |start: usize, end: usize| {
        let Some(piece) = content.get(start..end) else { return };
        let trimmed = piece.trim_start();
        if !trimmed.is_empty() {
            let begin = end - trimmed.len();
            let before = content.as_bytes().get(counted..begin).unwrap_or_default();
            line += memchr::memchr_iter(b'\n', before).count();
            counted = begin;
            documents.push((trimmed, line));
        }
    };
    let first = body.starts_with("---").then_some(offset);
    let others = memchr::memmem::find_iter(body.as_bytes(), "\n---").map(|at| offset + at + 1);
    let mut start = offset;
    for separator in first.into_iter().chain(others) {
        keep(start, separator);
        let rest = content.get(separator + 3..).unwrap_or_default();
        start = content.len() - rest.trim_start_matches([' ', '\t']).len();
    }
    keep(start, content.len());
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_as_helm_does() {
        let table: [(&str, &[(&str, usize)]); 6] = [
            ("a: 1\n---\nb: 2\n", &[("a: 1\n", 1), ("b: 2\n", 3)]),
            ("\n\n---\n# c\n---   \nb: 2", &[("# c\n", 4), ("b: 2", 6)]),
            ("---kind: X\n", &[("kind: X\n", 1)]),
            ("--- # note\na: 1\n", &[("# note\na: 1\n", 1)]),
            ("a: |\n  ---\n  x\n", &[("a: |\n  ---\n  x\n", 1)]),
            ("---\n---\n \n", &[]),
        ];
        for (text, want) in table {
            assert_eq!(split(text), want, "{text:?}");
        }
    }
}
