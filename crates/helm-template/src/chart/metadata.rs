//! `Chart.yaml`. Facts: Helm's `pkg/chart/v2/{metadata,dependency}.go`, read as `encoding/json` reads a struct: keys
//! match without regard to case, unknown ones are skipped.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::Error;
use crate::sprig::semver::Version;
use go_template::quote::quote_go;
use go_template::unicode::is_print;
use go_yaml as yaml;

/// The content of `Chart.yaml`. Absent fields are empty.
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
    pub annotations: Option<BTreeMap<String, String>>,
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
}

impl Metadata {
    /// Reads the entries of a `Chart.yaml`.
    ///
    /// # Errors
    /// A field of the wrong type, with the message of Go's JSON decoder.
    pub(super) fn read(document: &Map<String, Value>) -> Result<Self, Error> {
        let at = StructFields::new(document, "Metadata", "");
        Ok(Metadata {
            name: at.text("name")?,
            home: at.text("home")?,
            sources: at.texts("sources")?,
            version: at.text("version")?,
            description: at.text("description")?,
            keywords: at.texts("keywords")?,
            maintainers: at.structs("maintainers", "Maintainer", Maintainer::read)?,
            icon: at.text("icon")?,
            api_version: at.text("apiVersion")?,
            condition: at.text("condition")?,
            tags: at.text("tags")?,
            app_version: at.text("appVersion")?,
            deprecated: at.bool("deprecated")?,
            annotations: at.string_map("annotations")?,
            kube_version: at.text("kubeVersion")?,
            dependencies: at.structs("dependencies", "Dependency", Dependency::read)?,
            has_dependencies: at.get("dependencies").is_some(),
            kind: at.text("type")?,
        })
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
        if Version::parse(&self.version).is_err() {
            return refuse(format!("chart.metadata.version {} is invalid", quote_go(&self.version)));
        }
        if !matches!(self.kind.as_str(), "" | "application" | "library") {
            return refuse("chart.metadata.type must be application or library".to_owned());
        }
        for maintainer in &mut self.maintainers {
            let texts = [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url];
            texts.into_iter().for_each(sanitize);
        }
        let mut seen = HashSet::new();
        for dependency in &mut self.dependencies {
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
    fn read(at: &StructFields<'_>) -> Result<Self, Error> {
        Ok(Maintainer {
            name: at.text("name")?,
            email: at.text("email")?,
            url: at.text("url")?,
        })
    }
}

impl Dependency {
    /// The name under which the dependency's values and templates stand: the alias, if there is one.
    pub fn effective_name(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }

    fn read(at: &StructFields<'_>) -> Result<Self, Error> {
        Ok(Dependency {
            name: at.text("name")?,
            version: at.text("version")?,
            repository: at.text("repository")?,
            condition: at.text("condition")?,
            tags: at.texts("tags")?,
            enabled: at.bool("enabled")?,
            import_values: at.list("import-values", "interface {}")?.to_vec(),
            alias: at.text("alias")?,
        })
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

/// The entries of an object that becomes a struct of Go's.
pub(crate) struct StructFields<'v> {
    entries: &'v Map<String, Value>,
    /// The struct, in errors.
    owner: &'static str,
    /// The names of the fields that lead to it from the document, each with a dot behind it.
    path: String,
}

impl<'v> StructFields<'v> {
    pub(crate) fn new(entries: &'v Map<String, Value>, owner: &'static str, path: impl Into<String>) -> Self {
        let path = path.into();
        StructFields { entries, owner, path }
    }

    /// The value of a field, unless that is null. Of several keys that match without regard to case the last counts.
    fn get(&self, name: &str) -> Option<&'v Value> {
        let matching = self.entries.iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name));
        matching.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<String, Error> {
        let value = self.get(name);
        value.map_or(Ok(String::new()), |value| self.text_of(name, value))
    }

    fn text_of(&self, name: &str, value: &Value) -> Result<String, Error> {
        match value {
            Value::Null => Ok(String::new()),
            value => yaml::text(value).ok_or_else(|| self.mismatch(name, value, "string")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, Error> {
        let items = self.list(name, "string")?.iter();
        items.map(|item| self.text_of(name, item)).collect()
    }

    fn bool(&self, name: &str) -> Result<bool, Error> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(self.mismatch(name, other, "bool")),
        }
    }

    fn list(&self, name: &str, of: &str) -> Result<&'v [Value], Error> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(self.mismatch(name, other, &format!("[]{of}"))),
        }
    }

    /// A list of structs of the type `owner`.
    fn structs<T>(
        &self,
        name: &str,
        owner: &'static str,
        read: impl Fn(&StructFields<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let items = self.list(name, &format!("*v2.{owner}"))?.iter();
        let item = |item: &Value| match item {
            Value::Object(entries) => read(&StructFields::new(entries, owner, format!("{}{name}.", self.path))),
            Value::Null => Err(Error::Metadata(format!("{name} must not contain empty or null nodes"))),
            other => Err(self.mismatch(name, other, &format!("v2.{owner}"))),
        };
        items.map(item).collect()
    }

    pub(crate) fn object(&self, name: &str, wanted: &str) -> Result<Option<&'v Map<String, Value>>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(entries)) => Ok(Some(entries)),
            Some(other) => Err(self.mismatch(name, other, wanted)),
        }
    }

    pub(crate) fn string_map(&self, name: &str) -> Result<Option<BTreeMap<String, String>>, Error> {
        let Some(map) = self.object(name, "map[string]string")? else {
            return Ok(None);
        };
        let entry = |(key, value): (&String, &Value)| Ok((key.clone(), self.text_of(name, value)?));
        map.iter().map(entry).collect::<Result<_, Error>>().map(Some)
    }

    fn mismatch(&self, name: &str, value: &Value, wanted: &str) -> Error {
        let field = format!("struct field {}.{}{name} of type {wanted}", self.owner, self.path);
        Error::Chart(undecodable(value, &field))
    }
}

/// The text of Go's error for JSON of another kind than wanted.
pub(crate) fn mismatch(found: &Value, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go {wanted}", json_kind(found))
}

/// The text of Go's error for YAML that was converted to JSON.
pub(crate) fn undecodable(found: &Value, wanted: &str) -> String {
    format!(
        "error unmarshaling JSON: while decoding JSON: {}",
        mismatch(found, wanted)
    )
}

/// The name of a JSON value's kind in the errors of Go's `encoding/json`.
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

/// Helm's cleanup of metadata: any white space becomes a space, and characters that do not print are removed.
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
