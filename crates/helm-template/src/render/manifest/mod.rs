//! Rendered files -> manifests and hooks. Facts: Helm's `pkg/release/v1/util/{manifest,manifest_sorter}.go`.

mod document_head;
pub(super) mod install_order;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::documents::split;
use super::memo::FileOutput;
use crate::chart::Warning;
use crate::chart::warning::Level;
use crate::render::{BadManifest, Error, Input, data_size, over};
use document_head::Head;
use go_template::meter::Meter;
use go_yaml as yaml;
use install_order::by_install_order;

/// The number of copies of an object while it is prepared to be sent: as it was read, and as it is sent.
const COPIES: u64 = 2;

/// One YAML document that a template made.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The template: `chart/templates/x.yaml`, subcharts as `chart/charts/sub/templates/x.yaml`.
    pub source: String,
    /// The line of the rendered file where the document starts, from 1.
    pub line: usize,
    /// The document exactly as Helm prints it.
    pub text: String,
    /// The parsed document; empty until it is first read.
    object: OnceLock<Arc<Value>>,
    head: Arc<Head>,
}

/// A manifest that runs at an event instead of belonging to the release.
#[derive(Debug, Clone)]
pub struct HookManifest {
    pub manifest: Manifest,
    pub events: Vec<HookEvent>,
    /// `helm.sh/hook-weight`: lighter hooks run first.
    pub weight: i64,
    /// `helm.sh/hook-delete-policy`, as written. Without one, Helm deletes a hook before it creates it again.
    pub delete_policies: Vec<String>,
}

/// The events at which a hook can run (`helm.sh/hook`).
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

impl Manifest {
    /// The document's kind; empty if it has none.
    pub fn kind(&self) -> &str {
        &self.head.kind
    }

    /// The document as data; integers stay integers. Null if it has only comments.
    pub fn object(&self) -> &Value {
        self.object.get_or_init(|| {
            Arc::new(yaml::to_json_within(self.text.as_bytes(), yaml::GO_MAX_DEPTH).unwrap_or_default())
        })
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

impl HookEvent {
    /// As `helm.sh/hook` writes them; the first of an event is its name.
    const NAMES: [(&str, HookEvent); 10] = [
        ("pre-install", HookEvent::PreInstall),
        ("post-install", HookEvent::PostInstall),
        ("pre-delete", HookEvent::PreDelete),
        ("post-delete", HookEvent::PostDelete),
        ("pre-upgrade", HookEvent::PreUpgrade),
        ("post-upgrade", HookEvent::PostUpgrade),
        ("pre-rollback", HookEvent::PreRollback),
        ("post-rollback", HookEvent::PostRollback),
        ("test", HookEvent::Test),
        ("test-success", HookEvent::Test),
    ];

    /// As `helm.sh/hook` writes it.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.into_iter().find(|(_, event)| *event == self);
        found.map_or("", |(name, _)| name)
    }

    /// Reads one of the events of `helm.sh/hook`, in lower case and without spaces around it.
    ///
    /// ```
    /// use helm_template::render::HookEvent;
    ///
    /// assert_eq!(HookEvent::parse("pre-install"), Some(HookEvent::PreInstall));
    /// assert_eq!(HookEvent::parse("plan-backup"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let found = Self::NAMES.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, event)| event)
    }
}

/// Manifests and hooks, each in install order.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub objects: Vec<Manifest>,
    pub hooks: Vec<HookManifest>,
    pub unknown_hooks: Vec<Manifest>,
    /// The approximate memory of the data, with a copy of each, in bytes.
    pub size: u64,
}

