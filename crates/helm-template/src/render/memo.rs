//! What template files printed in earlier renders of a chart, to be used again where a render cannot print anything else.
//!
//! A file's result is used again if all that it depends on is the same: the set of charts, the release, the maps of values that
//! it read, the answers of `.Capabilities` and of `lookup`, and its random results. Renders that differ in few values, such as those
//! of a survey, execute few files. Files that change values are executed in every render, and so is what reads these values after
//! them.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::manifest::Manifest;
use super::{Error, Input, contexts};
use crate::chart::dependencies::ChartNode;
use crate::helm::{Capabilities, Context, Effects};
use go_template::footprint::{Birth, InputUse, LEN, Recorder, hash_key};
use go_template::{Map, Value};

/// How many results of one file are kept.
const MAX_RESULTS: usize = 12;

/// The results of all renders of an engine.
#[derive(Default)]
pub(super) struct Memo {
    files: Mutex<HashMap<String, Vec<Arc<FileResult>>>>,
}

/// One result of a file, and what it depends on.
struct FileResult {
    /// A hash of what is the same for all files of a render.
    render: u64,
    read: InputRead,
    /// What was asked of `.Capabilities`, with the answers.
    answers: Vec<(String, String)>,
    effects: Effects,
    output: Arc<FileOutput>,
}

/// What a file read of the values: contents by path, as hashes.
struct InputRead {
    maps: Vec<(u64, u64)>,
    /// Path of the map, path of the entry, and what it is; `None` if there is none.
    parts: Vec<(u64, u64, Option<u64>)>,
}

/// What a file printed.
pub(super) struct FileOutput {
    pub text: Vec<u8>,
    /// The documents in it with the memory that each takes, once they were read.
    pub documents: OnceLock<Vec<(Manifest, u64)>>,
}

/// The use of a [`Memo`] by one render.
pub(super) struct MemoRun<'m> {
    memo: &'m Memo,
    capabilities: &'m Capabilities,
    /// All that is served, as one text.
    served: String,
    render: u64,
    input: InputMaps,
    recorder: Recorder,
    /// The maps that files of this render changed.
    changed: HashSet<u64>,
    /// Whether a map was changed that has no path: then nothing is known of the rest of the render.
    is_unknown: bool,
}

/// The maps of values of one render, by path.
#[derive(Default)]
struct InputMaps {
    contents: HashMap<u64, u64>,
    /// The entries of all maps, and their numbers.
    parts: HashMap<u64, u64>,
    paths: HashMap<Birth, Vec<u64>>,
    /// Whether there is a value that cannot be compared.
    is_opaque: bool,
}

impl Memo {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<FileResult>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'m> MemoRun<'m> {
    /// Starts a render. `first`: a birth from before its values were made. `None` if its values cannot be compared.
    pub fn start(
        memo: &'m Memo,
        node: &ChartNode<'_>,
        values: &Map,
        input: &'m Input<'_>,
        first: Birth,
    ) -> Option<Self> {
        let mut enabled = Vec::new();
        contexts::enabled(node, &mut enabled);
        let mut hasher = DefaultHasher::new();
        enabled.hash(&mut hasher);
        let release = &input.release;
        (&release.name, &release.namespace, release.revision).hash(&mut hasher);
        (release.is_install, release.is_upgrade).hash(&mut hasher);
        (input.limits.yaml_depth, input.read_objects).hash(&mut hasher);
        for (name, value) in &input.more {
            (name, value.to_string()).hash(&mut hasher);
        }
        let mut maps = InputMaps::default();
        maps.add(values, 0);
        if maps.is_opaque {
            return None;
        }
        Some(MemoRun {
            memo,
            capabilities: input.capabilities,
            served: input.capabilities.api_versions.join(" "),
            render: hasher.finish(),
            input: maps,
            recorder: Recorder::start(first),
            changed: HashSet::new(),
            is_unknown: false,
        })
    }

