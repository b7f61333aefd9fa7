//! The keys `values`, `valuesFrom` and `valuesFromField`: the values of a watch, and the sources of further values.

use go_yaml::{Data, Node};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::names;
use crate::reader::{Findings, MapFields, describe};

/// Default key of a Secret or ConfigMap.
const VALUES_KEY: &str = "values.yaml";
/// Maximum number of entries in the list of a custom resource.
const MAX_ENTRIES: usize = 50;
/// Maximum length of a path in such a list, in bytes, and the largest index in it: an index creates a list of that length.
const MAX_PATH_BYTES: usize = 256;
const MAX_INDEX: usize = 1000;
/// Prefixes of `valuesFromField`.
const SPEC_PREFIX: &str = "spec.";
const ANNOTATION_PREFIX: &str = "metadata.annotations.";

/// Kind of a source of values. Only kinds that kubelet can mount are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum SourceKind {
    #[default]
    ConfigMap,
    Secret,
}

/// One entry of `valuesFrom`: a Secret or ConfigMap in the custom resource's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValuesFrom {
    pub kind: SourceKind,
    /// A name; in `watches.yaml` also a Go template over the custom resource that renders one.
    pub name: String,
    #[serde(default = "values_key")]
    pub values_key: String,
    /// The `--set` path at which the text is set. `None`: the text is a YAML mapping that is merged into the values.
    #[serde(default)]
    pub target_path: Option<String>,
    /// True: a missing source adds no values. False: a missing source is an error.
    #[serde(default)]
    pub optional: bool,
}

/// The field of a custom resource with its own list of sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuesFromField {
    /// Path below `.spec`. The field is not passed to the chart as a value.
    Spec(Vec<String>),
    /// An annotation with the list as YAML or JSON.
    Annotation(String),
}

fn values_key() -> String {
    VALUES_KEY.to_owned()
}

impl SourceKind {
    const NAMES: [(&str, Self); 2] = [("ConfigMap", Self::ConfigMap), ("Secret", Self::Secret)];

    pub fn name(self) -> &'static str {
        match self {
            SourceKind::ConfigMap => "ConfigMap",
            SourceKind::Secret => "Secret",
        }
    }
}

impl ValuesFrom {
    /// Reads the list of a custom resource. `field` names it in messages. Templates are not allowed.
    ///
    /// # Errors
    /// The first problem and its place.
    pub fn list(field: &str, list: &Value) -> Result<Vec<Self>, String> {
        let items = match list {
            Value::Null => return Ok(Vec::new()),
            Value::Array(items) if items.len() > MAX_ENTRIES => {
                return Err(format!(
                    "{field} has {} entries: it may have {MAX_ENTRIES}",
                    items.len()
                ));
            }
            Value::Array(items) => items,
            _ => return Err(format!("{field} must be a list of {{kind, name, ...}}")),
        };
        let read = |(index, item)| {
            let source = ValuesFrom::deserialize(item).map_err(|error| format!("{field}[{index}]: {error}"))?;
            source.check().map_err(|error| format!("{field}[{index}]: {error}"))?;
            Ok(source)
        };
        items.iter().enumerate().map(read).collect()
    }
}

impl ValuesFrom {
    fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || self.values_key.is_empty() {
            return Err("name and valuesKey must not be empty".to_owned());
        }
        if !is_key(&self.values_key) {
            return Err(format!("valuesKey: it must be a key of the data, such as {VALUES_KEY}"));
        }
        let path = self.target_path.as_deref().unwrap_or_default();
        if path.len() > MAX_PATH_BYTES {
            return Err(format!("targetPath: it is longer than {MAX_PATH_BYTES} bytes"));
        }
        let mut indices = path
            .split('[')
            .skip(1)
            .map(|rest| rest.split(']').next().unwrap_or_default());
        let is_small = |index: &&str| index.parse::<usize>().is_ok_and(|index| index <= MAX_INDEX);
        match indices.find(|index| !is_small(index)) {
            Some(index) => Err(format!(
                "targetPath: the index {index:?} is no number up to {MAX_INDEX}"
            )),
            None => Ok(()),
        }
    }
}

/// True for a valid key of a Secret or ConfigMap.
fn is_key(key: &str) -> bool {
    key.len() <= 253 && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

impl ValuesFromField {
    fn parse(text: &str) -> Option<Self> {
        if let Some(key) = text.strip_prefix(ANNOTATION_PREFIX) {
            return names::is_label_key(key).then(|| ValuesFromField::Annotation(key.to_owned()));
        }
        let fields: Vec<String> = text.strip_prefix(SPEC_PREFIX)?.split('.').map(str::to_owned).collect();
        let is_name = |field: &String| !field.is_empty() && !field.contains(['[', ']', '/', ' ']);
        fields.iter().all(is_name).then_some(ValuesFromField::Spec(fields))
    }
}

impl std::fmt::Display for ValuesFromField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ValuesFromField::Spec(fields) => write!(f, "{SPEC_PREFIX}{}", fields.join(".")),
            ValuesFromField::Annotation(key) => write!(f, "{ANNOTATION_PREFIX}{key}"),
        }
    }
}

