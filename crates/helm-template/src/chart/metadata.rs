//! `Chart.yaml`. Facts: Helm's `pkg/chart/v2/{metadata,dependency}.go`, read as `encoding/json` reads a struct: keys
//! match without regard to case, unknown ones are skipped, keys that match the same field all count, in their order.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::{Error, version};
use crate::sprig::date_parse;
use go_template::quote::quote_go;
use go_template::unicode::is_print;
use go_yaml::{self as yaml, GoType};

/// What `Chart.yaml` says. Absent fields are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    pub name: String,
    pub home: String,
    pub sources: Vec<String>,
    pub version: String,
    pub description: String,
    pub keywords: Vec<String>,
    pub maintainers: Vec<Maintainer>,
    pub icon: String,
    pub api_version: String,
    pub condition: String,
    pub tags: String,
    pub app_version: String,
    pub deprecated: bool,
    pub annotations: Vec<(String, String)>,
    /// Whether there are `annotations`, be it none.
    pub has_annotations: bool,
    pub kube_version: String,
    pub dependencies: Vec<Dependency>,
    /// Whether there is a list of `dependencies`, be it empty.
    pub has_dependencies: bool,
    /// `type`: empty, `application` or `library`.
    pub kind: String,
}

/// One entry of `maintainers`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Maintainer {
    pub name: String,
    pub email: String,
    pub url: String,
    is_null: bool,
}

/// One entry of `dependencies`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dependency {
    pub name: String,
    pub version: String,
    pub repository: String,
    pub condition: String,
    pub tags: Vec<String>,
    pub enabled: bool,
    pub import_values: Vec<Value>,
    pub alias: String,
    is_null: bool,
}

impl Metadata {
    /// Takes over what `document` (a parsed `Chart.yaml` or `requirements.yaml`) sets; the rest stays.
    ///
    /// # Errors
    /// A field of the wrong type, in the words of Go's JSON decoder.
    pub(super) fn apply(&mut self, document: &Value) -> Result<(), Error> {
        let Some(fields) = fields(document, Place::top("v2.Metadata"))? else {
            return Ok(());
        };
        for (key, value) in fields {
            let at = Place {
                owner: "Metadata",
                path: yaml::field(key, &METADATA),
            };
            match at.path {
                "name" => at.text(value, &mut self.name)?,
                "home" => at.text(value, &mut self.home)?,
                "sources" => at.texts(value, &mut self.sources)?,
                "version" => at.text(value, &mut self.version)?,
                "description" => at.text(value, &mut self.description)?,
                "keywords" => at.texts(value, &mut self.keywords)?,
                "maintainers" => at.items(value, "[]*v2.Maintainer", &mut self.maintainers, |item, maintainer| {
                    maintainer.read(item, at)
                })?,
                "icon" => at.text(value, &mut self.icon)?,
                "apiVersion" => at.text(value, &mut self.api_version)?,
                "condition" => at.text(value, &mut self.condition)?,
                "tags" => at.text(value, &mut self.tags)?,
                "appVersion" => at.text(value, &mut self.app_version)?,
                "deprecated" => at.bool(value, &mut self.deprecated)?,
                "annotations" => {
                    self.has_annotations = !value.is_null();
                    at.string_map(value, &mut self.annotations)?;
                }
                "kubeVersion" => at.text(value, &mut self.kube_version)?,
                "dependencies" => {
                    self.has_dependencies = !value.is_null();
                    at.items(value, "[]*v2.Dependency", &mut self.dependencies, |item, dependency| {
                        dependency.read(item, at)
                    })?;
                }
                "type" => at.text(value, &mut self.kind)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Cleans the text fields and checks what Helm requires of them.
    ///
    /// # Errors
    /// [`Error::Metadata`], naming the field.
    pub(super) fn validate(&mut self) -> Result<(), Error> {
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ] {
            sanitize(text);
        }
        self.sources.iter_mut().chain(&mut self.keywords).for_each(sanitize);
        let refuse = |text: String| Err(Error::Metadata(text));
        for (field, text) in [("apiVersion", &self.api_version), ("name", &self.name)] {
            if text.is_empty() {
                return refuse(format!("chart.metadata.{field} is required"));
            }
        }
        if matches!(self.name.as_str(), "." | "..") {
            return refuse(format!("chart.metadata.name {} is not allowed", quote_go(&self.name)));
        }
        // The base of `/` is `/` itself.
        if self.name.contains('/') && self.name != "/" {
            return refuse(format!("chart.metadata.name {} is invalid", quote_go(&self.name)));
        }
        if self.version.is_empty() {
            return refuse("chart.metadata.version is required".to_owned());
        }
        if !version::is_valid(&self.version) {
            return refuse(format!("chart.metadata.version {} is invalid", quote_go(&self.version)));
        }
        if !matches!(self.kind.as_str(), "" | "application" | "library") {
            return refuse("chart.metadata.type must be application or library".to_owned());
        }
        for maintainer in &mut self.maintainers {
            if maintainer.is_null {
                return refuse("maintainers must not contain empty or null nodes".to_owned());
            }
            let texts = [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url];
            texts.into_iter().for_each(sanitize);
        }
        let mut seen = HashSet::new();
        for dependency in &mut self.dependencies {
            if dependency.is_null {
                return refuse("dependencies must not contain empty or null nodes".to_owned());
            }
            dependency.validate()?;
            let key = dependency.effective_name();
            if !seen.insert(key) {
                return refuse(format!("more than one dependency with name or alias {}", quote_go(key)));
            }
        }
        Ok(())
    }
}

impl Maintainer {
    fn read(&mut self, item: &Value, parent: Place<'_>) -> Result<(), Error> {
        let set = |maintainer: &mut Self, name: &str, at: Place<'_>, value: &Value| match name {
            "name" => at.text(value, &mut maintainer.name),
            "email" => at.text(value, &mut maintainer.email),
            "url" => at.text(value, &mut maintainer.url),
            _ => Ok(()),
        };
        self.is_null = parent.read_item(item, "Maintainer", &MAINTAINER, self, set)?;
        Ok(())
    }
}

impl Dependency {
    /// The name under which the dependency's values and templates stand: the alias, if there is one.
    pub fn effective_name(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }

