//! Reads a case file strictly. Reports all errors, with lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use go_yaml::{Data, Node};
use serde_json::{Map, Value};

use super::bounds::Bounds;
use super::case::{CaseFile, CaseInput, CaseStep, Check, Expectation, ExpectedChange, VerifyCase, What, World};
use super::matching::Expected;
use super::refer::{Reference, ReferencePath};
use chartwright_core::identity::GroupKind;
use chartwright_watches::{FileErrors, Findings, MapFields, describe_node, node_to_json, suggestion};
use helm_template::render::{Capabilities, KubeVersion};

/// Reasons for which a release stops, as the condition `Ready` has them; and one for a custom resource that the API server
/// refuses.
pub const REASONS: [&str; 17] = [
    "ChartInvalid",
    "Collision",
    "CustomResourceInvalid",
    "HookFailed",
    "Immutable",
    "InstallFailed",
    "KindUnknown",
    "LookupFailed",
    "ManifestInvalid",
    "ObjectInvalid",
    "PatchFailed",
    "Refused",
    "RenderFailed",
    "RolledBack",
    "Suspended",
    "UpgradeFailed",
    "ValuesInvalid",
];

const LISTS: [(&str, What); 6] = [
    ("created", What::Created),
    ("recreated", What::Recreated),
    ("pruned", What::Pruned),
    ("kept", What::Kept),
    ("restarts", What::Restarts),
    ("unchanged", What::Unchanged),
];

/// A file by its path, from the folder of the case file on.
struct CaseReader<'a> {
    folder: &'a Path,
    bounds: &'a Bounds,
    report: Findings<'a>,
}

/// The keys of `expect`.
const EXPECTATIONS: [&str; 17] = [
    "objects",
    "contains",
    "lacks",
    "fields",
    "notes",
    "warnings",
    "hooks",
    "refused",
    "error",
    "created",
    "changed",
    "recreated",
    "unchanged",
    "pruned",
    "kept",
    "restarts",
    "snapshot",
];

impl CaseFile {
    /// Reads the text of a file in a folder; `name` is what errors call it. Paths in it stay within the bounds.
    ///
    /// # FileErrors
    /// All that is wrong with it, by line.
    pub fn parse(name: &str, folder: &Path, bounds: &Bounds, text: &[u8]) -> Result<Self, FileErrors> {
        let mut reader = CaseReader {
            folder,
            bounds,
            report: Findings::new(name),
        };
        let file = match go_yaml::parse(text) {
            Ok(root) => reader.file(&root),
            Err(error) => {
                reader
                    .report
                    .error_at(error.line().unwrap_or_default(), 0, error.message());
                None
            }
        };
        reader.report.finish(file.unwrap_or_default()).map(|(file, _)| file)
    }
}

