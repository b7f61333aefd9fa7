//! Rendered files -> manifests and hooks. Facts: Helm's `pkg/release/v1/util/{manifest,manifest_sorter}.go`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::heads::{Head, Heads, Read};
use super::order::by_install_order;
use super::{BadManifest, Error};
use crate::yaml;

/// One YAML document that a template made.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The template: `chart/templates/x.yaml`, subcharts as `chart/charts/sub/templates/x.yaml`.
    pub source: String,
    /// The line of the rendered file where the document starts, from 1.
    pub line: usize,
    /// The document exactly as Helm prints it.
    pub text: String,
    /// Empty until somebody asks.
    object: OnceLock<Value>,
    head: Arc<Head>,
}

/// A manifest that runs at an event instead of belonging to the release.
#[derive(Debug, Clone)]
pub struct Hook {
    pub manifest: Manifest,
    pub events: Vec<HookEvent>,
    /// `helm.sh/hook-weight`: lighter hooks run first.
    pub weight: i64,
    /// `helm.sh/hook-delete-policy`, as written. Without one Helm deletes a hook before it creates it anew.
    pub delete_policies: Vec<String>,
}

/// What a hook can run at (`helm.sh/hook`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    PreInstall,
    PostInstall,
    PreDelete,
    PostDelete,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    Test,
}

// === impl Manifest ===

impl Manifest {
    /// The document's kind; empty if it has none.
    pub fn kind(&self) -> &str {
        &self.head.kind
    }

    /// The document's data, whole numbers kept as such; null if it holds nothing but comments.
    pub fn object(&self) -> &Value {
        self.object
            .get_or_init(|| yaml::to_json(self.text.as_bytes()).unwrap_or_default())
    }

    /// The Kubernetes objects of the document: none for comments, the items of a list, else the document itself.
    pub fn objects(&self) -> Vec<&Value> {
        let mut found = Vec::new();
        flatten(self.object(), &mut found);
        found
    }
}

fn flatten<'v>(object: &'v Value, found: &mut Vec<&'v Value>) {
    let is_list = object
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.ends_with("List"));
    match object.get("items") {
        Some(Value::Array(items)) if is_list => items.iter().for_each(|item| flatten(item, found)),
        _ if object.is_null() => {}
        _ => found.push(object),
    }
}

// === impl HookEvent ===

impl HookEvent {
    /// As `helm.sh/hook` writes it.
    pub fn name(self) -> &'static str {
        match self {
            HookEvent::PreInstall => "pre-install",
            HookEvent::PostInstall => "post-install",
            HookEvent::PreDelete => "pre-delete",
            HookEvent::PostDelete => "post-delete",
            HookEvent::PreUpgrade => "pre-upgrade",
            HookEvent::PostUpgrade => "post-upgrade",
            HookEvent::PreRollback => "pre-rollback",
            HookEvent::PostRollback => "post-rollback",
            HookEvent::Test => "test",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "pre-install" => HookEvent::PreInstall,
            "post-install" => HookEvent::PostInstall,
            "pre-delete" => HookEvent::PreDelete,
            "post-delete" => HookEvent::PostDelete,
            "pre-upgrade" => HookEvent::PreUpgrade,
            "post-upgrade" => HookEvent::PostUpgrade,
            "pre-rollback" => HookEvent::PreRollback,
            "post-rollback" => HookEvent::PostRollback,
            "test" | "test-success" => HookEvent::Test,
            _ => return None,
        })
    }
}

/// Manifests and hooks, each in install order.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub objects: Vec<Manifest>,
    pub hooks: Vec<Hook>,
    pub warnings: Vec<String>,
}

/// Where a document is in its file, and what was read of it.
struct Place {
    path: String,
    line: usize,
    range: Range<usize>,
    /// Whether nothing but white space stands around it.
    is_whole: bool,
    read: Read,
}

/// Splits rendered files (by path) into documents and sorts them.
///
/// # Errors
/// A document that isn't YAML, or whose head has the wrong types.
pub(super) fn sort(mut files: BTreeMap<String, String>, heads: &Heads) -> Result<Sorted, Error> {
    let places = places(&files, heads);
    let is_good = places.iter().all(|place| place.read.is_ok());
    let mut sorted = Sorted::default();
    for place in places {
        match place.read {
            Ok(head) => {
                let file = files.get_mut(&place.path);
                let text = file.map_or_else(String::new, |file| {
                    // Most files are one document; an error shows the files as they were.
                    if place.is_whole && is_good {
                        let mut text = std::mem::take(file);
                        text.drain(..place.range.start);
                        text
                    } else {
                        file.get(place.range).unwrap_or_default().to_owned()
                    }
                });
                sorted.add(Manifest {
                    source: place.path,
                    line: place.line,
                    text,
                    object: OnceLock::new(),
                    head,
                });
            }
            Err(text) => {
                let text = format!("YAML parse error on {}: {text}", place.path);
                let hooks = sorted.hooks;
                return Err(Error::Manifest(Box::new(BadManifest { text, files, hooks })));
            }
        }
    }
    sorted.objects.sort_by(|a, b| by_install_order(a.kind(), b.kind()));
    sorted
        .hooks
        .sort_by(|a, b| by_install_order(a.manifest.kind(), b.manifest.kind()));
    Ok(sorted)
}