    fn read(&mut self, item: &Value, parent: Place<'_>) -> Result<(), Error> {
        let set = |dependency: &mut Self, name: &str, at: Place<'_>, value: &Value| {
            match name {
                "name" => at.text(value, &mut dependency.name)?,
                "version" => at.text(value, &mut dependency.version)?,
                "repository" => at.text(value, &mut dependency.repository)?,
                "condition" => at.text(value, &mut dependency.condition)?,
                "tags" => at.texts(value, &mut dependency.tags)?,
                "enabled" => at.bool(value, &mut dependency.enabled)?,
                "import-values" => dependency.import_values = at.list(value, "[]interface {}")?.to_vec(),
                "alias" => at.text(value, &mut dependency.alias)?,
                _ => {}
            }
            Ok(())
        };
        self.is_null = parent.read_item(item, "Dependency", &DEPENDENCY, self, set)?;
        Ok(())
    }

    fn validate(&mut self) -> Result<(), Error> {
        let texts = [
            &mut self.name,
            &mut self.version,
            &mut self.repository,
            &mut self.condition,
        ];
        texts.into_iter().chain(&mut self.tags).for_each(sanitize);
        if self
            .alias
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        {
            return Ok(());
        }
        Err(Error::Metadata(format!(
            "dependency {} has disallowed characters in the alias",
            quote_go(&self.name)
        )))
    }
}

// === Decoding ===

/// `chartBase`, of which the loader reads which version of the format a chart has.
pub(super) const CHART_BASE: GoType = GoType::Struct(&[("apiVersion", GoType::Text)]);
pub(super) const CHART: GoType = GoType::Struct(&METADATA);
pub(super) const LOCK_FILE: GoType = GoType::Struct(&LOCK);

const TEXTS: GoType = GoType::List(&GoType::Text);

const METADATA: [(&str, GoType); 17] = [
    ("name", GoType::Text),
    ("home", GoType::Text),
    ("sources", TEXTS),
    ("version", GoType::Text),
    ("description", GoType::Text),
    ("keywords", TEXTS),
    ("maintainers", GoType::List(&GoType::Struct(&MAINTAINER))),
    ("icon", GoType::Text),
    ("apiVersion", GoType::Text),
    ("condition", GoType::Text),
    ("tags", GoType::Text),
    ("appVersion", GoType::Text),
    ("deprecated", GoType::Any),
    ("annotations", GoType::Map(&GoType::Text)),
    ("kubeVersion", GoType::Text),
    ("dependencies", GoType::List(&GoType::Struct(&DEPENDENCY))),
    ("type", GoType::Text),
];

