//! `Chart.yaml`. Facts: Helm's `pkg/chart/v2/{metadata,dependency}.go`, read as `encoding/json` reads a struct: keys
//! match without regard to case, unknown ones are skipped, scalars become text where text is wanted.

use serde_json::{Map, Value};

use super::{Error, version};
use crate::template::sprig::date_parse;
use crate::yaml::{self, Data, Node};

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
                path: &tag(key, &METADATA_TAGS),
            };
            match key.to_ascii_lowercase().as_str() {
                "name" => at.text(value, &mut self.name)?,
                "home" => at.text(value, &mut self.home)?,
                "sources" => at.texts(value, &mut self.sources)?,
                "version" => at.text(value, &mut self.version)?,
                "description" => at.text(value, &mut self.description)?,
                "keywords" => at.texts(value, &mut self.keywords)?,
                "maintainers" => {
                    self.maintainers = at
                        .list(value, "[]*v2.Maintainer")?
                        .iter()
                        .map(|item| Maintainer::read(item, at))
                        .collect::<Result<_, _>>()?;
                }
                "icon" => at.text(value, &mut self.icon)?,
                "apiversion" => at.text(value, &mut self.api_version)?,
                "condition" => at.text(value, &mut self.condition)?,
                "tags" => at.text(value, &mut self.tags)?,
                "appversion" => at.text(value, &mut self.app_version)?,
                "deprecated" => at.bool(value, &mut self.deprecated)?,
                "annotations" => {
                    self.has_annotations = !value.is_null();
                    self.annotations = at.string_map(value)?;
                }
                "kubeversion" => at.text(value, &mut self.kube_version)?,
                "dependencies" => {
                    self.has_dependencies = !value.is_null();
                    self.dependencies = at
                        .list(value, "[]*v2.Dependency")?
                        .iter()
                        .map(|item| Dependency::read(item, at))
                        .collect::<Result<_, _>>()?;
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
            return refuse(format!("chart.metadata.name {:?} is not allowed", self.name));
        }
        // The base of `/` is `/` itself.
        if self.name.contains('/') && self.name != "/" {
            return refuse(format!("chart.metadata.name {:?} is invalid", self.name));
        }
        if self.version.is_empty() {
            return refuse("chart.metadata.version is required".to_owned());
        }
        if !version::is_valid(&self.version) {
            return refuse(format!("chart.metadata.version {:?} is invalid", self.version));
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
        let mut seen: Vec<&str> = Vec::new();
        for dependency in &mut self.dependencies {
            if dependency.is_null {
                return refuse("dependencies must not contain empty or null nodes".to_owned());
            }
            dependency.validate()?;
            let key = dependency.effective_name();
            if seen.contains(&key) {
                return refuse(format!("more than one dependency with name or alias {key:?}"));
            }
            seen.push(key);
        }
        Ok(())
    }
}

impl Maintainer {
    fn read(item: &Value, parent: Place<'_>) -> Result<Self, Error> {
        let fields = fields(item, parent.item("v2.Maintainer"))?;
        let mut maintainer = Maintainer::default();
        for (key, value) in fields.into_iter().flatten() {
            let at = Place {
                owner: "Maintainer",
                path: &format!("{}.{}", parent.path, tag(key, &[])),
            };
            match key.to_ascii_lowercase().as_str() {
                "name" => at.text(value, &mut maintainer.name)?,
                "email" => at.text(value, &mut maintainer.email)?,
                "url" => at.text(value, &mut maintainer.url)?,
                _ => {}
            }
        }
        maintainer.is_null = fields.is_none();
        Ok(maintainer)
    }
}

impl Dependency {
    /// The name under which the dependency's values and templates stand: the alias, if there is one.
    pub fn effective_name(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }

    fn read(item: &Value, parent: Place<'_>) -> Result<Self, Error> {
        let fields = fields(item, parent.item("v2.Dependency"))?;
        let mut dependency = Dependency::default();
        for (key, value) in fields.into_iter().flatten() {
            let at = Place {
                owner: "Dependency",
                path: &format!("{}.{}", parent.path, tag(key, &[])),
            };
            match key.to_ascii_lowercase().as_str() {
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
        }
        dependency.is_null = fields.is_none();
        Ok(dependency)
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
            "dependency {:?} has disallowed characters in the alias",
            self.name
        )))
    }
}

// === Decoding ===

/// The fields of `Metadata` whose names aren't all lower case, as Go's struct tags spell them.
const METADATA_TAGS: [&str; 3] = ["apiVersion", "appVersion", "kubeVersion"];