    /// What a file prints: its result of an earlier render if that holds for this one, else that of `work`.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn file(
        &mut self,
        context: &mut Context,
        name: &str,
        work: impl FnOnce(&mut Context) -> Result<Vec<u8>, Error>,
    ) -> Result<Arc<FileOutput>, Error> {
        if let Some(output) = self.recall(context, name) {
            return Ok(output);
        }
        let ((text, effects), used) = self
            .recorder
            .observe(|| context.with_effects(name, |context| work(context)));
        let text = text?;
        let read = self.read_maps(&used);
        self.note_changes(&used);
        let known = |results: &[Arc<FileResult>]| {
            let is_same = |result: &&Arc<FileResult>| result.render == self.render && result.output.text == text;
            let same = results.iter().find(is_same);
            same.map(|result| Arc::clone(&result.output))
        };
        let mut files = self.memo.lock();
        let results = files.entry(name.to_owned()).or_default();
        let output = known(results).unwrap_or_else(|| {
            Arc::new(FileOutput {
                text,
                documents: OnceLock::new(),
            })
        });
        if let (Some(read), Some(effects)) = (read, effects.filter(|effects| effects.is_complete(used.is_impure))) {
            let answer = |question: &String| {
                let answer = self.capabilities.answer(question, &self.served);
                (question.clone(), answer.to_owned())
            };
            // The first result is that of the values that most others differ from in few places.
            if results.len() >= MAX_RESULTS {
                results.remove(1);
            }
            results.push(Arc::new(FileResult {
                render: self.render,
                read,
                answers: effects.asked.iter().map(answer).collect(),
                effects,
                output: Arc::clone(&output),
            }));
        }
        Ok(output)
    }

    fn recall(&self, context: &mut Context, name: &str) -> Option<Arc<FileOutput>> {
        if self.is_unknown {
            return None;
        }
        let results = self.memo.lock().get(name)?.clone();
        let found = results.into_iter().find(|result| self.holds(context, result))?;
        context.repeat(&found.effects, found.output.text.len())?;
        Some(Arc::clone(&found.output))
    }

    fn holds(&self, context: &Context, result: &FileResult) -> bool {
        let is_same = |(path, contents): &(u64, u64)| {
            self.input.contents.get(path) == Some(contents) && !self.changed.contains(path)
        };
        let is_same_part = |(path, part, contents): &(u64, u64, Option<u64>)| {
            self.input.parts.get(part) == contents.as_ref() && !self.changed.contains(path)
        };
        let is_answer =
            |(question, answer): &(String, String)| self.capabilities.answer(question, &self.served) == answer;
        result.render == self.render
            && result.read.maps.iter().all(is_same)
            && result.read.parts.iter().all(is_same_part)
            && result.answers.iter().all(is_answer)
            && context.would_repeat(&result.effects)
    }

    /// Paths and contents of the maps that were read. `None` if the file changed one, or read one that was changed before.
    fn read_maps(&self, used: &InputUse) -> Option<InputRead> {
        if self.is_unknown || !used.changed.is_empty() {
            return None;
        }
        let paths = used
            .read
            .iter()
            .filter_map(|birth| self.input.paths.get(birth))
            .flatten();
        let read = paths.map(|path| {
            let contents = self.input.contents.get(path).filter(|_| !self.changed.contains(path))?;
            Some((*path, *contents))
        });
        let mut parts = Vec::new();
        for (birth, part) in &used.read_parts {
            for path in self.input.paths.get(birth).into_iter().flatten() {
                if self.changed.contains(path) {
                    return None;
                }
                let part = below(*path, *part);
                parts.push((*path, part, self.input.parts.get(&part).copied()));
            }
        }
        Some(InputRead {
            maps: read.collect::<Option<_>>()?,
            parts,
        })
    }

    fn note_changes(&mut self, used: &InputUse) {
        for birth in &used.changed {
            match self.input.paths.get(birth) {
                Some(paths) => self.changed.extend(paths),
                None => self.is_unknown = true,
            }
        }
    }
}