const MAINTAINER: [(&str, GoType); 3] = [("name", GoType::Text), ("email", GoType::Text), ("url", GoType::Text)];

const DEPENDENCY: [(&str, GoType); 8] = [
    ("name", GoType::Text),
    ("version", GoType::Text),
    ("repository", GoType::Text),
    ("condition", GoType::Text),
    ("tags", TEXTS),
    ("enabled", GoType::Any),
    ("import-values", GoType::Any),
    ("alias", GoType::Text),
];

const LOCK: [(&str, GoType); 3] = [
    ("generated", GoType::Any),
    ("digest", GoType::Text),
    ("dependencies", GoType::List(&GoType::Struct(&DEPENDENCY))),
];

/// Where a value stands, for error texts.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The struct that has the field.
    owner: &'a str,
    /// The names of the fields on the way to the value, from the outermost struct on.
    path: &'a str,
}

/// A place where a struct of type `wanted` is expected.
struct StructPlace<'a> {
    at: Option<Place<'a>>,
    wanted: &'a str,
}

impl<'a> Place<'a> {
    /// The document itself.
    fn top(wanted: &'a str) -> StructPlace<'a> {
        StructPlace { at: None, wanted }
    }

    /// An item of the list here.
    fn item(self, wanted: &'a str) -> StructPlace<'a> {
        StructPlace { at: Some(self), wanted }
    }
}

impl Place<'_> {
    /// Null leaves the text as it is.
    fn text(&self, value: &Value, target: &mut String) -> Result<(), Error> {
        match value {
            Value::String(text) => target.clone_from(text),
            Value::Null => {}
            other => return Err(self.mismatch(other, "string")),
        }
        Ok(())
    }

    fn texts(&self, value: &Value, target: &mut Vec<String>) -> Result<(), Error> {
        self.items(value, "[]string", target, |item, text| self.text(item, text))
    }

    /// Reads the items over those that an earlier key, or file, has set.
    fn items<T: Default>(
        &self,
        value: &Value,
        wanted: &str,
        target: &mut Vec<T>,
        read: impl Fn(&Value, &mut T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let items = self.list(value, wanted)?;
        target.resize_with(items.len(), T::default);
        items
            .iter()
            .zip(target)
            .try_for_each(|(item, target)| read(item, target))
    }

    /// Reads an item of the list here, a struct of the type `owner`, with `set` for each of its fields that is there. Null
    /// empties it; tells whether it is that.
    fn read_item<T: Default>(
        self,
        item: &Value,
        owner: &str,
        known: &[(&'static str, GoType)],
        target: &mut T,
        set: impl Fn(&mut T, &str, Place<'_>, &Value) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let Some(fields) = fields(item, self.item(&format!("v2.{owner}")))? else {
            *target = T::default();
            return Ok(true);
        };
        for (key, value) in fields {
            let name = yaml::field(key, known);
            let path = &format!("{}.{name}", self.path);
            set(target, name, Place { owner, path }, value)?;
        }
        Ok(false)
    }

    fn bool(&self, value: &Value, target: &mut bool) -> Result<(), Error> {
        match value {
            Value::Bool(b) => *target = *b,
            Value::Null => {}
            other => return Err(self.mismatch(other, "bool")),
        }
        Ok(())
    }

    fn list<'v>(&self, value: &'v Value, wanted: &str) -> Result<&'v [Value], Error> {
        match value {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(&[]),
            other => Err(self.mismatch(other, wanted)),
        }
    }

    /// Adds to the entries that there are, which are sorted.
    fn string_map(&self, value: &Value, target: &mut Vec<(String, String)>) -> Result<(), Error> {
        let map = match value {
            Value::Null => {
                target.clear();
                return Ok(());
            }
            Value::Object(map) => map,
            other => return Err(self.mismatch(other, "map[string]string")),
        };
        let mut entries: BTreeMap<String, String> = target.drain(..).collect();
        for (key, value) in map {
            let mut text = String::new();
            self.text(value, &mut text)?;
            entries.insert(key.clone(), text);
        }
        target.extend(entries);
        Ok(())
    }

    fn mismatch(&self, value: &Value, wanted: &str) -> Error {
        Error::Chart(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go struct field {}.{} of \
             type {wanted}",
            json_kind(value),
            self.owner,
            self.path
        ))
    }
}

/// The entries of an object; `None` for null.
fn fields<'v>(value: &'v Value, place: StructPlace<'_>) -> Result<Option<&'v Map<String, Value>>, Error> {
    match (value, place.at) {
        (Value::Object(map), _) => Ok(Some(map)),
        (Value::Null, _) => Ok(None),
        (other, Some(at)) => Err(at.mismatch(other, place.wanted)),
        (other, None) => Err(Error::Chart(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type {}",
            json_kind(other),
            place.wanted
        ))),
    }
}