/// A key as the struct's tag spells it; that is how Go names it in errors.
fn tag(key: &str, mixed: &[&str]) -> String {
    let found = mixed.iter().find(|tag| tag.eq_ignore_ascii_case(key));
    found.map_or_else(|| key.to_ascii_lowercase(), |tag| (*tag).to_owned())
}

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
    fn text(&self, value: &Value, target: &mut String) -> Result<(), Error> {
        match scalar_text(value) {
            Some(text) => *target = text,
            None if value.is_null() => {}
            None => return Err(self.mismatch(value, "string")),
        }
        Ok(())
    }

    fn texts(&self, value: &Value, target: &mut Vec<String>) -> Result<(), Error> {
        *target = Vec::new();
        for item in self.list(value, "[]string")? {
            let mut text = String::new();
            self.text(item, &mut text)?;
            target.push(text);
        }
        Ok(())
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

    fn string_map(&self, value: &Value) -> Result<Vec<(String, String)>, Error> {
        match value {
            Value::Null => Ok(Vec::new()),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| {
                    let mut text = String::new();
                    self.text(value, &mut text)?;
                    Ok((key.clone(), text))
                })
                .collect(),
            other => Err(self.mismatch(other, "map[string]string")),
        }
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

/// Reads a YAML file that Helm reads into a struct. Unlike in values, `1e9` stays a float in it, which becomes `1e+09`
/// where a text is wanted.
///
/// # Errors
/// What go-yaml refuses, in its words.
pub(super) fn read(text: &[u8]) -> Result<Value, yaml::Error> {
    let mut value = yaml::to_json(text)?;
    if has_number(&value)
        && let Ok(node) = yaml::parse(text)
    {
        keep_floats(&node, &mut value);
    }
    Ok(value)
}

fn has_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Array(items) => items.iter().any(has_number),
        Value::Object(map) => map.values().any(has_number),
        _ => false,
    }
}

fn keep_floats(node: &Node, value: &mut Value) {
    match (&node.data, value) {
        (Data::Number(number), Value::Number(into)) => *into = number.clone(),
        (Data::List(nodes), Value::Array(items)) => {
            nodes.iter().zip(items).for_each(|(node, item)| keep_floats(node, item));
        }
        (Data::Map(entries), Value::Object(map)) => {
            for (key, node) in entries {
                if let Data::String(key) = &key.data
                    && let Some(value) = map.get_mut(key)
                {
                    keep_floats(node, value);
                }
            }
        }
        _ => {}
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
        if key.eq_ignore_ascii_case(at.path) {
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
            path: &tag(key, &[]),
        };
        match at.path {
            "digest" => at.text(value, &mut String::new())?,
            "dependencies" => {
                for item in at.list(value, "[]*v2.Dependency")? {
                    if !item.is_null() {
                        Dependency::read(item, at)?;
                    }
                }
            }
            "generated" => check_time(value)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_time(value: &Value) -> Result<(), Error> {
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
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The text that a YAML scalar becomes where a Go struct wants a string (sigs.k8s.io/yaml): floats with the precision
/// of 32 bits, so `1.10` is `1.1`. `None` for null, lists and maps.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Number(number) => Some(match (number.as_i64(), number.as_u64()) {
            (Some(n), _) => n.to_string(),
            (None, Some(n)) => n.to_string(),
            // Narrowing is what the library does.
            (None, None) => float32_text(number.as_f64().unwrap_or_default() as f32),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Go's `FormatFloat(v, 'g', -1, 32)`.
fn float32_text(number: f32) -> String {
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(e) if (-4..6).contains(&e) => format!("{number}"),
        Ok(e) => format!("{mantissa}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs()),
        Err(_) => scientific,
    }
}

/// Helm's clean-up of metadata: any white space becomes a space, what doesn't print goes.
fn sanitize(text: &mut String) {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| {
            if c.is_whitespace() {
                Some(' ')
            } else {
                (!is_invisible(c)).then_some(c)
            }
        })
        .collect();
}

/// Control and format characters, and the private planes: what Go's `unicode.IsPrint` refuses of assigned characters.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_become_text() {
        let table = [
            (json!(1.10), "1.1"),
            (json!(7), "7"),
            (json!(true), "true"),
            (json!(1e6), "1e+06"),
            (json!(1e22), "1e+22"),
            (json!(0.1), "0.1"),
        ];
        for (value, want) in table {
            assert_eq!(scalar_text(&value).as_deref(), Some(want));
        }
    }

    #[test]
    fn keys_match_without_case_and_types_are_checked() {
        let mut metadata = Metadata::default();
        metadata
            .apply(&json!({"NAME": "x", "appversion": 1.5, "other": []}))
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