/// Reads the key `values`.
pub(crate) fn read_values(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Map<String, Value> {
    let Some(node) = fields.get("values") else {
        return Map::new();
    };
    match json(node, findings) {
        Value::Object(values) => values,
        _ => {
            findings.type_error(node, "values", "a map: the values of the chart");
            Map::new()
        }
    }
}

/// Converts a node to JSON. Repeated keys are errors.
pub fn json(node: &Node, findings: &mut Findings<'_>) -> Value {
    match &node.data {
        Data::Null => Value::Null,
        Data::Bool(value) => Value::Bool(*value),
        Data::Number(number) => Value::Number(number.clone()),
        Data::String(text) => Value::String(text.clone()),
        Data::List(items) => items.iter().map(|item| json(item, findings)).collect(),
        Data::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let value = json(value, findings);
                let Some(name) = go_yaml::text(&json(key, findings)) else {
                    findings.error(key, format!("a key must be a string, not {}", describe(&key.data)));
                    continue;
                };
                if map.insert(name.clone(), value).is_some() {
                    findings.error(key, format!("`{name}` is there twice; remove one"));
                }
            }
            Value::Object(map)
        }
    }
}

/// Reads the key `valuesFrom`.
pub(crate) fn read_sources(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Vec<ValuesFrom> {
    let items = findings.read_list(fields, "valuesFrom");
    items.iter().filter_map(|item| read_source(item, findings)).collect()
}

fn read_source(node: &Node, findings: &mut Findings<'_>) -> Option<ValuesFrom> {
    const KNOWN: [&str; 5] = ["kind", "name", "valuesKey", "targetPath", "optional"];
    let fields = MapFields::open(node, "an entry of `valuesFrom`", &KNOWN, findings)?;
    for name in ["kind", "name"] {
        if fields.get(name).is_none() {
            findings.error(
                node,
                format!("`{name}` is missing: an entry of `valuesFrom` needs kind and name"),
            );
        }
    }
    let name = findings.read_checked(
        &fields,
        "name",
        |name| name.contains("{{") || names::is_dns_subdomain(name),
        |name| format!("`name` must be the name of an object, or a template such as {{{{ .metadata.name }}}}-values, not {name:?}"),
    );
    let key = findings.read_checked(&fields, "valuesKey", is_key, |key| {
        format!("`valuesKey` must be a key of the data, such as {VALUES_KEY}, not {key:?}")
    });
    let target_path = findings.read_checked(&fields, "targetPath", |_| true, str::to_owned);
    Some(ValuesFrom {
        kind: findings.read_choice(&fields, "kind", SourceKind::NAMES),
        name: name?,
        values_key: key.unwrap_or_else(values_key),
        target_path,
        optional: findings.read_bool(&fields, "optional", false),
    })
}

/// Reads the key `valuesFromField`.
pub(crate) fn read_field(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Option<ValuesFromField> {
    let (text, node) = findings.read_string(fields, "valuesFromField")?;
    let field = ValuesFromField::parse(text);
    if field.is_none() {
        findings.error(
            node,
            format!(
                "`valuesFromField` must name a field such as {SPEC_PREFIX}valuesFrom, or an annotation such as \
                 {ANNOTATION_PREFIX}example.com/values-from, not {text:?}"
            ),
        );
    }
    field
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_of_a_custom_resource_is_checked() {
        let message_of = |list: &Value| ValuesFrom::list("it", list).err().unwrap_or_default();
        let entry = |more: Value| {
            let mut entry = json!({"kind": "Secret", "name": "x"});
            let more = more.as_object().cloned().unwrap_or_default();
            entry.as_object_mut().unwrap().extend(more);
            json!([entry])
        };
        let many = |count: usize| Value::Array(vec![json!({"kind": "Secret", "name": "x"}); count]);
        for (list, expected) in [
            (Value::Null, ""),
            (entry(json!({"targetPath": "a.b[3].c"})), ""),
            (many(50), ""),
            (many(51), "it has 51 entries: it may have 50"),
            (many(100_000), "it may have 50"),
            (json!({"kind": "Secret"}), "it must be a list of"),
            (json!([{"kind": "Pod", "name": "x"}]), "it[0]: unknown variant `Pod`"),
            (
                entry(json!({"name": ""})),
                "it[0]: name and valuesKey must not be empty",
            ),
            (entry(json!({"valuesKey": "a/b"})), "it[0]: valuesKey:"),
            (entry(json!({"valuesKey": "a".repeat(300)})), "it[0]: valuesKey:"),
            (
                entry(json!({"targetPath": "a.".repeat(200)})),
                "it[0]: targetPath: it is longer than 256",
            ),
            (
                entry(json!({"targetPath": "a[65536]"})),
                "the index \"65536\" is no number up to 1000",
            ),
            (
                entry(json!({"targetPath": "a[1].b[1001]"})),
                "the index \"1001\" is no number",
            ),
            (entry(json!({"targetPath": "a[65\\536]"})), "is no number up to 1000"),
        ] {
            let message = message_of(&list);
            assert!(
                message.contains(expected) && message.is_empty() == expected.is_empty(),
                "{list:.100}: {message}"
            );
        }
    }
}