/// The path of what a map at `path` has.
fn below(path: u64, part: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (path, part).hash(&mut hasher);
    hasher.finish()
}

impl InputMaps {
    /// Adds a map and those below it. Maps within lists count as contents of the map that has the list.
    fn add(&mut self, map: &Map, path: u64) {
        let Some(entries) = &map.entries else { return };
        self.paths.entry(entries.birth()).or_default().push(path);
        let mut contents = DefaultHasher::new();
        let entries = entries.borrow();
        for (key, value) in entries.iter() {
            let part = below(path, hash_key(key));
            let mut hasher = DefaultHasher::new();
            match value {
                Value::Map(child) => {
                    (child.type_name(), child.entries.is_some()).hash(&mut hasher);
                    self.add(child, part);
                }
                value => self.hash(value, &mut hasher),
            }
            (part, hasher.finish()).hash(&mut contents);
            self.parts.insert(part, hasher.finish());
        }
        self.parts.insert(below(path, LEN), entries.len() as u64);
        self.contents.insert(path, contents.finish());
    }

    fn hash(&mut self, value: &Value, hasher: &mut DefaultHasher) {
        std::mem::discriminant(value).hash(hasher);
        match value {
            Value::Nil => {}
            Value::Bool(b) => b.hash(hasher),
            Value::Int(n) | Value::Int64(n) => n.hash(hasher),
            Value::Uint8(n) => n.hash(hasher),
            Value::Uint64(n) => n.hash(hasher),
            Value::Float64(n) => n.to_bits().hash(hasher),
            Value::String(text) => text.hash(hasher),
            Value::List(list) => {
                (list.type_name(), list.is_nil(), list.items().len()).hash(hasher);
                list.items().iter().for_each(|item| self.hash(item, hasher));
            }
            Value::Map(map) => {
                (map.type_name(), map.entries.is_some(), map.len()).hash(hasher);
                for (key, value) in map.entries.iter().flat_map(|entries| entries.borrow().clone()) {
                    key.hash(hasher);
                    self.hash(&value, hasher);
                }
            }
            Value::Object(_) => self.is_opaque = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::chart::{Chart, File};
    use crate::render::{Engine, Input, Kept, ReleaseObject, Rendered};

    const TEMPLATES: [(&str, &str); 9] = [
        ("_helpers.tpl", "{{ define \"size\" }}{{ .Values.a.size }}{{ end }}"),
        (
            "a.yaml",
            "a: {{ .Values.a.size }}{{ with .Values.a.more }}{{ .x }}{{ end }}",
        ),
        (
            "b.yaml",
            "b: {{ range $k, $v := .Values.b }}{{ $k }}={{ $v }},{{ end }}",
        ),
        (
            "c.yaml",
            "c: {{ include \"size\" . }}{{ len .Values.b }}{{ hasKey .Values.a \"new\" }}",
        ),
        // Files are rendered in reverse order: those above this one see the change.
        (
            "d.yaml",
            "{{ if .Values.set }}{{ $_ := set .Values.a \"size\" 7 }}{{ end }}d: {{ .Values.set }}",
        ),
        (
            "e.yaml",
            "e: {{ .Capabilities.APIVersions.Has \"a.test/v1\" }}{{ lookup \"v1\" \"Secret\" \"x\" \"y\" }}",
        ),
        (
            "f.yaml",
            "f: {{ toYaml .Values.list | quote }}\nsize: {{ .Values.a.size }}",
        ),
        (
            "g.yaml",
            "g: {{ randAlphaNum 9 }}{{ .Values.b.k }}{{ tpl .Values.text . }}",
        ),
        (
            "h.yaml",
            "{{ if .Values.fails }}{{ fail \"no\" }}{{ end }}h: {{ default 5 .Values.h }}",
        ),
    ];

    fn chart() -> Chart {
        let mut chart = Chart::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/memcached")).unwrap();
        let file = |(name, text): (&str, &str)| File {
            name: format!("templates/{name}"),
            data: text.into(),
        };
        chart.templates = TEMPLATES.map(file).to_vec();
        chart
    }

    fn shown(rendered: &Rendered) -> impl PartialEq + std::fmt::Debug {
        let objects = rendered.objects.iter();
        let texts: Vec<_> = objects
            .map(|object| (object.source.clone(), object.text.clone(), object.object().clone()))
            .collect();
        let lookups = (rendered.used_lookups.clone(), rendered.missing_lookups.clone());
        (
            texts,
            rendered.capability_queries.clone(),
            lookups,
            rendered.randomness.kept.clone(),
        )
    }

    #[test]
    fn renders_with_a_memo_equal_those_without() {
        let values = json!({
            "a": {"size": 1, "more": {"x": 1}}, "b": {"k": 1}, "list": [{"x": 1}], "set": false, "fails": false, "text": "t",
        });
        let changes = [
            json!({}),
            json!({"a": {"size": 2}}),
            json!({"a": {"more": {"x": 2}}}),
            json!({"a": {"more": null}}),
            json!({"a": {"new": 1}}),
            json!({"b": {"k": 2}}),
            json!({"b": {"l": 2}}),
            json!({"set": true}),
            json!({"set": true, "a": {"size": 3}}),
            json!({"list": [{"x": 2}]}),
            json!({"fails": true}),
            json!({"text": "{{ .Values.a.size }}"}),
            json!({"text": "{{ .Values.a.size }}", "a": {"size": 4}}),
            json!({"h": 0}),
            json!({"h": 1.0}),
        ];
        let (plain, with_memo) = (Engine::new(chart()).unwrap(), Engine::new(chart()).unwrap().with_memo());
        let mut kept = Kept::default();
        for change in changes.iter().chain(&changes) {
            let mut all = values.as_object().unwrap().clone();
            crate::chart::values::merge_maps(&mut all, change.as_object().unwrap().clone());
            let input = Input {
                kept: Some(&kept),
                read_objects: true,
                skip_schema: true,
                ..Input::new(ReleaseObject::install("web", "shop"), all.into())
            };
            // The first render draws.
            let drawn = plain.render_with(&input).map(|rendered| rendered.randomness.kept);
            let now = drawn.map_or(kept.clone(), |drawn| drawn.and(&kept));
            let input = Input {
                kept: Some(&now),
                ..input
            };
            let [expected, found] = [&plain, &with_memo].map(|engine| engine.render_with(&input));
            match (expected, found) {
                (Ok(expected), Ok(found)) => assert_eq!(shown(&found), shown(&expected), "{change}"),
                (Err(expected), Err(found)) => assert_eq!(found.to_string(), expected.to_string(), "{change}"),
                (expected, found) => panic!("{change}: {} {}", expected.is_ok(), found.is_ok()),
            }
            kept = now;
        }
    }

    #[test]
    fn a_file_is_executed_only_if_what_it_reads_is_changed() {
        let engine = Engine::new(chart()).unwrap().with_memo();
        for number in [1, 1, 2] {
            let values = json!({"a": {"size": number}, "b": {"k": 1}, "text": ""});
            let kept = Kept::default();
            let input = Input {
                kept: Some(&kept),
                skip_schema: true,
                ..Input::new(ReleaseObject::install("web", "shop"), values)
            };
            engine.render_with(&input).unwrap();
        }
        let known = engine.memo.as_ref().unwrap().lock();
        let results = |file: &str| known[&format!("memcached/templates/{file}")].len();
        assert_eq!(
            (
                results("a.yaml"),
                results("b.yaml"),
                results("c.yaml"),
                results("e.yaml")
            ),
            (2, 1, 2, 1)
        );
        // Nothing was kept of its random result.
        assert_eq!(results("g.yaml"), 3);
    }
}