fn places(files: &BTreeMap<String, String>, heads: &Heads) -> Vec<Place> {
    let mut texts = Vec::new();
    let mut places = Vec::new();
    for (path, content) in files {
        let base = path.rsplit('/').next().unwrap_or(path);
        if base.starts_with('_') {
            continue;
        }
        for (range, line) in ranges(content) {
            texts.push(content.get(range.clone()).unwrap_or_default());
            places.push((path, line, range.end == content.len(), range));
        }
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    places
        .iter()
        .for_each(|(path, ..)| *counts.entry(path).or_default() += 1);
    let read = heads.read(&texts);
    let places = places
        .into_iter()
        .zip(read)
        .map(|((path, line, is_last, range), read)| Place {
            path: path.clone(),
            line,
            is_whole: is_last && counts.get(path.as_str()) == Some(&1),
            range,
            read,
        });
    places.collect()
}

impl Sorted {
    fn add(&mut self, manifest: Manifest) {
        let Some(events) = manifest.head.annotations.get("helm.sh/hook") else {
            self.objects.push(manifest);
            return;
        };
        let words = |text: &str| {
            text.split(',')
                .map(|word| word.trim().to_lowercase())
                .collect::<Vec<_>>()
        };
        let parsed: Option<Vec<HookEvent>> = words(events).iter().map(|word| HookEvent::parse(word)).collect();
        let Some(parsed) = parsed else {
            let path = &manifest.source;
            self.warnings.push(format!(
                "{path}: a manifest with the unknown hook {events:?} is left out"
            ));
            return;
        };
        self.hooks.push(Hook {
            events: parsed,
            weight: manifest
                .head
                .annotations
                .get("helm.sh/hook-weight")
                .and_then(|w| w.parse().ok())
                .unwrap_or(0),
            delete_policies: manifest
                .head
                .annotations
                .get("helm.sh/hook-delete-policy")
                .map_or_else(Vec::new, |p| words(p)),
            manifest,
        });
    }
}

/// The documents of a rendered file with the lines where they start. Helm splits at `---` at the start of a line,
/// whatever follows; the rest of that line belongs to the next document.
pub fn split(content: &str) -> Vec<(&str, usize)> {
    let documents = ranges(content).into_iter();
    documents
        .map(|(range, line)| (content.get(range).unwrap_or_default(), line))
        .collect()
}

/// As [`split`], with the places of the documents.
fn ranges(content: &str) -> Vec<(Range<usize>, usize)> {
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

    fn read_one(path: &str, text: &str) -> Result<Manifest, String> {
        let files = BTreeMap::from([(path.to_owned(), text.to_owned())]);
        let sorted = sort(files, &Heads::default()).map_err(|e| e.to_string())?;
        Ok(sorted.objects.into_iter().next().unwrap())
    }

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

    #[test]
    fn hooks_are_classified() {
        let hook = |annotation: &str| {
            format!(
                "kind: Job\nmetadata:\n  name: x\n  annotations:\n    {annotation}\n    helm.sh/hook-weight: \"-5\"\n"
            )
        };
        let files = BTreeMap::from([
            ("c/templates/a.yaml".to_owned(), hook("helm.sh/hook: pre-install, Test")),
            ("c/templates/b.yaml".to_owned(), hook("helm.sh/hook: crd-install")),
            ("c/templates/c.yaml".to_owned(), hook("other: x")),
            ("c/templates/_d.yaml".to_owned(), "kind: X".to_owned()),
        ]);
        let sorted = sort(files, &Heads::default()).unwrap();
        assert_eq!(sorted.objects.len(), 1);
        assert_eq!(sorted.hooks.len(), 1);
        assert_eq!(sorted.hooks[0].events, [HookEvent::PreInstall, HookEvent::Test]);
        assert_eq!(sorted.hooks[0].weight, -5);
        assert_eq!(sorted.warnings.len(), 1);
    }

    #[test]
    fn lists_are_flattened_on_demand() {
        let text = "kind: List\nitems:\n- kind: A\n- kind: BList\n  items:\n  - kind: B\n";
        let manifest = read_one("c/templates/a.yaml", text).unwrap();
        let kinds: Vec<_> = manifest.objects().iter().map(|o| o["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["A", "B"]);
        assert!(read_one("x", "# nothing\n").unwrap().objects().is_empty());
    }

    #[test]
    fn heads_of_wrong_types_are_refused() {
        let table = [
            (
                "just text",
                "cannot unmarshal string into Go value of type util.SimpleHead",
            ),
            ("- a", "cannot unmarshal array into Go value of type util.SimpleHead"),
            (
                "kind: {a: 1}",
                "cannot unmarshal object into Go struct field SimpleHead.kind of type string",
            ),
        ];
        for (text, want) in table {
            let error = read_one("c/t.yaml", text).unwrap_err();
            assert!(
                error.starts_with("YAML parse error on c/t.yaml: error unmarshaling JSON") && error.ends_with(want),
                "{error}"
            );
        }
    }
}