/// Sorts the documents of rendered files (by path). Helm's log lines about them are added to `warnings`, also before an
/// error. If the input requests it, the data of each document is stored, within the meter's budget.
///
/// # Errors
/// A document that isn't YAML, or whose head has the wrong types; data that takes more memory than there is.
pub(super) fn sort(
    files: BTreeMap<String, Vec<u8>>,
    known: &HashMap<String, Arc<FileOutput>>,
    meter: &Meter,
    input: &Input<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Sorted, Error> {
    let mut sorted = Sorted::default();
    let mut problem = None;
    for (path, file) in &files {
        match sorted.file_once(path, file, known.get(path), meter, input, warnings) {
            Ok(()) => {}
            Err(DocumentProblem::Memory) => return Err(over(path, input.limits)),
            Err(DocumentProblem::Yaml(text)) => {
                problem = Some(format!("YAML parse error on {path}: {text}"));
                break;
            }
        }
    }
    if let Some(text) = problem {
        let lossy = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        return Err(Error::Manifest(Box::new(BadManifest {
            text,
            files: files.into_iter().map(|(path, file)| (path, lossy(file))).collect(),
            hooks: sorted.hooks,
        })));
    }
    sorted.objects.sort_by(|a, b| by_install_order(a.kind(), b.kind()));
    sorted
        .unknown_hooks
        .sort_by(|a, b| by_install_order(a.kind(), b.kind()));
    sorted
        .hooks
        .sort_by(|a, b| by_install_order(a.manifest.kind(), b.manifest.kind()));
    Ok(sorted)
}

enum DocumentProblem {
    Yaml(String),
    Memory,
}

impl Sorted {
    /// Adds the documents of a file; those of a known output are read once.
    fn file_once(
        &mut self,
        path: &str,
        file: &[u8],
        known: Option<&Arc<FileOutput>>,
        meter: &Meter,
        input: &Input<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), DocumentProblem> {
        if let Some(documents) = known.and_then(|known| known.documents.get()) {
            for (manifest, size) in documents {
                meter.spend(*size).map_err(|_| DocumentProblem::Memory)?;
                self.size += size;
                self.add(manifest.clone(), warnings);
            }
            return Ok(());
        }
        let mut documents = Vec::new();
        self.file(path, file, meter, input, &mut |sorted, manifest, size| {
            if known.is_some() {
                documents.push((manifest.clone(), size));
            }
            sorted.add(manifest, warnings);
        })?;
        if let Some(known) = known {
            let _ = known.documents.set(documents);
        }
        Ok(())
    }

    fn file(
        &mut self,
        path: &str,
        file: &[u8],
        meter: &Meter,
        input: &Input<'_>,
        done: &mut dyn FnMut(&mut Self, Manifest, u64),
    ) -> Result<(), DocumentProblem> {
        let read = |text| yaml::to_json_within(text, input.limits.yaml_depth);
        let text = std::str::from_utf8(file).map_err(|_| {
            let error = read(file).err().map(|error| error.to_string());
            DocumentProblem::Yaml(error.unwrap_or_else(|| "the document is not UTF-8".to_owned()))
        })?;
        for (text, line) in split(text) {
            if input.read_objects {
                let size = data_size::to_read(text.as_bytes());
                meter.has_room(size).map_err(|_| DocumentProblem::Memory)?;
            }
            let object = read(text.as_bytes()).map_err(|error| DocumentProblem::Yaml(error.to_string()))?;
            let head = Head::read(&object).map_err(|error| DocumentProblem::Yaml(error.to_string()))?;
            let (mut kept, mut size) = (OnceLock::new(), 0);
            if input.read_objects {
                size = text.len() as u64 + COPIES * data_size::of(&object);
                meter.spend(size).map_err(|_| DocumentProblem::Memory)?;
                self.size += size;
                kept = OnceLock::from(Arc::new(object));
            }
            let manifest = Manifest {
                source: path.to_owned(),
                line,
                text: text.to_owned(),
                object: kept,
                head: Arc::new(head),
            };
            done(self, manifest, size);
        }
        Ok(())
    }

    fn add(&mut self, manifest: Manifest, warnings: &mut Vec<Warning>) {
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
            let attributes = [("hookTypes", events.clone())];
            let warning = Warning::new(Level::Info, "skipping unknown hooks", attributes);
            warnings.push(warning.about(&manifest.source));
            self.unknown_hooks.push(manifest);
            return;
        };
        let annotation = |name: &str| manifest.head.annotations.get(name);
        self.hooks.push(HookManifest {
            events: parsed,
            weight: annotation("helm.sh/hook-weight")
                .and_then(|w| w.parse().ok())
                .unwrap_or(0),
            delete_policies: annotation("helm.sh/hook-delete-policy").map_or_else(Vec::new, |p| words(p)),
            manifest,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReleaseObject;
    use super::*;

    fn sort_texts<const N: usize>(texts: [(&str, String); N]) -> Result<(Sorted, Vec<Warning>), Error> {
        let files = texts.map(|(path, text)| (path.to_owned(), text.into_bytes()));
        let mut warnings = Vec::new();
        let input = Input::new(ReleaseObject::install("x", "y"), Value::Null);
        let sorted = sort(
            BTreeMap::from(files),
            &HashMap::new(),
            &Meter::default(),
            &input,
            &mut warnings,
        )?;
        Ok((sorted, warnings))
    }

    fn read_one(path: &str, text: &str) -> Result<Manifest, String> {
        let (sorted, _) = sort_texts([(path, text.to_owned())]).map_err(|e| e.to_string())?;
        Ok(sorted.objects.into_iter().next().unwrap())
    }

    #[test]
    fn hooks_are_classified() {
        let hook = |annotation: &str| {
            format!(
                "kind: Job\nmetadata:\n  name: x\n  annotations:\n    {annotation}\n    helm.sh/hook-weight: \"-5\"\n"
            )
        };
        let texts = [
            ("c/templates/a.yaml", hook("helm.sh/hook: pre-install, Test")),
            ("c/templates/b.yaml", hook("helm.sh/hook: crd-install")),
            ("c/templates/c.yaml", hook("other: x")),
        ];
        let (sorted, warnings) = sort_texts(texts).unwrap();
        assert_eq!(sorted.objects.len(), 1);
        assert_eq!(sorted.hooks.len(), 1);
        assert_eq!(sorted.hooks[0].events, [HookEvent::PreInstall, HookEvent::Test]);
        assert_eq!(sorted.hooks[0].weight, -5);
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            ["c/templates/b.yaml: skipping unknown hooks hookTypes=crd-install"]
        );
    }

    #[test]
    fn lists_are_flattened_on_demand() {
        let text = "kind: List\nitems:\n- kind: A\n- kind: BList\n  items:\n  - kind: B\n";
        let manifest = read_one("c/templates/a.yaml", text).unwrap();
        let kinds: Vec<_> = manifest.objects().iter().map(|o| o["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["A", "B"]);
        assert!(read_one("x", "# nothing\n").unwrap().objects().is_empty());
    }
}