/// The `apiVersion` of a root's `Chart.yaml`, which Helm reads before all else; empty if there is none.
///
/// # Errors
/// A document or field of the wrong type.
pub(super) fn api_version(document: &Value) -> Result<String, Error> {
    let mut version = String::new();
    for (key, value) in fields(document, Place::top("loader.chartBase"))?.into_iter().flatten() {
        let at = Place {
            owner: "chartBase",
            path: "apiVersion",
        };
        if yaml::field(key, &METADATA) == at.path {
            at.text(value, &mut version)?;
        }
    }
    Ok(version)
}

/// Checks a lock file, which only the commands that fetch dependencies make use of.
///
/// # Errors
/// A field of the wrong type, in the words of Go's JSON decoder.
pub(super) fn check_lock(document: &Value) -> Result<(), Error> {
    for (key, value) in fields(document, Place::top("v2.Lock"))?.into_iter().flatten() {
        let at = Place {
            owner: "Lock",
            path: yaml::field(key, &LOCK),
        };
        match at.path {
            "digest" => at.text(value, &mut String::new())?,
            "dependencies" => {
                for item in at.list(value, "[]*v2.Dependency")? {
                    if !item.is_null() {
                        Dependency::default().read(item, at)?;
                    }
                }
            }
            "generated" => check_time(value)?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks a field of type `time.Time`.
///
/// # Errors
/// What is no time, in the words of Go.
pub fn check_time(value: &Value) -> Result<(), Error> {
    let problem = match value {
        Value::Null => return Ok(()),
        Value::String(text) => match date_parse::check(b"2006-01-02T15:04:05Z07:00", text.as_bytes()) {
            Ok(()) => return Ok(()),
            Err(problem) => problem,
        },
        _ => "Time.UnmarshalJSON: input is not a JSON string".to_owned(),
    };
    Err(Error::Chart(format!(
        "error unmarshaling JSON: while decoding JSON: {problem}"
    )))
}

/// What Go's `encoding/json` calls the kind of a JSON value in its errors.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Helm's clean-up of metadata: any white space becomes a space, what doesn't print goes.
fn sanitize(text: &mut String) {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return;
    }
    let kept = |c: char| {
        if c.is_whitespace() {
            Some(' ')
        } else {
            is_print(c).then_some(c)
        }
    };
    *text = text.chars().filter_map(kept).collect();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_match_without_case_and_types_are_checked() {
        let mut metadata = Metadata::default();
        metadata
            .apply(&json!({"NAME": "x", "appversion": "1.5", "other": []}))
            .unwrap();
        assert_eq!((metadata.name.as_str(), metadata.app_version.as_str()), ("x", "1.5"));
        let error = metadata.apply(&json!({"name": ["x"]})).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("cannot unmarshal array into Go struct field Metadata.name of type string")
        );
    }

    #[test]
    fn validation_names_the_field() {
        let base = json!({"apiVersion": "v2", "name": "x", "version": "1.0.0"});
        let table = [
            (
                json!({"name": ".."}),
                "validation: chart.metadata.name \"..\" is not allowed",
            ),
            (
                json!({"name": "a/b"}),
                "validation: chart.metadata.name \"a/b\" is invalid",
            ),
            (
                json!({"type": "x"}),
                "validation: chart.metadata.type must be application or library",
            ),
            (
                json!({"dependencies": [{"name": "d"}, {"name": "d"}]}),
                "validation: more than one dependency with name or alias \"d\"",
            ),
            (
                json!({"dependencies": [{"name": "d", "alias": "a.b"}]}),
                "validation: dependency \"d\" has disallowed characters in the alias",
            ),
        ];
        for (change, want) in table {
            let mut metadata = Metadata::default();
            metadata.apply(&base).unwrap();
            metadata.apply(&change).unwrap();
            assert_eq!(metadata.validate().unwrap_err().to_string(), want);
        }
    }
}