impl CaseReader<'_> {
    fn file(&mut self, root: &Node) -> Option<CaseFile> {
        const KNOWN: [&str; 5] = ["chart", "watch", "lookups", "capabilities", "cases"];
        const EMPTY: &str = "the file holds no cases: `cases:` is a list of them";
        if matches!(root.data, Data::Null) {
            self.report.error_at(0, 0, EMPTY);
            return None;
        }
        let fields = MapFields::open(root, "a case file", &KNOWN, &mut self.report)?;
        let mut cases: Vec<VerifyCase> = Vec::new();
        let nodes = self.report.read_list(&fields, "cases");
        if nodes.is_empty()
            && fields
                .get("cases")
                .is_none_or(|node| matches!(node.data, Data::List(_)))
        {
            self.report.error(root, EMPTY);
        }
        for node in nodes {
            let Some(case) = self.case(node) else { continue };
            if let Some(other) = cases.iter().find(|other| other.name == case.name) {
                let message = format!("there is a case {:?} on line {} already", case.name, other.line);
                self.report.error(node, message);
            }
            cases.push(case);
        }
        Some(CaseFile {
            chart: self.path(&fields, "chart"),
            world: self.world(&fields),
            cases,
        })
    }

    fn case(&mut self, node: &Node) -> Option<VerifyCase> {
        const KNOWN: [&str; 9] = [
            "name",
            "cr",
            "metadata",
            "spec",
            "watch",
            "lookups",
            "capabilities",
            "expect",
            "then",
        ];
        let fields = MapFields::open(node, "a case", &KNOWN, &mut self.report)?;
        let name = match self.report.read_string(&fields, "name") {
            Some((name, _)) if !name.trim().is_empty() => name.trim().to_owned(),
            _ => {
                self.report.error(node, "`name` is missing: say what the case shows");
                return None;
            }
        };
        let mut steps = vec![self.step(node, &fields)];
        for node in self.report.read_list(&fields, "then") {
            const KNOWN: [&str; 7] = [
                "chart",
                "metadata",
                "spec",
                "watch",
                "lookups",
                "capabilities",
                "expect",
            ];
            if let Some(fields) = MapFields::open(node, "a step of `then`", &KNOWN, &mut self.report) {
                let chart = self.path(&fields, "chart");
                let step = self.step(node, &fields);
                steps.push(CaseStep { chart, ..step });
            }
        }
        Some(VerifyCase {
            name,
            line: node.line,
            cr: self.path(&fields, "cr"),
            steps,
        })
    }

    fn step(&mut self, node: &Node, fields: &MapFields<'_>) -> CaseStep {
        CaseStep {
            line: node.line,
            chart: None,
            metadata: self.map(fields, "metadata").map(Value::Object),
            spec: fields.get("spec").map(|node| node_to_json(node, &mut self.report)),
            world: self.world(fields),
            expect: self.expect(fields),
        }
    }

    fn path(&mut self, fields: &MapFields<'_>, name: &str) -> Option<PathBuf> {
        let (text, node) = self.report.read_string(fields, name)?;
        let path = self.folder.join(text);
        if let Err(error) = self.bounds.check(&path) {
            self.report.error(node, format!("`{name}`: {error}"));
        } else if !path.exists() {
            let message = format!("`{name}`: there is no {}", path.display());
            self.report.error(node, message);
        }
        Some(path)
    }

    fn map(&mut self, fields: &MapFields<'_>, name: &str) -> Option<Map<String, Value>> {
        let node = fields.get(name)?;
        match node_to_json(node, &mut self.report) {
            Value::Object(map) => Some(map),
            _ => {
                self.report.type_error(node, name, "a map");
                None
            }
        }
    }

    fn world(&mut self, fields: &MapFields<'_>) -> World {
        let lookups = fields.get("lookups").is_some().then(|| {
            let nodes = self.report.read_list(fields, "lookups").iter();
            nodes.filter_map(|node| self.given(node)).collect()
        });
        World {
            watch: self.map(fields, "watch"),
            lookups,
            capabilities: self.capabilities(fields),
        }
    }

    fn given(&mut self, node: &Node) -> Option<CaseInput> {
        if let Data::String(text) = &node.data {
            let path = self.folder.join(text);
            if let Err(error) = self.bounds.check(&path) {
                self.report.error(node, format!("`lookups`: {error}"));
            } else if !path.is_file() {
                self.report.error(node, format!("there is no file {}", path.display()));
            }
            return Some(CaseInput::File(path));
        }
        let object = node_to_json(node, &mut self.report);
        let is_object =
            GroupKind::of(&object).is_some() && object.pointer("/metadata/name").is_some_and(Value::is_string);
        if !is_object {
            let message = "an object of `lookups` needs apiVersion, kind and metadata.name; a text is the path of a file with objects";
            self.report.error(node, message);
        }
        Some(CaseInput::Object(object))
    }

    fn capabilities(&mut self, fields: &MapFields<'_>) -> Option<Capabilities> {
        const KNOWN: [&str; 2] = ["kubeVersion", "apiVersions"];
        let node = fields.get("capabilities")?;
        let fields = MapFields::open(node, "`capabilities`", &KNOWN, &mut self.report)?;
        let mut capabilities = Capabilities::default();
        // Not as a number, to which 1.30 is 1.3.
        if let Some((text, node)) = self.report.read_string(&fields, "kubeVersion") {
            match KubeVersion::parse(text) {
                Ok(version) => capabilities.kube_version = version,
                Err(error) => self.report.error(node, format!("`kubeVersion`: {error}")),
            }
        }
        let more = self
            .report
            .read_strings(&fields, "apiVersions", |text| match text.trim() {
                "" => Err("an API version is empty".to_owned()),
                _ => Ok(()),
            });
        Arc::make_mut(&mut capabilities.api_versions).extend(more);
        Some(capabilities)
    }

    fn expect(&mut self, fields: &MapFields<'_>) -> Vec<Expectation> {
        let Some(node) = fields.get("expect") else {
            return Vec::new();
        };
        let Some(fields) = MapFields::open(node, "`expect`", &EXPECTATIONS, &mut self.report) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut add = |node: &Node, check: Check| {
            found.push(Expectation { line: node.line, check });
        };
        type OfList = fn(Vec<Reference>) -> Check;
        let lists: [(&str, OfList); 3] = [
            ("objects", Check::Objects),
            ("contains", Check::Contains),
            ("lacks", Check::Lacks),
        ];
        for (name, check) in lists {
            if let Some(node) = fields.get(name) {
                add(node, check(self.references(name, node)));
            }
        }
        for (name, what) in LISTS {
            if let Some(node) = fields.get(name) {
                add(node, Check::Members(what, self.references(name, node)));
            }
        }
        if let Some(node) = fields.get("changed") {
            add(node, Check::Changed(self.changed(node)));
        }
        if let Some(node) = fields.get("hooks") {
            let hooks = self.entries(node, "hooks").into_iter();
            let hooks = hooks.map(|(event, _, node)| (event.to_owned(), self.references("hooks", node)));
            add(node, Check::Hooks(hooks.collect()));
        }
        if let Some(node) = fields.get("fields") {
            for (object, key, node) in self.entries(node, "fields") {
                let Some(reference) = self.reference(object, key) else {
                    continue;
                };
                for (path, key, node) in self.entries(node, "fields") {
                    if let Some((path, expected)) = self.field(path, key, node) {
                        add(key, Check::Field(reference.clone(), path, expected));
                    }
                }
            }
        }
        type OfText = fn(String) -> Check;
        let texts: [(&str, OfText); 2] = [("notes", Check::Notes), ("warnings", Check::Warning)];
        for (name, check) in texts {
            for (text, node) in self.texts(&fields, name) {
                add(node, check(text));
            }
        }
        for name in ["refused", "error"] {
            if let Some(node) = fields.get(name)
                && let Some(check) = self.stop(name, node)
            {
                add(node, check);
            }
        }
        if self.report.read_bool(&fields, "snapshot", false)
            && let Some(node) = fields.get("snapshot")
        {
            add(node, Check::Snapshot);
        }
        found.sort_by_key(|expectation| expectation.line);
        found
    }

    fn field(&mut self, path: &str, key: &Node, node: &Node) -> Option<(ReferencePath, Expected)> {
        let parsed = ReferencePath::parse(path)
            .map_err(|error| self.report.error(key, error))
            .ok();
        let value = node_to_json(node, &mut self.report);
        let expected = Expected::of(value).map_err(|error| self.report.error(node, error)).ok();
        Some((parsed?, expected?))
    }

    fn changed(&mut self, node: &Node) -> Vec<ExpectedChange> {
        if matches!(node.data, Data::List(_)) {
            let all = self.references("changed", node).into_iter();
            return all.map(|reference| (reference, None)).collect();
        }
        let mut found = Vec::new();
        for (object, key, node) in self.entries(node, "changed") {
            let Some(reference) = self.reference(object, key) else {
                continue;
            };
            if matches!(node.data, Data::Null) {
                found.push((reference, None));
                continue;
            }
            let texts = self.items(node, "changed");
            let mut paths = Vec::new();
            for (text, node) in texts {
                match ReferencePath::parse(&text) {
                    Ok(path) => paths.push(path),
                    Err(error) => self.report.error(node, error),
                }
            }
            found.push((reference, Some(paths)));
        }
        found
    }

    /// `error: text`, `refused: text`, or `refused: {reason, text}`.
    fn stop(&mut self, name: &'static str, node: &Node) -> Option<Check> {
        const KNOWN: [&str; 2] = ["reason", "text"];
        match &node.data {
            Data::String(text) => return Some(Check::Stops(None, Some(text.clone()))),
            Data::Map(_) if name == "refused" => {}
            _ => {
                let expected = if name == "error" {
                    "a part of its text"
                } else {
                    "a text, or reason and text"
                };
                self.report.type_error(node, name, expected);
                return None;
            }
        }
        let fields = MapFields::open(node, "`refused`", &KNOWN, &mut self.report)?;
        let reason = self.report.read_string(&fields, "reason");
        if let Some((reason, node)) = reason
            && !REASONS.contains(&reason)
        {
            let hint = match suggestion(reason, REASONS) {
                Some(best) => format!("did you mean {best}?"),
                None => format!("there are {}", REASONS.join(", ")),
            };
            self.report
                .error(node, format!("there is no reason {reason:?}: {hint}"));
        }
        let text = self.report.read_string(&fields, "text");
        Some(Check::Stops(
            reason.map(|(reason, _)| reason.to_owned()),
            text.map(|(text, _)| text.to_owned()),
        ))
    }

    fn reference(&mut self, text: &str, at: &Node) -> Option<Reference> {
        Reference::parse(text)
            .map_err(|error| self.report.error(at, error))
            .ok()
    }

    fn references(&mut self, name: &str, node: &Node) -> Vec<Reference> {
        let texts = self.items(node, name).into_iter();
        texts.filter_map(|(text, node)| self.reference(&text, node)).collect()
    }

    /// A text, or a list of texts.
    fn texts<'n>(&mut self, fields: &MapFields<'n>, name: &str) -> Vec<(String, &'n Node)> {
        match fields.get(name) {
            None => Vec::new(),
            Some(node) => match &node.data {
                Data::String(text) => vec![(text.clone(), node)],
                _ => self.items(node, name),
            },
        }
    }

    /// The texts of a list.
    fn items<'n>(&mut self, node: &'n Node, name: &str) -> Vec<(String, &'n Node)> {
        let Data::List(items) = &node.data else {
            self.report.type_error(node, name, "a list of texts");
            return Vec::new();
        };
        let mut found = Vec::new();
        for item in items {
            match &item.data {
                Data::String(text) => found.push((text.clone(), item)),
                _ => self.report.type_error(item, name, "a list of texts"),
            }
        }
        found
    }

    /// The entries of a mapping: key, its node, and the value.
    fn entries<'n>(&mut self, node: &'n Node, name: &str) -> Vec<(&'n str, &'n Node, &'n Node)> {
        let Data::Map(entries) = &node.data else {
            let found = describe_node(&node.data);
            self.report.error(node, format!("`{name}` must be a map, not {found}"));
            return Vec::new();
        };
        let mut found: Vec<(&str, &Node, &Node)> = Vec::new();
        for (key, value) in entries {
            match &key.data {
                Data::String(text) if found.iter().any(|(other, ..)| other == text) => {
                    self.report.error(key, format!("{text:?} is there twice; remove one"));
                }
                Data::String(text) => found.push((text, key, value)),
                other => {
                    let message = format!("keys of `{name}` are texts, not {}", describe_node(other));
                    self.report.error(key, message);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let parsed = CaseFile::parse(
            "c.yaml",
            Path::new("."),
            &Bounds::of(Path::new("c.yaml"), None),
            text.as_bytes(),
        );
        parsed.map(|file| format!("{file:?}")).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_line() {
        for (text, expected) in [
            ("", "c.yaml: the file holds no cases: `cases:` is a list of them"),
            ("cases: []", "c.yaml:1:1: the file holds no cases"),
            ("cases: {}", "c.yaml:1:8: `cases` must be a list, not a map"),
            ("- name: a", "c.yaml:1:1: a case file must be a map, not a list"),
            ("cases: [", "c.yaml:1: "),
            ("case: []", "c.yaml:1:1: the file holds no cases"),
            ("cases:\n- spec: {}", "c.yaml:2:3: `name` is missing"),
            (
                "cases:\n- name: a\n  sepc: {}",
                "c.yaml:3:3: unknown key `sepc`: did you mean `spec`?",
            ),
            (
                "cases:\n- name: a\n- name: a",
                "c.yaml:3:3: there is a case \"a\" on line 2 already",
            ),
            (
                "cases:\n- {name: a, cr: nowhere.yaml}",
                "`cr`: there is no ./nowhere.yaml",
            ),
            (
                "cases:\n- {name: a, lookups: [{kind: A}]}",
                "an object of `lookups` needs apiVersion",
            ),
            ("cases:\n- {name: a, lookups: [x.yaml]}", "there is no file ./x.yaml"),
            (
                "cases:\n- {name: a, capabilities: {kubeVersion: new}}",
                "`kubeVersion`: ",
            ),
            (
                "cases:\n- {name: a, capabilities: {kubeVersion: 1.30}}",
                "`kubeVersion` must be a string, not the number",
            ),
            (
                "cases:\n- {name: a, expect: {object: []}}",
                "unknown key `object`: did you mean `objects`?",
            ),
            (
                "cases:\n- {name: a, expect: {objects: [1]}}",
                "`objects` must be a list of texts, not the number 1",
            ),
            ("cases:\n- {name: a, expect: {objects: ['']}}", "names no object"),
            (
                "cases:\n- {name: a, expect: {fields: {Service a: {'a[': 1}}}}",
                "has a `[`",
            ),
            (
                "cases:\n- {name: a, expect: {fields: {Service a: {a: {$matsches: 1}}}}}",
                "did you mean `$matches`?",
            ),
            (
                "cases:\n- {name: a, expect: {fields: {Service a: 1}}}",
                "`fields` must be a map, not the number 1",
            ),
            (
                "cases:\n- {name: a, expect: {refused: {reason: Refuse}}}",
                "no reason \"Refuse\": did you mean Refused?",
            ),
            (
                "cases:\n- {name: a, expect: {error: [x]}}",
                "`error` must be a part of its text, not a list",
            ),
            (
                "cases:\n- {name: a, expect: {snapshot: yes please}}",
                "`snapshot` must be true or false",
            ),
            ("cases:\n- {name: a, then: [{cr: x}]}", "unknown key `cr`"),
        ] {
            let error = wrong(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
