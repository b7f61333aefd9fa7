//! A render's files, and the documents that Helm finds in them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::bytes;
use super::heads;
use crate::handlebars::without_suffix;
use go_template::meter;

/// Rendered files by their templates' names.
#[derive(Default)]
pub(super) struct Outputs {
    files: BTreeMap<String, Vec<u8>>,
    /// The first template of whose documents there are too many.
    over: Option<String>,
}

/// What a document takes besides its text, in bytes.
const DOCUMENT: u64 = 640;
/// What a byte of a file takes that is no text, at most, and from which size on that matters.
const MARKED: u64 = 4;
const WIDE: usize = 64 << 10;

/// A file, and the documents in it.
pub(super) struct File {
    /// What stands for its bytes ([`bytes`]).
    pub text: String,
    /// The places of its documents, and the lines where they start, from 1.
    places: Vec<(Range<usize>, usize)>,
    /// What its documents are; nothing if nobody has read them.
    heads: Vec<heads::Read>,
}

/// A document of a file.
pub(super) struct Document {
    pub range: Range<usize>,
    /// The line where it starts, from 1.
    pub line: usize,
    pub head: heads::Read,
}

// === impl Outputs ===

impl Outputs {
    /// Takes in what a template made.
    pub fn add(&mut self, template: String, mut bytes: Vec<u8>) {
        if has_documents(&template) && !meter::spend(to_hold(&bytes)) {
            bytes = Vec::new();
            self.over.get_or_insert_with(|| template.clone());
        }
        self.files.insert(template, bytes);
    }

    /// The files with documents, all read, and the notes of the chart.
    ///
    /// # Errors
    /// The template whose documents take more memory than there is for them.
    pub fn finish(self, chart: &str) -> Result<(BTreeMap<String, File>, Option<String>), String> {
        if let Some(template) = self.over {
            return Err(template);
        }
        let own_notes = format!("{chart}/templates/NOTES.txt");
        let mut notes = None;
        let mut files = BTreeMap::new();
        for (name, bytes) in self.files {
            if is_notes(&name) {
                if without_suffix(&name) == own_notes {
                    notes = Some(String::from_utf8_lossy(&bytes).into_owned());
                }
                continue;
            }
            let mut file = File::new(bytes);
            match has_documents(&name) {
                true => file.heads = file.texts().map(heads::read).collect(),
                false => file.places.clear(),
            }
            files.insert(name, file);
        }
        Ok((files, notes))
    }
}

/// What is kept of a file's documents, besides their texts: more than half a kilobyte for each, which may be of three bytes.
fn to_hold(bytes: &[u8]) -> u64 {
    let documents = 1 + memchr::memmem::find_iter(bytes, "\n---").count() as u64;
    let is_text = bytes.len() < WIDE || std::str::from_utf8(bytes).is_ok();
    DOCUMENT * documents + if is_text { 0 } else { MARKED * bytes.len() as u64 }
}

fn is_notes(template: &str) -> bool {
    without_suffix(template).ends_with("NOTES.txt")
}

fn has_documents(template: &str) -> bool {
    let base = template.rsplit('/').next().unwrap_or(template);
    !base.starts_with('_') && !is_notes(template)
}

// === impl File ===

impl File {
    fn new(bytes: Vec<u8>) -> Self {
        let text = bytes::to_text(bytes);
        File {
            places: places(&text),
            heads: Vec::new(),
            text,
        }
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let text = |(range, _): &(Range<usize>, _)| self.text.get(range.clone()).unwrap_or_default();
        self.places.iter().map(text)
    }

    /// Whether all its documents are YAML.
    pub fn is_good(&self) -> bool {
        self.heads.iter().all(Result::is_ok)
    }

    /// Gives away its documents, in their order.
    pub fn take_documents(&mut self) -> Vec<Document> {
        let places = std::mem::take(&mut self.places).into_iter();
        let documents = places.zip(std::mem::take(&mut self.heads));
        let document = |((range, line), head)| Document { range, line, head };
        documents.map(document).collect()
    }
}

/// The documents of a rendered file with the lines where they start. Helm splits at `---` at the start of a line,
/// whatever follows; the rest of that line belongs to the next document.
pub fn split(content: &str) -> Vec<(&str, usize)> {
    let documents = places(content).into_iter();
    documents
        .map(|(range, line)| (content.get(range).unwrap_or_default(), line))
        .collect()
}

/// As [`split`], with the places of the documents.
fn places(content: &str) -> Vec<(Range<usize>, usize)> {
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
            documents.push((begin..end, line));
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
